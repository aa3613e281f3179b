"""Tokens for workers that ask their callers for one: each holds in one namespace alone.

A worker runs code that is not ours, and may keep the token that it is shown. So the audience of a
token is the namespace, whose users have the token of their workers' Secret in any case.
"""

from __future__ import annotations

import logging
import re
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from headwater.errors import ConfigError
from headwater.model.podcontract import TOKEN_S, operator_audience
from headwater_operator.kube.api import Resource
from headwater_operator.kube.clock import boot_ms
from headwater_operator.kube.errors import KubeApiError

if TYPE_CHECKING:
    from collections.abc import Callable

    from headwater_operator.kube.api import KubeApi

log = logging.getLogger(__name__)

_ACCOUNT: Final = re.compile(r"system:serviceaccount:([^:/]+):([^:/]+)")
_AGAIN_MS: Final = 30_000
"""A token is renewed after three quarters of its time, and what fails is tried again so late."""


@dataclass(slots=True)
class _Held:
    """What there is for one namespace; while one thread asks, others go by what there is."""

    guard: threading.Lock = field(default_factory=threading.Lock)
    token: str = ""
    ends_ms: int = 0
    ask_ms: int = 0
    failure: str = ""


class CallerTokens:
    """Asks the API server for tokens of one account. Calls may come from several threads.

    Args:
        api: the API server, where the operator may create tokens of the account.
        account: its user name; empty: there are no tokens.
        now_ms: a clock that never goes back.

    Raises:
        ConfigError: this is not the name of a service account.
    """

    def __init__(self, api: KubeApi, account: str, *, now_ms: Callable[[], int] = boot_ms) -> None:
        found = _ACCOUNT.fullmatch(account)
        if account and found is None:
            raise ConfigError(f"--account: {account!r} is not system:serviceaccount:NAMESPACE:NAME")
        self._api = api
        self._now_ms = now_ms
        self._home, self._name = found.groups() if found else ("", "")
        self._guard = threading.Lock()
        self._held: dict[str, _Held] = {}

    def of(self, namespace: str) -> str:
        """Return what the workers of a namespace are shown; empty if there is no token now."""
        if not self._name:
            return ""
        with self._guard:
            held = self._held.setdefault(namespace, _Held())
        now_ms = self._now_ms()
        if now_ms >= held.ask_ms and held.guard.acquire(blocking=False):
            try:
                held.ask_ms = now_ms + _AGAIN_MS
                self._renew(namespace, held, now_ms)
            finally:
                held.guard.release()
        return held.token if now_ms < held.ends_ms else ""

    def _renew(self, namespace: str, held: _Held, now_ms: int) -> None:
        spec = {"audiences": [operator_audience(namespace)], "expirationSeconds": TOKEN_S}
        asked = Resource("v1", "TokenRequest", f"serviceaccounts/{self._name}/token")
        try:
            answer = self._api.create(
                asked,
                {
                    "apiVersion": "authentication.k8s.io/v1",
                    "kind": "TokenRequest",
                    "metadata": {"namespace": self._home},
                    "spec": spec,
                },
            )
            token = str(answer["status"]["token"])
            granted_s = min(TOKEN_S, int(answer["spec"]["expirationSeconds"]))
        except (KubeApiError, LookupError, TypeError, ValueError) as error:
            if str(error) != held.failure:
                held.failure = str(error)
                log.warning("workers of %s cannot be shown a token: %s", namespace, error)
            return
        held.token, held.failure = token, ""
        held.ends_ms, held.ask_ms = now_ms + granted_s * 1_000, now_ms + granted_s * 750
