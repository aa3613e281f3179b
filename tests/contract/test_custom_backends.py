"""What reaches a store of the user's own, and when."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Any

import pytest
from tests.support.custom_stores import (
    MADE,
    DictVersionedStore,
    DictWindowStore,
    in_own_store,
)
from tests.support.stores import Recorder
from tests.support.timed_stores import build_timed_store, spec_of

from headwater.model.stores import StoreKind
from headwater.native.process import failed
from headwater.ports import Position
from headwater.state import memory_backend
from headwater.state.backends.custom_timed import CustomTimedBackend
from headwater.state.backends.custom_versions import CustomVersionBackend
from headwater.state.keys import SESSION_SUFFIX, WINDOW_SUFFIX
from headwater.state.versions import row_key, row_value

HERE = Position("topic-id", 17, 1_700_000_000_000)
KINDS = [StoreKind.KEY_VALUE, StoreKind.WINDOW, StoreKind.SESSION, StoreKind.VERSIONED]
MINUTE = 60_000
NUMBER = struct.Struct(">i")


def window(key: bytes, start: int, number: int = 0) -> bytes:
    return key + WINDOW_SUFFIX.pack(start, number)


def duplicates() -> tuple[CustomTimedBackend, DictWindowStore]:
    store = DictWindowStore(retain_duplicates=True)
    spec = spec_of(StoreKind.WINDOW, persistent=False, retain_duplicates=True)
    return CustomTimedBackend(spec, store), store


def test_the_number_of_a_duplicate_lies_in_front_of_its_value() -> None:
    backend, store = duplicates()

    backend.write([(window(b"a", 5, 1), b"x"), (window(b"a", 5, 2), b"y")], HERE)

    assert store.held == {(5, b"a"): [NUMBER.pack(1) + b"x", NUMBER.pack(2) + b"y"]}
    assert backend.get(window(b"a", 5, 2)) == b"y"
    assert backend.get(window(b"a", 5, 3)) is None
    assert backend.get(window(b"a", 6, 1)) is None
    assert backend.position() == HERE


def test_a_changelog_may_replace_and_delete_single_duplicates() -> None:
    """So does that of a process whose numbers begin anew, or that took writes back."""
    backend, store = duplicates()
    rows: list[tuple[bytes, bytes | None]] = [
        (window(b"a", 5, number), b"%d" % number) for number in (1, 2, 3)
    ]
    backend.write(rows, HERE)

    changes: list[tuple[bytes, bytes | None]] = [
        (window(b"a", 5, 2), None),
        (window(b"a", 5, 1), b"again"),
        (window(b"a", 5, 7), None),
        (window(b"b", 5, 1), b"other"),
        (window(b"a", 5, 2), b"late"),
    ]
    backend.write(changes, HERE)

    assert backend.fetch(b"a", 0, 9) == [
        (window(b"a", 5, 1), b"again"),
        (window(b"a", 5, 2), b"late"),
        (window(b"a", 5, 3), b"3"),
    ]
    assert backend.fetch(b"b", 0, 9) == [(window(b"b", 5, 1), b"other")]
    assert store.approximate_num_entries() == 2


@pytest.mark.parametrize("settings", [{}, {"retain_duplicates": True}, {"kind": StoreKind.SESSION}])
def test_what_is_older_than_the_retention_is_deleted_from_time_to_time(
    settings: dict[str, Any],
) -> None:
    MADE.clear()
    spec = in_own_store(spec_of(**settings))
    backend = memory_backend(spec)
    (store,) = MADE
    suffix = SESSION_SUFFIX if spec.kind is StoreKind.SESSION else WINDOW_SUFFIX
    times = range(0, 20 * MINUTE, MINUTE // 2)
    most = 0
    for time in times:
        backend.write([(key + suffix.pack(time, 0), b"x") for key in (b"a", b"b")], HERE)
        most = max(most, store.approximate_num_entries())

    retention, segment = spec.retention_ms, spec.segment_interval_ms
    assert most <= 2 * (retention + segment) // (MINUTE // 2) + 2
    kept = [row for row, _ in backend.range(None, None)]
    assert b"a" + suffix.pack(times[-1], 0) in kept
    assert b"a" + suffix.pack(times[-1] - retention + MINUTE // 2, 0) in kept


def test_what_is_too_old_never_reaches_the_store() -> None:
    MADE.clear()
    store = build_timed_store(Recorder(), spec := in_own_store(spec_of()), memory_backend(spec))
    (made,) = MADE
    store.append("a", 10 * MINUTE, 1, 1)
    store.append("a", MINUTE, 1, 1)
    store.flush_changelog()
    store.commit(HERE)

    assert list(made.held) == [(10 * MINUTE, b"a")]
    assert made.flushes == 1


def test_a_store_is_closed_once() -> None:
    store = DictWindowStore(retain_duplicates=False)
    timed = CustomTimedBackend(replace(spec_of(), persistent=False), store)
    kept = DictVersionedStore()
    versions = CustomVersionBackend("v", kept)
    for backend in (timed, versions, timed, versions):
        backend.close()

    assert (store.closed, kept.closed) == (1, 1)
    assert timed.position() is versions.position() is None


def test_versions_are_asked_for_the_newest_first_and_one_by_one() -> None:
    asked: list[int] = []

    class Lazy(DictVersionedStore):
        def fetch(self, key: bytes, time_from: int, time_to: int) -> Any:
            for time, value in super().fetch(key, time_from, time_to):
                asked.append(time)
                yield time, value

    backend = CustomVersionBackend("v", Lazy())
    backend.write([(row_key(b"a", time), row_value(b"x")) for time in range(9)], HERE)

    newest = next(backend.range(row_key(b"a", 0), row_key(b"a", 5), reverse=True))
    assert newest == (row_key(b"a", 5), row_value(b"x"))
    assert asked == [5]
    assert backend.get(row_key(b"a", 3)) == row_value(b"x")
    assert backend.get(row_key(b"b", 3)) is None
    backend.write([(row_key(b"a", 3), None), (row_key(b"a", 4), row_value(None))], None)
    rows = [row for row, _ in backend.range(row_key(b"a", 2), row_key(b"b", 0))]
    assert rows == [row_key(b"a", time) for time in (2, 4, 5, 6, 7, 8)]
    assert backend.position() == HERE


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_store_raises_at_a_commit_names_the_store(kind: StoreKind) -> None:
    MADE.clear()
    spec = in_own_store(spec_of(kind))
    backend = memory_backend(spec)
    (store,) = MADE

    def full() -> None:
        raise OSError("no room")

    store.flush = full
    with pytest.raises(OSError, match="no room") as raised:
        backend.write([], HERE)
    (note,) = raised.value.__notes__
    assert note == "raised by the user's own store counts, at a commit or a restore"
    assert failed(raised.value).message == f"no room ({note})"
    assert backend.position() is None
