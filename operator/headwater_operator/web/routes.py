"""The page by HTTP: its files, a stream of events for each application, and actions.

    GET  /                        the page; its files under /static/
    GET  /api/apps                which applications there are
    GET  /api/apps/KEY/events     server-sent events: ``whole`` once, then ``change`` every second
    GET  /api/apps/KEY/history/D  the panels of dashboard D, and their last hour; ?since=SECONDS
    POST /api/apps/KEY/ACTION     pause, resume, scale; with the token, else refused
    POST /api/apps/KEY/journey    where a record would go, in memory; from the page itself only
    GET  /healthz

KEY is an application's name, on a cluster with its namespace: ``NAMESPACE/NAME``.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import threading
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.responses import (
    JSONResponse,
    PlainTextResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Route

from headwater.errors import HeadwaterError
from headwater_operator.web.admission import HEADERS, is_own_host, is_same_origin, is_token
from headwater_operator.web.measured import DRAWN
from headwater_operator.web.watcher import HOUR_S, LOOK_S, Watcher

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from starlette.requests import Request
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from headwater_operator.web.watcher import Sight

STATIC: Final = Path(__file__).parent / "static"
_TYPES: Final = {
    ".css": "text/css",
    ".html": "text/html",
    ".js": "text/javascript",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".txt": "text/plain",
    ".woff2": "font/woff2",
}
_SHEETS: Final = ("theme", "page", "topology", "tasks", "charts")
"""Style sheets, in the order in which they are read: ``/static/css/all.css``."""
_BEAT_S: Final = 10.0
_WRONG_TOKEN_S: Final = 0.3
_MOST_BYTES: Final = 10_000
MOST: Final = 50
"""Applications that are looked at, at the same time."""
_JOURNEYS_AT_ONCE: Final = 2
"""Each holds a thread until it is answered."""


class TooManyOpenError(Exception):
    """So many applications are looked at by somebody that no other can be opened."""


class Source(Protocol):
    """Applications that can be looked at; calls may come from several threads."""

    def apps(self) -> Sequence[str]:
        """Return the keys of all."""
        ...

    def open(self, app: str) -> Sight:
        """Return what looks at one of them."""
        ...

    @property
    def has_journeys(self) -> bool:
        """Whether topologies can be run in memory."""
        ...

    @property
    def may_act(self) -> bool:
        """Whether it carries out actions at all."""
        ...

    @property
    def refused(self) -> str:
        """Which applications could not be listed, and why; empty if all could."""
        ...

    def journey(self, app: str, record: Mapping[str, Any]) -> dict[str, Any]:
        """Return where a record would go.

        Args:
            app: its key.
            record: ``topic``, and ``key`` and ``value`` as text or ``None``.

        Raises:
            HeadwaterError: it cannot be told.
        """
        ...

    def close(self) -> None:
        """End what was started."""
        ...

    def act(self, app: str, action: str, body: Mapping[str, Any]) -> str:
        """Carry out an action; return a sentence that says what happens now.

        Raises:
            HeadwaterError: it is refused; the message says why.
        """
        ...


class Page:
    """What the page shows and may do.

    Args:
        source: the applications.
        token: with which actions are allowed; empty: nothing may be changed.
        names: by which the browser may call this host, besides addresses and ``localhost``.
        look_s: between two looks at an application.
        most: applications that are looked at, at the same time.
        keep_s: how long an application is looked at after the last browser has left it.
    """

    def __init__(
        self,
        source: Source,
        *,
        token: str = "",
        names: Sequence[str] = (),
        look_s: float = LOOK_S,
        most: int = MOST,
        keep_s: float = HOUR_S,
    ) -> None:
        self._source = source
        self._most = most
        self._keep_s = keep_s
        self._look_s = look_s
        self._token = token
        self._names = frozenset(name.lower() for name in names)
        self._watchers: dict[str, Watcher] = {}
        self._guard = threading.Lock()
        self._closing = asyncio.Event()
        self._journeys = asyncio.Semaphore(_JOURNEYS_AT_ONCE)

    def app(self) -> ASGIApp:
        """Return the ASGI application."""
        inner = Starlette(
            routes=[
                Route("/", self._index),
                Route("/healthz", self._healthz),
                Route("/api/apps", self._apps),
                Route("/api/apps/{app:path}/events", self._events),
                Route("/api/apps/{app:path}/history/{dashboard:str}", self._history),
                Route("/api/apps/{app:path}/journey", self._journey, methods=["POST"]),
                Route("/api/apps/{app:path}/{action:str}", self._act, methods=["POST"]),
                Route("/static/{path:path}", self._file),
            ],
            exception_handlers={TooManyOpenError: _too_many},
        )
        return _Guarded(inner, self._names)

    def watch(self, app: str) -> Watcher:
        """Return the watcher of an application, started if need be.

        The watcher that was left first makes room if there are too many.

        Raises:
            TooManyOpenError: there are too many, and somebody looks at each of them.
        """
        with self._guard:
            watcher = self._watchers.get(app)
            if watcher is None or not watcher.is_running:
                self._watchers = {k: w for k, w in self._watchers.items() if w.is_running}
                if len(self._watchers) >= self._most:
                    self._make_room()
                watcher = Watcher(
                    app,
                    lambda: self._source.open(app),
                    self._about,
                    look_s=self._look_s,
                    keep_s=self._keep_s,
                )
                self._watchers[app] = watcher
                watcher.start()
            return watcher

    def _make_room(self) -> None:
        left = [each for each in self._watchers.values() if not each.is_watched]
        if not left:
            raise TooManyOpenError(
                f"{len(self._watchers)} applications are open already; close one of them"
            )
        first = min(left, key=lambda each: each.left_s)
        self._watchers.pop(first.app).close(0)

    def close(self) -> None:
        """End all watchers, and the streams of those who look on."""
        self._closing.set()
        with self._guard:
            for watcher in self._watchers.values():
                watcher.close(0)
        self._source.close()

    def _about(self) -> dict[str, Any]:
        return {
            "apps": list(self._source.apps()),
            "refused": self._source.refused,
            "may": bool(self._token) and self._source.may_act,
            "journeys": self._source.has_journeys,
        }

    async def _healthz(self, _: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def _index(self, request: Request) -> Response:
        return _answered("index.html", request)

    async def _file(self, request: Request) -> Response:
        return _answered(request.path_params["path"], request)

    async def _apps(self, _: Request) -> Response:
        return _Json(await run_in_threadpool(self._about))

    async def _events(self, request: Request) -> Response:
        app = request.path_params["app"]
        if app not in await run_in_threadpool(self._source.apps):
            return _refusal(404, f"there is no application {app!r}")
        return StreamingResponse(
            self._stream(self.watch(app)),
            media_type="text/event-stream",
            headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
        )

    async def _history(self, request: Request) -> Response:
        app, dashboard = request.path_params["app"], request.path_params["dashboard"]
        if app not in await run_in_threadpool(self._source.apps):
            return _refusal(404, f"there is no application {app!r}")
        if dashboard not in dict(DRAWN):
            return _refusal(404, f"there is no dashboard {dashboard!r}: {', '.join(dict(DRAWN))}")
        try:
            since_s = float(request.query_params.get("since", "0"))
        except ValueError:
            return _refusal(400, "since: give seconds since the epoch")
        text = await run_in_threadpool(self.watch(app).history, dashboard, since_s)
        return Response(text, media_type="application/json", headers={"Cache-Control": "no-store"})

    async def _stream(self, watcher: Watcher) -> AsyncIterator[str]:
        woken, loop, who = asyncio.Event(), asyncio.get_running_loop(), object()

        def wake() -> None:
            with suppress(RuntimeError):  # the loop has ended meanwhile
                loop.call_soon_threadsafe(woken.set)

        watcher.listen(who, wake)
        number = 0
        try:
            while not self._closing.is_set():
                is_running = watcher.is_running  # before the edition: its last one is sent, too
                edition = watcher.edition
                if edition.number > number:
                    is_next = number and edition.number == number + 1
                    kind, text = (
                        ("change", edition.change)
                        if is_next
                        else ("whole", await run_in_threadpool(edition.whole))
                    )
                    number = edition.number
                    yield f"event: {kind}\nid: {number}\ndata: {text}\n\n"
                if not is_running:
                    return
                try:
                    await asyncio.wait_for(woken.wait(), _BEAT_S)
                    woken.clear()
                except TimeoutError:
                    yield ": beat\n\n"
        finally:
            watcher.leave(who)

    async def _act(self, request: Request) -> Response:
        app, action = request.path_params["app"], request.path_params["action"]
        if (refusal := await self._refusal_of(request)) is not None:
            return refusal
        body = await _body(request)
        if body is None:
            return _refusal(400, "the body is no JSON object")
        if app not in await run_in_threadpool(self._source.apps):
            return _refusal(404, f"there is no application {app!r}")
        try:
            said = await run_in_threadpool(self._source.act, app, action, body)
        except HeadwaterError as error:
            return _refusal(409, str(error))
        return _Json({"message": said})

    async def _journey(self, request: Request) -> Response:
        app = request.path_params["app"]
        host, origin = request.headers.get("host", ""), request.headers.get("origin")
        # Pages of others may send forms and plain text unasked, but no JSON.
        is_json = request.headers.get("content-type", "").startswith("application/json")
        if not is_json or not is_same_origin(origin, host):
            return _refusal(403, "send JSON, from this page")
        body = await _body(request)
        if body is None:
            return _refusal(400, "the body is no JSON object")
        if app not in await run_in_threadpool(self._source.apps):
            return _refusal(404, f"there is no application {app!r}")
        try:
            async with self._journeys:
                return _Json(await run_in_threadpool(self._source.journey, app, body))
        except HeadwaterError as error:
            return _refusal(409, str(error))

    async def _refusal_of(self, request: Request) -> Response | None:
        """Return why a caller may not change anything; ``None`` if he may."""
        if not self._token:
            return _refusal(
                403, "this page only shows: start it with a token (--web-token-file) to act"
            )
        host, origin = request.headers.get("host", ""), request.headers.get("origin")
        if not is_same_origin(origin, host):
            return _refusal(403, f"the request comes from another page: {origin}")
        if not is_token(request.headers.get("authorization"), self._token):
            await asyncio.sleep(_WRONG_TOKEN_S)
            return _refusal(
                401, "the token is wrong, or the page was started anew with another one"
            )
        return None


@cache
def _files() -> Mapping[str, tuple[bytes, str, str]]:
    """Return all files of the page with their types and tags: they are small, and asked at once."""
    found = {}
    for path in STATIC.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            tag = f'"{hashlib.sha256(data).hexdigest()[:16]}"'
            found[path.relative_to(STATIC).as_posix()] = data, _TYPES[path.suffix], tag
    # One request for all of them: nothing is painted before the last has come.
    sheets = b"".join(found[f"css/{name}.css"][0] for name in _SHEETS)
    tag = f'"{hashlib.sha256(sheets).hexdigest()[:16]}"'
    return {**found, "css/all.css": (sheets, _TYPES[".css"], tag)}


def _answered(name: str, request: Request) -> Response:
    """Return a file, or that the browser has it already."""
    if (file := _files().get(name)) is None:
        return _refusal(404, f"there is no file {name!r}")
    data, kind, tag = file
    headers = {"Cache-Control": "no-cache", "ETag": tag}
    if request.headers.get("if-none-match") == tag:
        return Response(None, 304, headers)
    return Response(data, media_type=kind, headers=headers)


async def _body(request: Request) -> dict[str, Any] | None:
    data = b""
    async for chunk in request.stream():
        data += chunk
        if len(data) > _MOST_BYTES:
            return None
    try:
        value = json.loads(data or b"{}")
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


class _Json(JSONResponse):
    """JSON in ASCII: half of a surrogate pair has no bytes in UTF-8."""

    def render(self, content: Any) -> bytes:
        return json.dumps(content, separators=(",", ":")).encode()


def _refusal(status: int, message: str) -> JSONResponse:
    return _Json({"error": message}, status)


async def _too_many(_: Request, error: Exception) -> Response:
    return _refusal(503, str(error))


class _Guarded:
    """Refuses callers by other names, and adds the headers of every answer."""

    def __init__(self, inner: ASGIApp, names: frozenset[str]) -> None:
        self._inner = inner
        self._names = names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._inner(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = [(key.lower().encode(), text.encode()) for key, text in HEADERS.items()]
                message = {**message, "headers": [*message["headers"], *own]}
            await send(message)

        host = dict(scope["headers"]).get(b"host", b"").decode("latin-1")
        if is_own_host(host, self._names):
            await self._inner(scope, receive, send_with_headers)
        else:
            refusal = PlainTextResponse(
                f"this page is not known as {host!r}: give the name with --web-host-name, or use "
                "an address\n",
                421,
            )
            await refusal(scope, receive, send_with_headers)
