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
        token: returns what is shown to one who asks for a token; empty if there is none.
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
        token: Callable[[], str] = str,
    ) -> None:
        self._token = token
        self._decode = decode
        self._endpoint = endpoint
        self._path = path
        self._parse = parse
        self._nothing = nothing
        self._timeout_s = timeout_s
        self._socket: socket.socket | None = None
        self._is_over = False

    def answer(self) -> T:
        """Ask, and read the answer; whoever asks for a token is asked again with one."""
        token = ""
        try:
            found = self._answer(token)
            if found is None and (token := self._token()):
                found = self._answer(token)
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
        return self._nothing if found is None else found[0]

    def _answer(self, token: str) -> tuple[T] | None:
        """Ask once; ``None`` if a token is asked for."""
        host, _, port = self._endpoint.rpartition(":")
        # No library that follows redirections, or goes by proxies of the environment.
        connection = HTTPConnection(host.strip("[]"), int(port), timeout=self._timeout_s)
        try:
            connection.connect()
            self._socket = connection.sock
            return (self._nothing,) if self._is_over else self._read(connection, token)
        finally:
            connection.close()

    def break_off(self) -> None:
        """Have it end at once, from another thread."""
        self._is_over = True
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)

    def _read(self, connection: HTTPConnection, token: str) -> tuple[T] | None:
        shown = {"Authorization": f"Bearer {token}"} if token else {}
        connection.request("GET", self._path, headers={"Connection": "close", **shown})
        response = connection.getresponse()
        if response.status == HTTPStatus.UNAUTHORIZED and not token:
            return None
        if response.status != HTTPStatus.OK:
            return (self._nothing,)
        body = response.read(_MOST_BYTES + 1)
        if len(body) > _MOST_BYTES:
            return (self._nothing,)
        with _ONE_AT_A_TIME:
            return (self._parse(self._decode(body)),)
