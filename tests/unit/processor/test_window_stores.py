"""Stores of windows and sessions as a processor sees them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from headwater import (
    Processor,
    Record,
    Serdes,
    Stores,
    StreamsBuilder,
    TopologyError,
    Window,
    Windowed,
)
from headwater.testing import TopologyTestDriver

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from headwater import StoreSpec

BOTH = pytest.mark.parametrize("persistent", [True, False])


def driver_of(spec: StoreSpec, act: Callable[[Any, Any], None]) -> TopologyTestDriver:
    """Run a processor that calls ``act(store, record)``."""

    class Acting(Processor[Any, Any, Any, Any]):
        def init(self, context: Any) -> None:
            self.store = context.get_state_store("s")

        def process(self, record: Any) -> None:
            act(self.store, record)

    builder = StreamsBuilder()
    builder.add_state_store(spec)
    builder.stream("in", key_serde=Serdes.string, value_serde=Serdes.string).process(Acting, "s")
    config = {"default.key.serde": "string", "default.value.serde": "string"}
    return TopologyTestDriver(builder.build(), config)


def pipe(driver: TopologyTestDriver, *records: tuple[str, str, int]) -> None:
    topic = driver.create_input_topic("in", Serdes.string, Serdes.string)
    for key, value, timestamp in records:
        topic.pipe_input(key, value, timestamp)


@BOTH
def test_a_window_store_is_read_by_key_and_time(*, persistent: bool) -> None:
    make = Stores.persistent_window_store if persistent else Stores.in_memory_window_store
    supplier = make("s", timedelta(minutes=10), timedelta(seconds=10))
    spec = Stores.window_store_builder(supplier)

    def act(store: Any, record: Any) -> None:
        store.put(record.key, record.value, record.timestamp // 10_000 * 10_000)

    with driver_of(spec, act) as driver:
        pipe(driver, ("a", "1", 5), ("b", "2", 12_000), ("a", "3", 29_999), ("a", "4", 20_000))
        store = driver.get_window_store("s")
        assert store is not None
        windows = [Window(start, start + 10_000) for start in (0, 10_000, 20_000)]
        every = [
            (Windowed("a", windows[0]), "1"),
            (Windowed("b", windows[1]), "2"),
            (Windowed("a", windows[2]), "4"),
        ]

        assert store.fetch("a", 0) == "1"
        assert store.fetch("a", 10_000) is None
        assert list(store.fetch("a", 0, 20_000)) == [(0, "1"), (20_000, "4")]
        assert list(store.backward_fetch("a", 0, 20_000)) == [(20_000, "4"), (0, "1")]
        epoch = datetime.fromtimestamp(0, UTC)
        assert list(store.fetch("a", epoch, epoch + timedelta(seconds=9))) == [(0, "1")]
        assert sorted(store.all(), key=lambda row: row[0].window) == every
        assert list(store.backward_all()) == list(store.all())[::-1]
        assert list(store.fetch("a", "a", 1, 30_000)) == [every[2]]
        assert sorted(store.fetch_all(0, 10_000), key=lambda row: row[0].window) == every[:2]
        assert list(store.backward_fetch_all(20_000, 20_000)) == [every[2]]
        assert list(store.backward_fetch(None, "b", 10_000, 10_000)) == [every[1]]
        with pytest.raises(TypeError, match="fetch takes"):
            store.fetch("a")


def test_a_timestamped_window_store_gives_timestamps() -> None:
    supplier = Stores.persistent_timestamped_window_store("s", 600_000, 10)
    spec = Stores.timestamped_window_store_builder(supplier)

    def act(store: Any, record: Any) -> None:
        store.put(record.key, None if record.value == "x" else record.value, record.timestamp, 20)

    with driver_of(spec, act) as driver:
        pipe(driver, ("a", "1", 25))
        store = driver.get_timestamped_window_store("s")
        plain = driver.get_window_store("s")
        assert store is not None
        assert plain is not None
        assert store.fetch("a", 20) == ("1", 25)
        assert plain.fetch("a", 20) == "1"
        assert list(store.fetch("a", 0, 99)) == [(20, ("1", 25))]
        pipe(driver, ("a", "x", 26))
        assert store.fetch("a", 20) is None
        assert [(r.value, r.timestamp) for r in driver.history] == [(b"1", 25), (None, 26)]


@BOTH
def test_a_session_store_finds_what_overlaps(*, persistent: bool) -> None:
    make = Stores.persistent_session_store if persistent else Stores.in_memory_session_store
    spec = Stores.session_store_builder(make("s", timedelta(hours=1)))

    def act(store: Any, record: Any) -> None:
        start, end = map(int, record.value.split("-"))
        session = Windowed(record.key, Window(start, end))
        if start == end:
            store.remove(Windowed(record.key, Window(start, end + 50)))
        else:
            store.put(session, record.value)

    with driver_of(spec, act) as driver:
        pipe(driver, ("a", "10-20", 1), ("a", "30-90", 2), ("b", "15-25", 3), ("a", "95-99", 4))
        store = driver.get_session_store("s")
        assert store is not None

        def values(found: Iterator[Any]) -> list[Any]:
            return [value for _, value in found]

        assert store.fetch_session("a", 30, 90) == "30-90"
        assert store.fetch_session("a", 30, 91) is None
        assert values(store.fetch("a")) == ["10-20", "30-90", "95-99"]
        assert values(store.backward_fetch("a")) == ["95-99", "30-90", "10-20"]
        assert sorted(values(store.fetch("a", "b"))) == ["10-20", "15-25", "30-90", "95-99"]
        assert values(store.find_sessions("a", 20, 30)) == ["10-20", "30-90"]
        assert values(store.backward_find_sessions("a", 21, 95)) == ["95-99", "30-90"]
        assert sorted(values(store.find_sessions(20, 25))) == ["10-20", "15-25"]
        assert values(store.find_sessions("b", None, 0, 99)) == ["15-25"]
        assert next(store.fetch("b"))[0] == Windowed("b", Window(15, 25))
        pipe(driver, ("a", "40-40", 5), ("a", "10-10", 5))
        assert values(store.fetch("a")) == ["10-20", "30-90", "95-99"]


@BOTH
def test_a_put_older_than_the_retention_is_dropped_counted_and_told(*, persistent: bool) -> None:
    make = Stores.persistent_window_store if persistent else Stores.in_memory_window_store
    spec = Stores.window_store_builder(make("s", 100_000, 10))

    def act(store: Any, record: Any) -> None:
        store.put(record.key, record.value, record.timestamp)

    with driver_of(spec, act) as driver:
        pipe(driver, ("a", "1", 900_000), ("a", "2", 5))
        store = driver.get_window_store("s")
        assert store is not None
        assert [value for _, value in store.all()] == ["1"]
        [warning] = driver.warnings
        assert warning == (
            "task 0_0, store s: Skipping record for expired segment. "
            "topic=[in] partition=[0] offset=[1]"
        )


def test_a_store_in_which_nothing_can_be_kept_is_refused() -> None:
    for act, why in (
        (lambda: Stores.persistent_window_store("s", 5, 10), "shorter than the windows"),
        (lambda: Stores.persistent_window_store("s", -5, -10), "negative"),
        (lambda: Stores.in_memory_window_store("s", 5, -10), "window size"),
        (lambda: Stores.persistent_session_store("s", -1), "negative"),
        (
            lambda: Stores.window_store_builder(
                Stores.persistent_timestamped_window_store("s", 10, 10)
            ),
            "persistent_window_store",
        ),
    ):
        with pytest.raises(TopologyError, match=why):
            act()


def test_duplicates_are_never_cached() -> None:
    supplier = Stores.persistent_window_store("s", 10, 10, retain_duplicates=True)
    spec = Stores.window_store_builder(supplier).with_caching_enabled()
    with driver_of(spec, lambda store, record: store.put(record.key, record.value, 5)) as driver:
        pipe(driver, ("a", "1", 5), ("a", "2", 5))
        store = driver.get_window_store("s")
        assert store is not None
        assert list(store.fetch("a", 0, 9)) == [(5, "1"), (5, "2")]


@pytest.mark.parametrize("caching", [True, False])
@pytest.mark.parametrize("persistent", [True, False])
def test_a_deletion_of_nothing_moves_the_time_of_a_store(
    *, caching: bool, persistent: bool
) -> None:
    make = Stores.persistent_window_store if persistent else Stores.in_memory_window_store
    spec = Stores.window_store_builder(make("kept", 100_000, 10), Serdes.string, Serdes.string)
    spec = spec.with_caching_enabled() if caching else spec
    found: list[str | None] = []

    class Asking(Processor[str, str, str, str]):
        def process(self, record: Record[str, str]) -> None:
            store = self.context.get_state_store("kept")
            if record.value == "put":
                store.put("a", "x", 0)
                store.put("b", None, 500_000)
            found.append(store.fetch("a", 0))

    builder = StreamsBuilder()
    builder.stream("in", key_serde=Serdes.string, value_serde=Serdes.string).process(Asking, spec)
    with TopologyTestDriver(builder.build()) as driver:
        topic = driver.create_input_topic("in", Serdes.string, Serdes.string)
        topic.pipe_input("k", "put")
        topic.pipe_input("k", "ask")

    # With a record cache the time moves when the cache is flushed.
    assert found == ["x" if caching else None, None]
