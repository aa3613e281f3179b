"""Whether a container answers, asked as often and believed as slowly as its probe says."""

from __future__ import annotations

import http.client
import socket
import time
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

Manifest = dict[str, Any]

KINDS: Final = ("httpGet", "tcpSocket")
"""The ways to ask that are carried out."""


class Probe:
    """One probe of one run of a container.

    Args:
        spec: of the probe.
        container: to find a port by name.
        address: of the pod.
        pool: where it is asked.

    Attributes:
        passes: what is believed now; ``None`` before the first belief.
        said: what the last failure was.
    """

    def __init__(
        self, spec: Manifest, container: Manifest, address: str, pool: ThreadPoolExecutor
    ) -> None:
        self._spec = spec
        self._container = container
        self._address = address
        self._pool = pool
        self._next = time.monotonic() + (spec.get("initialDelaySeconds") or 0)
        self._asked: Future[str] | None = None
        self._in_a_row = 0
        self._last = False
        self.passes: bool | None = None
        self.said = ""

    @property
    def grace_s(self) -> int | None:
        """How long a container that fails it may take to end; ``None``: as the pod says."""
        found: int | None = self._spec.get("terminationGracePeriodSeconds")
        return found

    def step(self) -> None:
        """Take an answer, ask again when it is time."""
        now = time.monotonic()
        if self._asked is not None:
            if not self._asked.done():
                return
            self._hear(self._asked.result())
            self._asked = None
        elif now >= self._next:
            self._next = now + (self._spec.get("periodSeconds") or 10)
            self._asked = self._pool.submit(self._ask)

    def _hear(self, failure: str) -> None:
        has_passed = not failure
        self._in_a_row = self._in_a_row + 1 if has_passed == self._last else 1
        self._last = has_passed
        if failure:
            self.said = failure
        name, default = ("successThreshold", 1) if has_passed else ("failureThreshold", 3)
        if self._in_a_row >= (self._spec.get(name) or default):
            self.passes = has_passed

    def _ask(self) -> str:
        """Return what is wrong; empty if nothing is."""
        timeout_s = float(self._spec.get("timeoutSeconds") or 1)
        try:
            if "tcpSocket" in self._spec:
                socket.create_connection(self._target("tcpSocket"), timeout_s).close()
                return ""
            return self._get(timeout_s)
        except (OSError, http.client.HTTPException) as error:
            return f"{type(error).__name__}: {error}"

    def _get(self, timeout_s: float) -> str:
        asked = self._spec["httpGet"]
        headers = {each["name"]: each["value"] for each in asked.get("httpHeaders") or ()}
        host, port = self._target("httpGet")
        connection = http.client.HTTPConnection(host, port, timeout=timeout_s)
        try:
            connection.request("GET", asked.get("path") or "/", headers=headers)
            status = connection.getresponse().status
        finally:
            connection.close()
        return "" if 200 <= status < 400 else f"HTTP probe failed with statuscode: {status}"

    def _target(self, kind: str) -> tuple[str, int]:
        asked = self._spec[kind]
        port = asked["port"]
        if isinstance(port, str) and not port.isdigit():
            port = next(
                each["containerPort"]
                for each in self._container.get("ports") or ()
                if each.get("name") == port
            )
        return asked.get("host") or self._address, int(port)
