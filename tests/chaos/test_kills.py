"""SIGKILLs of every kind of process, and broker restarts, with records in flight."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from tests.chaos.kills import Hunter, plan
from tests.chaos.proof import counted_at_least, counted_once_each, stores_equal_their_changelogs
from tests.conftest import seed_base
from tests.support.flying import KINDS, VARIABLE
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
    from collections.abc import Iterator
    from pathlib import Path

    from headwater.local.broker import KafkaBroker

pytestmark = [pytest.mark.kafka, pytest.mark.sampled, pytest.mark.slow, pytest.mark.timeout(3_600)]

PARTITIONS = 4
COUNTING = "tests.support.counting:build"
COUNTING_LATER = "tests.support.counting_later:build"
"""Of 500 records a second some 25 wait for their calls at any time, and others for a batch."""
KILLS = [
    # Of a share at least each situation once, or any of them.
    pytest.param("exactly_once_v2", COUNTING, 30, 3, id="exactly_once_v2"),
    pytest.param("at_least_once", COUNTING, 15, 1, id="at_least_once"),
    pytest.param("exactly_once_v2", COUNTING_LATER, 20, 3, id="exactly_once_v2-calls"),
]
BROKER_RESTARTS = 3


@pytest.fixture
def cluster(tmp_path: Path, topic_prefix: str) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path, topic_prefix) as running:
        yield running


def application(servers: str, prefix: str, guarantee: str, module: str) -> dict[str, object]:
    """A StreamApp with two workers of two StreamThreads."""
    return streamapp(
        servers,
        prefix,
        replicas=2,
        topology={"module": module},
        threadsPerWorker=2,
        processingGuarantee=guarantee,
        config={"statestore.cache.max.bytes": 0, "commit.interval.ms": 200},
        assignment={"moveDelay": "0s"},
    )


@pytest.mark.parametrize(("guarantee", "module", "kills_max", "fewest_kills"), KILLS)
def test_no_kill_loses_a_record_and_under_exactly_once_none_doubles_one(
    guarantee: str,
    module: str,
    kills_max: int,
    fewest_kills: int,
    cluster: LocalCluster,
    broker: KafkaBroker,
    topic_prefix: str,
    request: pytest.FixtureRequest,
) -> None:
    share: float = request.config.getoption("--share")
    seed = f"{seed_base(request.config)}:{guarantee}:{module}"
    rng = random.Random(seed)
    kills = plan(rng, max(fewest_kills, round(kills_max * share)))
    exactly_once = guarantee == "exactly_once_v2"
    fewest = 1 if exactly_once else 0
    restarts = set(rng.sample(range(len(kills)), max(fewest, round(BROKER_RESTARTS * share))))
    servers = broker.bootstrap_servers
    create_topics(servers, topic_prefix, partitions=PARTITIONS)
    load = Load(servers, topic_prefix, records_per_s=500)
    request.addfinalizer(load.end)
    calls = cluster.cluster.root.parent / "calls"
    cluster.up(application(servers, topic_prefix, guarantee, module), **{VARIABLE: str(calls)})
    load.start()
    cluster.wait_running(replicas=2)
    hunter = Hunter(
        cluster,
        servers,
        rng,
        group=topic_prefix,
        transactional=exactly_once,
        calls=calls if module == COUNTING_LATER else None,
    )
    written = (f"{topic_prefix}-out", f"{topic_prefix}-counts-changelog")

    def all_counted() -> bool:
        counts = read_counts(servers, topic_prefix)
        return all(counts.get(key, 0) >= number for key, number in load.sent.items())

    try:
        hunter.carry_out_all(kills, topics=written, replicas=2, broker=broker, restarts=restarts)
        load.stop()
        wait_for(all_counted, what="all records to be counted", timeout_s=300, every_s=1.0)
    except AssertionError as error:
        story = hunter.story(f"seed {seed}", written)
        raise AssertionError(f"{error}\n{story}") from error

    cluster.interrupt()
    assert cluster.wait(240) == 0, cluster.output
    print(f"seed {seed}", *hunter.log, sep="\n")
    # Others are of topics that other tests have deleted, and may still come.
    skipped = [line for line in broker.skipped_markers() if topic_prefix in line]
    assert skipped == [], "the broker has not kept its promise"
    if module == COUNTING_LATER:
        assert len(hunter.flying) == len(kills)
        assert all(hunter.flying), "a kill without calls in flight does not count"
        assert {kind for flying in hunter.flying for kind in flying} == set(KINDS)
    if exactly_once:
        counted_once_each(servers, f"{topic_prefix}-out", load.sent)
    else:
        print("counted again:", counted_at_least(servers, f"{topic_prefix}-out", load.sent))
    directories = [
        cluster.cluster.app(APP).state(path.name) for path in cluster.cluster.app(APP).workers()
    ]
    assert stores_equal_their_changelogs(servers, topic_prefix, "counts", directories) > 0
