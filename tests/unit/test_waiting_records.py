"""Joins with grace: records wait for late updates of a versioned table, over restarts, too."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from tests.support.stores import TASK, TOPIC, Recorder

from headwater import Joined, Serdes, StoreKind, StoreSpec, StreamsBuilder, TopologyError
from headwater.ids import TopicPartition
from headwater.ports import Position
from headwater.processor.environment import Current
from headwater.processor.waiting import WaitingRecords
from headwater.state import MemoryBackend, open_store
from headwater.testing import TopologyTestDriver

STRINGS: dict[str, Any] = {"key_serde": Serdes.string, "value_serde": Serdes.string}
CONFIG = {"default.key.serde": "string", "default.value.serde": "string"}


def _waiting(
    backend: MemoryBackend, sent: Recorder
) -> tuple[WaitingRecords, Any, Current, list[Any]]:
    store = open_store(
        StoreSpec(name="b", kind=StoreKind.JOIN_BUFFER),
        task=TASK,
        changelog_topic=TOPIC,
        backend=backend,
        cache=None,
        changelog_send=sent.send,
        **STRINGS,
    )
    current, joined = Current(), list[Any]()

    def join(key: Any, value: Any, timestamp: int, headers: Any) -> None:
        joined.append((key, value, timestamp, headers, current.source, current.offset))

    waiting = WaitingRecords(store, 10, current, Serdes.string.serializer(TOPIC), join)
    waiting.init()
    return waiting, store, current, joined


def test_what_waits_is_there_after_a_restart_and_an_abort() -> None:
    backend, sent = MemoryBackend(), Recorder()
    waiting, store, current, joined = _waiting(backend, sent)
    for offset, (key, time) in enumerate([("b", 20), ("a", 20), ("a", 15), ("a", 20)]):
        current.record = (offset, time, None, None, None)
        current.source = TopicPartition("in", 3)
        waiting.take(key, f"{key}{offset}", time, [("h", b"")])
    assert joined == []
    store.flush_changelog()
    store.commit(Position("t", 4, 0))
    waiting.take("c", "not committed", 26, None)
    assert [(one[0], one[1]) for one in joined] == [("a", "a2")]

    store.abort()
    waiting.renew()
    waiting.init()
    waiting.take("c", "again", 30, None)
    assert [(one[0], one[1]) for one in joined[1:]] == [
        ("a", "a2"), ("a", "a1"), ("a", "a3"), ("b", "b0"),
    ]  # fmt: skip
    assert joined[1][2:] == (15, [("h", b"")], TopicPartition("in", 3), 2)
    assert current.source == TopicPartition("in", 3)

    store.abort()
    again, _, _, later = _waiting(backend, Recorder())
    again.take("z", "too late to wait", 9, None)
    again.take("z", "in time", 10, None)
    assert [one[1] for one in later] == ["too late to wait", "in time"]


def test_a_record_waits_for_an_update_that_comes_late() -> None:
    builder = StreamsBuilder()
    table = builder.table("tab", store="v", history_retention=timedelta(seconds=1), **STRINGS)
    stream = builder.stream("in", **STRINGS)
    grace = timedelta(milliseconds=10)
    stream.left_join(table, lambda k, v, t: f"{k}{v}{t}", with_key=True, grace=grace).to("out")
    driver = TopologyTestDriver(builder.build(), CONFIG)
    records = driver.create_input_topic("in")

    records.pipe_input("a", "1", 100)
    driver.create_input_topic("tab").pipe_input("a", "late", 99)
    driver.pipe_raw("in", None, b"no key", 100)
    records.pipe_input("b", "2", 110)

    out = [record.value for record in driver.history if record.topic == "out"]
    assert out == [b"Noneno keyNone", b"a1late"]


@pytest.mark.parametrize("stored", [{}, {"store": "s"}, {"store": "s", "history_retention": 9}])
def test_a_table_that_knows_too_little_of_the_past_is_refused(stored: dict[str, Any]) -> None:
    builder = StreamsBuilder()
    table = builder.table("tab", **stored)
    builder.stream("in").join(table, lambda value, _: value, Joined(name="j", grace=10))

    with pytest.raises(TopologyError, match="join 'j' with a grace of 10 ms"):
        builder.build()


def test_a_grace_is_not_negative() -> None:
    with pytest.raises(TopologyError, match="grace is negative"):
        Joined(grace=-1)
