"""What the HTTP server asks about each caller: tokens from the files of a mounted Secret.

The kubelet replaces the files when the Secret changes. They are looked at once a second at most, by
their names and times; what is mounted lies in memory, so nobody waits.
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from headwater.httpserver import JSON, Answer, bearer_of, header_of
from headwater.model.podcontract import (
    PREVIOUS_TOKEN_FILE,
    TOKEN_FILE,
    TOKEN_HEADER,
    operator_audience,
)
from headwater.model.streamapp_http import Protected
from headwater.service.httpauth.judging import Known, Reason, digest, judge
from headwater.service.httpauth.keys import KIND, PATH, KeyRing
from headwater.service.kube.client import Access, KubeClient

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from headwater.httpserver import Request
    from headwater.model.streamapp_http import HttpAuthentication
    from headwater.service.httpauth.judging import Refusal
    from headwater.service.httpauth.keys import Keys

log = logging.getLogger(__name__)

_FETCH_S: Final = 10.0
_LOOK_S: Final = 1.0
_FRESH_S: Final = 10.0
"""Keys that were read so long ago count as those that the API server has now."""
_REPLACED_MAX: Final = 64
"""So many tokens are remembered after they were replaced."""
_TOKEN_MAX: Final = 8_192


class Guard:
    """Lets callers in, or refuses them. For the thread of the HTTP server; counts are for any.

    Args:
        known: everything but the tokens and keys.
        directory: where the Secret is mounted; ``None`` if it is not.
        keys: of the API server; ``None`` if the operator may not ask.
        clock: of the day, in seconds.
        steady: never goes back, in seconds.
    """

    def __init__(
        self,
        known: Known,
        directory: Path | None,
        keys: Keys | None = None,
        *,
        clock: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self._known = known
        self._directory = directory
        self._keys = keys
        self._clock = clock
        self._steady = steady
        self._look_at = float("-inf")
        self._stamps: Mapping[str, object] = {}
        self._is_told = False
        self.refused: Counter[str] = Counter()
        """How many callers were refused, by reason."""
        self._look()

    def __call__(self, request: Request, head: bytes) -> Answer | None:
        """Return what a caller is told who may not have what it asks for."""
        self._look()
        known = self._known
        if self._keys is not None:
            keys = self._keys
            is_fresh = self._steady() - keys.read_at < _FRESH_S
            known = replace(known, issuer=keys.issuer, keys=keys.known, is_fresh=is_fresh)
        refusal = judge(_shown(head), request.path, known, self._clock())
        if refusal is None:
            return None
        self.refused[refusal.reason.value] += 1
        if refusal.is_passing and self._keys is not None:
            self._keys.ask()
        return _answer(refusal)

    def counts(self) -> Mapping[str, int]:
        """Return how many callers were refused, by reason; 0 from the start, so growth shows."""
        return {each.value: self.refused[each.value] for each in Reason}

    def _look(self) -> None:
        """Read the tokens again if their files have changed."""
        now = self._steady()
        if now < self._look_at:
            return
        self._look_at = now + _LOOK_S
        stamps = {name: self._stamp(name) for name in (TOKEN_FILE, PREVIOUS_TOKEN_FILE)}
        if stamps == self._stamps:
            return
        before = self._known
        try:
            found = [self._read(name) for name, stamp in stamps.items() if stamp is not None]
        except OSError as error:
            # What was known counts until the files can be read.
            self._stamps = {}
            if not self._is_told:
                log.warning(
                    "the Secret %s cannot be read, and will be tried again: %s",
                    before.secret,
                    error,
                )
            self._is_told = True
            return
        self._stamps, self._is_told = stamps, False
        accepted = tuple(digest(token) for token in found if token)
        gone = [each for each in before.accepted if each not in accepted]
        kept = [each for each in before.replaced if each not in accepted]
        replaced = frozenset([*gone, *kept][:_REPLACED_MAX])
        self._known = replace(before, accepted=accepted, replaced=replaced)
        if not accepted:
            log.warning(
                "the Secret %s holds no token, so callers are refused: put one under its key %s",
                before.secret,
                TOKEN_FILE,
            )
        elif before.accepted:
            log.info("callers by HTTP show other tokens from now on: %d accepted", len(accepted))

    def _stamp(self, name: str) -> object:
        if self._directory is None:
            return None
        with suppress(OSError):
            found = (self._directory / name).stat()
            return found.st_ino, found.st_mtime_ns, found.st_size
        return None

    def _read(self, name: str) -> bytes:
        """Return what a file that is there holds.

        Raises:
            OSError: it cannot be read now.
        """
        assert self._directory is not None
        with (self._directory / name).open("rb") as file:
            return file.read(_TOKEN_MAX).strip()


def guard_of(
    asked: HttpAuthentication,
    directory: Path | None,
    *,
    operator: str,
    namespace: str,
    service_account: Path,
) -> Guard:
    """Return the guard that a StreamApp asks for.

    Args:
        asked: by the StreamApp.
        directory: where the Secret is mounted; ``None`` lets nobody in but the operator.
        operator: the user name of its tokens; empty if none is known.
        namespace: of this worker; a token for another's workers is refused.
        service_account: the directory with the pod's token and the API server's authorities.

    Raises:
        ConfigError: nothing says where the API server is.
    """
    # With the state alone protected, the operator needs no token for what it asks.
    may_operate = bool(operator) and asked.protects is Protected.ALL
    known = Known(
        secret=asked.secret_ref.name,
        operator=operator if may_operate else "",
        audience=operator_audience(namespace),
        protects=asked.protects,
    )
    if not may_operate:
        return Guard(known, directory)
    access = Access.of(os.environ, service_account)
    client = KubeClient(access, timeout_s=_FETCH_S)
    fetch = partial(client.get, PATH, "the public keys of the API server", KIND)
    return Guard(known, directory, KeyRing(fetch, access.token))


def _shown(head: bytes) -> bytes:
    """Return the token that a caller shows; empty if it shows none."""
    return bearer_of(head) or header_of(head, TOKEN_HEADER.lower().encode())


def _answer(refusal: Refusal) -> Answer:
    status = refusal.status
    error = {
        HTTPStatus.UNAUTHORIZED: "UNAUTHORIZED",
        HTTPStatus.FORBIDDEN: "FORBIDDEN",
    }.get(status, "UNAVAILABLE")
    body = json.dumps({"error": error, "message": refusal.message}).encode() + b"\n"
    headers = {
        HTTPStatus.UNAUTHORIZED: 'WWW-Authenticate: Bearer realm="headwater"\r\n',
        HTTPStatus.SERVICE_UNAVAILABLE: "Retry-After: 1\r\n",
    }.get(status, "")
    if status is HTTPStatus.UNAUTHORIZED and refusal.reason.value != "missing":
        headers = 'WWW-Authenticate: Bearer realm="headwater", error="invalid_token"\r\n'
    return Answer(status, body, JSON, headers)
