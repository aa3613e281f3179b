"""What every key-value store promises: each backend, with and without record cache and headers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.stores import LRU_ENTRIES, DictStore, Recorder, add, build_store, gather

from headwater.errors import DeserializationError, SerializationError
from headwater.ports import Position, Timestamps
from headwater.serde import Serdes
from headwater.state import MemoryBackend, RocksBackend
from headwater.state.backends.custom import CustomBackend
from headwater.state.backends.lru import LruBackend

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from headwater.ports import Backend
    from headwater.state import LayeredStore

HERE = Position("topic-id", 17, 1_700_000_000_000)
PLAIN: dict[str, dict[str, Any]] = {
    "cache": {"cache": 100_000},
    "cache of 0": {"cache": 0},
    "no caching": {"caching": False},
}
WITH_HEADERS = {f"{name}, headers": {**how, "headers": True} for name, how in PLAIN.items()}
MODES = PLAIN | WITH_HEADERS


@pytest.fixture(params=["memory", "lru", "custom", "rocks"])
def reopen(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], Backend]]:
    """Open the backend anew; memory, whose life ends with its process, is the same again."""
    made: dict[str, Backend] = {
        "lru": LruBackend(LRU_ENTRIES),
        "custom": CustomBackend("counts", DictStore()),
    }
    memory = made.get(request.param) or MemoryBackend()
    opened: list[Backend] = [memory]

    def again() -> Backend:
        if request.param != "rocks":
            return memory
        opened[-1].close()
        opened.append(RocksBackend(tmp_path / "db"))
        return opened[-1]

    yield again
    opened[-1].close()


@pytest.fixture(params=MODES)
def mode(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def heard() -> Recorder:
    return Recorder()


@pytest.fixture
def store(reopen: Callable[[], Backend], mode: str, heard: Recorder) -> LayeredStore:
    return build_store(heard, reopen(), **MODES[mode], send_old=True)


def commit(store: LayeredStore, position: Position | None = HERE) -> None:
    store.flush_cache()
    store.flush_changelog()
    store.commit(position)


def everything(store: LayeredStore) -> list[Any]:
    return list(store.range(None, None))


def test_what_was_put_is_read_before_and_after_each_step(store: LayeredStore) -> None:
    store.put("a", 1, 10)
    seen = [store.get("a")]
    store.flush_cache()
    seen.append(store.get("a"))
    store.flush_changelog()
    seen.append(store.get("a"))
    store.commit(HERE)
    seen.append(store.get("a"))

    assert seen == [(1, 10)] * 4
    assert store.get("b") is None


def test_committed_entries_outlive_the_store(
    reopen: Callable[[], Backend], mode: str, heard: Recorder
) -> None:
    store = build_store(heard, reopen(), **MODES[mode])
    store.put("a", 1, 10)
    store.put("b", 2, 20)
    commit(store)
    store.put("a", None, 30)
    commit(store)

    again = build_store(heard, reopen(), **MODES[mode])

    assert everything(again) == [("b", 2, 20)]
    assert again.get("a") is None
    assert again.position() == HERE


def test_uncommitted_entries_do_not_outlive_the_store(
    reopen: Callable[[], Backend], mode: str, heard: Recorder
) -> None:
    store = build_store(heard, reopen(), **MODES[mode])
    store.put("a", 1, 10)
    commit(store)
    store.put("a", 2, 20)
    store.put("b", 2, 20)
    store.flush_cache()
    store.flush_changelog()

    again = build_store(heard, reopen(), **MODES[mode])

    assert everything(again) == [("a", 1, 10)]


def test_an_abort_forgets_what_was_not_committed_and_nothing_else(store: LayeredStore) -> None:
    store.put("a", 1, 10)
    store.put("gone", 1, 10)
    commit(store)
    store.put("a", 2, 20)
    store.put("b", 2, 20)
    store.put("gone", None, 20)
    store.flush_cache()
    store.put("c", 3, 30)
    store.flush_changelog()

    store.abort()

    assert everything(store) == [("a", 1, 10), ("gone", 1, 10)]
    assert store.uncommitted_bytes() == 0
    store.put("a", 5, 50)
    commit(store)
    assert everything(store) == [("a", 5, 50), ("gone", 1, 10)]


def test_an_abort_that_no_transaction_backs_sends_the_changelog_what_the_store_holds(
    store: LayeredStore, heard: Recorder
) -> None:
    store.put("a", 1, 10)
    commit(store)
    store.put("a", 2, 20)
    store.put("new", 2, 20)
    store.flush_cache()
    store.flush_changelog()
    store.put("never sent", 3, 30)

    store.abort(resend=True)
    heard.sent.clear()
    assert everything(store) == [("a", 1, 10)]
    store.put("new", 5, 50)
    commit(store)

    long = (1).to_bytes(8), (5).to_bytes(8)
    assert sorted(heard.sent) == [(b"a", long[0], 10), (b"new", long[1], 50)]
    assert everything(store) == [("a", 1, 10), ("new", 5, 50)]


def test_a_range_merges_all_layers_in_the_order_of_bytes(store: LayeredStore) -> None:
    for key in ("b", "d", "é", "z"):
        store.put(key, 1, 10)
    commit(store)
    store.put("a", 2, 20)
    store.put("d", None, 20)
    store.flush_cache()
    store.flush_changelog()
    store.put("c", 3, 30)
    store.put("b", 3, 30)
    store.put("z", None, 30)

    expected = [("a", 2, 20), ("b", 3, 30), ("c", 3, 30), ("é", 1, 10)]
    assert everything(store) == expected
    assert list(store.range(None, None, reverse=True)) == expected[::-1]
    assert list(store.range("b", "c")) == expected[1:3]
    assert list(store.range("aa", None)) == expected[1:]
    assert list(store.range(None, "b", reverse=True)) == expected[1::-1]
    assert list(store.range("c", "b")) == []


def test_a_range_does_not_see_what_is_written_while_it_is_read(store: LayeredStore) -> None:
    store.put("a", 1, 10)
    commit(store)
    store.put("b", 1, 10)
    seen = store.range(None, None)

    store.put("a", 9, 90)
    store.put("b", 9, 90)
    store.put("c", 9, 90)

    assert list(seen) == [("a", 1, 10), ("b", 1, 10)]


def test_the_changelog_gets_the_last_value_of_each_key_without_its_timestamp_in_front(
    store: LayeredStore, heard: Recorder
) -> None:
    store.put("a", 1, 10)
    store.put("b", 1, 11)
    store.put("a", 2, 12)
    store.put("b", None, 13)
    store.put("c", 1, 14)
    store.flush_cache()

    assert store.flush_changelog() == len(heard.sent)
    assert {key: (value, at) for key, value, at in heard.sent}[b"a"] == (
        b"\0" * 7 + b"\2",
        12,
    )
    assert len({key for key, _, _ in heard.sent}) == len(heard.sent)
    assert heard.partitions == {3}
    assert store.flush_changelog() == 0


def test_a_flush_sends_only_what_changed_since_the_last(
    store: LayeredStore, heard: Recorder
) -> None:
    store.put("a", 1, 10)
    store.put("b", 1, 10)
    store.flush_cache()
    store.flush_changelog()
    heard.sent.clear()

    store.put("b", 2, 20)
    store.flush_cache()
    store.flush_changelog()

    assert heard.sent == [(b"b", b"\0" * 7 + b"\2", 20)]
    store.commit(HERE)
    assert everything(store) == [("a", 1, 10), ("b", 2, 20)]


def test_a_deleted_key_becomes_a_tombstone(store: LayeredStore, heard: Recorder) -> None:
    store.put("a", 1, 10)
    commit(store)
    heard.sent.clear()

    store.put("a", None, 20)
    commit(store)

    assert heard.sent == [(b"a", None, 20)]
    assert everything(store) == []


def test_without_logging_nothing_is_sent_and_all_is_kept(
    reopen: Callable[[], Backend], mode: str, heard: Recorder
) -> None:
    store = build_store(heard, reopen(), **MODES[mode], logging=False)
    store.put("a", 1, 10)

    commit(store, None)

    assert heard.sent == []
    assert everything(build_store(heard, reopen(), **MODES[mode])) == [("a", 1, 10)]


@pytest.mark.parametrize("mode", PLAIN)
def test_a_store_without_timestamps_keeps_none_but_sends_the_records(
    reopen: Callable[[], Backend], mode: str, heard: Recorder
) -> None:
    backend = reopen()
    store = build_store(heard, backend, **MODES[mode], timestamped=False, send_old=True)
    update = store.updater(add, Timestamps.MAX, lambda: 0)

    update("a", 1, 50, None)
    update("a", 1, 20, None)
    commit(store)

    assert backend.get(b"a") == b"\0" * 7 + b"\2"
    assert store.get("a") == (2, -1)
    assert heard.sent == [(b"a", b"\0" * 7 + b"\2", 20)]
    assert heard.changes[-1][3] == 20


def test_a_row_is_headers_if_they_are_kept_timestamp_and_value(
    reopen: Callable[[], Backend], mode: str, heard: Recorder
) -> None:
    backend = reopen()
    store = build_store(heard, backend, **MODES[mode])
    store.put("a", 1, 258)

    commit(store)

    no_headers = b"\0" if mode in WITH_HEADERS else b""
    assert backend.get(b"a") == no_headers + b"\0\0\0\0\0\0\1\2" + b"\0\0\0\0\0\0\0\1"


def test_user_code_may_change_what_it_got_from_a_mutable_serde(
    reopen: Callable[[], Backend], mode: str, heard: Recorder
) -> None:
    store = build_store(heard, reopen(), **MODES[mode], value=Serdes.json, send_old=True)
    update = store.updater(gather, Timestamps.MAX, list)
    mine = [7]
    store.put("put", mine, 1)
    mine.append(8)
    got = store.get("put")
    assert got is not None
    got[0].append(9)

    for value in (1, 2):
        update("k", value, value, None)
        store.flush_cache()

    assert store.get("put") == ([7], 1)
    assert store.get("k") == ([1, 2], 2)
    assert [change[1:3] for change in heard.changes if change[0] == "k"][-1] == ([1, 2], [1])
    commit(store)
    assert everything(store) == [("k", [1, 2], 2), ("put", [7], 1)]


@pytest.mark.parametrize("key", [None, 5, ["unhashable"], "lone \ud800"])
def test_a_key_that_does_not_fit_is_refused_by_name(store: LayeredStore, key: Any) -> None:
    update = store.updater(add, Timestamps.MAX, lambda: 0)

    for act in (
        lambda: store.get(key),
        lambda: store.put(key, 1, 1),
        lambda: update(key, 1, 1, None),
    ):
        with pytest.raises(SerializationError, match=r"store counts: .*key"):
            act()
    assert everything(store) == []


@pytest.mark.parametrize("value", ["text", 2**63, [1]])
def test_a_value_that_does_not_fit_is_refused_by_name(store: LayeredStore, value: Any) -> None:
    store.put("a", 1, 1)
    commit(store)

    with pytest.raises(SerializationError, match=r"store counts: value .* app-counts-changelog"):
        store.put("a", value, 2)

    commit(store)
    assert everything(store) == [("a", 1, 1)]


def test_a_value_that_a_restart_would_read_differently_is_kept_as_it_would_be_read(
    reopen: Callable[[], Backend], mode: str, heard: Recorder
) -> None:
    store = build_store(heard, reopen(), **MODES[mode], value=Serdes.double)
    store.put("a", 1, 1)

    found = store.get("a")

    assert found is not None
    assert type(found[0]) is float


def test_a_row_that_the_serde_cannot_read_is_named(
    reopen: Callable[[], Backend], mode: str
) -> None:
    backend = reopen()
    no_headers = b"\0" if mode in WITH_HEADERS else b""
    backend.write([(b"a", no_headers + b"\0" * 8 + b"short")], None)
    store = build_store(Recorder(), backend, **MODES[mode])

    with pytest.raises(DeserializationError, match="store counts holds a value"):
        store.get("a")


def test_uncommitted_bytes_grow_with_new_keys_and_end_at_the_commit(store: LayeredStore) -> None:
    update = store.updater(add, Timestamps.MAX, lambda: 0)
    for n in range(100):
        update(f"key-{n}", 1, n, None)
    once = store.uncommitted_bytes()
    for n in range(100):
        update(f"key-{n}", 1, n, None)

    assert 100 * 50 < once < 100 * 200
    assert store.uncommitted_bytes() == once
    store.flush_cache()
    assert 0.8 * once < store.uncommitted_bytes() < 1.2 * once
    store.flush_changelog()
    assert 0.8 * once < store.uncommitted_bytes() < 1.2 * once
    store.commit(HERE)
    assert store.uncommitted_bytes() == 0


def test_uncommitted_bytes_follow_values_that_grow(
    reopen: Callable[[], Backend], mode: str, heard: Recorder
) -> None:
    store = build_store(heard, reopen(), **MODES[mode], value=Serdes.string)
    store.put("a", "x", 1)
    small = store.uncommitted_bytes()

    store.put("a", "x" * 10_000, 1)
    assert store.uncommitted_bytes() - small == 9_999
    store.put("a", "x", 1)
    assert store.uncommitted_bytes() == small


def test_writing_between_the_flush_and_the_commit_is_our_own_mistake(store: LayeredStore) -> None:
    store.put("a", 1, 10)
    store.flush_cache()
    store.flush_changelog()
    store.put("a", 2, 20)

    with pytest.raises(AssertionError, match="a write between"):
        store.commit(HERE)


def test_what_is_written_after_a_seal_belongs_to_the_next_commit(
    reopen: Callable[[], Backend], mode: str, heard: Recorder
) -> None:
    store = build_store(heard, reopen(), **MODES[mode])
    update = store.updater(add, Timestamps.MAX, lambda: 0)
    for key in ("a", "b", "gone"):
        update(key, 1, 10, None)
    store.flush_cache()
    store.flush_changelog()
    store.seal()
    update("a", 5, 20, None)
    update("gone", 0, 20, None)
    update("late", 1, 20, None)

    store.commit(HERE)
    ours = everything(store)
    again = build_store(heard, reopen(), **MODES[mode])

    assert everything(again) == [("a", 1, 10), ("b", 1, 10), ("gone", 1, 10)]
    assert ours == [("a", 6, 20), ("b", 1, 10), ("late", 1, 20)]


def test_an_abort_forgets_what_was_sealed_and_what_came_after(store: LayeredStore) -> None:
    store.put("a", 1, 10)
    commit(store)
    store.put("a", 2, 20)
    store.flush_cache()
    store.flush_changelog()
    store.seal()
    store.put("b", 2, 20)

    store.abort()

    assert everything(store) == [("a", 1, 10)]
    assert store.uncommitted_bytes() == 0


def test_the_number_of_entries_counts_the_uncommitted(store: LayeredStore) -> None:
    store.put("a", 1, 10)
    commit(store)
    store.put("b", 1, 10)

    assert store.approximate_num_entries() == 2


def test_a_failed_step_changes_nothing(store: LayeredStore) -> None:
    def step(_key: Any, value: int, total: int) -> int:
        return total + 10 // value

    update = store.updater(step, Timestamps.MAX, lambda: 0)
    update("a", 1, 1, None)
    for key in ("a", "new"):
        with pytest.raises(ZeroDivisionError):
            update(key, 0, 9, None)

    assert everything(store) == [("a", 10, 1)]
    update("a", 2, 2, None)
    assert store.get("a") == (15, 2)
