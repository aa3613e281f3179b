"""The whole product but for containers: real scheduler, operator, workers, Kafka; several nodes."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, cast

import pytest
from confluent_kafka import Producer
from examples.word_count.app import words

from headwater_operator.kube.api import PODS
from tests.kube.journey import Journey
from tests.kube.kubelet.cluster import PYTHON
from tests.support.counting import PREFIX_VARIABLE
from tests.support.local_cluster import create_topics, read_counts, streamapp
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headwater_operator.kube.client import KubeClient
    from tests.kube.fixtures import Command
    from tests.kube.journey import Installation, OperatorProcess
    from tests.kube.kubelet.cluster import Cluster
    from tests.kube.kubelet.node import Node
    from tests.kube.players import Stage

pytestmark = [pytest.mark.usefixtures("crds"), pytest.mark.kafka, pytest.mark.slow]

APP = "counting"
PARTITIONS = 4
LINES = [f"all streams lead to kafka {number % 7}" for number in range(500)]


class Counted:
    """A word count, its input, and what it has to come to."""

    def __init__(self, bootstrap_servers: str, prefix: str) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.prefix = prefix
        self.expected: Counter[str] = Counter()
        self._producer = Producer({"bootstrap.servers": bootstrap_servers})
        create_topics(bootstrap_servers, prefix, partitions=PARTITIONS)

    def app(self, **spec: object) -> dict[str, object]:
        """The StreamApp."""
        return streamapp(
            self.bootstrap_servers,
            self.prefix,
            topology={"module": "tests.support.word_count:build"},
            image=PYTHON,
            replicas=2,
            podTemplate={"env": [{"name": PREFIX_VARIABLE, "value": self.prefix}]},
            **spec,
        )

    def feed(self) -> None:
        """Send the text once more."""
        for number, line in enumerate(LINES):
            self._producer.produce(f"{self.prefix}-in", line, partition=number % PARTITIONS)
            self.expected.update(words(line))
        self._producer.flush(30)

    def until_counted(self) -> None:
        """Wait until every word has been counted as often as it was sent."""
        wait_for(
            lambda: read_counts(self.bootstrap_servers, self.prefix) == self.expected,
            what="exact counts",
            timeout_s=120,
            every_s=0.5,
        )


@pytest.fixture
def counted(bootstrap_servers: str, unique_name: str) -> Counted:
    return Counted(bootstrap_servers, unique_name)


@pytest.fixture
def journey(admin: KubeClient, namespace: str, kubectl: Command, cluster: Cluster) -> Journey:
    """A user in a fresh namespace; machines instead of players."""
    return Journey(admin, namespace, kubectl, cast("Stage", cluster))


def test_a_word_count_on_two_machines_counts_exactly(
    counted: Counted, journey: Journey, own_installation: Installation, cluster: Cluster
) -> None:
    with explained(journey, own_installation.process("first"), cluster):
        journey.apply(counted.app())
        journey.until(lambda: journey.is_settled(APP), "the StreamApp to be ready")
        counted.feed()
        counted.until_counted()
        nodes = {cluster.node_of(journey.namespace, name).name for name in journey.held(APP)}
        assert len(nodes) == 2

        cluster.kill(journey.namespace, min(journey.held(APP)))
        counted.feed()
        counted.until_counted()

        journey.kubectl("delete", "sapp", APP, "--timeout=120s")
        assert journey.names(PODS) == []


@pytest.mark.parametrize("fault", ["lost", "frozen"])
def test_a_machine_that_is_gone_for_a_while_costs_no_count(
    counted: Counted,
    journey: Journey,
    own_installation: Installation,
    cluster: Cluster,
    fault: str,
) -> None:
    with explained(journey, own_installation.process("first"), cluster):
        journey.apply(counted.app())
        journey.until(lambda: journey.is_settled(APP), "the StreamApp to be ready")
        counted.feed()
        counted.until_counted()
        worker = min(journey.held(APP))
        node = cluster.node_of(journey.namespace, worker)

        with gone(node, fault):
            counted.feed()
            counted.until_counted()
            assert not journey.held(APP).get(worker)

        # One that was frozen finds out that others have its tasks; a lost one starts anew.
        counted.feed()
        journey.until(lambda: journey.is_settled(APP), "the StreamApp to be ready again")
        counted.until_counted()
        journey.kubectl("delete", "sapp", APP, "--timeout=120s")


@contextmanager
def gone(node: Node, fault: str) -> Iterator[None]:
    """Have a machine lost or frozen for a while."""
    go, come = (node.lose, node.recover) if fault == "lost" else (node.freeze, node.thaw)
    go()
    try:
        yield
    finally:
        come()


@contextmanager
def explained(journey: Journey, operator: OperatorProcess, cluster: Cluster) -> Iterator[None]:
    """Let a failure show what everybody has said."""
    try:
        yield
    except AssertionError as error:
        logs = [cluster.log(journey.namespace, name) for name in sorted(journey.held(APP))]
        said = "\n".join(["", *(log[-6_000:] for log in (operator.log, *logs))])
        raise AssertionError(f"{error}{said}") from error
