"""What every store of windows and sessions promises: on disk and in memory, cached or not.

With headers, windows that have no timestamps otherwise get them: no store has headers alone.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.counted_calls import steps_of
from tests.support.stores import Recorder, add
from tests.support.timed_stores import (
    RETENTION_MS,
    backend_of,
    build_timed_store,
    spec_of,
)

from headwater.errors import SerializationError
from headwater.ids import TaskId
from headwater.model.stores import StoreKind
from headwater.ports import Position, Timestamps
from headwater.serde import Serdes
from headwater.state.backends.segments import SegmentedRocksBackend
from headwater.state.directory import StateDirectory
from headwater.state.restore import ChangelogFacts, StoreRestorer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from headwater.model.stores import StoreSpec
    from headwater.ports import Backend
    from headwater.state import TimedStore

HERE = Position("topic-id", 17, 1_700_000_000_000)
CACHES: dict[str, int] = {"cache": 100_000, "small cache": 300, "no cache": 0}
WITH_HEADERS = {f"{name}, headers": cache for name, cache in CACHES.items()}
MODES = CACHES | WITH_HEADERS
LONG = struct.Struct(">q")


class Kept:
    """A backend that can be opened anew; memory, whose life ends with its process, is the same."""

    def __init__(self, path: Path, how: str) -> None:
        self.path = path
        self.persistent = how == "rocks"
        self.custom = how == "custom"
        self.backend: Backend | None = None

    def spec(self, kind: StoreKind, **settings: Any) -> StoreSpec:
        return spec_of(kind, persistent=self.persistent, custom=self.custom, **settings)

    def open(self, kind: StoreKind, **settings: Any) -> Backend:
        if self.persistent or self.backend is None:
            self.close()
            self.backend = backend_of(self.spec(kind, **settings), self.path / "db")
        return self.backend

    def close(self) -> None:
        if self.backend is not None:
            self.backend.close()


@pytest.fixture(params=["memory", "custom", "rocks"])
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Kept]:
    found = Kept(tmp_path, request.param)
    yield found
    found.close()


@pytest.fixture(params=MODES)
def mode(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def heard() -> Recorder:
    return Recorder()


@pytest.fixture
def build(kept: Kept, mode: str, heard: Recorder) -> Callable[..., TimedStore]:
    """Build a store over what is kept, as a process does that starts again."""

    def build(
        kind: StoreKind = StoreKind.TIMESTAMPED_WINDOW,
        *,
        key: Any = Serdes.string,
        value: Any = Serdes.long,
        **settings: Any,
    ) -> TimedStore:
        if mode in WITH_HEADERS:
            kind = kind.with_headers or StoreKind.TIMESTAMPED_WINDOW_WITH_HEADERS
        spec = kept.spec(kind, **settings)
        backend = kept.open(kind, **settings)
        return build_timed_store(heard, spec, backend, key=key, value=value, cache=MODES[mode])

    return build


def commit(store: TimedStore, position: Position | None = HERE) -> None:
    store.flush_cache()
    store.flush_changelog()
    store.commit(position)


def test_a_window_is_read_before_and_after_each_step(build: Callable[..., TimedStore]) -> None:
    store = build()
    store.append("a", 5_000, 1, 10)
    seen = [store.get(("a", 5_000, 0))]
    for step in (store.flush_cache, store.flush_changelog, lambda: store.commit(HERE)):
        step()
        seen.append(store.get(("a", 5_000, 0)))

    assert seen == [(1, 10)] * 4
    assert store.get(("a", 0, 0)) is None
    assert store.fetch("a", 0, 9_000) == [(5_000, 0, 1, 10)]


def test_windows_are_counted_after_a_look_at_one(build: Callable[..., TimedStore]) -> None:
    store = build()
    for start in (0, 5_000):
        store.append("a", start, 1, 10)
    store.append("ab", 0, 1, 10)
    store.append("a", 5_000, None, 11)
    assert store.fetch("a", 0, 0) == [(0, 0, 1, 10)]
    commit(store)

    assert store.num_keys() == 2


def test_the_windows_of_a_key_come_by_start_from_all_layers(
    build: Callable[..., TimedStore],
) -> None:
    store = build()
    for start in (0, 20_000, 70_000):
        store.append("a", start, start, 1)
        store.append("ab", start, 7, 1)
    commit(store)
    store.append("a", 10_000, 10_000, 2)
    store.append("a", 70_000, None, 2)
    store.flush_cache()
    store.flush_changelog()
    store.append("a", 20_000, 8, 3)
    store.append("a", 80_000, 80_000, 3)

    expected = [(0, 0, 0, 1), (10_000, 0, 10_000, 2), (20_000, 0, 8, 3), (80_000, 0, 80_000, 3)]
    assert store.fetch("a", 0, 90_000) == expected
    assert store.fetch("a", 0, 90_000, reverse=True) == expected[::-1]
    assert store.fetch("a", 10_000, 20_000) == expected[1:3]
    assert store.fetch("a", 20_001, 79_999) == []
    assert store.fetch("b", 0, 90_000) == []


def test_all_keys_come_in_kafkas_order(build: Callable[..., TimedStore], kept: Kept) -> None:
    store = build()
    store.append("b", 0, 1, 1)
    store.append("a", 1_000, 1, 1)
    store.append("a", 61_000, 1, 1)
    commit(store)
    store.append("a", 0, 1, 1)
    store.append("aa", 500, 1, 1)

    found = [(key, start) for key, start, *_ in store.fetch_all(0, 100_000)]
    by_segment = [("a", 0), ("a", 1_000), ("aa", 500), ("b", 0), ("a", 61_000)]
    by_time = [("a", 0), ("b", 0), ("aa", 500), ("a", 1_000), ("a", 61_000)]
    assert found == (by_segment if kept.persistent else by_time)
    back = [(key, start) for key, start, *_ in store.fetch_all(0, 100_000, reverse=True)]
    assert back == found[::-1]
    some = [(key, start) for key, start, *_ in store.fetch_all(0, 1_000, low="aa", high="b")]
    assert sorted(some) == [("aa", 500), ("b", 0)]
    assert list(store.fetch_all(0, 1_000, high="A")) == []


def test_what_is_older_than_the_retention_is_not_read(build: Callable[..., TimedStore]) -> None:
    store = build()
    store.append("a", 0, 1, 1)
    store.append("a", 1, 2, 1)
    commit(store)
    store.append("b", RETENTION_MS, 3, 1)
    # As in Kafka Streams time is what was written below the record cache.
    store.flush_cache()

    assert store.get(("a", 0, 0)) is None
    assert store.get(("a", 1, 0)) == (2, 1)
    assert store.fetch("a", 0, RETENTION_MS) == [(1, 0, 2, 1)]
    assert [row[:2] for row in store.fetch_all(0, RETENTION_MS)] == [("a", 1), ("b", RETENTION_MS)]


def test_a_put_that_is_too_old_is_counted_and_sent_but_not_read(
    build: Callable[..., TimedStore], heard: Recorder, kept: Kept
) -> None:
    expired: list[str] = []
    store = build()
    store.on_expired = lambda: expired.append("one")
    store.append("new", 1_000_000, 1, 1)

    store.append("old", 1_000, 1, 1)
    within_a_segment = 1_000_000 - RETENTION_MS - 1_000
    store.append("on the edge", within_a_segment, 1, 1)
    commit(store)

    # On disk a segment lives as long as its youngest window.
    assert len(expired) == (1 if kept.persistent else 2)
    assert store.fetch("old", 0, 2_000) == []
    assert store.fetch("on the edge", 0, 10**6) == []
    assert {key[:3] for key, _, _ in heard.sent if key} == {b"new", b"old", b"on "}
    assert store.approximate_num_entries() == (2 if kept.persistent else 1)


@pytest.mark.parametrize(
    "kind",
    [StoreKind.TIMESTAMPED_WINDOW, StoreKind.TIMESTAMPED_WINDOW_WITH_HEADERS],
    ids=["plain", "headers"],
)
def test_an_expired_segment_is_dropped_as_a_whole(tmp_path: Path, kind: StoreKind) -> None:
    spec = spec_of(kind)
    backend = backend_of(spec, tmp_path / "db")
    assert isinstance(backend, SegmentedRocksBackend)
    store = build_timed_store(Recorder(), spec, backend)
    for start in range(0, 600_000, 10_000):
        store.append("a", start, 1, 1)
        commit(store)

    assert sorted(backend._segments) == [7, 8, 9]
    backend.close()
    again = backend_of(spec, tmp_path / "db")
    assert isinstance(again, SegmentedRocksBackend)
    assert sorted(again._segments) == [7, 8, 9]
    assert again.stream_time == 590_000
    again.close()


@pytest.mark.parametrize(
    "kind",
    [StoreKind.TIMESTAMPED_WINDOW, StoreKind.TIMESTAMPED_WINDOW_WITH_HEADERS, StoreKind.SESSION],
)
@pytest.mark.parametrize("time_ordered", [False, True])
def test_no_row_of_an_expired_segment_is_looked_at(
    tmp_path: Path, kind: StoreKind, *, time_ordered: bool
) -> None:
    steps = []
    for rows in (10, 1_000):
        spec = spec_of(kind, time_ordered=time_ordered)
        backend = backend_of(spec, tmp_path / f"{rows}")
        assert isinstance(backend, SegmentedRocksBackend)
        store = build_timed_store(Recorder(), spec, backend)
        for number in range(rows):
            store.put((f"expiring-{number:04d}", 10_000, 10_000), 1, 10_000)
        commit(store)
        store.put(("next", 590_000, 590_000), 1, 590_000)
        assert sorted(backend._segments) == [0]
        steps.append(steps_of(lambda store=store: commit(store)))
        assert sorted(backend._segments) == [9]
        store.close()

    assert steps[0] == steps[1]


def test_committed_windows_outlive_the_store(build: Callable[..., TimedStore]) -> None:
    store = build()
    store.append("a", 0, 1, 10)
    store.append("a", 70_000, 2, 20)
    commit(store)
    store.append("a", 70_000, None, 30)
    store.append("b", 70_000, 4, 30)
    commit(store)
    store.append("c", 0, 4, 30)

    again = build()

    assert [row for key in "abc" for row in again.fetch(key, 0, 90_000)] == [
        (0, 0, 1, 10),
        (70_000, 0, 4, 30),
    ]
    assert again.position() == HERE
    assert again.stream_time == 70_000


def test_an_abort_forgets_what_was_not_committed(build: Callable[..., TimedStore]) -> None:
    store = build()
    store.append("a", 0, 1, 10)
    commit(store)
    store.append("a", 0, 2, 20)
    store.append("a", 10**9, 2, 20)
    store.flush_cache()
    store.flush_changelog()

    store.abort()

    assert store.fetch("a", 0, 10**9) == [(0, 0, 1, 10)]
    assert store.stream_time == 0


def test_what_is_written_after_a_seal_is_read_and_belongs_to_the_next_commit(
    build: Callable[..., TimedStore],
) -> None:
    store = build()
    store.append("a", 0, 1, 10)
    assert store.fetch("a", 0, 9) == [(0, 0, 1, 10)]
    store.flush_cache()
    store.flush_changelog()
    store.seal()
    store.append("a", 0, 2, 20)
    store.append("a", 5, 5, 20)

    assert store.fetch("a", 0, 9) == [(0, 0, 2, 20), (5, 0, 5, 20)]
    store.commit(HERE)
    assert store.fetch("a", 0, 9) == [(0, 0, 2, 20), (5, 0, 5, 20)]
    assert build().fetch("a", 0, 9) == [(0, 0, 1, 10)]


def test_duplicates_are_numbered_and_kept(
    build: Callable[..., TimedStore], heard: Recorder
) -> None:
    store = build(StoreKind.WINDOW, retain_duplicates=True)
    for value in (1, 2):
        store.append("a", 5, value, 10)
    commit(store)
    store.append("a", 5, 3, 20)
    store.append("a", 5, None, 20)

    assert [(start, value) for start, _, value, _ in store.fetch("a", 5, 5)] == [
        (5, 1),
        (5, 2),
        (5, 3),
    ]
    assert [key for key, _, _ in heard.sent] == [
        b"a" + LONG.pack(5) + bytes(3) + b"\1",
        b"a" + LONG.pack(5) + bytes(3) + b"\2",
    ]


def test_duplicates_of_a_process_that_started_again_replace_none(
    build: Callable[..., TimedStore],
) -> None:
    store = build(StoreKind.WINDOW, retain_duplicates=True)
    store.append("a", 5, 1, 10)
    commit(store)

    again = build(StoreKind.WINDOW, retain_duplicates=True)
    again.append("a", 5, 2, 10)

    assert [value for _, _, value, _ in again.fetch("a", 5, 5)] == [1, 2]


def test_the_changelog_has_kafkas_bytes(build: Callable[..., TimedStore], heard: Recorder) -> None:
    store = build()
    store.append("a", 258, 1, 7)
    commit(store)

    assert heard.sent == [(b"a" + LONG.pack(258) + bytes(4), LONG.pack(1), 7)]


def test_a_session_is_key_end_and_start(build: Callable[..., TimedStore], heard: Recorder) -> None:
    store = build(StoreKind.SESSION)
    store.put(("a", 300, 100), 1, 7)
    store.put(("a", 50, 40), 2, 7)
    commit(store)

    assert sorted(heard.sent) == [
        (b"a" + LONG.pack(50) + LONG.pack(40), LONG.pack(2), 7),
        (b"a" + LONG.pack(300) + LONG.pack(100), LONG.pack(1), 7),
    ]
    assert store.fetch("a", 0, 1_000) == [(50, 40, 2, -1), (300, 100, 1, -1)]


def test_aggregates_of_windows_take_the_same_update_as_all(
    build: Callable[..., TimedStore], heard: Recorder, mode: str
) -> None:
    store = build()
    update = store.updater(add, Timestamps.MAX, lambda: 0)
    for value, timestamp in ((1, 10), (2, 5)):
        update(("a", 0, 0), value, timestamp, None)
    commit(store)

    assert heard.changes[-1] == (("a", 0, 0), 3, None if MODES[mode] else 1, 10)
    assert store.fetch("a", 0, 0) == [(0, 0, 3, 10)]


def test_keys_of_any_serde_are_found(build: Callable[..., TimedStore]) -> None:
    store = build(key=Serdes.long)
    update = store.updater(add, Timestamps.MAX, lambda: 0)
    update((5, 0, 0), 1, 1, None)
    commit(store)
    update((5, 0, 0), 1, 2, None)
    update((6, 1, 0), 1, 2, None)

    assert store.fetch(5, 0, 9) == [(0, 0, 2, 2)]
    assert [row[:2] for row in store.fetch_all(0, 9)] == [(5, 0), (6, 1)]


@pytest.mark.parametrize("key", [None, 5, ["unhashable"], "lone \ud800"])
def test_a_key_that_does_not_fit_is_refused_by_name(
    build: Callable[..., TimedStore], key: Any
) -> None:
    store = build()
    update = store.updater(add, Timestamps.MAX, lambda: 0)

    for act in (
        lambda: store.get((key, 0, 0)),
        lambda: store.append(key, 0, 1, 1),
        lambda: store.fetch(key, 0, 1),
        lambda: update((key, 0, 0), 1, 1, None),
    ):
        with pytest.raises(SerializationError, match=r"store counts: .*key"):
            act()
    assert list(store.fetch_all(0, 9)) == []


@pytest.mark.parametrize("how", ["memory", "custom", "rocks"])
def test_a_restore_gives_the_store_and_its_stream_time(tmp_path: Path, how: str) -> None:
    spec = spec_of(persistent=how == "rocks", custom=how == "custom")
    directory = (
        StateDirectory(tmp_path, "app").store(TaskId(0, 0), "counts") if spec.persistent else None
    )
    facts = ChangelogFacts(topic_id="id", log_start=0, log_end=3, delete_retention_ms=1 << 40)
    restorer = StoreRestorer(spec, directory, facts, now_ms=0, holder="test")
    rows = [
        (0, 7, b"a" + LONG.pack(0) + bytes(4), LONG.pack(1), None),
        (1, 8, b"a" + LONG.pack(500_000) + bytes(4), LONG.pack(2), None),
        (2, 9, b"a" + LONG.pack(490_000) + bytes(4), LONG.pack(3), None),
    ]

    restorer.apply(rows, 3)  # type: ignore[arg-type]

    store = build_timed_store(Recorder(), spec, restorer.take())
    assert store.fetch("a", 0, 10**6) == [(490_000, 0, 3, 9), (500_000, 0, 2, 8)]
    assert store.stream_time == 500_000
    store.close()


def test_a_key_that_ends_where_another_goes_on_with_a_zero_byte_is_in_its_range(
    build: Callable[..., TimedStore],
) -> None:
    store = build()
    store.put(("a", 1, 0), 5, 1)
    commit(store)

    assert list(store.fetch_all(0, 1, high="a\0")) == [("a", 1, 0, 5, 1)]
