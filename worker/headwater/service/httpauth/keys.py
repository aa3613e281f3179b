"""The public keys that the API server signs tokens of service accounts with."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Final, Protocol

from headwater.service.carrier import CarrierUnavailableError
from headwater.service.httpauth import jwt

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from headwater.service.httpauth.jwt import PublicKey

log = logging.getLogger(__name__)

PATH: Final = "/openid/v1/jwks"
"""Every service account may read it (``system:service-account-issuer-discovery``)."""
KIND: Final = "application/jwk-set+json"
"""The API server refuses to send it as any other kind."""
_AGAIN_S: Final = 10.0
"""Nobody makes this ask more often."""
_ANEW_S: Final = 600.0
"""A key that the API server has given up is forgotten after this."""


class Keys(Protocol):
    """Where keys come from."""

    @property
    def issuer(self) -> str:
        """Who signs."""
        ...

    @property
    def known(self) -> Mapping[str, PublicKey]:
        """The keys by id, as they were read last; never waits."""
        ...

    @property
    def read_at(self) -> float:
        """When that was, by ``time.monotonic``."""
        ...

    def ask(self) -> None:
        """Have them read again soon."""
        ...


class KeyRing:
    """Keys that a thread reads when it begins, when asked to, and every ten minutes.

    Args:
        fetch: asks the API server for its JSON Web Key Set.
        own_token: returns a token of this pod, whose issuer is that of all.
        pause_s: no two questions are closer together.
    """

    def __init__(
        self,
        fetch: Callable[[], Mapping[str, Any]],
        own_token: Callable[[], str],
        *,
        pause_s: float = _AGAIN_S,
    ) -> None:
        self._fetch = fetch
        self._own_token = own_token
        self._pause_s = pause_s
        self._wanted = threading.Event()
        self._closed = threading.Event()
        self.issuer = ""
        self.known: Mapping[str, PublicKey] = {}
        self.read_at = float("-inf")
        self._thread = threading.Thread(target=self._run, name="token-keys", daemon=True)
        self._thread.start()

    def ask(self) -> None:
        """Have them read again soon."""
        self._wanted.set()

    def close(self) -> None:
        """Read no more."""
        self._closed.set()
        self._wanted.set()

    def _run(self) -> None:
        is_told = False
        while not self._closed.is_set():
            self._wanted.clear()
            try:
                self.issuer = jwt.read(self._own_token().encode()).issuer
                self.known = jwt.public_keys(self._fetch())
                self.read_at = time.monotonic()
                is_told = False
            except (CarrierUnavailableError, jwt.InvalidTokenError) as error:
                if not is_told:
                    log.warning("the operator's token cannot be checked: %s", error)
                is_told = True
            self._closed.wait(self._pause_s)
            if not is_told:
                self._wanted.wait(_ANEW_S)
