"""The pods of a node as they are, and again whenever one changes: list, then watch, and again."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import urllib3

from headwater_operator.kube.client import configuration_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

Manifest = dict[str, Any]

_WATCH_S: Final = 2
"""Then it lists again: so long may the end of a kubelet take, and so long a lost event hides."""


class CannotWatchError(Exception):
    """The API server does not answer, or refuses."""


class Watching:
    """All objects of one address.

    Args:
        kubeconfig: of whoever watches.
        path: of the list in the API.
        selector: of fields.
    """

    def __init__(self, kubeconfig: Path, path: str, selector: str) -> None:
        configuration = configuration_of(kubeconfig)
        self._url = f"{configuration.host}{path}"
        self._selector = {"fieldSelector": selector}
        self._http = urllib3.PoolManager(
            ca_certs=configuration.ssl_ca_cert,
            cert_file=configuration.cert_file,
            key_file=configuration.key_file,
            retries=False,
            timeout=urllib3.Timeout(connect=5, read=20),
        )

    def close(self) -> None:
        """Close all connections."""
        self._http.clear()

    def once(self, see: Callable[[dict[str, Manifest]], None]) -> None:
        """Show all objects by UID, and again after every change, for two seconds.

        Raises:
            CannotWatchError: the API server does not answer, or refuses.
        """
        try:
            self._once(see)
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            raise CannotWatchError(str(error)) from error

    def _once(self, see: Callable[[dict[str, Manifest]], None]) -> None:
        answer = self._http.request("GET", self._url, fields=self._selector)
        if answer.status != 200:
            raise CannotWatchError(answer.data.decode(errors="replace")[:500])
        listed = answer.json()
        found = {each["metadata"]["uid"]: each for each in listed["items"]}
        see(dict(found))
        for event in self._events(listed["metadata"]["resourceVersion"]):
            uid = event["object"].get("metadata", {}).get("uid", "")
            if event["type"] in ("ADDED", "MODIFIED"):
                found[uid] = event["object"]
            elif event["type"] == "DELETED":
                found.pop(uid, None)
            else:  # ERROR: too old, for example
                return
            see(dict(found))

    def _events(self, version: str) -> Iterator[Manifest]:
        asked = {"watch": "1", "resourceVersion": version, "timeoutSeconds": str(_WATCH_S)}
        answer = self._http.request(
            "GET", self._url, fields={**self._selector, **asked}, preload_content=False
        )
        try:
            pending = b""
            for part in answer.stream(1 << 16):
                *lines, pending = (pending + part).split(b"\n")
                yield from (json.loads(line) for line in lines if line)
        finally:
            answer.close()
