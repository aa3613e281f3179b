"""uvicorn in a thread: serves a page beside whatever else this process does."""

from __future__ import annotations

import socket
import threading
from typing import TYPE_CHECKING, Final, Self

import uvicorn

from headwater.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType

    from headwater_operator.web.routes import Page

DEFAULT_PORT: Final = 8780
DEFAULT_HOST: Final = "127.0.0.1"
_END_S: Final = 3
_MOST_CONNECTIONS: Final = 200
"""More are answered with 503: each browser has a stream, and some requests now and then."""


def address_of(text: str) -> tuple[str, int]:
    """Read ``HOST:PORT``, ``PORT``, or nothing for the default.

    Raises:
        ConfigError: it is neither.
    """
    if not text:
        return DEFAULT_HOST, DEFAULT_PORT
    host, _, port = text.rpartition(":")
    if not port.isdigit() or int(port) > 65_535:
        raise ConfigError(f"--web {text}: give HOST:PORT or PORT, such as 127.0.0.1:{DEFAULT_PORT}")
    return host.strip("[]") or DEFAULT_HOST, int(port)


class Server:
    """Serves a page; a context manager.

    Args:
        page: what is served.
        host: address to listen at.
        port: 0 picks a free one.

    Raises:
        ConfigError: the port cannot be used.
    """

    def __init__(self, page: Page, host: str, port: int) -> None:
        self._page = page
        self._socket = _bound(host, port)
        address = self._socket.getsockname()
        shown = f"[{address[0]}]" if ":" in address[0] else address[0]
        self.port: int = address[1]
        self.url = f"http://{'localhost' if shown in _ANY else shown}:{self.port}/"
        """Where it is opened."""
        config = uvicorn.Config(
            page.app(),
            log_config=None,
            access_log=False,
            server_header=False,
            lifespan="off",
            timeout_graceful_shutdown=1,
            ws="none",
            limit_concurrency=_MOST_CONNECTIONS,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, args=([self._socket],), name="page", daemon=True
        )

    def start(self) -> None:
        """Begin to serve, in a thread of its own."""
        self._thread.start()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def watch(self, apps: Iterable[str]) -> None:
        """Have the history of applications begin now, not when somebody looks."""
        for app in apps:
            self._page.watch(app)

    def close(self) -> None:
        """Serve no more."""
        self._page.close()
        self._server.should_exit = True
        if self._thread.is_alive():
            self._thread.join(_END_S)
        self._socket.close()


_ANY: Final = frozenset({"0.0.0.0", "[::]"})  # noqa: S104 - compared, not bound


def _bound(host: str, port: int) -> socket.socket:
    try:
        family, kind, number, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        bound = socket.socket(family, kind, number)
        try:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind(address)
            bound.listen(128)
        except OSError:
            bound.close()
            raise
    except OSError as error:
        raise ConfigError(
            f"the page cannot listen at {host}:{port} ({error.strerror or error}); choose another "
            "address with --web HOST:PORT, port 0 picks a free one"
        ) from error
    return bound
