"""`headwater up` with autoscaling: the same decision as on a cluster, with processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.chaos.proof import counted_once_each
from tests.support.counting import PAUSE_VARIABLE
from tests.support.local_cluster import (
    APP,
    Load,
    LocalCluster,
    create_topics,
    read_counts,
    streamapp,
)
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.kafka, pytest.mark.sampled, pytest.mark.slow, pytest.mark.timeout(900)]

AUTOSCALING = {
    "mode": "Auto",
    "maxReplicas": 2,
    "targetLag": 200,
    "behavior": {"scaleUp": {"stabilizationWindow": "3s"}},
}


def test_a_second_worker_comes_when_more_comes_in_than_one_can_process(
    bootstrap_servers: str, topic_prefix: str, tmp_path: Path
) -> None:
    create_topics(bootstrap_servers, topic_prefix, partitions=4)
    load = Load(bootstrap_servers, topic_prefix, records_per_s=350)
    config = {"commit.interval.ms": 200, "statestore.cache.max.bytes": 0}
    document = streamapp(bootstrap_servers, topic_prefix, autoscaling=AUTOSCALING, config=config)
    with LocalCluster(tmp_path, topic_prefix) as running:
        # A StreamThread can process 250 records per second at most.
        running.up(document, **{PAUSE_VARIABLE: "4"})
        running.wait_running(replicas=1)
        load.start()
        running.wait_running(replicas=2, timeout_s=300)
        load.stop()
        [row] = [line for line in running.command("get").splitlines() if line.startswith(APP)]
        assert "2/2" in row.split()

        def is_counted() -> bool:
            counts = read_counts(bootstrap_servers, topic_prefix)
            return all(counts.get(key, 0) >= number for key, number in load.sent.items())

        wait_for(is_counted, what="all records to be counted", every_s=0.5)
        assert "autoscaling, from 1 to 2 workers" in running.output
        running.command("down")
    counted_once_each(bootstrap_servers, f"{topic_prefix}-out", load.sent)
