"""SIGKILLs in an application with windows, suppression and joins, one of them with a global table.

What it leaves is what Java leaves of the same records: each output once, and every store.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from headwater.model.stores import StoreKind
from tests.chaos.kills import Hunter, plan
from tests.chaos.outcome import STORES, Outcome, differences, left, question, sent, told
from tests.chaos.proof import stores_equal_their_changelogs
from tests.conftest import seed_base
from tests.java.tool import Oracle
from tests.oracle.translate import Drawing
from tests.support.local_cluster import APP, LocalCluster, streamapp
from tests.support.storming import Storm, create_topics, steps
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from headwater.local.broker import KafkaBroker

pytestmark = [
    pytest.mark.sampled,
    pytest.mark.kafka,
    pytest.mark.java,
    pytest.mark.slow,
    pytest.mark.timeout(3_600),
]

KILLS = 30
FEWEST = 6
"""Of a share: each situation twice."""
BROKER_RESTARTS = 3
IN_MEMORY = "org.apache.kafka.streams.state.BuiltInDslStoreSuppliers$InMemoryDslStoreSuppliers"
TOPOLOGY = {"module": "tests.support.storming:build"}


@pytest.fixture
def cluster(tmp_path: Path, topic_prefix: str) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path, topic_prefix) as running:
        yield running


def test_no_kill_changes_what_windows_joins_and_suppressions_leave(
    cluster: LocalCluster, broker: KafkaBroker, topic_prefix: str, request: pytest.FixtureRequest
) -> None:
    share: float = request.config.getoption("--share")
    seed = f"{seed_base(request.config)}:windows and joins"
    rng = random.Random(seed)
    kills = plan(rng, max(FEWEST, round(KILLS * share)), global_thread=True)
    restarts = rng.sample(range(len(kills)), max(1, round(BROKER_RESTARTS * share)))
    servers = broker.bootstrap_servers
    create_topics(servers, topic_prefix)
    storm = Storm(servers, topic_prefix, seed)
    request.addfinalizer(storm.end)
    cluster.up(
        streamapp(
            servers,
            topic_prefix,
            topology=TOPOLOGY,
            replicas=2,
            threadsPerWorker=2,
            config={
                "statestore.cache.max.bytes": 0,
                "commit.interval.ms": 200,
                "default.key.serde": "string",
                "default.value.serde": "string",
            },
            assignment={"moveDelay": "0s"},
        )
    )
    storm.start()
    cluster.wait_running(replicas=2)
    hunter = Hunter(cluster, servers, rng, group=topic_prefix, transactional=True)
    written = tuple(
        f"{topic_prefix}-{topic}" for topic in ("counts", "pairs", "bought", "spent", "named")
    )
    try:
        hunter.carry_out_all(kills, topics=written, replicas=2, broker=broker, restarts=restarts)
        storm.finish()
        records = sent(servers, topic_prefix)
        wanted = told(topic_prefix, asked(question(topic_prefix, records)))
        wait_until_it_is(wanted, servers, topic_prefix)
    except AssertionError as error:
        story = hunter.story(f"seed {seed}", written)
        skipped = "\n".join(unkept(broker, topic_prefix))
        raise AssertionError(f"{error}\n{skipped}\n{story}") from error

    cluster.interrupt()
    assert cluster.wait(240) == 0, cluster.output
    print(f"seed {seed}", *hunter.log, f"{len(records)} records", sep="\n")
    assert unkept(broker, topic_prefix) == []
    assert differences(left(servers, topic_prefix), wanted) == []
    stores = Drawing({"steps": steps(topic_prefix)}).topology().stores
    directories = [
        cluster.cluster.app(APP).state(path.name) for path in cluster.cluster.app(APP).workers()
    ]
    for store in STORES:
        spec = stores[store]
        if spec.kind is not StoreKind.SUPPRESSION_BUFFER:  # which is in memory
            compared = stores_equal_their_changelogs(
                servers, topic_prefix, store, directories, spec=spec
            )
            assert compared > 0, store


def unkept(broker: KafkaBroker, prefix: str) -> list[str]:
    """What the broker's log says of markers of transactions that it has not written."""
    lines = [line for line in broker.skipped_markers() if prefix in line]
    return [f"the broker has not kept its promise: {line}" for line in lines]


def asked(request: dict[str, Any]) -> dict[str, Any]:
    """What Java answers; of so many records it has much to say, and is faster without files."""
    in_memory = {"dsl.store.suppliers.class": IN_MEMORY}
    oracle = Oracle(heap="3g")
    try:
        return oracle.ask({**request, "config": request["config"] | in_memory})
    finally:
        oracle.close()


def wait_until_it_is(wanted: Outcome, servers: str, prefix: str) -> None:
    """What went through topics in between may still be on its way when the sources are read."""
    said = ["nothing was read"]

    def is_there() -> bool:
        said[:] = differences(left(servers, prefix), wanted)
        return not said

    try:
        wait_for(is_there, what="what Java leaves", timeout_s=120, every_s=2.0)
    except AssertionError:
        lines = "\n".join(said[:20])
        raise AssertionError(f"{len(said)} differences:\n{lines}") from None
