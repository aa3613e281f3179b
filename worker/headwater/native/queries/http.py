"""What a worker serves of its stores by HTTP, in its query process.

/state                               the stores, with their partitions that are here
/state/STORE/keys/KEY                a value; of a versioned store that of asOf=, else the newest
/state/STORE/keys?from=A&to=B        keys and values, or prefix=P; order=descending
/state/STORE/windows/KEY?from=&to=   the windows of a key by their starts
/state/STORE/windows?from=&to=       those of all keys
/state/STORE/sessions/KEY?from=&to=  the sessions of a key by their ends
/state/STORE/versions/KEY?from=&to=  the versions of a key, the newest first

With each: partition=N, requireActive=true, bound= a position as JSON, keyFormat=base64,
format=base64 (or raw, for one value); with what may be long limit= and cursor=.
"""

from __future__ import annotations

import json
import logging
import queue
import threading
import time
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from headwater.errors import (
    ConfigError,
    CursorExpiredError,
    HeadwaterError,
    NotShownAsJsonError,
    QueryError,
    UnknownStateStoreError,
)
from headwater.httpserver import JSON, Answer, HttpServer, Request, parse
from headwater.model.durations import LONG_MAX
from headwater.model.positions import Position
from headwater.model.queries import FailureReason
from headwater.model.reporting import changelog_of
from headwater.model.stores import KeyLayout
from headwater.native.queries import cursors
from headwater.native.queries.cursors import Cursor
from headwater.native.queries.shown import BASE64, Shown
from headwater.native.queries.values import Standing, StoreRequest
from headwater.processor.resolving import store_serdes
from headwater.state.asks import AllWindows, AsOf, Get, Prefix, Range, Versions, Windows
from headwater.state.committed import row_key_of
from headwater.wire.partitioner import partition_for_key

if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping

    from headwater.config import StreamsConfig
    from headwater.model.stores import StoreSpec
    from headwater.native.queries.answering import Answerer, Held
    from headwater.native.queries.values import PartitionAnswer
    from headwater.state.asks import Ask, Found

log = logging.getLogger(__name__)

PREFIX: Final = "/state"
LIMIT: Final = 100
LIMIT_MAX: Final = 10_000
_THREADS: Final = 4
_WAITING: Final = 64
_RAW: Final = "raw"
_BINARY: Final = "application/octet-stream"
_PARTS: Final = 5

_STATUS: Final = {
    FailureReason.UNKNOWN_QUERY_TYPE: HTTPStatus.BAD_REQUEST,
    FailureReason.NOT_ACTIVE: HTTPStatus.SERVICE_UNAVAILABLE,
    FailureReason.NOT_UP_TO_BOUND: HTTPStatus.PRECONDITION_FAILED,
    FailureReason.NOT_PRESENT: HTTPStatus.MISDIRECTED_REQUEST,
    FailureReason.DOES_NOT_EXIST: HTTPStatus.NOT_FOUND,
    FailureReason.STORE_EXCEPTION: HTTPStatus.INTERNAL_SERVER_ERROR,
}


class _Store(NamedTuple):
    """A store as it is shown."""

    held: Held
    keys: Shown
    values: Shown

    @property
    def spec(self) -> StoreSpec:
        """What it is."""
        return self.held.spec

    @property
    def subtopology(self) -> int:
        """Whose tasks have it."""
        return self.held.subtopology


class HttpQueries:
    """Answers callers that were handed over.

    Args:
        answerer: reads stores.
        config: the application's, for serdes.
    """

    def __init__(self, answerer: Answerer, config: StreamsConfig) -> None:
        self._answerer = answerer
        self._config = config
        self._shown: dict[str, _Store] = {}
        self._sender = HttpServer(None, 0, {})
        self._waiting: queue.Queue[tuple[socket.socket, bytes]] = queue.Queue(_WAITING)
        for number in range(_THREADS):
            threading.Thread(target=self._work, name=f"http-{number}", daemon=True).start()

    def take(self, caller: socket.socket, head: bytes) -> None:
        """Answer a caller soon.

        Args:
            caller: its socket.
            head: its request line and headers.
        """
        try:
            self._waiting.put_nowait((caller, head))
        except queue.Full:
            text = "too many queries wait already; try again"
            self._sender.adopt(caller, Answer.text(text, HTTPStatus.SERVICE_UNAVAILABLE))

    def _work(self) -> None:
        while True:
            caller, head = self._waiting.get()
            method = "GET"
            try:
                method, request = parse(head)  # the main process has parsed it, too
                answer = self.answer(request)
            except Exception:  # whatever it is, the others are served
                log.exception("cannot answer %r", head[:200])
                answer = Answer.text("see the log", HTTPStatus.INTERNAL_SERVER_ERROR)
            self._sender.adopt(caller, answer, has_body=method == "GET")

    def answer(self, request: Request) -> Answer:
        """Answer one request."""
        try:
            return self._answer(request)
        except UnknownStateStoreError as error:
            return _error(error, HTTPStatus.NOT_FOUND)
        except CursorExpiredError as error:
            return _error(error, HTTPStatus.GONE)
        except NotShownAsJsonError as error:
            return _error(error, HTTPStatus.NOT_ACCEPTABLE)
        except (QueryError, ConfigError) as error:
            return _error(error, HTTPStatus.BAD_REQUEST)

    def _answer(self, request: Request) -> Answer:
        parts = request.path.split("/", _PARTS - 1)
        match parts[2:]:
            case [store, ("keys" | "windows" | "sessions" | "versions") as what, key]:
                return self._of_key(self._store(store), what, key, request.query)
            case [store, ("keys" | "windows") as what]:
                return self._of_all(self._store(store), what, request.query)
            case [store, *_] if store:
                self._store(store)
                raise QueryError(
                    f"{request.path}: there is /state/{store}/keys/KEY, /keys, /windows/KEY, "
                    "/windows, /sessions/KEY and /versions/KEY"
                )
            case _:
                return _json(self._index())

    def _index(self) -> dict[str, Any]:
        placements = self._answerer.placements
        return {
            "stores": [
                {
                    "store": name,
                    "keys": str(held.spec.kind.key_layout),
                    "timestamped": held.spec.kind.timestamped,
                    "persistent": held.spec.persistent,
                    "subtopology": None if held.is_global else held.subtopology,
                    "partitions": {
                        str(task.partition): str(place.standing)
                        for task, place in sorted(placements.tasks.items())
                        if task.subtopology == held.subtopology
                    },
                }
                for name, held in sorted(self._answerer.stores.items())
                if not held.spec.kind.is_buffer and not held.spec.kind.holds_records
            ]
        }

    def _store(self, name: str) -> _Store:
        found = self._shown.get(name)
        if found is None:
            held = self._answerer.stores.get(name)
            if held is None:
                raise UnknownStateStoreError(
                    f"the topology has no store {name!r}; GET /state lists those there are"
                )
            topic = changelog_of(self._config.application_id, held.spec)
            key_serde, value_serde = store_serdes(self._config, held.spec)
            keys = Shown(name, "key", key_serde, topic)
            values = Shown(name, "value", value_serde, topic)
            found = self._shown[name] = _Store(held, keys, values)
        return found

    # ---- one key -------------------------------------------------------------------------------

    def _of_key(self, store: _Store, what: str, text: str, query: Mapping[str, str]) -> Answer:
        key = store.keys.bytes_of(text, query.get("keyFormat", ""))
        ask = _ask_of_key(store.spec, what, key, query)
        request = self._request(store, ask, query, page=LIMIT_MAX + 1)
        answers = self._answered(request)
        found = [answer for answer in answers if answer.rows]
        if found:
            return _shown_of_key(store, what, found[0], query)
        return self._nothing(store, key, text, answers, request)

    def _nothing(
        self,
        store: _Store,
        key: bytes,
        text: str,
        answers: list[PartitionAnswer],
        request: StoreRequest,
    ) -> Answer:
        """Say why no partition here has a key: it does not exist, or others may have it."""
        name = store.spec.name
        placements = self._answerer.placements
        count = 1 if store.held.is_global else placements.partitions.get(store.subtopology)
        mine = {answer.partition: answer for answer in answers}
        home = None if count is None else partition_for_key(key, count)
        wanted = request.partitions or (frozenset() if home is None else {home})
        for partition in wanted:
            if partition in mine and (failure := mine[partition]).failure is not None:
                return _failure(name, failure)
        if any(answer.failure is None for answer in answers) and wanted <= mine.keys() and wanted:
            return self._no_key(name, text, answers)
        for answer in answers:
            if answer.failure not in {None, FailureReason.NOT_PRESENT}:
                return _failure(name, answer)
        task = f"{store.subtopology}_{home}" if home is not None else ""
        peers = {f"{t}": endpoint for t, endpoint in placements.peers.items()}
        where = f"; {peers[task]} has it" if task in peers else ""
        message = (
            f"{text!r:.80} of store {name} is not on this worker, but in "
            f"{'partition ' + str(home) if home is not None else 'another partition'}{where}; ask "
            "the worker that has it, or let `headwater query` find it"
        )
        return _json(
            {
                "error": "NOT_PRESENT",
                "message": message,
                "partition": home,
                "task": task or None,
                "endpoint": peers.get(task),
            },
            HTTPStatus.MISDIRECTED_REQUEST,
        )

    def _no_key(self, name: str, text: str, answers: list[PartitionAnswer]) -> Answer:
        document = {
            "error": "KEY_NOT_FOUND",
            "message": f"store {name} has no {text!r:.80} in what was committed last",
            "position": _position(answers).to_map(),
        }
        return _json(document, HTTPStatus.NOT_FOUND)

    # ---- ranges --------------------------------------------------------------------------------

    def _of_all(self, store: _Store, what: str, query: Mapping[str, str]) -> Answer:
        ask = _ask_of_all(store, what, query)
        limit = _number(query, "limit", LIMIT, least=1, most=LIMIT_MAX)
        digest = cursors.digest_of(store.spec.name, what, repr(ask), query.get("partition"))
        cursor = None
        if "cursor" in query:
            cursor = cursors.decode(query["cursor"], digest, time.time())
        here = self._partitions_here(store, query)
        if cursor is not None and cursor.partition not in here:
            here = [cursor.partition, *here]
        rows: list[dict[str, Any]] = []
        read: list[int] = []
        position = Position()
        following = None
        for partition in here:
            if cursor is not None and partition < cursor.partition:
                continue
            if len(rows) == limit:
                following = Cursor(partition, None)
                break
            after = cursor.after if cursor is not None and partition == cursor.partition else None
            (answer,) = self._answered(
                self._request(
                    store, _behind(ask, after), query, page=limit - len(rows), partition=partition
                )
            )
            if answer.failure is not None:
                return _failure(store.spec.name, answer)
            read.append(partition)
            position = position.merge(answer.position)
            rows += [_row(store, partition, row, query) for row in answer.rows]
            if len(rows) == limit and answer.rows:
                following = Cursor(partition, row_key_of(store.spec, answer.rows[-1]))
                break
        document: dict[str, Any] = {
            "store": store.spec.name,
            "rows": rows,
            "partitions": read,
            "of": 1
            if store.held.is_global
            else self._answerer.placements.partitions.get(store.subtopology),
            "position": position.to_map(),
        }
        if following is not None:
            document["cursor"] = cursors.encode(following, digest, time.time())
        return _json(document)

    def _partitions_here(self, store: _Store, query: Mapping[str, str]) -> list[int]:
        if "partition" in query:
            return [_number(query, "partition", 0)]
        if store.held.is_global:
            return [0]
        is_active = query.get("requireActive", "") == "true"
        return sorted(
            task.partition
            for task, place in self._answerer.placements.tasks.items()
            if task.subtopology == store.subtopology
            and not (is_active and place.standing is Standing.COPY)
        )

    # ---- the request ---------------------------------------------------------------------------

    def _request(
        self,
        store: _Store,
        ask: Ask,
        query: Mapping[str, str],
        *,
        page: int,
        partition: int | None = None,
    ) -> StoreRequest:
        if partition is None and "partition" in query:
            partition = _number(query, "partition", 0)
        return StoreRequest(
            store=store.spec.name,
            ask=ask,
            partitions=None if partition is None else frozenset({partition}),
            require_active=query.get("requireActive", "") == "true",
            bound=_bound(query.get("bound", "")),
            page=page,
        )

    def _answered(self, request: StoreRequest) -> list[PartitionAnswer]:
        return [answered.first for answered in self._answerer.ask(request)]


def _ask_of_key(spec: StoreSpec, what: str, key: bytes, query: Mapping[str, str]) -> Ask:
    match what:
        case "keys" if spec.kind.versioned:
            as_of = _number(query, "asOf", LONG_MAX) if "asOf" in query else None
            return AsOf(key, as_of)
        case "keys":
            if spec.kind.expires:
                raise _other_kind(spec)
            return Get(key)
        case "versions":
            return Versions(key, _number(query, "from", 0), _number(query, "to", LONG_MAX))
        case _:
            is_session = spec.kind.key_layout is KeyLayout.SESSION
            if spec.kind.expires and is_session != (what == "sessions"):
                raise _other_kind(spec)
            return Windows(key, _number(query, "from", 0), _number(query, "to", LONG_MAX))


def _other_kind(spec: StoreSpec) -> QueryError:
    what = "sessions" if spec.kind.key_layout is KeyLayout.SESSION else "windows"
    return QueryError(f"store {spec.name} has {what}: GET /state/{spec.name}/{what}/KEY")


def _ask_of_all(store: _Store, what: str, query: Mapping[str, str]) -> Range | Prefix | AllWindows:
    form, reverse = query.get("keyFormat", ""), query.get("order", "") == "descending"
    if what == "windows":
        return AllWindows(
            _number(query, "from", 0), _number(query, "to", LONG_MAX), reverse=reverse
        )
    if "prefix" in query:
        # A beginning is no whole key, so no serde takes it.
        prefix = query["prefix"]
        return Prefix(store.keys.bytes_of(prefix, form) if form == BASE64 else prefix.encode())
    low, high = (
        store.keys.bytes_of(query[name], form) if name in query else None for name in ("from", "to")
    )
    return Range(low, high, reverse)


def _behind(ask: Range | Prefix | AllWindows, after: bytes | None) -> Ask:
    if after is None:
        return ask
    match ask:
        case Range(low=low, high=high, reverse=reverse):
            return Range(low, high, reverse, after)
        case Prefix(prefix=prefix):
            return Prefix(prefix, after)
        case AllWindows():
            return AllWindows(ask.first, ask.last, ask.low, ask.high, ask.reverse, after)


def _shown_of_key(
    store: _Store, what: str, answer: PartitionAnswer, query: Mapping[str, str]
) -> Answer:
    form = query.get("format", "")
    position = answer.position.to_map()
    if what == "keys":
        row = answer.rows[0]
        if form == _RAW:
            return Answer(HTTPStatus.OK, row[1], _BINARY)
        shown = _row(store, answer.partition, row, query)
        return _json({"store": store.spec.name, **shown, "position": position})
    if form == _RAW:
        raise QueryError("format=raw is for one value; ask for base64")
    if len(answer.rows) > LIMIT_MAX:
        raise QueryError(
            f"store {store.spec.name} has more than {LIMIT_MAX} {what} of this key at these times; "
            f"narrow the times with from= and to= of GET /state/{store.spec.name}/{what}/KEY"
        )
    rows = [_row(store, answer.partition, row, query) for row in answer.rows]
    return _json({"store": store.spec.name, "rows": rows, "position": position})


def _row(store: _Store, partition: int, row: Found, query: Mapping[str, str]) -> dict[str, Any]:
    key, value, timestamp, first, second = row
    form = query.get("format", "")
    shown: dict[str, Any] = {
        "partition": partition,
        "key": store.keys.json_of(key, query.get("keyFormat", "")),
    }
    if store.spec.kind.key_layout is KeyLayout.SESSION:
        shown["window"] = {"start": second, "end": first}
    elif store.spec.kind.expires:
        end = min(first + store.spec.window_size_ms, LONG_MAX)
        shown["window"] = {"start": first, "end": end}
    shown["value"] = store.values.json_of(value, form)
    if timestamp >= 0:
        shown["timestamp"] = timestamp
    if store.spec.kind.versioned:
        shown["validTo"] = None if first < 0 else first
    return shown


def _position(answers: list[PartitionAnswer]) -> Position:
    merged = Position()
    for answer in answers:
        merged = merged.merge(answer.position)
    return merged


def _bound(text: str) -> Position:
    if not text:
        return Position()
    try:
        found = json.loads(text)
        return Position(
            {
                str(topic): {int(partition): int(offset) for partition, offset in offsets.items()}
                for topic, offsets in found.items()
            }
        )
    except (ValueError, TypeError, AttributeError) as error:
        raise QueryError(
            f"bound={text!r:.80} is no position; give the position of an earlier answer, "
            '{"topic": {"0": 41}}'
        ) from error


def _number(
    query: Mapping[str, str], name: str, default: int, *, least: int = 0, most: int = LONG_MAX
) -> int:
    text = query.get(name)
    if text is None:
        return default
    if not text.isascii() or not text.isdigit() or not least <= int(text) <= most:
        raise QueryError(f"{name}={text!r:.40} is not allowed; expected {least} to {most}")
    return int(text)


def _failure(store: str, answer: PartitionAnswer) -> Answer:
    assert answer.failure is not None
    document = {
        "error": str(answer.failure),
        "message": f"store {store}: {answer.message}",
        "partition": answer.partition,
    }
    return _json(document, _STATUS[answer.failure])


def _error(error: HeadwaterError, status: HTTPStatus) -> Answer:
    return _json({"error": type(error).__name__, "message": str(error)}, status)


def _json(document: dict[str, Any], status: HTTPStatus = HTTPStatus.OK) -> Answer:
    return Answer(status, json.dumps(document, separators=(",", ":")).encode() + b"\n", JSON)
