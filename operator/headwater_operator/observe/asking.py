"""One question by HTTP to a process whose answer is believed as little as can be.

It may not take longer or be larger than an honest one, and it cannot send the question elsewhere.
"""

from __future__ import annotations

import json
import socket
import threading
from contextlib import suppress
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from typing import TYPE_CHECKING, Final, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

_MOST_BYTES: Final = 7 << 20
"""A task is some 300 bytes, and a worker holds 20,000 at most."""
_ONE_AT_A_TIME: Final = threading.Lock()
"""Held to take an answer apart: as objects it may be twenty times its size."""


class Question(Generic[T]):
    """One question. It can be broken off, so that an answer that trickles holds no thread.

    Args:
        endpoint: ``host:port``.
        path: what is asked for.
        parse: takes the answer, as it was decoded, apart.
        nothing: stands for no answer, and for one that is not understood.
        timeout_s: of each step.
        decode: reads the body; as JSON if not given.
    """

    def __init__(
        self,
        endpoint: str,
        path: str,
        parse: Callable[[object], T],
        nothing: T,
        *,
        timeout_s: float,
        decode: Callable[[bytes], object] = json.loads,
    ) -> None:
        self._decode = decode
        self._endpoint = endpoint
        self._path = path
        self._parse = parse
        self._nothing = nothing
        self._timeout_s = timeout_s
        self._socket: socket.socket | None = None
        self._is_over = False

    def answer(self) -> T:
        """Ask, and read the answer."""
        host, _, port = self._endpoint.rpartition(":")
        try:
            # No library that follows redirections, or goes by proxies of the environment.
            connection = HTTPConnection(host.strip("[]"), int(port), timeout=self._timeout_s)
        except (ValueError, HTTPException):
            return self._nothing
        try:
            connection.connect()
            self._socket = connection.sock
            return self._nothing if self._is_over else self._read(connection)
        except (
            OSError,
            HTTPException,
            ArithmeticError,
            LookupError,
            ValueError,
            TypeError,
            AttributeError,
            RecursionError,
            MemoryError,
        ):
            return self._nothing
        finally:
            connection.close()

    def break_off(self) -> None:
        """Have it end at once, from another thread."""
        self._is_over = True
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)

    def _read(self, connection: HTTPConnection) -> T:
        connection.request("GET", self._path, headers={"Connection": "close"})
        response = connection.getresponse()
        if response.status != HTTPStatus.OK:
            return self._nothing
        body = response.read(_MOST_BYTES + 1)
        if len(body) > _MOST_BYTES:
            return self._nothing
        with _ONE_AT_A_TIME:
            return self._parse(self._decode(body))
