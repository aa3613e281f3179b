"""What a broker's port speaks: asked when a client does not get through.

The client says "closed by peer", or nothing at all, when it speaks one protocol and the port
another. A few bytes to the port tell for certain. No credentials are sent, so nothing is verified.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

_PATIENCE_S: Final = 2.0
_API_VERSIONS: Final = 18
_SASL_HANDSHAKE: Final = 17
_ILLEGAL_SASL_STATE: Final = 34
_CORRELATION: Final = 20_240
_ANSWER_MAX: Final = 100_000
_NO_MECHANISM: Final = b"NONE"


@dataclass(frozen=True, slots=True)
class Listener:
    """What a port was found to speak."""

    address: str
    tls: bool
    sasl: bool | None
    """Whether it asks for a login; ``None`` if a TLS port wants a certificate first."""

    @property
    def protocols(self) -> tuple[str, ...]:
        """The values of ``security.protocol`` that fit."""
        with_login, without = ("SASL_SSL", "SSL") if self.tls else ("SASL_PLAINTEXT", "PLAINTEXT")
        if self.sasl is None:
            return without, with_login
        return (with_login if self.sasl else without,)


def mismatch(settings: Mapping[str, Any]) -> str:
    """Say how a client's security protocol and its brokers' ports differ; empty if not known to.

    Args:
        settings: of a client that got no answer. Asks the first address that answers, which takes
            some seconds at most for each.
    """
    given = str(settings.get("security.protocol", "PLAINTEXT")).upper()
    for address in str(settings.get("bootstrap.servers", "")).split(","):
        found = _listener(address.strip())
        if found is None:
            continue
        if given in found.protocols:
            return ""
        tls = "with" if found.tls else "without"
        login = {True: " and asks for a login (SASL)", False: " and without a login", None: ""}
        return (
            f"the port {found.address} speaks Kafka {tls} TLS{login[found.sasl]}, but "
            f"security.protocol is {given}; set it to {' or '.join(found.protocols)} (on a cluster "
            f"by spec.kafka.tls and spec.kafka.authentication), or name the {given} port in "
            "bootstrap.servers"
        )
    return ""


def _listener(address: str) -> Listener | None:
    with contextlib.suppress(OSError, ValueError):
        with _connected(address) as plain:
            if _ask(plain, _API_VERSIONS, b"") is not None:
                return Listener(address, tls=False, sasl=_wants_login(plain))
        return _tls_listener(address)
    return None


def _tls_listener(address: str) -> Listener | None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with _connected(address) as plain:
        try:
            with context.wrap_socket(plain, server_hostname=_split(address)[0]) as secure:
                if _ask(secure, _API_VERSIONS, b"") is None:
                    return None
                return Listener(address, tls=True, sasl=_wants_login(secure))
        except ssl.SSLError as error:
            # Only who speaks TLS sends an alert: it does not like our certificate, which we lack.
            is_alert = "ALERT" in (error.reason or "")
            return Listener(address, tls=True, sasl=None) if is_alert else None


def _connected(address: str) -> socket.socket:
    return socket.create_connection(_split(address), timeout=_PATIENCE_S)


def _split(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def _wants_login(connection: socket.socket) -> bool:
    """Whether a login may begin; without SASL that is out of place (``ILLEGAL_SASL_STATE``)."""
    name = struct.pack(">h", len(_NO_MECHANISM)) + _NO_MECHANISM
    answer = _ask(connection, _SASL_HANDSHAKE, name)
    return answer is not None and int.from_bytes(answer[:2], "big") != _ILLEGAL_SASL_STATE


def _ask(connection: socket.socket, api: int, body: bytes) -> bytes | None:
    """Send a request in its first version; return the answer, ``None`` if that is not Kafka's."""
    request = struct.pack(">hhih", api, 0, _CORRELATION, -1) + body
    try:
        connection.sendall(struct.pack(">i", len(request)) + request)
        size, correlation = struct.unpack(">ii", _read(connection, 8))
        if correlation != _CORRELATION or not 4 <= size <= _ANSWER_MAX:
            return None
        return _read(connection, size - 4)
    except ssl.SSLError:
        raise
    except OSError:
        return None


def _read(connection: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        more = connection.recv(size - len(found))
        if not more:
            raise ConnectionResetError
        found += more
    return found
