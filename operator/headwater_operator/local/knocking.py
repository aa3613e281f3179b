"""Whether anybody listens where brokers should, as a person at a terminal wants to know soon."""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import Final

_TIMEOUT_S: Final = 0.3


def answers(servers: str, *, timeout_s: float = _TIMEOUT_S) -> bool:
    """Return whether somebody listens at one of the addresses.

    Args:
        servers: as ``bootstrap.servers`` has them: ``host:port``, with commas between.
        timeout_s: how long each may take.
    """
    for address in servers.split(","):
        host, _, port = address.strip().rpartition(":")
        with suppress(OSError, ValueError, OverflowError):
            where = host.rpartition("/")[2].strip("[]"), int(port)
            with socket.create_connection(where, timeout=timeout_s):
                return True
    return False
