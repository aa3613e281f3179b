"""What a versioned store promises, over each backend."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.custom_stores import DictVersionedStore
from tests.support.stores import TASK, TOPIC, Recorder

from headwater.errors import SerializationError, StateError, TopologyError
from headwater.model.stores import StoreKind, StoreSpec
from headwater.ports import LATEST, NOT_PUT, NotLatest, Position, Timestamps
from headwater.serde import Serdes
from headwater.state import MemoryBackend, RocksBackend, open_store
from headwater.state.backends.custom_versions import CustomVersionBackend
from headwater.state.versioned import VersionedStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from headwater.ports import Backend

HERE = Position("topic-id", 17, 1_700_000_000_000)
HISTORY = 100


@pytest.fixture(params=["memory", "custom", "rocks"])
def reopen(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], Backend]]:
    """Open the backend anew; memory, whose life ends with its process, is the same again."""
    is_own = request.param == "custom"
    memory = CustomVersionBackend("v", DictVersionedStore()) if is_own else MemoryBackend()
    opened: list[Backend] = [memory]

    def again() -> Backend:
        if request.param != "rocks":
            return memory
        opened[-1].close()
        opened.append(RocksBackend(tmp_path / "db"))
        return opened[-1]

    yield again
    opened[-1].close()


@pytest.fixture
def heard() -> Recorder:
    return Recorder()


@pytest.fixture
def make(reopen: Callable[[], Backend], heard: Recorder) -> Callable[..., VersionedStore]:
    def made(*, value: Any = Serdes.string, history: int = HISTORY) -> VersionedStore:
        store = open_store(
            StoreSpec(name="v", kind=StoreKind.VERSIONED, retention_ms=history),
            task=TASK,
            changelog_topic=TOPIC,
            backend=reopen(),
            cache=None,
            changelog_send=heard.send,
            key_serde=Serdes.string,
            value_serde=value,
        )
        assert isinstance(store, VersionedStore)
        return store

    return made


@pytest.fixture
def store(make: Callable[..., VersionedStore]) -> VersionedStore:
    return make()


def commit(store: VersionedStore) -> None:
    store.flush_cache()
    store.flush_changelog()
    store.commit(HERE)


def test_a_version_is_valid_up_to_the_next_one(store: VersionedStore) -> None:
    assert store.put_version("a", "x", 10) == LATEST
    assert store.put_version("a", "z", 30) == LATEST
    assert store.put_version("a", "y", 20) == 30
    assert store.put_version("a", None, 40) == LATEST
    assert store.put_version("a", "w", 35) == 40

    def seen() -> list[Any]:
        return [store.get_as_of("a", time) for time in (9, 10, 19, 20, 34, 35, 39, 40, 99)]

    before = seen()
    commit(store)

    assert seen() == before
    assert before == [
        None, ("x", 10), ("x", 10), ("y", 20), ("z", 30), ("w", 35), ("w", 35), None, None,
    ]  # fmt: skip
    assert store.get("a") is None
    assert store.get_as_of("b", 20) is None


def test_keys_are_counted_by_their_newest_versions(store: VersionedStore) -> None:
    for key, value, time in (("a", "x", 10), ("a", "y", 20), ("b", "x", 10), ("b", None, 20)):
        store.put_version(key, value, time)
    store.put_version("ab", "x", 5)
    commit(store)

    assert store.num_keys() == 2


def test_keys_that_begin_alike_are_kept_apart(store: VersionedStore) -> None:
    for key in ("", "a", "ab", "a\x00", "b"):
        store.put_version(key, f"value of {key}", 10)
    commit(store)
    store.put_version("a", "later", 20)

    assert [store.get(key) for key in ("", "ab", "a\x00")] == [
        (f"value of {key}", 10) for key in ("", "ab", "a\x00")
    ]
    assert store.get_as_of("a", 15) == ("value of a", 10)
    assert store.get("a") == ("later", 20)


def test_every_put_is_logged_with_its_time_also_one_that_is_too_old(
    store: VersionedStore, heard: Recorder
) -> None:
    expired: list[int] = []
    store.on_expired = lambda: expired.append(1)
    store.put("a", "x", 1000)
    store.put("a", "y", 1000)
    assert store.put_version("a", "old", 899) == NOT_PUT
    assert store.put_version("a", "just in time", 900) == 1000
    store.put("b", None, 950)

    assert store.flush_changelog() == 5
    assert heard.sent == [
        (b"a", b"x", 1000),
        (b"a", b"y", 1000),
        (b"a", b"old", 899),
        (b"a", b"just in time", 900),
        (b"b", None, 950),
    ]
    assert heard.partitions == {TASK.partition}
    assert expired == [1]
    assert store.flush_changelog() == 0


def test_the_past_is_forgotten_but_what_is_still_valid_is_not(
    store: VersionedStore, reopen: Callable[[], Backend]
) -> None:
    store.put("old", "still valid", 10)
    store.put("a", "x", 20)
    store.put("a", "y", 30)
    commit(store)
    store.put("b", "moves time on", 1_000)

    assert store.get_as_of("a", 29) is None
    assert store.get_as_of("a", 30) == ("y", 30)
    assert store.get_as_of("old", 10) == ("still valid", 10)
    for number in range(300):
        store.put("b", f"{number}", 1_000 + number)
        commit(store)
    assert store.get_as_of("a", 1_299) == ("y", 30)
    assert len(list(reopen().range(None, None))) < 150


def test_what_is_sealed_is_committed_and_what_follows_waits(
    store: VersionedStore, make: Callable[..., VersionedStore]
) -> None:
    store.put("a", "x", 10)
    store.flush_changelog()
    store.seal()
    store.put("a", "y", 10)
    store.put("a", "z", 20)
    store.commit(HERE)

    assert store.get("a") == ("z", 20)
    assert store.get_as_of("a", 15) == ("y", 10)
    assert store.uncommitted_bytes() > 0
    store.abort()
    assert store.get("a") == ("x", 10)
    assert store.uncommitted_bytes() == 0
    again = make()
    assert again.get("a") == ("x", 10)
    assert again.position() == HERE._replace(stream_time=10)


def test_an_abort_takes_time_back_and_sends_again_what_the_store_holds(
    store: VersionedStore, heard: Recorder
) -> None:
    store.put("a", "x", 10)
    commit(store)
    heard.sent.clear()
    store.put("a", "changed", 10)
    store.put("a", "y", 5_000)
    store.flush_changelog()
    store.put("a", "unsent", 6_000)

    store.abort(resend=True)

    assert store.get("a") == ("x", 10)
    assert store.put_version("a", "in time again", 9) == 10
    store.flush_changelog()
    assert heard.sent[2:] == [(b"a", b"x", 10), (b"a", b"in time again", 9)]


def test_changes_say_if_they_are_the_latest_and_old_puts_give_none(
    store: VersionedStore, heard: Recorder
) -> None:
    changes: list[Any] = []
    store.on_change(lambda *change: changes.append(change), send_old=True)
    update = store.updater(None, Timestamps.RECORD)
    update("a", "x", 1_000, None)
    update("a", "y", 950, [("h", b"")])
    update("a", "too old", 800, None)
    update("a", None, 1_001, None)

    assert changes == [
        ("a", ("x", None), 1_000, None),
        ("a", ("y", "x"), 950, [("h", b"")]),
        ("a", (None, "x"), 1_001, None),
    ]
    assert [type(change[1]) is NotLatest for change in changes] == [False, True, False]


def test_an_aggregate_is_put_at_the_later_time(make: Callable[..., VersionedStore]) -> None:
    store, changes = make(value=Serdes.long), list[Any]()
    store.on_change(lambda *change: changes.append(change), send_old=True)
    add = store.updater(lambda _key, value, total: total + value, Timestamps.MAX, lambda: 100)
    add("a", 1, 50, None)
    add("a", 2, 20, None)

    assert changes == [("a", (101, 100), 50, None), ("a", (103, 101), 50, None)]
    assert store.get("a") == (103, 50)


def test_values_that_can_change_are_told_afresh(make: Callable[..., VersionedStore]) -> None:
    store = make(value=Serdes.json)
    store.put("a", [1], 10)
    found = store.get("a")
    assert found is not None
    found[0].append(2)

    commit(store)

    assert store.get("a") == ([1], 10)


def test_what_cannot_be_done_is_told(store: VersionedStore) -> None:
    with pytest.raises(StateError, match="no ranges of keys"):
        store.range(None, None)
    with pytest.raises(StateError, match="negative: -1"):
        store.put("a", "x", -1)
    with pytest.raises(SerializationError, match="key is null"):
        store.put(None, "x", 1)
    with pytest.raises(SerializationError, match="store v: value 1"):
        store.put("a", 1, 1)
    with pytest.raises(TopologyError, match="cannot have a record cache"):
        StoreSpec(name="v", kind=StoreKind.VERSIONED).with_caching_enabled()
