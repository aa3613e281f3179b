"""Real workers with standbys in another zone: one that sleeps past its Lease, and a lost zone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headwater.model.cluster import Role
from headwater_operator.kube.api import PODS
from tests.chaos.kills import Trap
from tests.kube.kubelet.storage import ZONE
from tests.kube.story import APP, Counting, Workers, explained, step
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kube.journey import Installation, Journey
    from tests.kube.kubelet.cluster import Cluster
    from tests.kube.kubelet.node import Node

pytestmark = [
    pytest.mark.sampled,
    pytest.mark.usefixtures("crds"),
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.timeout(1_800),
]

LEASE_MS = 10_000
LOST, LEFT = "a", "b"
LAG = 100
FIRST = [f"first-{number}" for number in range(6_000)]
"""So many keys that a store built anew would show: each partition has some hundreds of them."""
TAIL = [f"key-{number}" for number in range(300)]


def test_neither_a_worker_asleep_nor_a_lost_zone_costs_a_count_or_a_restore(
    bootstrap_servers: str,
    unique_name: str,
    tmp_path: Path,
    journey: Journey,
    own_installation: Installation,
    cluster: Cluster,
    capsys: pytest.CaptureFixture[str],
) -> None:
    counting = Counting(bootstrap_servers, unique_name)
    zones = Zones(journey, cluster)
    trap = Trap("commit.flushed", tmp_path / "trap")
    trap.close()
    with explained(journey, own_installation.process("first"), cluster):
        with step("four workers in two zones"):
            spread = {"topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
            journey.apply(
                counting.app(
                    replicas=4,
                    config={"session.timeout.ms": LEASE_MS},
                    env=trap.environment,
                    template={"topologySpreadConstraints": [spread]},
                    assignment={"standbyReplicas": 1, "acceptableRecoveryLag": LAG},
                )
            )
            zones.until_spread()
            assert [len(zones.workers(zone)) for zone in (LOST, LEFT)] == [2, 2]
        with step("one sleeps past its Lease with a transaction open"):
            with counting.under_load():
                sleep_and_wake(zones, trap)
            zones.until_spread()
            counting.until_counted()
        with step("a zone is lost under load"):
            counting.feed(FIRST)
            zones.until_spread()
            journey.until(zones.talk.are_copies_complete, "the standbys to have read everything")
            before = lengths(counting)
            with counting.under_load():
                journey.until(
                    lambda: sum(lengths(counting).values()) > sum(before.values()),
                    "the load to be counted",
                )
                tasks = zones.lose()
            read = zones.taken_over(tasks)
            now = lengths(counting)
            # A standby that moved again may have lacked what is acceptable.
            assert all(records <= now[task] - before[task] + LAG for task, records in read.items())
            assert all(records < before[task] for task, records in read.items())
            with capsys.disabled():
                print(f"\nread again by the other zone: {read} of {now}")
            counting.until_counted()
            counting.feed(TAIL)
        with step("it comes back"):
            for node in zones.nodes(LOST):
                node.recover()
            zones.until_spread()
            counting.feed(TAIL)
        journey.kubectl("delete", "sapp", APP, "--timeout=220s")
        counting.check_volumes(journey, cluster)


class Zones:
    """The workers of a user's StreamApp, by the zone they are in."""

    def __init__(self, journey: Journey, cluster: Cluster) -> None:
        self.journey = journey
        self.cluster = cluster
        self.talk = Workers(journey)

    def nodes(self, zone: str) -> list[Node]:
        return [node for node in self.cluster.nodes.values() if node.zone == zone]

    def zone_of(self, worker: str) -> str:
        """Where a worker's pod is; empty if it is nowhere."""
        pod = self.cluster.manifest(self.journey.namespace, worker)
        node = (pod.get("spec") or {}).get("nodeName")
        return self.cluster.nodes[node].zone if node else ""

    def workers(self, zone: str) -> list[str]:
        return [name for name in self.journey.names(PODS) if self.zone_of(name) == zone]

    def until_spread(self) -> None:
        """Wait until all tasks run, everywhere, and each has its standby in the other zone."""

        def is_spread() -> bool:
            if not self.journey.is_settled() or not all(self.journey.held().values()):
                return False
            if self.journey.condition("StandbysReady")[:2] != ("True", "CaughtUp"):
                return False
            standbys = self.talk.standbys()
            return all(
                task in standbys and self.zone_of(standbys[task]) != self.zone_of(name)
                for name, tasks in self.journey.held().items()
                for task in tasks
            )

        self.journey.until(is_spread, "every task to have a standby in the other zone")

    def lose(self) -> list[str]:
        """Lose a zone; return the tasks that it had."""
        held = self.journey.held()
        tasks = [task for name in self.workers(LOST) for task in held[name]]
        for node in self.nodes(LOST):
            node.lose()
        return tasks

    def taken_over(self, tasks: list[str]) -> dict[str, int]:
        """Wait until the other zone runs everything; return what it has read for these tasks."""
        left, every = self.workers(LEFT), set(self.journey.tasks()) | set(tasks)
        self.journey.until(lambda: self.talk.running(left).keys() >= every, "it to run everything")
        return {
            task["task"]: task["restored"]
            for name in left
            for task in self.talk.tasks(name)["tasks"]
            if task["role"] == Role.ACTIVE and task["task"] in tasks
        }


def lengths(counting: Counting) -> dict[str, int]:
    """How many entries the changelog holds, by task."""
    return {task: len(entries) for task, entries in counting.changelog().items()}


def sleep_and_wake(zones: Zones, trap: Trap) -> None:
    """Freeze a worker that is about to commit until others have its tasks; then wake it.

    Its commit is refused.
    """
    cluster, journey = zones.cluster, zones.journey
    every = set(journey.tasks())
    trap.set()
    caught = trap.caught()
    sleeper = next(
        name
        for name in journey.names(PODS)
        if caught.pid in [each.pid for each in cluster.processes(journey.namespace, name)]
    )
    cluster.freeze(journey.namespace, sleeper)
    others = [name for name in journey.names(PODS) if name != sleeper]

    # Granted means fenced. The operator kills who has slept for a minute.
    def are_granted() -> bool:
        held = journey.held()
        return {task for name in others for task in held.get(name, ())} >= every

    journey.until(are_granted, "others to be given its tasks")
    cluster.thaw(journey.namespace, sleeper)
    wait_for(
        lambda: "FencedError" in cluster.log(journey.namespace, sleeper),
        what="its commit to be refused",
    )
