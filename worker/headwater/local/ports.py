"""Chooses ports on this machine."""

from __future__ import annotations

import random
import socket

from headwater.errors import LocalKafkaError
from headwater.local.properties import EVERY_ADDRESS, LOOPBACK

# Below the range from which the kernel takes ports for outgoing connections: there, while the
# broker restarts, any client could be given its port, even the one that tries to reach it.
_FIRST, _LAST = 20_000, 29_999
_TRIES = 200


def free_port(*, preferred: int | None = None, taken: set[int]) -> int:
    """A port on which nobody listens now; it is added to ``taken``.

    Args:
        preferred: returned if it is free.
        taken: ports chosen before for the same purpose.

    Raises:
        LocalKafkaError: no free port was found.
    """
    # Not the global generator: tests seed that one, and two runs must not fight for the same ports.
    generator = random.SystemRandom()
    candidates = [generator.randint(_FIRST, _LAST) for _ in range(_TRIES)]
    for port in candidates if preferred is None else [preferred, *candidates]:
        if port not in taken and is_free(port):
            taken.add(port)
            return port
    raise LocalKafkaError(f"no free port found between {_FIRST} and {_LAST}; name one with --port")


def is_free(port: int) -> bool:
    """Whether a server could listen on this port, on every address of the machine."""
    return _can_bind(EVERY_ADDRESS, port)


def bind_address(host: str) -> str:
    """Address to listen on so that others reach us as ``host``: its own if ours, else every one."""
    return host if _can_bind(host, 0) else EVERY_ADDRESS


def _can_bind(host: str, port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As the broker does: what lingers in TIME_WAIT from an earlier broker does not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host or LOOPBACK, port))
        except OSError:
            return False
    return True
