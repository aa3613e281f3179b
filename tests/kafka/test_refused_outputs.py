"""Outputs that a broker does not take: each is asked about at its sink, with its input at hand."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
from tests.support.handlers import Letters
from tests.support.thread_rig import ThreadRig, Topics
from tests.support.waiting import wait_for

from headwater import Serdes, StreamsBuilder
from headwater.ids import TaskId
from headwater.model import metrics
from headwater.native.messages import Failed
from headwater.processor.handlers import Result

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.kafka

GUARANTEES = pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
TASK = TaskId(0, 0)
LARGE = 5_000


@pytest.fixture
def topics(bootstrap_servers: str) -> Topics:
    return Topics(bootstrap_servers)


def shouting_count(app: str) -> Callable[[StreamsBuilder], None]:
    """Copies to a topic that takes small records only, and counts by key beside it."""

    def build(builder: StreamsBuilder) -> None:
        read = builder.stream(f"{app}-in", key_serde=Serdes.string, value_serde=Serdes.string)
        read.map_values(str.upper).to(
            f"{app}-out", key_serde=Serdes.string, value_serde=Serdes.string, name="shouting"
        )
        read.group_by_key().count(store="counts")

    return build


def letters(topics: Topics, topic: str) -> list[tuple[bytes | None, int, dict[str, bytes | None]]]:
    """Key, length of the value and headers of every committed dead letter."""
    consumer = Consumer(
        {
            "bootstrap.servers": topics.bootstrap_servers,
            "group.id": "letters",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    found = []
    while (message := consumer.poll(30)) is not None and message.error() is None:
        found.append((message.key(), len(message.value() or b""), dict(message.headers() or ())))
    consumer.close()
    assert message is not None, f"{topic}: no answer"
    return found


def prepare(topics: Topics, app: str) -> str:
    topics.create(f"{app}-in", 1, max_message_bytes="10000000")
    topics.create(f"{app}-out", 1, max_message_bytes="1000")
    topics.create(f"{app}-counts-changelog", 1, cleanup_policy="compact")
    return topics.create(f"{app}-dead", 1)


@GUARANTEES
def test_a_refused_output_is_dropped_with_its_input_in_a_dead_letter_and_nothing_else_is(
    topics: Topics, unique_name: str, tmp_path: Path, guarantee: str
) -> None:
    dead = prepare(topics, unique_name)
    records = [(f"k{n}", "x" * LARGE if n in {3, 70} else f"v{n}") for n in range(100)]
    topics.send(f"{unique_name}-in", records, timestamp_ms=1_000)

    with ThreadRig(
        topics,
        unique_name,
        shouting_count(unique_name),
        tmp_path,
        processing_guarantee=guarantee,
        statestore_cache_max_bytes=0,
        production_exception_handler=Letters(dead),
    ) as rig:
        rig.start(TASK)
        wait_for(
            lambda: (
                rig.pump() is not None
                and topics.committed(unique_name, f"{unique_name}-in")[0] >= 100
            ),
            what="everything to be committed",
        )
        rig.wait_stats("failed commits", lambda told: told.numbers.total(metrics.FAILED_COMMITS))
        rig.stop()

    delivered = [value for _, value in topics.read(f"{unique_name}-out")]
    expected = [f"V{n}".encode() for n in range(100) if n not in {3, 70}]
    if guarantee == "exactly_once_v2":
        assert delivered == expected
    assert set(delivered) == set(expected)
    # Under at-least-once, what a store gave up again is followed by what it holds in the end.
    entries = dict(topics.read(f"{unique_name}-counts-changelog"))
    assert entries == {f"k{n}": struct.pack(">q", 1) for n in range(100)}
    found = letters(topics, dead)
    assert {key for key, _, _ in found} == {b"k3", b"k70"}
    for key, length, headers in found:
        offset = (key or b"")[1:]
        assert length == LARGE
        assert headers["__streams.errors.topic"] == f"{unique_name}-in".encode()
        assert headers["__streams.errors.partition"] == b"0"
        assert headers["__streams.errors.offset"] == offset
        assert headers["__streams.errors.exception"] == b"headwater.errors.RecordTooLargeError"
        assert (headers["node"], headers["task"]) == (b"shouting", b"0_0")
        assert headers["output"] == (key or b"") + b"@1000"
    if guarantee == "exactly_once_v2":
        assert len(found) == 2


@GUARANTEES
def test_the_default_handler_stops_with_the_place_of_the_input_named(
    topics: Topics, unique_name: str, tmp_path: Path, guarantee: str
) -> None:
    prepare(topics, unique_name)
    topics.send(f"{unique_name}-in", [("k", "small"), ("k", "x" * LARGE), ("k", "small")])

    with ThreadRig(
        topics,
        unique_name,
        shouting_count(unique_name),
        tmp_path,
        processing_guarantee=guarantee,
    ) as rig:
        rig.start(TASK)
        failure = rig.wait_for(Failed)

        assert failure.error == "RecordTooLargeError"
        assert f"for a record to {unique_name}-out" in failure.message
        assert f"node shouting, topic {unique_name}-in, partition 0, offset 1" in failure.message
        assert "production.exception.handler" in failure.message
        assert failure.traceback == ""
        assert rig.wait_end() == 4
    assert topics.committed(unique_name, f"{unique_name}-in")[0] <= 1


def test_a_dead_letter_leaves_although_the_handler_says_fail_where_nothing_binds_it(
    topics: Topics, unique_name: str, tmp_path: Path
) -> None:
    dead = prepare(topics, unique_name)
    topics.send(f"{unique_name}-in", [("k", "x" * LARGE)])

    with ThreadRig(
        topics,
        unique_name,
        shouting_count(unique_name),
        tmp_path,
        production_exception_handler=Letters(dead, Result.FAIL),
    ) as rig:
        rig.start(TASK)
        rig.wait_for(Failed)
        rig.wait_end()

    assert [(key, length) for key, length, _ in letters(topics, dead)] == [(b"k", LARGE)]


def test_a_changelog_that_refuses_an_entry_is_named_and_no_handler_lets_it_go(
    topics: Topics, unique_name: str, tmp_path: Path
) -> None:
    def build(builder: StreamsBuilder) -> None:
        builder.table(
            f"{unique_name}-in",
            key_serde=Serdes.string,
            value_serde=Serdes.string,
            store="counts",
        )

    dead = prepare(topics, unique_name)
    topics.delete(f"{unique_name}-counts-changelog")
    wait_for(
        lambda: (
            f"{unique_name}-counts-changelog" not in topics.admin.list_topics(timeout=30).topics
        ),
        what="the topic to be gone",
    )
    topics.create(
        f"{unique_name}-counts-changelog", 1, cleanup_policy="compact", max_message_bytes="1000"
    )
    topics.send(f"{unique_name}-in", [("k", "x" * LARGE)])

    with ThreadRig(
        topics, unique_name, build, tmp_path, production_exception_handler=Letters(dead)
    ) as rig:
        rig.start(TASK)
        failure = rig.wait_for(Failed)
        rig.wait_end()

    assert failure.error == "RecordTooLargeError"
    assert f"{unique_name}-counts-changelog-0" in failure.message
    assert topics.committed(unique_name, f"{unique_name}-in")[0] <= 0


def test_batches_too_large_for_their_topic_are_sent_in_smaller_ones(
    topics: Topics, unique_name: str, tmp_path: Path
) -> None:
    dead = prepare(topics, unique_name)
    topics.send(f"{unique_name}-in", [(f"k{n}", "v" * 50) for n in range(200)])

    with ThreadRig(
        topics,
        unique_name,
        shouting_count(unique_name),
        tmp_path,
        processing_guarantee="exactly_once_v2",
        production_exception_handler=Letters(dead),
    ) as rig:
        rig.start(TASK)
        wait_for(
            lambda: (
                rig.pump() is not None
                and topics.committed(unique_name, f"{unique_name}-in")[0] >= 200
            ),
            what="everything to be committed",
        )
        rig.stop()

    assert [key for key, _ in topics.read(f"{unique_name}-out")] == [f"k{n}" for n in range(200)]
    assert letters(topics, dead) == []
    assert struct.unpack(">q", topics.read(f"{unique_name}-counts-changelog")[0][1]) == (1,)
