"""Commits under load, as a reader counts them that knows the broker only."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from benchmarks import audit
from tests.support.thread_rig import ThreadRig, Topics
from tests.support.waiting import wait_for

from headwater import Serdes, StreamsBuilder
from headwater.ids import TaskId

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.kafka

FIRST = TaskId(0, 0)
INTERVAL_MS = 100
RECORD_S = 0.006
RECORDS = 300
RECORDS_A_COMMIT = 25
"""An interval has 17 records at most, and the rounds at both its ends one each."""


@pytest.fixture
def topics(bootstrap_servers: str) -> Topics:
    return Topics(bootstrap_servers)


def slow_count(app: str, record_s: float) -> Callable[[StreamsBuilder], None]:
    def slow(value: str) -> str:
        until = time.monotonic() + record_s
        while time.monotonic() < until:
            pass
        return value

    def build(builder: StreamsBuilder) -> None:
        (
            builder.stream(f"{app}-in", key_serde=Serdes.string, value_serde=Serdes.string)
            .map_values(slow)
            .group_by_key()
            .count(store="counts")
            .to_stream()
            .to(f"{app}-out", key_serde=Serdes.string, value_serde=Serdes.long)
        )

    return build


@pytest.fixture
def counting(topics: Topics, unique_name: str, tmp_path: Path) -> Iterator[ThreadRig]:
    """A keyed count under exactly-once, whose records take six milliseconds each."""
    topics.create(f"{unique_name}-in")
    topics.create(f"{unique_name}-out")
    topics.create(f"{unique_name}-counts-changelog", cleanup_policy="compact")
    with ThreadRig(
        topics,
        unique_name,
        slow_count(unique_name, RECORD_S),
        tmp_path,
        processing_guarantee="exactly_once_v2",
        commit_interval_ms=INTERVAL_MS,
    ) as rig:
        yield rig


def commits(topics: Topics, unique_name: str) -> int:
    topics.wait_settled(unique_name)
    out = f"{unique_name}-out"
    return audit.read(topics.bootstrap_servers, out, partitions=1, counts=True).commits


def test_a_loaded_thread_commits_at_least_once_an_interval_of_its_work(
    topics: Topics, counting: ThreadRig, unique_name: str
) -> None:
    topics.send(f"{unique_name}-in", [(f"key-{n}", "v") for n in range(RECORDS)])

    counting.start(FIRST)
    counting.wait_processed(RECORDS)
    counting.stop()

    assert topics.counts(f"{unique_name}-out") == {f"key-{n}": 1 for n in range(RECORDS)}
    assert commits(topics, unique_name) >= RECORDS // RECORDS_A_COMMIT


def test_a_reader_of_the_output_counts_each_commit_that_has_one(
    topics: Topics, counting: ThreadRig, unique_name: str
) -> None:
    counting.start(FIRST)
    for number in range(1, 4):
        topics.send(f"{unique_name}-in", [("a", "v")])
        wait_for(
            lambda number=number: topics.counts(f"{unique_name}-out") == {"a": number},  # type: ignore[misc]
            what=f"the commit of record {number}",
        )
    counting.stop()

    assert commits(topics, unique_name) == 3
