"""What has closed is found by time: it costs what has closed, whatever else a store holds."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING

import pytest
from tests.support.counted_calls import steps_of
from tests.support.stores import Recorder
from tests.support.timed_stores import backend_of, build_timed_store, spec_of

from headwater.model.stores import StoreKind
from headwater.ports import Position
from headwater.state.backends.segments import SegmentedRocksBackend

if TYPE_CHECKING:
    from pathlib import Path

    from headwater.state import TimedStore

HERE = Position("topic-id", 17, 1_700_000_000_000)
HOW: dict[str, dict[str, bool]] = {
    "rocks": {},
    "memory": {"persistent": False},
    "custom": {"custom": True},
}


def commit(store: TimedStore) -> None:
    store.flush_cache()
    store.flush_changelog()
    store.commit(HERE)


@pytest.mark.parametrize("cache", [0, 300, 100_000])
@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("kind", [StoreKind.TIMESTAMPED_WINDOW, StoreKind.SESSION])
def test_what_has_closed_comes_by_time_and_key_from_all_layers(
    tmp_path: Path, kind: StoreKind, how: str, *, cache: int
) -> None:
    spec = spec_of(kind, **HOW[how], time_ordered=True)
    store = build_timed_store(Recorder(), spec, backend_of(spec, tmp_path / "db"), cache=cache)
    for number, key in enumerate(("b", "a", "ab", "a\0")):
        store.put((key, 20_000, 0), number, 1)
        store.put((key, 10_000, 0), number, 1)
        store.put((key, 70_000, 0), number, 1)
    commit(store)
    store.put(("a", 20_000, 0), None, 2)
    store.put(("c", 20_000, 0), 7, 2)
    store.flush_cache()
    store.put(("b", 65_000, 0), 8, 3)
    store.put(("ab", 20_000, 0), 9, 3)

    for first, last in ((0, 100_000), (10_001, 69_999), (20_000, 20_000), (70_001, 80_000)):
        expected = sorted(store.fetch_all(first, last), key=itemgetter(1, 2, 0))
        assert store.fetch_closed(first, last) == expected
    assert [row[:2] for row in store.fetch_closed(20_000, 69_999)] == [
        ("a\0", 20_000),
        ("ab", 20_000),
        ("b", 20_000),
        ("c", 20_000),
        ("b", 65_000),
    ]
    store.close()


@pytest.mark.parametrize("persistent", [True, False])
@pytest.mark.parametrize("committed", [True, False])
def test_windows_that_are_open_cost_those_that_have_closed_nothing(
    tmp_path: Path, *, persistent: bool, committed: bool
) -> None:
    steps = []
    for open_windows in (10, 1_000):
        spec = spec_of(persistent=persistent, time_ordered=True)
        backend = backend_of(spec, tmp_path / f"{open_windows}")
        store = build_timed_store(Recorder(), spec, backend)
        for number in range(3):
            store.append(f"closed-{number}", 10_000, 1, 1)
        for number in range(open_windows):
            store.append(f"open-{number:04d}", 20_000, 1, 1)
        if committed:
            commit(store)
        store.fetch_closed(0, 9_999)
        steps.append(steps_of(lambda store=store: store.fetch_closed(10_000, 19_999)))
        assert len(store.fetch_closed(10_000, 19_999)) == 3
        store.close()

    assert steps[0] == steps[1]


def test_rows_by_time_expire_with_their_segment(tmp_path: Path) -> None:
    spec = spec_of(time_ordered=True)
    backend = backend_of(spec, tmp_path / "db")
    assert isinstance(backend, SegmentedRocksBackend)
    store = build_timed_store(Recorder(), spec, backend)
    for start in range(0, 600_000, 10_000):
        store.append("a", start, 1, 1)
        commit(store)
    assert sorted(backend._times) == sorted(backend._segments) == [7, 8, 9]
    backend.close()

    again = backend_of(spec, tmp_path / "db")

    assert isinstance(again, SegmentedRocksBackend)
    assert sorted(again._times) == sorted(again._segments) == [7, 8, 9]
    assert [key[0:1] for key, _ in again.fetch_by_time(580_000, 590_000)] == [b"a", b"a"]
    again.close()


def test_a_segment_without_rows_by_time_is_looked_through(tmp_path: Path) -> None:
    before, after = spec_of(), spec_of(time_ordered=True)
    store = build_timed_store(Recorder(), before, backend_of(before, tmp_path / "db"))
    store.append("a", 10_000, 1, 1)
    store.append("b", 30_000, 2, 1)
    commit(store)
    store.close()
    store = build_timed_store(Recorder(), after, backend_of(after, tmp_path / "db"))
    store.append("c", 20_000, 3, 1)
    store.append("d", 70_000, 4, 1)
    commit(store)

    assert [row[0] for row in store.fetch_closed(10_000, 29_999)] == ["a", "c"]
    assert [row[0] for row in store.fetch_closed(30_000, 80_000)] == ["b", "d"]
    store.close()


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("kind", [StoreKind.TIMESTAMPED_WINDOW, StoreKind.SESSION])
def test_of_equal_times_a_key_comes_before_those_that_begin_with_it(
    tmp_path: Path, kind: StoreKind, how: str
) -> None:
    """Kafka's ``TimeFirstWindowKeySchema``: bytes of the time are no part of the comparison."""
    spec = spec_of(kind, **HOW[how], time_ordered=True)
    store = build_timed_store(Recorder(), spec, backend_of(spec, tmp_path / "db"))
    for key in ("\0", "a\0", "", "a"):
        store.put((key, 539, 0), 1, 539)
    commit(store)

    assert [row[0] for row in store.fetch_closed(0, 600)] == ["", "\0", "a", "a\0"]
    store.close()
