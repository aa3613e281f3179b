"""A wire between a client and a server that a machine's end can cut: nobody is told of it."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from typing import Self


class Wire:
    """Listens on loopback and carries what comes to a server and back; a context manager.

    Args:
        port: of the server, on loopback.

    Attributes:
        port: where it listens.
    """

    def __init__(self, port: int) -> None:
        self._to = port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listening.getsockname()[1])
        self._guard = threading.Lock()
        self._ends: set[socket.socket] = set()
        self._mute: list[socket.socket] = []

    def __enter__(self) -> Self:
        threading.Thread(target=self._listen, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.close()
        with self._guard:
            ends = [*self._ends, *self._mute]
        for each in ends:
            _end(each)

    def cut(self) -> None:
        """Carry nothing more by the connections that there are; they stay open."""
        with self._guard:
            self._mute += self._ends
            self._ends.clear()

    def _listen(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                server = socket.create_connection(("127.0.0.1", self._to))
                with self._guard:
                    self._ends |= {client, server}
                for pair in ((client, server), (server, client)):
                    threading.Thread(target=self._carry, args=pair, daemon=True).start()

    def _carry(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while True:
                data = source.recv(65_536)
                with self._guard:
                    if source not in self._ends:
                        return
                if not data:
                    break
                target.sendall(data)
        _end(target)


def _end(one: socket.socket) -> None:
    with suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()
