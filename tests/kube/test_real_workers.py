"""The whole product but for containers: real scheduler, operator, workers, Kafka; several nodes.

What two workers count stays exact while containers and machines fail and a roll-out goes wrong.
A browser has the operator's page open meanwhile.
"""

from __future__ import annotations

import threading
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, Producer
from examples.word_count.app import words

from headwater.local.ports import free_port
from headwater_operator.kube.api import PODS
from tests.kube.kubelet.cluster import PYTHON
from tests.kube.story import APP, PATIENCE_S, explained, step, until_shared
from tests.support import word_count
from tests.support.browser import chromium, opened, shows
from tests.support.counting import PREFIX_VARIABLE
from tests.support.local_cluster import create_topics, read_counts, streamapp
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright.sync_api import Page as Tab

    from tests.kube.journey import Installation, Journey, OperatorProcess
    from tests.kube.kubelet.cluster import Cluster
    from tests.kube.kubelet.node import Node

pytestmark = [
    pytest.mark.sampled,
    pytest.mark.usefixtures("crds"),
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.timeout(1_800),
]

PARTITIONS = 4
LEASE_MS = 10_000
LINES = [f"all streams lead to kafka {number % 7}" for number in range(500)]
GOOD = "from tests.support.word_count import build\n"
BAD = f"import surely_missing\n{GOOD}"
MISSING = "ModuleNotFoundError: No module named 'surely_missing'"
OTHER = Path(word_count.__file__).read_text()
OTHER = OTHER.replace(".to_stream()", '.filter(lambda *_: True, store="more").to_stream()')
GAINS = "sub-topology 1: its stores gain 'more'"


class Counted:
    """A word count, its input, and what it has to come to."""

    def __init__(self, bootstrap_servers: str, prefix: str) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.prefix = prefix
        self.expected: Counter[str] = Counter()
        self._producer = Producer({"bootstrap.servers": bootstrap_servers})
        create_topics(bootstrap_servers, prefix, partitions=PARTITIONS)

    def app(self) -> dict[str, object]:
        """The StreamApp."""
        return streamapp(
            self.bootstrap_servers,
            self.prefix,
            topology={"module": "tests.support.word_count:build"},
            image=PYTHON,
            replicas=2,
            assignment={"moveDelay": "2s"},
            config={"session.timeout.ms": LEASE_MS},
            podTemplate={"env": [{"name": PREFIX_VARIABLE, "value": self.prefix}]},
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
            timeout_s=PATIENCE_S,
            every_s=0.5,
        )


@pytest.fixture
def counted(bootstrap_servers: str, unique_name: str) -> Counted:
    return Counted(bootstrap_servers, unique_name)


def test_two_workers_count_exactly_through_faults_and_a_bad_roll_out(
    counted: Counted, journey: Journey, own_installation: Installation, cluster: Cluster
) -> None:
    own_installation.web_port = free_port(taken=set())
    page = f"http://127.0.0.1:{own_installation.web_port}/?app={journey.namespace}/{APP}"
    operator = own_installation.process("first")
    with explained(journey, operator, cluster):
        begin_on_two_machines(counted, journey, cluster)
        with chromium() as browser, opened(browser, page) as tab:
            with step("the operator is killed, and started again where it was"):
                kill_the_operator(journey, own_installation, operator, tab)
            with step("a container is killed"):
                cluster.kill(journey.namespace, min(journey.held()))
                counted.feed()
                counted.until_counted()
            with step("a machine is lost for a while"):
                until_shared(journey, 2)
                with looked_on(journey, min(journey.held()), tab) as see:
                    lose_a_machine(counted, journey, cluster, "lost", see)
        with step("a roll-out of what cannot be imported halts"):
            until_shared(journey, 2)
            halt_a_roll_out(counted, journey, BAD, MISSING)
        with step("asked for, it is rolled back"):
            roll_back(counted, journey, MISSING)
        with step("corrected, it is rolled out"):
            correct(counted, journey)
        with step("it is deleted"):
            journey.kubectl("delete", "sapp", APP, "--timeout=220s")
            assert journey.names(PODS) == []


@pytest.mark.soak(
    stays="tests/kube/test_real_zones.py::test_neither_a_worker_asleep_nor_a_lost_zone_costs_a_count_or_a_restore"
)
def test_two_workers_count_exactly_past_a_frozen_machine_other_state_and_a_stranger(
    counted: Counted, journey: Journey, own_installation: Installation, cluster: Cluster
) -> None:
    with explained(journey, own_installation.process("first"), cluster):
        begin_on_two_machines(counted, journey, cluster)
        with step("a machine is frozen for a while"):
            lose_a_machine(counted, journey, cluster, "frozen")
        with step("a roll-out of a topology with other state halts"):
            until_shared(journey, 2)
            halt_a_roll_out(counted, journey, OTHER, GAINS)
        with step("corrected, it is rolled out"):
            correct(counted, journey)
        with step("a stranger in the consumer group stops it"), stranger(counted):
            journey.until(
                lambda: "that are not ours: stranger" in journey.condition("Ready")[2],
                "the application to stop for a member that is not ours",
            )
            journey.until(lambda: not any(journey.held().values()), "all tasks to be released")
        with step("it is deleted"):
            journey.kubectl("delete", "sapp", APP, "--timeout=220s")
            assert journey.names(PODS) == []


def begin_on_two_machines(counted: Counted, journey: Journey, cluster: Cluster) -> None:
    with step("two machines"):
        journey.apply(counted.app())
        until_shared(journey, 2)
        counted.feed()
        counted.until_counted()
        nodes = {cluster.node_of(journey.namespace, name).name for name in journey.held()}
        assert len(nodes) == 2


def correct(counted: Counted, journey: Journey) -> None:
    """Ask for a topology that can be run here: it comes to run everywhere."""
    journey.patch("/spec/topology", {"inline": GOOD})
    journey.until(lambda: is_rolled_out(journey), "the correction to run everywhere")
    counted.feed()
    counted.until_counted()


def kill_the_operator(
    journey: Journey, installation: Installation, operator: OperatorProcess, tab: Tab
) -> None:
    """Its page says that the values are old, connects again, and shows what is so by then."""
    shows(tab, "#freshness", "live")
    shows(tab, "#workers-note", "2 running")
    operator.kill()
    shows(tab, "#freshness", "as of")
    assert "The values are old" in tab.locator("#notice").inner_text()
    journey.patch("/spec/paused", True)
    installation.process(operator.place)
    shows(tab, "#state", "Paused")
    shows(tab, "#freshness", "live")
    assert tab.locator("#notice").is_hidden()
    journey.patch("/spec/paused", False)
    until_shared(journey, 2)
    shows(tab, "#state", "Running")


def lose_a_machine(
    counted: Counted,
    journey: Journey,
    cluster: Cluster,
    fault: str,
    see: Callable[[], None] = lambda: None,
) -> None:
    worker = min(journey.held())
    node = cluster.node_of(journey.namespace, worker)
    with gone(node, fault):
        see()
        counted.feed()
        counted.until_counted()
        assert not journey.held().get(worker)
    # One that was frozen finds out that others have its tasks; a lost one starts anew.
    counted.feed()
    until_shared(journey, 2)
    counted.until_counted()


@contextmanager
def looked_on(journey: Journey, worker: str, tab: Tab) -> Iterator[Callable[[], None]]:
    """See on the page that a worker is there again at the end; yields what sees that it is not."""
    card = f"[data-worker='{worker}']"

    def until_it_has(count: int, of: str = card) -> None:
        wait_for(lambda: tab.locator(f"{of} .tile").count() == count, what=f"{count} in {of}")

    def is_gone() -> None:
        shows(tab, card, "silent")
        until_it_has(0)
        until_it_has(2 * PARTITIONS, "#worker-cards")

    until_it_has(len(journey.held()[worker]))
    yield is_gone
    shows(tab, "#workers-note", "2 running")
    shows(tab, card, "running")
    until_it_has(len(journey.held()[worker]))


def halt_a_roll_out(counted: Counted, journey: Journey, source: str, why: str) -> None:
    """Ask for a topology that cannot be run here: it costs one worker, and the other serves."""
    before = journey.status()["revision"]["current"]
    pods = journey.uids()
    journey.patch("/spec/topology", {"inline": source})

    def is_halted() -> bool:
        state, reason, said = journey.condition("Progressing")
        return (state, reason) == ("False", "RolloutHalted") and why in said

    journey.until(is_halted, f"the roll-out to halt for this: {why}")
    counted.feed()
    counted.until_counted()
    journey.until(
        lambda: journey.status()["tasks"]["running"] == 2 * PARTITIONS, "the other one to serve"
    )
    kept = pods.items() & journey.uids().items()
    assert [len(journey.held()[name]) for name, _ in kept] == [2 * PARTITIONS]
    assert journey.status()["revision"]["current"] == before


def roll_back(counted: Counted, journey: Journey, why: str) -> None:
    """Have what was ready before serve again everywhere, while the specification stays bad."""
    journey.patch("/spec/upgrade", {"onFailure": "RollBack"})

    def is_rolled_back() -> bool:
        state, reason, said = journey.condition("Ready")
        served = journey.status()["readyReplicas"] == 2
        return (state, reason) == ("False", "RolledBack") and why in said and served

    journey.until(is_rolled_back, "the workers of the revision before to be ready")
    revision = journey.status()["revision"]
    assert revision["current"] == revision["lastStable"] != revision["failed"]
    counted.feed()
    counted.until_counted()


def is_rolled_out(journey: Journey) -> bool:
    """Whether all workers run what is wanted now."""
    status = journey.status()
    revision = status["revision"]
    return (
        journey.is_settled()
        and status["updatedReplicas"] == 2
        and revision["current"] == revision["update"]
    )


@contextmanager
def stranger(counted: Counted) -> Iterator[None]:
    """Somebody else is a member of the application's consumer group."""
    settings = {"bootstrap.servers": counted.bootstrap_servers, "client.id": "stranger"}
    consumer = Consumer({**settings, "group.id": counted.prefix})
    consumer.subscribe([f"{counted.prefix}-in"])
    over = threading.Event()

    def stay() -> None:
        while not over.is_set():
            consumer.poll(0.1)

    member = threading.Thread(target=stay)
    member.start()
    try:
        yield
    finally:
        over.set()
        member.join()
        consumer.close()


@contextmanager
def gone(node: Node, fault: str) -> Iterator[None]:
    """Have a machine lost or frozen for a while."""
    go, come = (node.lose, node.recover) if fault == "lost" else (node.freeze, node.thaw)
    go()
    try:
        yield
    finally:
        come()
