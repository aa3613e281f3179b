"""What a store promises that keeps the entries used last, with and without its switches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.stores import Recorder, add, build_store

from headwater import KeyValueBytesStoreSupplier, Stores, TopologyError
from headwater.ports import Position, Timestamps
from headwater.state.backends.lru import LruBackend

if TYPE_CHECKING:
    from headwater.state import LayeredStore

HERE = Position("topic-id", 17, 1_700_000_000_000)


@pytest.fixture
def heard() -> Recorder:
    return Recorder()


@pytest.fixture
def backend() -> LruBackend:
    return LruBackend(2)


def build(heard: Recorder, backend: LruBackend, **more: Any) -> LayeredStore:
    return build_store(heard, backend, entries_max=2, **more)


def commit(store: LayeredStore) -> None:
    store.flush_cache()
    store.flush_changelog()
    store.commit(HERE)


def keys(store: LayeredStore) -> list[str]:
    return [key for key, *_ in store.range(None, None)]


@pytest.mark.parametrize("timestamped", [True, False])
@pytest.mark.parametrize("logging", [True, False])
def test_what_was_used_longest_ago_goes(
    heard: Recorder, backend: LruBackend, *, timestamped: bool, logging: bool
) -> None:
    store = build(heard, backend, timestamped=timestamped, logging=logging)
    store.put("a", 1, 10)
    store.put("b", 2, 20)
    store.get("a")
    list(store.range(None, None))
    store.put("c", 3, 30)

    assert keys(store) == ["a", "c"]
    assert store.get("b") is None
    assert store.approximate_num_entries() == 2
    commit(store)
    # As in Kafka Streams an eviction is logged for a store without timestamps alone.
    told = [(key, value is None, at) for key, value, at in heard.sent]
    evicted = [] if timestamped else [(b"b", True, 30)]
    kept = [(b"a", False, 10), *([(b"b", False, 20)] if timestamped else [])]
    assert told == ([*kept, *evicted, (b"c", False, 30)] if logging else [])


def test_what_is_deleted_makes_room(heard: Recorder, backend: LruBackend) -> None:
    store = build(heard, backend)
    for key in ("a", "b"):
        store.put(key, 1, 10)
    store.put("b", None, 10)
    store.put("c", 1, 10)

    assert keys(store) == ["a", "c"]


def test_a_record_cache_tells_what_is_evicted_below(heard: Recorder, backend: LruBackend) -> None:
    store = build(heard, backend, cache=100_000, send_old=True)
    update = store.updater(add, Timestamps.MAX, lambda: 0)
    for key in ("a", "b", "c"):
        update(key, 1, 10, None)
    commit(store)
    update("a", 1, 20, None)
    commit(store)

    assert keys(store) == ["a", "b", "c"]
    # Its old value was not found any more.
    assert heard.changes[-1] == ("a", 2, None, 20)
    again = build(heard, backend)
    assert keys(again) == ["a", "c"]


def test_an_abort_brings_back_what_was_evicted(heard: Recorder, backend: LruBackend) -> None:
    store = build(heard, backend)
    store.put("a", 1, 10)
    store.put("b", 1, 10)
    commit(store)
    store.put("c", 1, 20)
    store.flush_changelog()
    store.seal()
    store.put("d", 1, 20)

    store.abort()

    assert keys(store) == ["a", "b"]
    assert store.uncommitted_bytes() == 0


def test_an_abort_that_no_transaction_backs_sends_what_the_store_holds(
    heard: Recorder, backend: LruBackend
) -> None:
    store = build(heard, backend, timestamped=False)
    store.put("a", 1, 10)
    store.put("b", 1, 10)
    commit(store)
    store.put("c", 1, 20)
    store.flush_changelog()
    heard.sent.clear()

    store.abort(resend=True)
    store.flush_changelog()

    one = b"\0" * 7 + b"\1"
    assert [(key, value) for key, value, _ in heard.sent] == [(b"a", one), (b"c", None)]


def test_a_restore_keeps_what_was_put_last(backend: LruBackend) -> None:
    backend.write([(b"a", b"1"), (b"b", b"1"), (b"a", b"2")], None)
    backend.write([(b"c", b"1"), (b"d", b"1"), (b"d", None)], HERE)

    assert list(backend.range(None, None)) == [(b"a", b"2"), (b"c", b"1")]
    assert backend.position() == HERE


def test_a_bound_that_means_nothing_is_refused() -> None:
    with pytest.raises(TopologyError, match="0 or more"):
        Stores.lru_map("few", -1)
    with pytest.raises(TopologyError, match="needs a store in memory"):
        KeyValueBytesStoreSupplier(name="few", persistent=True, timestamped=None, entries_max=5)
