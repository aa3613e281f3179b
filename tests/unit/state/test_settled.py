"""Committed entries are kept for reading up to a bound, and an uncommitted one is never dropped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.stores import Recorder, add, build_store

from headwater.ports import Position, Timestamps
from headwater.state import MemoryBackend

if TYPE_CHECKING:
    from headwater.ports import Backend
    from headwater.state import LayeredStore

KEPT_BYTES = 20_000
HERE = Position("t", 1, 1)


class CountingBackend(MemoryBackend):
    """Memory that counts how often it is read."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = 0
        held = self.get

        def get(key: bytes) -> bytes | None:
            self.reads += 1
            return held(key)

        self.get = get


def small(backend: Backend) -> LayeredStore:
    store = build_store(Recorder(), backend)
    store._below._settled_bytes_max = KEPT_BYTES
    store._below._settled_max = 10
    return store


def commit(store: LayeredStore) -> None:
    store.flush_changelog()
    store.commit(HERE)


def test_a_key_updated_lately_needs_no_read_of_the_backend() -> None:
    backend = CountingBackend()
    store = build_store(Recorder(), backend)
    update = store.updater(add, Timestamps.MAX, lambda: 0)
    for n in range(50):
        update(f"{n}", 1, 1, None)
    commit(store)
    backend.reads = 0

    for n in range(50):
        update(f"{n}", 1, 1, None)
        assert store.get(f"{n}") == (2, 1)

    assert backend.reads == 0


def test_what_is_kept_stays_within_its_bound_whatever_is_read_or_written() -> None:
    store = small(CountingBackend())
    update = store.updater(add, Timestamps.MAX, lambda: 0)

    for round_ in range(1, 4):
        for n in range(1_000):
            update(f"{n:04d}", 1, round_, None)
        commit(store)
        assert len(store._below.entries) <= KEPT_BYTES // 200
        for n in range(1_000):
            assert store.get(f"{n:04d}") == (round_, round_)
            assert len(store._below.entries) <= KEPT_BYTES // 200


def test_uncommitted_entries_survive_any_amount_of_reading() -> None:
    backend = CountingBackend()
    backend.write([(b"%04d" % n, b"\0" * 16) for n in range(1_000)], None)
    store = small(backend)
    for n in range(100):
        store.put(f"{n:04d}", 7, 1)
        assert store.get(f"{999 - n:04d}") == (0, 0)

    for n in range(200, 900):
        store.get(f"{n:04d}")

    assert [store.get(f"{n:04d}") for n in range(100)] == [(7, 1)] * 100
    commit(store)
    assert len(store._below.entries) <= KEPT_BYTES // 200
    assert [value for _, value, _ in store.range("0000", "0099")] == [7] * 100
