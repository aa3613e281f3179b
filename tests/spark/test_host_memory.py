"""Tasks of one host share its memory: RocksDB's blocks and the record cache."""

from __future__ import annotations

from typing import TYPE_CHECKING

import cloudpickle
import pytest

from headwater.ids import TaskId, TopicPartition
from headwater.model.engine import EngineRecord
from headwater.native.application import ApplicationSettings
from headwater.spark.turns.hosting import Host
from headwater.spark.turns.messages import HostSettings, Turn, TurnNumber
from tests.support.topologies import counts_of

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.thread_rig import Topics

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]

CACHE_BYTES = 30_000
KEYS = 600
PARTITIONS = 3


def turn_of(app: str, number: int, partition: int, end: int) -> Turn:
    return Turn(
        number=TurnNumber(0, 0, 1, number),
        task=TaskId(0, partition),
        slot=0,
        ends={TopicPartition(f"{app}-in", partition): end},
        more=frozenset(),
    )


def test_the_tasks_of_a_host_share_its_memory(
    topics: Topics, unique_name: str, tmp_path: Path
) -> None:
    app = unique_name
    for name in ("in", "in-counts", "counts-changelog"):
        topics.create(f"{app}-{name}", PARTITIONS)
    for partition in range(PARTITIONS):
        records = [(f"{partition}-{n % KEYS}", "") for n in range(2 * KEYS)]
        topics.send(f"{app}-in", records, partition)
    host = Host(
        HostSettings(
            application=ApplicationSettings(
                config={
                    "application.id": app,
                    "bootstrap.servers": topics.bootstrap_servers,
                    "statestore.cache.max.bytes": CACHE_BYTES,
                    "auto.offset.reset": "earliest",
                },
                topology=cloudpickle.dumps(counts_of(f"{app}-in")),
            ),
            record=EngineRecord(),
            state_dir=str(tmp_path / "tasks"),
        )
    )
    limits: list[int] = []  # of the first task
    for number, end in enumerate((0, KEYS, 2 * KEYS), 1):
        for partition in range(PARTITIONS):
            host.take(turn_of(app, number, partition, end))
            caches = [live._single._stores._cache for live in host._tasks.values()]
            limits.append(caches[0].limit)

    assert limits == [CACHE_BYTES, CACHE_BYTES, CACHE_BYTES] + 6 * [CACHE_BYTES // PARTITIONS]
    assert 0 < sum(cache.used for cache in caches) <= CACHE_BYTES
    assert len({id(live._single._stores._blocks) for live in host._tasks.values()}) == 1
    expected = {f"{partition}-{n}": 2 for partition in range(PARTITIONS) for n in range(KEYS)}
    for name in ("in-counts", "counts-changelog"):
        topics.wait_settled(f"{app}-{name}")
    assert topics.counts(f"{app}-in-counts") == expected
    assert topics.counts(f"{app}-counts-changelog").keys() == expected.keys()
