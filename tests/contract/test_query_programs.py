"""What a program reads of stores on disk and in memory, through the query process' connection."""

from __future__ import annotations

import threading
from multiprocessing import Pipe
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from headwater.config import StreamsConfig
from headwater.errors import StreamsRebalancingError
from headwater.httpserver import Request
from headwater.ids import TaskId
from headwater.model.positions import Position as ReadPosition
from headwater.model.storemeta import QueryableStoreType, StoreQueryParameters
from headwater.model.stores import StoreKind, StoreSpec
from headwater.native.queries.answering import Answerer, Held, TaskQuestions
from headwater.native.queries.http import LIMIT_MAX, HttpQueries
from headwater.native.queries.process import serve
from headwater.native.queries.secondaries import Secondaries
from headwater.native.queries.values import (
    PAGE_ROWS,
    AskTask,
    Place,
    Placements,
    Standing,
    StoreRequest,
)
from headwater.native.querying import answer_task
from headwater.ports import Position
from headwater.serde import Serdes
from headwater.service.queries.client import QueryClient
from headwater.service.queries.forms import StoreForms
from headwater.service.queries.views import view_of
from headwater.state import BlockCache, open_store
from headwater.state.asks import Versions, Windows
from headwater.state.directory import StateDirectory
from headwater.state.making import memory_backend
from headwater.state.restore import open_backend

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from multiprocessing.connection import Connection
    from pathlib import Path

    from headwater.state.asks import Ask

HOUR = 3_600_000


class Program:
    """A store with some partitions, and a program that reads it."""

    def __init__(self, spec: StoreSpec, path: Path, partitions: int) -> None:
        self.spec = spec
        directory = StateDirectory(path, "app")
        self.stores = {
            TaskId(0, partition): open_store(
                spec,
                task=TaskId(0, partition),
                changelog_topic="changelog",
                backend=open_backend(
                    spec, directory.store(TaskId(0, partition), spec.name), holder="test"
                )
                if spec.persistent
                else memory_backend(spec),
                cache=None,
                changelog_send=None,
                key_serde=Serdes.string,
                value_serde=Serdes.long,
            )
            for partition in range(partitions)
        }
        self._questions = TaskQuestions(self._to_thread)
        self.answerer = Answerer(
            {spec.name: Held(0, spec)}, Secondaries(directory, BlockCache()), self._questions
        )
        self.client = QueryClient(self._connect)
        self.http = HttpQueries(self.answerer, StreamsConfig.parse({"application.id": "app"}))
        self.place({task.partition: Standing.RUNNING for task in self.stores})

    def _connect(self) -> Connection[Any, Any]:
        mine, theirs = Pipe()
        threading.Thread(target=serve, args=(theirs, self.answerer), daemon=True).start()
        return mine

    def _to_thread(self, asked: AskTask) -> None:
        tasks = {task: SimpleNamespace(stores={"store": s}) for task, s in self.stores.items()}
        specs = {"store": self.spec}
        self._questions.take(answer_task(asked, cast("Any", tasks), specs))

    def place(self, standings: dict[int, Standing]) -> None:
        self.answerer.placements = Placements(
            tasks={TaskId(0, number): Place(standing, 0) for number, standing in standings.items()},
            partitions={0: len(self.stores)},
        )

    def commit(self) -> None:
        for store in self.stores.values():
            store.flush_changelog()
            store.commit(Position("topic", 1, 1))

    def view(self, kind: QueryableStoreType, *, stale: bool = False) -> Any:
        parameters = StoreQueryParameters("store", kind, is_stale_stores_enabled=stale)
        forms = StoreForms(self.spec, Serdes.string, Serdes.long, "changelog")
        return view_of(parameters, forms, self.client)

    def times(self, ask: Ask) -> list[int]:
        request = StoreRequest(store="store", ask=ask, bound=ReadPosition())
        (asked,) = self.client.ask(request)
        at = 2 if isinstance(ask, Versions) else 3
        return [row[at] for row in asked.rows]


@pytest.fixture(params=[True, False], ids=["on disk", "in memory"])
def program(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., Program]]:
    made: list[Program] = []

    def make(kind: StoreKind, *, partitions: int = 1, **options: Any) -> Program:
        spec = StoreSpec(
            name="store",
            kind=kind,
            persistent=request.param,
            key_serde=Serdes.string,
            value_serde=Serdes.long,
            **options,
        )
        made.append(Program(spec, tmp_path, partitions))
        return made[-1]

    yield make
    for one in made:
        one.client.close()
        for store in one.stores.values():
            store.close()


def windows_of_a_key(program: Callable[..., Program], count: int) -> Program:
    asking = program(StoreKind.TIMESTAMPED_WINDOW, retention_ms=HOUR, window_size_ms=10)
    (store,) = asking.stores.values()
    for start in range(count):
        store.put(("a", start, 0), start, start)
    store.put(("b", 5, 0), 0, 5)
    asking.commit()
    return asking


@pytest.mark.parametrize("count", [PAGE_ROWS, PAGE_ROWS + 1])
def test_every_window_of_a_key_is_read(program: Callable[..., Program], count: int) -> None:
    asking = windows_of_a_key(program, count)
    starts = list(range(count))
    assert asking.times(Windows(b"a", 0, HOUR)) == starts
    assert asking.times(Windows(b"a", 0, HOUR, reverse=True)) == starts[::-1]
    view = asking.view(QueryableStoreType.WINDOW)
    assert [start for start, _ in view.fetch("a", 0, HOUR)] == starts


def test_every_version_of_a_key_is_read(program: Callable[..., Program]) -> None:
    asking = program(StoreKind.VERSIONED, retention_ms=HOUR)
    (store,) = asking.stores.values()
    times = list(range(PAGE_ROWS + 1))
    for time in times:
        store.put("a", time, time)
    asking.commit()
    assert asking.times(Versions(b"a", 0, HOUR)) == times[::-1]
    assert asking.times(Versions(b"a", 0, HOUR, ascending=True)) == times


def test_more_windows_of_a_key_than_http_shows_are_refused(
    program: Callable[..., Program],
) -> None:
    http = windows_of_a_key(program, LIMIT_MAX + 1).http
    answer = http.answer(Request("/state/store/windows/a", {}))
    assert answer.status == 400
    assert b'"QueryError"' in answer.body
    assert b"narrow the times with from= and to=" in answer.body
    answer = http.answer(Request("/state/store/windows/a", {"to": f"{LIMIT_MAX - 1}"}))
    assert answer.status == 200
    assert answer.body.count(b'"window"') == LIMIT_MAX


def test_a_partition_that_moves_is_an_error_and_a_copy_is_passed_over(
    program: Callable[..., Program],
) -> None:
    asking = program(StoreKind.TIMESTAMPED_KEY_VALUE, partitions=2)
    for task, store in asking.stores.items():
        store.put(f"key-{task.partition}", task.partition, 1)
    asking.commit()
    view = asking.view(QueryableStoreType.KEY_VALUE)
    assert view.get("key-1") == 1

    asking.place({0: Standing.RUNNING, 1: Standing.MOVING})
    for read in (
        lambda: view.get("key-1"),
        lambda: list(view.all()),
        lambda: asking.view(QueryableStoreType.KEY_VALUE),
    ):
        with pytest.raises(StreamsRebalancingError, match="partition 1: task 0_1 is moving here"):
            read()

    asking.place({0: Standing.RUNNING, 1: Standing.COPY})
    assert [key for key, _ in view.all()] == ["key-0"]
