"""StreamApps deleted while their broker is away: nothing is left but what they say, nothing lost.

The rule is that of the operator's removal: a worker that has ended needs no fence.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from headwater.local.broker import KafkaBroker
from headwater_operator.kube.api import CLAIMS, LEASES, PODS, STREAM_WORKERS
from headwater_operator.kube.election import LEASE_NAME
from headwater_operator.manifests.names import claim_name
from tests.kube.story import APP, Counting, explained, step

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.kube.journey import Installation, Journey
    from tests.kube.kubelet.cluster import Cluster

pytestmark = [
    pytest.mark.sampled,
    pytest.mark.usefixtures("crds"),
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.timeout(1_800),
]

KEEPS, NEIGHBOUR = "keeps", "neighbour"
ONE = f"{NEIGHBOUR}-w-0"
KEYS = [f"key-{number}" for number in range(500)]


@dataclass(frozen=True)
class Named:
    """A StreamApp beside others.

    Attributes:
        name: its name.
        counting: what it counts.
        replicas: how many workers it has.
        when_deleted: what becomes of its claims with it.
    """

    name: str
    counting: Counting
    replicas: int
    when_deleted: str

    def apply(self, journey: Journey) -> None:
        """Have it."""
        kept = {"retention": {"whenDeleted": self.when_deleted}}
        app = self.counting.app(replicas=self.replicas, state=kept)
        journey.apply({**app, "metadata": {"name": self.name}})

    def until_settled(self, journey: Journey) -> None:
        """Wait until it runs."""
        journey.until(lambda: journey.is_settled(self.name), f"{self.name} to run")


@pytest.fixture
def mortal() -> Iterator[KafkaBroker]:
    """A broker that goes away."""
    with KafkaBroker(heap_mb=256) as broker:
        yield broker


def test_streamapps_deleted_while_their_broker_is_away_leave_nothing_and_lose_nothing(
    mortal: KafkaBroker,
    bootstrap_servers: str,
    unique_name: str,
    journey: Journey,
    own_installation: Installation,
    cluster: Cluster,
) -> None:
    servers = mortal.bootstrap_servers
    forgets = Named(APP, Counting(servers, f"{unique_name}-1"), 2, "Delete")
    keeps = Named(KEEPS, Counting(servers, f"{unique_name}-2", partitions=2), 1, "Retain")
    stays = Named(NEIGHBOUR, Counting(bootstrap_servers, unique_name, partitions=2), 1, "Delete")
    doomed = (forgets, keeps)
    with explained(journey, own_installation.process("first"), cluster):
        with step("three StreamApps"):
            for each in (*doomed, stays):
                each.apply(journey)
            for each in (*doomed, stays):
                each.until_settled(journey)
                each.counting.feed(KEYS)
            volume = journey.uid(CLAIMS, claim_name(f"{KEEPS}-w-0"))
            pod = journey.uid(PODS, ONE)
        with step("their broker goes away, then two of them"):
            for each in doomed:
                # Some are counted by now, some not, some are in transactions that stay open.
                each.counting.send(KEYS)
            mortal.kill()
            journey.kubectl("delete", "sapp", APP, KEEPS, "--timeout=220s")
            journey.until(lambda: left(journey) == ([ONE],) * 3, "what belonged to them to go")
            claims = [claim_name(f"{KEEPS}-w-0"), claim_name(ONE)]
            journey.until(lambda: journey.names(CLAIMS) == claims, "claims to go as they say")
            assert journey.uid(CLAIMS, claims[0]) == volume
        with step("the third one has not noticed"):
            stays.counting.feed(KEYS)
            stays.until_settled(journey)
            assert journey.uid(PODS, ONE) == pod
        with step("the broker comes back, and they do"):
            mortal.restart()
            for each in doomed:
                each.apply(journey)
            for each in doomed:
                each.until_settled(journey)
                each.counting.feed(KEYS)
            assert journey.uid(CLAIMS, claims[0]) == volume
        journey.kubectl("delete", "sapp", "--all", "--timeout=220s")


def left(journey: Journey) -> tuple[list[str], list[str], list[str]]:
    """Pods, StreamWorkers and the workers' Leases."""
    leases = [name for name in journey.names(LEASES) if name != LEASE_NAME]
    return journey.names(PODS), journey.names(STREAM_WORKERS), leases
