"""Asks a broker whether it serves, in Kafka's own protocol and without a client library."""

from __future__ import annotations

import socket
import struct

_API_VERSIONS = 18
_CLIENT = b"headwater-ready-check"
_REQUEST = struct.pack(f">hhih{len(_CLIENT)}s", _API_VERSIONS, 0, 1, len(_CLIENT), _CLIENT)
_RESPONSE_BYTES = struct.calcsize(">iih")


def answers_api_versions(host: str, port: int, *, timeout_s: float) -> bool:
    """Whether the broker at ``host:port``, a plaintext listener, answers an ApiVersions request.

    A KRaft broker accepts requests only after it has caught up with the metadata log and is
    unfenced, so an answer means that it is ready.
    """
    try:
        with socket.create_connection((host, port), timeout=timeout_s) as connection:
            connection.settimeout(timeout_s)
            connection.sendall(struct.pack(">i", len(_REQUEST)) + _REQUEST)
            received = b""
            while len(received) < _RESPONSE_BYTES:
                chunk = connection.recv(4096)
                if not chunk:
                    return False
                received += chunk
    except OSError:
        return False
    _, correlation_id, error_code = struct.unpack_from(">iih", received)
    return bool(correlation_id == 1 and error_code == 0)
