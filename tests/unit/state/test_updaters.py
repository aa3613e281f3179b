"""What an update stores, forwards and sends: Kafka Streams' rules for aggregates and tables."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.in_c import updates_in_both  # noqa: F401 - of every test here
from tests.support.stores import Recorder, add, build_store, gather

from headwater.ports import Position, Timestamps
from headwater.serde import Serdes

DELAYED = {"cache": 100_000}
AT_ONCE = {"cache": 0}
UNCACHED = {"caching": False}
IMMEDIATE = pytest.mark.parametrize("mode", [AT_ONCE, UNCACHED], ids=["cache of 0", "no caching"])
EVERY = pytest.mark.parametrize(
    "mode", [DELAYED, AT_ONCE, UNCACHED], ids=["cache", "cache of 0", "no caching"]
)
KINDS = pytest.mark.parametrize(
    ("serde", "step", "initializer", "values"),
    [
        (Serdes.long, add, lambda: 0, [1, 2, 3]),
        (Serdes.string, lambda k, v, o: None if v == 0 else o + str(v), str, ["1", "11", "111"]),
        (Serdes.json, gather, list, [[1], [1, 1], [1, 1, 1]]),
    ],
    ids=["long", "string", "json"],
)
HERE = Position("t", 1, 1)


def commit(store: Any) -> None:
    store.flush_cache()
    store.flush_changelog()
    store.commit(HERE)


@IMMEDIATE
@KINDS
def test_without_delay_every_update_is_heard_with_its_old_value(
    mode: Any, serde: Any, step: Any, initializer: Any, values: list[Any]
) -> None:
    heard = Recorder()
    store = build_store(heard, **mode, value=serde, send_old=True)
    update = store.updater(step, Timestamps.MAX, initializer)

    for timestamp in (10, 30, 20):
        update("a", 1, timestamp, None)

    assert heard.changes == [
        ("a", values[0], initializer(), 10),
        ("a", values[1], values[0], 30),
        ("a", values[2], values[1], 30),
    ]
    assert store.get("a") == (values[2], 30)


@KINDS
def test_the_cache_forwards_the_newest_value_and_the_old_one_of_the_last_flush(
    serde: Any, step: Any, initializer: Any, values: list[Any]
) -> None:
    heard = Recorder()
    store = build_store(heard, **DELAYED, value=serde, send_old=True)
    update = store.updater(step, Timestamps.MAX, initializer)

    update("a", 1, 10, None)
    assert heard.changes == []
    store.flush_cache()
    update("a", 1, 30, None)
    update("a", 1, 20, None)
    store.flush_cache()

    assert heard.changes == [("a", values[0], None, 10), ("a", values[2], values[0], 30)]


@EVERY
@KINDS
def test_no_old_value_is_sent_unless_asked_for(
    mode: Any, serde: Any, step: Any, initializer: Any, values: list[Any]
) -> None:
    heard = Recorder()
    store = build_store(heard, **mode, value=serde, send_old=False)
    update = store.updater(step, Timestamps.MAX, initializer)

    update("a", 1, 10, None)
    update("a", 1, 10, None)
    commit(store)

    assert {change[2] for change in heard.changes} == {None}
    assert heard.changes[-1][1] == values[1]


@EVERY
@KINDS
def test_an_aggregate_goes_on_from_what_is_committed(
    mode: Any, serde: Any, step: Any, initializer: Any, values: list[Any]
) -> None:
    heard = Recorder()
    store = build_store(heard, **mode, value=serde, send_old=True)
    update = store.updater(step, Timestamps.MAX, initializer)
    update("a", 1, 10, None)
    commit(store)

    again = build_store(heard, store._below.backend, **mode, value=serde, send_old=True)
    again.updater(step, Timestamps.MAX, initializer)("a", 1, 5, None)
    again.flush_cache()

    assert heard.changes[-1] == ("a", values[1], values[0], 10)


@EVERY
def test_a_table_takes_the_timestamp_of_the_record_even_if_it_is_older(mode: Any) -> None:
    heard = Recorder()
    store = build_store(heard, **mode, send_old=True)
    update = store.updater(None, Timestamps.RECORD)

    update("a", 7, 50, None)
    update("a", 8, 20, None)
    commit(store)

    assert store.get("a") == (8, 20)
    assert heard.sent[-1] == (b"a", b"\0" * 7 + b"\x08", 20)
    assert heard.changes[-1][3] == 20


def test_a_deletion_without_a_cache_is_heard_at_the_larger_timestamp_and_logged_at_its_own() -> (
    None
):
    heard = Recorder()
    store = build_store(heard, **UNCACHED, send_old=True)
    update = store.updater(add, Timestamps.MAX, lambda: 0)
    update("a", 1, 50, None)
    store.flush_changelog()

    update("a", 0, 20, None)
    commit(store)

    assert heard.changes[-1] == ("a", None, 1, 50)
    assert heard.sent[-1] == (b"a", None, 20)
    assert store.get("a") is None


def test_a_deletion_with_a_cache_is_forwarded_and_logged_at_its_own_timestamp() -> None:
    heard = Recorder()
    store = build_store(heard, **DELAYED, send_old=True)
    update = store.updater(add, Timestamps.MAX, lambda: 0)
    update("a", 1, 50, None)
    commit(store)

    update("a", 0, 20, None)
    commit(store)

    assert heard.changes[-1] == ("a", None, 1, 20)
    assert heard.sent[-1] == (b"a", None, 20)


@pytest.mark.parametrize("send_old", [True, False])
def test_with_a_cache_the_deletion_of_an_absent_key_leaves_no_trace(send_old: bool) -> None:
    heard = Recorder()
    store = build_store(heard, **DELAYED, send_old=send_old)
    update = store.updater(add, Timestamps.MAX, lambda: 0)
    upsert = build_store(heard, **DELAYED, send_old=send_old, name="table").updater(
        None, Timestamps.RECORD
    )

    update("a", 0, 20, None)
    upsert("a", None, 20, None)
    commit(store)

    assert heard.changes == []
    assert heard.sent == []


def test_a_key_that_came_and_went_between_two_flushes_leaves_no_trace() -> None:
    heard = Recorder()
    store = build_store(heard, **DELAYED, send_old=False)
    update = store.updater(add, Timestamps.MAX, lambda: 0)

    update("a", 1, 20, None)
    update("a", 0, 21, None)
    store.put("b", 1, 20)
    store.put("b", None, 20)
    commit(store)

    assert heard.changes == []
    assert heard.sent == []
    assert store.get("a") is None


def test_a_key_deleted_and_made_again_between_two_flushes_is_one_change() -> None:
    heard = Recorder()
    store = build_store(heard, **DELAYED, send_old=True)
    update = store.updater(add, Timestamps.MAX, lambda: 0)
    update("a", 5, 10, None)
    commit(store)

    update("a", 0, 21, None)
    update("a", 2, 15, None)
    commit(store)

    assert heard.changes[-1] == ("a", 2, 5, 15)
    assert store.get("a") == (2, 15)


@IMMEDIATE
def test_without_a_cache_the_deletion_of_an_absent_key_is_forwarded_and_logged(mode: Any) -> None:
    heard = Recorder()
    store = build_store(heard, **mode, send_old=True)
    store.updater(add, Timestamps.MAX, lambda: 0)("a", 0, 20, None)
    table = build_store(heard, **mode, send_old=True, name="table")
    table.updater(None, Timestamps.RECORD)("b", None, 21, None)
    commit(store)
    commit(table)

    assert heard.changes == [("a", None, 0, 20), ("b", None, None, 21)]
    assert heard.sent == [(b"a", None, 20), (b"b", None, 21)]


def test_a_deletion_after_a_flush_reaches_below_although_nobody_read_there() -> None:
    heard = Recorder()
    store = build_store(heard, **DELAYED, send_old=True)
    store.put("a", 1, 1)
    commit(store)
    again = build_store(heard, store._below.backend, **DELAYED, send_old=True)

    again.put("a", None, 2)
    commit(again)

    assert heard.changes[-1] == ("a", None, 1, 2)
    assert heard.sent[-1] == (b"a", None, 2)


def test_a_reducer_without_initializer_sees_no_old_value_first() -> None:
    heard = Recorder()
    store = build_store(heard, **UNCACHED, send_old=True)
    update = store.updater(lambda _k, v, old: v if old is None else old + v, Timestamps.MAX)

    update("a", 3, 1, None)
    update("a", 4, 2, None)

    assert [change[1:3] for change in heard.changes] == [(3, None), (7, 3)]


def test_identical_updates_are_forwarded() -> None:
    heard = Recorder()
    store = build_store(heard, **UNCACHED, send_old=False)
    update = store.updater(None, Timestamps.RECORD)

    update("a", 1, 1, None)
    update("a", 1, 1, None)

    assert len(heard.changes) == 2


@EVERY
def test_headers_of_the_last_record_travel_with_its_change(mode: Any) -> None:
    heard = Recorder()
    store = build_store(heard, **mode, send_old=False)
    update = store.updater(add, Timestamps.MAX, lambda: 0)

    update("a", 1, 1, [("first", b"1")])
    update("a", 1, 2, [("last", b"2")])
    store.flush_cache()

    assert heard.headers[-1] == [("last", b"2")]


@EVERY
@pytest.mark.parametrize("key_serde", [Serdes.long, Serdes.integer, Serdes.bytes, Serdes.json])
def test_keys_of_any_serde_are_told_apart_by_their_bytes(mode: Any, key_serde: Any) -> None:
    keys: list[Any] = [b"a", b"b"] if key_serde is Serdes.bytes else [1, 2]
    heard = Recorder()
    store = build_store(heard, **mode, key=key_serde, send_old=False)
    update = store.updater(add, Timestamps.MAX, lambda: 0)

    for key in (keys[0], keys[1], keys[0]):
        update(key, 1, 5, None)
    commit(store)

    assert [store.get(key) for key in keys] == [(2, 5), (1, 5)]
    assert list(store.range(None, None)) == [(keys[0], 2, 5), (keys[1], 1, 5)]


def test_a_store_without_a_listener_keeps_its_updates_to_itself() -> None:
    heard = Recorder()
    store = build_store(heard, **DELAYED)
    update = store.updater(add, Timestamps.MAX, lambda: 0)

    update("a", 1, 1, None)
    update("gone", 1, 1, None)
    update("gone", 0, 2, None)
    commit(store)

    assert heard.changes == []
    assert heard.sent == [(b"a", b"\0" * 7 + b"\1", 1), (b"gone", None, 2)]
