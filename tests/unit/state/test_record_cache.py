"""The record cache keeps to its budget, and flushes in the order of the last writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.in_c import updates_in_both  # noqa: F401 - of every test here
from tests.support.stores import Recorder, add, budget_of, build_store

from headwater.errors import SerializationError
from headwater.ids import TopicPartition
from headwater.ports import Position, Timestamps, UnderWay
from headwater.serde import Serdes
from headwater.state.layers.cache import CONTEXT_BYTES

if TYPE_CHECKING:
    from headwater.ports import Headers
    from headwater.state import CacheBudget

KEY_BYTES = 4
# A row of a timestamped store is its timestamp and its value, 8 bytes each.
ENTRY = CONTEXT_BYTES + KEY_BYTES + 16


def keys(count: int, start: int = 0) -> list[str]:
    return [f"{n:0{KEY_BYTES}d}" for n in range(start, start + count)]


def counter(heard: Recorder, budget: CacheBudget, name: str = "counts") -> Any:
    store = build_store(heard, cache=budget, send_old=False, name=name)
    return store, store.updater(add, Timestamps.MAX, lambda: 0)


def test_changes_are_flushed_in_the_order_of_the_last_write_of_each_key() -> None:
    heard = Recorder()
    store, update = counter(heard, budget_of(100_000))

    for key in ("b", "a", "c", "b"):
        update(key, 1, 1, None)
    store.get("a")
    assert store.flush_cache() == 3

    assert [change[0] for change in heard.changes] == ["a", "c", "b"]


def test_only_what_changed_since_the_last_flush_is_flushed_again() -> None:
    heard = Recorder()
    store, update = counter(heard, budget_of(100_000))
    for key in keys(5):
        update(key, 1, 1, None)
    store.flush_cache()
    heard.changes.clear()

    update("0003", 1, 2, None)
    store.get("0001")
    update("0000", 1, 2, None)

    assert store.flush_cache() == 2
    assert [change[0] for change in heard.changes] == ["0003", "0000"]
    assert store.flush_cache() == 0


def test_a_put_over_the_limit_flushes_every_dirty_entry_of_its_store() -> None:
    heard = Recorder()
    budget = budget_of(10 * ENTRY)
    store, update = counter(heard, budget)

    for key in keys(10):
        update(key, 1, 1, None)
    assert heard.changes == []
    update("more", 1, 2, None)

    assert [change[0] for change in heard.changes] == [*keys(10), "more"]
    assert budget.used <= budget.limit
    assert store.get("0000") == (1, 1)


def test_clean_entries_leave_in_silence() -> None:
    heard = Recorder()
    budget = budget_of(10 * ENTRY)
    store, update = counter(heard, budget)
    for key in keys(10):
        update(key, 1, 1, None)
    store.flush_cache()
    heard.changes.clear()

    for key in keys(5, start=100):
        update(key, 1, 1, None)

    assert heard.changes == []
    assert budget.used <= budget.limit
    assert [store.get(key) for key in keys(10)] == [(1, 1)] * 10


def test_the_budget_is_shared_by_all_stores_of_a_thread_and_the_writer_pays() -> None:
    heard = Recorder()
    budget = budget_of(10 * ENTRY)
    first, update_first = counter(heard, budget)
    second, update_second = counter(heard, budget, "second")
    for key in keys(10):
        update_first(key, 1, 1, None)

    update_second("late", 1, 1, None)

    assert [change[0] for change in heard.changes] == ["late"]
    assert budget.used == 10 * ENTRY
    first.close()
    assert budget.used == 0
    update_second("more", 1, 1, None)
    assert len(heard.changes) == 1
    second.close()


def test_shrinking_the_budget_flushes_and_empties() -> None:
    heard = Recorder()
    budget = budget_of(100 * ENTRY)
    store, update = counter(heard, budget)
    for key in keys(50):
        update(key, 1, 1, None)

    budget.resize(10 * ENTRY)

    assert len(heard.changes) == 50
    assert budget.used <= 10 * ENTRY
    assert [store.get(key) for key in keys(50)] == [(1, 1)] * 50


def test_values_that_grow_take_their_room() -> None:
    heard = Recorder()
    budget = budget_of(10_000)
    store = build_store(heard, cache=budget, value=Serdes.string, send_old=False)
    update = store.updater(lambda _k, v, old: old + v, Timestamps.MAX, str)
    update("a", "x", 1, None)
    before = budget.used

    update("a", "y" * 100, 1, None)
    assert budget.used - before == 100
    update("a", "z" * 20_000, 1, None)

    assert len(heard.changes) == 1
    assert budget.used == 0


@pytest.mark.parametrize("limit_entries", [1, 3, 10, 1000])
def test_reading_much_never_breaks_the_budget_nor_loses_a_write(limit_entries: int) -> None:
    heard = Recorder()
    budget = budget_of(limit_entries * ENTRY)
    store, update = counter(heard, budget)

    for n in range(500):
        update(f"{n % 50:04d}", 1, n, None)
        store.get(f"{(n * 7) % 60:04d}")
        assert budget.used <= budget.limit

    assert [store.get(key)[0] for key in keys(50)] == [10] * 50
    store.flush_cache()
    assert {key: new for key, new, _, _ in heard.changes} == dict.fromkeys(keys(50), 10)
    store.flush_changelog()
    store.commit(Position("t", 1, 1))
    assert [value for _, value, _ in store.range(None, None)] == [10] * 50


def test_a_flush_may_write_to_the_store_it_flushes() -> None:
    heard = Recorder()
    store = build_store(heard, cache=100_000)

    def echo(key: str, change: Any, timestamp: int, headers: Any) -> None:
        heard.forward(key, change, timestamp, headers)
        if change[0] < 3:
            store.put(key, change[0] + 1, timestamp + 1)

    store.on_change(echo, send_old=True)
    store.put("a", 1, 1)
    flushed = [store.flush_cache() for _ in range(4)]

    assert flushed == [1, 1, 1, 0]
    assert heard.changes == [("a", 1, None, 1), ("a", 2, 1, 2), ("a", 3, 2, 3)]


def reading_while_flushed(heard: Recorder) -> Any:
    """A store with room for two entries; whoever hears of a change looks up two others."""
    store = build_store(heard, cache=budget_of(2 * ENTRY))

    def look_up(key: str, change: Any, timestamp: int, headers: Any) -> None:
        heard.forward(key, change, timestamp, headers)
        for other in keys(2, start=8):
            store.get(other)

    store.on_change(look_up, send_old=True)
    return store


def committed(store: Any) -> None:
    """Commit as a task does."""
    store.flush_cache()
    store.flush_changelog()
    store.commit(None)


def test_what_is_read_during_a_flush_pushes_out_nothing_that_is_still_to_be_flushed() -> None:
    heard = Recorder()
    store = reading_while_flushed(heard)
    for key in keys(10):
        store.put(key, 1, 1)
    committed(store)
    heard.changes.clear()

    store.put("0000", 2, 2)
    store.put("0001", 2, 2)
    store.flush_cache()

    assert heard.changes == [("0000", 2, 1, 2), ("0001", 2, 1, 2)]
    assert [store.get(key) for key in keys(2)] == [(2, 2), (2, 2)]


def test_what_is_read_during_a_flush_may_push_out_what_is_deleted() -> None:
    heard = Recorder()
    store = reading_while_flushed(heard)
    for key in keys(10):
        store.put(key, 1, 1)
    committed(store)
    heard.changes.clear()

    for key in keys(3):
        store.put(key, None, 2)
    committed(store)

    assert heard.changes == [(key, None, 1, 2) for key in keys(3)]
    assert [store.get(key) for key in keys(4)] == [None, None, None, (1, 1)]


def test_room_is_made_at_the_end_of_a_flush() -> None:
    heard = Recorder()
    budget = budget_of(2 * ENTRY)
    store = build_store(heard, cache=budget)

    def echo(key: str, change: Any, timestamp: int, headers: Any) -> None:
        heard.forward(key, change, timestamp, headers)
        if timestamp == 1:
            for other in keys(5, start=100):
                store.put(other, 1, 2)

    store.on_change(echo, send_old=True)
    store.put("0000", 1, 1)
    store.flush_cache()

    assert [change[0] for change in heard.changes] == ["0000", *keys(5, start=100)]
    assert budget.used <= budget.limit


def test_a_deleted_key_takes_no_room_when_it_is_looked_up() -> None:
    heard = Recorder()
    store = build_store(heard, cache=budget_of(2 * ENTRY), send_old=False)
    store.put("0000", 1, 1)
    committed(store)
    store.put("0000", None, 2)
    store.flush_cache()
    heard.changes.clear()

    for key in keys(2, start=100):
        store.put(key, 1, 3)
    assert store.get("0000") is None

    assert heard.changes == []
    store.put("0000", 4, 4)
    committed(store)
    assert store.get("0000") == (4, 4)


def test_the_listener_is_named_before_the_update_function_is_made() -> None:
    store = build_store(Recorder())
    store.updater(add, Timestamps.MAX)

    with pytest.raises(AssertionError, match="on_change after updater"):
        store.on_change(Recorder().forward, send_old=False)


@pytest.mark.parametrize(
    ("topic", "headers", "size"),
    [
        ("in", None, 64),
        ("in", [("h", b"0" * 15)], 80),
        ("in", [("headers-have-16-", None)], 80),
        ("a-topic-whose-name-has-forty-two-letters-..", None, 105),
        ("a-topic-whose-name-has-forty-two-letters-.", None, 104),
    ],
)
def test_an_entry_takes_what_kafka_streams_counts_for_it(
    topic: str, headers: Headers, size: int
) -> None:
    under_way, budget = UnderWay(), budget_of(100_000)
    store = build_store(Recorder(), cache=budget, send_old=False)
    store.follow(under_way)
    update = store.updater(add, Timestamps.MAX, lambda: 0)
    under_way.source = TopicPartition(topic, 0)

    update("k", 1, 1, headers)
    assert budget.used == size
    update("k", 1, 1, headers)
    assert budget.used == size
    under_way.source = TopicPartition("", 0)
    update("k", 1, 1, None)
    assert budget.used == 62


def test_an_entry_counts_the_bytes_of_its_text_not_the_letters() -> None:
    budget = budget_of(100_000)
    store = build_store(Recorder(), cache=budget, value=Serdes.string, send_old=False)
    store.updater(None, Timestamps.RECORD)("\u00fc", "\u20ac", 1, None)

    assert budget.used == CONTEXT_BYTES + 2 + 8 + 3


def test_an_evicted_entry_that_is_read_again_has_no_headers_and_no_topic() -> None:
    under_way, budget = UnderWay(), budget_of(CONTEXT_BYTES + 4 + 16 + 40)
    store = build_store(Recorder(), cache=budget, send_old=False)
    store.follow(under_way)
    update = store.updater(add, Timestamps.MAX, lambda: 0)
    under_way.source = TopicPartition("topic", 0)
    update("0000", 1, 1, [("h", b"0" * 10)])
    update("0001", 1, 1, None)

    assert store.get("0000") == (1, 1)
    assert budget.used == ENTRY


def test_what_is_read_for_an_update_counts_with_its_new_headers_and_topic() -> None:
    store, update, under_way, budget = over_committed(100_000)
    under_way.source = TopicPartition("topic", 0)

    update("0000", 1, 2, [("h", b"0" * 10)])

    assert budget.used == ENTRY + 5 + 11
    assert store.get("0000") == (2, 2)


@pytest.mark.parametrize(("value", "error"), [("x", TypeError), (2**63, SerializationError)])
def test_an_update_that_fails_leaves_what_it_has_read(value: Any, error: type[Exception]) -> None:
    store, update, _, budget = over_committed(100_000)

    with pytest.raises(error):
        update("0000", value, 2, None)

    assert budget.used == ENTRY
    assert store.is_cached("0000")
    assert store.get("0000") == (1, 1)
    assert store.flush_cache() == 0


def test_room_is_made_for_an_old_value_before_it_is_updated() -> None:
    store, update, _, budget = over_committed(2 * ENTRY)
    told: list[str] = []
    store._cache.on_change(lambda key, *_: told.append(key), send_old=False)
    for key in keys(2, start=5):
        update(key, 1, 2, None)

    update("0000", 1, 2, None)

    assert told == keys(2, start=5)
    assert budget.used == 2 * ENTRY
    store.flush_cache()
    assert told[2:] == ["0000"]


def over_committed(limit: int) -> tuple[Any, Any, UnderWay, CacheBudget]:
    """A store whose cache is empty: a key is committed with 1 at 1."""
    first = build_store(Recorder(), cache=0)
    first.put("0000", 1, 1)
    committed(first)
    under_way, budget = UnderWay(), budget_of(limit)
    store = build_store(Recorder(), first.committed, cache=budget, send_old=False)
    store.follow(under_way)
    return store, store.updater(add, Timestamps.MAX, lambda: 0), under_way, budget
