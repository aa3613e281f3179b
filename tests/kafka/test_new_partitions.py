"""Partitions that are added to a topic while an application reads it: read, or named as unread."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.topologies import counts_of
from tests.support.waiting import wait_for
from tests.support.worker import Counting

from headwater import KafkaStreams, Serdes
from headwater.errors import PartitionMismatchError
from headwater.model.lifecycle import ClientState

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from headwater import StreamsBuilder

pytestmark = pytest.mark.kafka


@pytest.fixture
def counting(bootstrap_servers: str, unique_name: str) -> Counting:
    return Counting(bootstrap_servers, unique_name, partitions=1, changelog=False)


@pytest.fixture
def config(counting: Counting, tmp_path: Path) -> dict[str, Any]:
    return {
        "application.id": counting.application_id,
        "bootstrap.servers": counting.bootstrap_servers,
        "processing.guarantee": "exactly_once_v2",
        "metadata.max.age.ms": 500,
        "state.dir": str(tmp_path / "state"),
    }


def copies_of(topic: str) -> Callable[[StreamsBuilder], None]:
    """Copy the topic to ``<topic>-counts``, without state."""

    def build(builder: StreamsBuilder) -> None:
        builder.stream(topic, key_serde=Serdes.bytes, value_serde=Serdes.bytes).to(
            f"{topic}-counts"
        )

    return build


def merged_counts_of(topic: str) -> Callable[[StreamsBuilder], None]:
    """As ``counts_of``, of the topic and of ``<topic>-wide`` together."""

    def build(builder: StreamsBuilder) -> None:
        both = [
            builder.stream(name, key_serde=Serdes.string, value_serde=Serdes.string)
            for name in (topic, f"{topic}-wide")
        ]
        (
            both[0]
            .merge(both[1])
            .group_by_key(key_serde=Serdes.string, value_serde=Serdes.string)
            .count(store="counts", key_serde=Serdes.string)
            .to_stream()
            .to(f"{topic}-counts", key_serde=Serdes.string, value_serde=Serdes.long)
        )

    return build


def test_what_comes_into_new_partitions_is_read_by_new_tasks(
    counting: Counting, config: dict[str, Any]
) -> None:
    with KafkaStreams(copies_of(counting.topic), config) as streams:
        counting.send(10)
        wait_for(lambda: len(counting.read(f"{counting.topic}-counts")) == 10, what="10 copies")

        counting.widen(3)
        counting.send(30)

        wait_for(lambda: len(counting.read(f"{counting.topic}-counts")) == 40, what="40 copies")
        wait_for(lambda: streams.state is ClientState.RUNNING, what="RUNNING")


def test_a_task_that_reads_several_topics_reads_a_partition_that_one_of_them_has_got(
    counting: Counting, config: dict[str, Any]
) -> None:
    counting.create(f"{counting.topic}-wide", 2)
    with KafkaStreams(merged_counts_of(counting.topic), config):
        counting.send(10)
        wait_for(counting.all_counted, what="the first counts")

        counting.widen(2)
        counting.send(10, partition=0)
        counting.send(10, keys=3, partition=1)

        wait_for(lambda: counting.committed() == {0: 20, 1: 10}, what="both partitions to be read")


def test_where_state_would_have_to_be_divided_anew_the_application_ends_and_names_what_waits(
    counting: Counting, config: dict[str, Any]
) -> None:
    streams = KafkaStreams(counts_of(counting.topic), config)
    streams.start()
    counting.send(10)
    wait_for(counting.all_counted, what="the first counts")

    counting.widen(3)
    counting.send(15, keys=15, partition=2)

    with pytest.raises(PartitionMismatchError) as raised:
        streams.wait(timedelta(minutes=2))
    said = str(raised.value)
    wanted = (
        f"{counting.changelog} has 1 partition",
        f"needs 3, as many as {counting.topic} has",
        "Kafka cannot take partitions away",
        f"15 records of {counting.topic} wait there",
        "kafka-streams-application-reset",
    )
    assert [part for part in wanted if part not in said] == []
    assert streams.state is ClientState.ERROR
    assert counting.committed()[0] == 10
