"""Which callers are answered: the rules on Host, Origin and the token, as pure functions.

Anybody who reaches the port may look. Three things protect from pages of others that the same
browser has open:

* ``Host`` must be an address, ``localhost``, or a name that was given. A name of somebody else's
  that was made to point here (DNS rebinding) is refused.
* A request that changes something carries the token in a header, which no form and no link can
  set, and which a script of another origin may not.
* ``Origin``, where the browser sends it, must be the page's own.
"""

from __future__ import annotations

import hmac
import ipaddress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection

HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "font-src 'self'; connect-src 'self'; manifest-src 'self'; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
"""Sent with every answer."""

SCHEME: Final = "Bearer "


def is_own_host(host: str, names: Collection[str]) -> bool:
    """Whether the header ``Host`` names this machine by an address or by a name that is known.

    Args:
        host: with or without a port.
        names: that were given, in lower case.
    """
    name = _without_port(host).lower().rstrip(".")
    if name == "localhost" or name.endswith(".localhost") or name in names:
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def is_same_origin(origin: str | None, host: str) -> bool:
    """Whether a request comes from the page itself, or from no page: ``curl`` sends no origin."""
    if origin is None:
        return True
    _, separator, own = origin.partition("://")
    return bool(separator) and own.lower() == host.lower()


def is_token(authorization: str | None, token: str) -> bool:
    """Whether the header ``Authorization`` has the token; takes the same time for any wrong one."""
    if not token or authorization is None or not authorization.startswith(SCHEME):
        return False
    shown = authorization[len(SCHEME) :].strip()
    return hmac.compare_digest(shown.encode("utf-8", "replace"), token.encode())


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    name, colon, port = host.rpartition(":")
    return name if colon and port.isdigit() else host
