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

import logging
import time
from http import HTTPStatus
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from headwater.errors import (
    ConfigError,
    CursorExpiredError,
    NotShownAsJsonError,
    QueryError,
    UnknownStateStoreError,
)
from headwater.httpserver import Answer, HttpServer
from headwater.model.queries import FailureReason
from headwater.model.reporting import changelog_of
from headwater.native.queries import cursors, telling
from headwater.native.queries.cursors import Cursor
from headwater.native.queries.lanes import Lane
from headwater.native.queries.reading import (
    ShownStore,
    ask_of_all,
    ask_of_key,
    behind,
    bound_of,
    number,
)
from headwater.native.queries.shown import Shown
from headwater.native.queries.telling import LIMIT_MAX, as_json, refused, row_of
from headwater.native.queries.values import Standing, StoreRequest
from headwater.processor.resolving import store_serdes
from headwater.state.committed import row_key_of
from headwater.wire.partitioner import partition_for_key

if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping

    from headwater.config import StreamsConfig
    from headwater.httpserver import Request
    from headwater.model.stores import StoreSpec
    from headwater.native.queries.answering import Answerer
    from headwater.native.queries.values import PartitionAnswer
    from headwater.serde import Serde
    from headwater.state.asks import Ask

log = logging.getLogger(__name__)

PREFIX: Final = "/state"
LIMIT: Final = 100
_DISK_THREADS: Final = 4
_MEMORY_THREADS: Final = 16
"""Of each store in memory: they wait for StreamThreads, and compute next to nothing."""
_WAITING: Final = 64
_PARTS: Final = 5


class HttpAnswers:
    """Answers requests below ``/state``, from any number of threads.

    Args:
        answerer: reads stores.
        config: the application's, for serdes.
    """

    def __init__(self, answerer: Answerer, config: StreamsConfig) -> None:
        self._answerer = answerer
        self._config = config
        self._shown: dict[str, ShownStore] = {}
        self._guards: dict[type, Lock] = {}

    def answer(self, request: Request) -> Answer:
        """Answer one request."""
        try:
            return self._answer(request)
        except UnknownStateStoreError as error:
            return refused(error, HTTPStatus.NOT_FOUND)
        except CursorExpiredError as error:
            return refused(error, HTTPStatus.GONE)
        except NotShownAsJsonError as error:
            return refused(error, HTTPStatus.NOT_ACCEPTABLE)
        except (QueryError, ConfigError) as error:
            return refused(error, HTTPStatus.BAD_REQUEST)

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
                return as_json(self._index())

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
                    "of": 1 if held.is_global else placements.partitions.get(held.subtopology),
                }
                for name, held in sorted(self._answerer.stores.items())
                if not held.spec.kind.is_buffer and not held.spec.kind.holds_records
            ]
        }

    def _store(self, name: str) -> ShownStore:
        found = self._shown.get(name)
        if found is None:
            held = self._answerer.stores.get(name)
            if held is None:
                raise UnknownStateStoreError(
                    f"the topology has no store {name!r}; GET /state lists those there are"
                )
            key_serde, value_serde = store_serdes(self._config, held.spec)
            keys = self._form(held.spec, "key", key_serde)
            values = self._form(held.spec, "value", value_serde)
            found = self._shown[name] = ShownStore(held, keys, values)
        return found

    def _form(self, spec: StoreSpec, half: str, serde: Serde[Any]) -> Shown:
        guard = self._guards.setdefault(type(serde), Lock())
        topic = changelog_of(self._config.application_id, spec)
        return Shown(spec.name, half, serde, topic, guard)

    # ---- one key -------------------------------------------------------------------------------

    def _of_key(self, store: ShownStore, what: str, text: str, query: Mapping[str, str]) -> Answer:
        """Look where Kafka's partitioner places a key, then in what else is here."""
        key = store.keys.bytes_of(text, query.get("keyFormat", ""))
        ask = ask_of_key(store.spec, what, key, query)
        place, count = self._place_of(store, key, query)
        answers: list[PartitionAnswer] = []
        if place is not None:
            answers = self._asked(store, ask, query, LIMIT_MAX + 1, frozenset({place}))
            first = answers[0]
            is_known = bool(first.rows) or first.failure is FailureReason.STORE_EXCEPTION
            if not is_known and "partition" not in query:
                rest = frozenset(self._tasks_here(store)) - {place}
                answers += self._asked(store, ask, query, LIMIT_MAX + 1, rest)
        else:
            answers = self._asked(store, ask, query, LIMIT_MAX + 1, None)
        for answer in answers:
            if answer.rows:
                return telling.of_key(store, what, answer, answers, query)
        return self._nothing(store, text, place, count, answers)

    def _place_of(
        self, store: ShownStore, key: bytes, query: Mapping[str, str]
    ) -> tuple[int | None, int | None]:
        """Return where a key is looked for first, and of how many partitions if none is named."""
        if "partition" in query:
            return number(query, "partition", 0), None
        if store.held.is_global:
            return 0, 1
        count = self._answerer.placements.partitions.get(store.subtopology)
        return (None if count is None else partition_for_key(key, count)), count

    def _nothing(
        self,
        store: ShownStore,
        text: str,
        place: int | None,
        count: int | None,
        answers: list[PartitionAnswer],
    ) -> Answer:
        """Say why no partition here has a key: it does not exist, or others may have it."""
        name = store.spec.name
        failed = {answer.partition: answer for answer in answers if answer.failure is not None}
        for answer in failed.values():
            if answer.failure is FailureReason.UNKNOWN_QUERY_TYPE:
                return telling.failure(name, answer)
        if place is None:
            known = (one for one in failed.values() if one.failure is not FailureReason.NOT_PRESENT)
            if (problem := next(known, None)) is not None:
                return telling.failure(name, problem, answers)
        elif place not in failed:
            return telling.not_found(name, text, place, count, answers)
        elif failed[place].failure is not FailureReason.NOT_PRESENT or failed[place].standing:
            return telling.failure(name, failed[place], answers)
        return self._elsewhere(store, text, place, answers)

    def _elsewhere(
        self, store: ShownStore, text: str, place: int | None, answers: list[PartitionAnswer]
    ) -> Answer:
        task = "" if place is None else f"{store.subtopology}_{place}"
        peers = {f"{t}": endpoint for t, endpoint in self._answerer.placements.peers.items()}
        where = f"; {peers[task]} has it" if task in peers else ""
        message = (
            f"{text!r:.80} of store {store.spec.name} is not on this worker, but in "
            f"{'another partition' if place is None else f'partition {place}'}{where}; ask "
            "the worker that has it, or let `headwater query` find it"
        )
        document = {
            "error": "NOT_PRESENT",
            "message": message,
            "partition": place,
            "task": task or None,
            "endpoint": peers.get(task),
            "read": telling.read_of(answers),
        }
        return as_json(document, HTTPStatus.MISDIRECTED_REQUEST)

    # ---- ranges --------------------------------------------------------------------------------

    def _of_all(self, store: ShownStore, what: str, query: Mapping[str, str]) -> Answer:
        ask = ask_of_all(store, what, query)
        limit = number(query, "limit", LIMIT, least=1, most=LIMIT_MAX)
        digest = cursors.digest_of(store.spec.name, what, repr(ask), query.get("partition"))
        cursor = None
        if "cursor" in query:
            cursor = cursors.decode(query["cursor"], digest, time.time())
        here = self._partitions_here(store, query)
        if cursor is not None and cursor.partition not in here:
            here = [cursor.partition, *here]
        rows: list[dict[str, Any]] = []
        answers: list[PartitionAnswer] = []
        following = None
        for partition in here:
            if cursor is not None and partition < cursor.partition:
                continue
            if len(rows) == limit:
                following = Cursor(partition, None)
                break
            after = cursor.after if cursor is not None and partition == cursor.partition else None
            (answer,) = self._asked(
                store, behind(ask, after), query, limit - len(rows), frozenset({partition})
            )
            if answer.failure is not None:
                return telling.failure(store.spec.name, answer, answers)
            answers.append(answer)
            rows += [row_of(store, partition, row, query) for row in answer.rows]
            if len(rows) == limit and answer.rows:
                following = Cursor(partition, row_key_of(store.spec, answer.rows[-1]))
                break
        document: dict[str, Any] = {
            "store": store.spec.name,
            "rows": rows,
            "partitions": [answer.partition for answer in answers],
            "of": 1
            if store.held.is_global
            else self._answerer.placements.partitions.get(store.subtopology),
            "read": telling.read_of(answers),
            "position": telling.position_of(answers).to_map(),
        }
        if following is not None:
            document["cursor"] = cursors.encode(following, digest, time.time())
        return as_json(document)

    def _partitions_here(self, store: ShownStore, query: Mapping[str, str]) -> list[int]:
        if "partition" in query:
            return [number(query, "partition", 0)]
        is_active = query.get("requireActive", "") == "true"
        return sorted(
            partition
            for partition, standing in self._tasks_here(store).items()
            if not (is_active and standing is Standing.COPY)
        )

    # ---- the request ---------------------------------------------------------------------------

    def _tasks_here(self, store: ShownStore) -> dict[int, Standing]:
        if store.held.is_global:
            return {0: Standing.RUNNING}
        tasks = self._answerer.placements.tasks
        return {
            task.partition: place.standing
            for task, place in tasks.items()
            if task.subtopology == store.subtopology
        }

    def _asked(
        self,
        store: ShownStore,
        ask: Ask,
        query: Mapping[str, str],
        page: int,
        partitions: frozenset[int] | None,
    ) -> list[PartitionAnswer]:
        """Ask partitions, or all that are here; each answer has so many rows at most."""
        request = StoreRequest(
            store=store.spec.name,
            ask=ask,
            partitions=partitions,
            require_active=query.get("requireActive", "") == "true",
            bound=bound_of(query.get("bound", "")),
            page=page,
        )
        return [answered.first for answered in self._answerer.ask(request)]


class HttpCaller(NamedTuple):
    """Who has asked by HTTP: its socket, ``GET`` or ``HEAD``, and its request."""

    socket: socket.socket
    method: str
    request: Request


class HttpQueries(HttpAnswers):
    """Answers callers that were handed over, in threads of its own.

    Args:
        answerer: reads stores.
        config: the application's, for serdes.
    """

    def __init__(self, answerer: Answerer, config: StreamsConfig) -> None:
        super().__init__(answerer, config)
        self._sender = HttpServer(None, 0, {})
        self._on_disk = Lane("disk", self._work, threads=_DISK_THREADS, waiting=_WAITING)
        self._in_memory: dict[str, Lane[HttpCaller]] = {}

    def take(self, caller: HttpCaller) -> None:
        """Answer a caller soon."""
        if not self._lane_of(caller.request).put(caller):
            text = "too many queries wait already; try again"
            self._sender.adopt(caller.socket, Answer.text(text, HTTPStatus.SERVICE_UNAVAILABLE))

    def _lane_of(self, request: Request) -> Lane[HttpCaller]:
        """Return who answers: a store in memory may make whoever reads it wait."""
        name = (*request.path.split("/", 3), "", "")[2]
        held = self._answerer.stores.get(name)
        if held is None or held.is_global or held.spec.persistent:
            return self._on_disk
        lane = self._in_memory.get(name)
        if lane is None:
            lane = Lane(name, self._work, threads=_MEMORY_THREADS, waiting=_WAITING)
            self._in_memory[name] = lane
        return lane

    def _work(self, caller: HttpCaller) -> None:
        try:
            answer = self.answer(caller.request)
        except Exception:  # whatever it is, the others are served
            log.exception("cannot answer %r", caller.request)
            answer = Answer.text("see the log", HTTPStatus.INTERNAL_SERVER_ERROR)
        self._sender.adopt(caller.socket, answer, has_body=caller.method == "GET")
