"""Real workers whose image a catalogue names: one goes first, and a bad version gets no further.

An image is code here, as it is in a registry: each version brings a module ``shop`` of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pytest

from headwater_operator.kube.api import PODS
from tests.kube.kubelet.cluster import python_image
from tests.kube.story import APP, Counting, explained, one_at_a_time, step, until_shared

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kube.journey import Installation, Journey
    from tests.kube.kubelet.cluster import Cluster

pytestmark = [
    pytest.mark.sampled,
    pytest.mark.usefixtures("crds"),
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.timeout(1_800),
]

WORKERS: Final = 3
SWEEP_S: Final = 3
"""No watch tells of catalogues."""
READY_TIMEOUT: Final = "45s"
"""For a version that is bad. A good one has the time that a busy machine takes."""
SERVES = """
from tests.support.counting import build

print("shop {version} is imported", flush=True)
"""
ENDS = """
import os

print("shop 3 has no model", flush=True)
os._exit(7)
"""
HANGS = """
import threading

threading.Event().wait()
"""
VERSIONS: Final = {
    "1": SERVES.format(version=1),
    "2": SERVES.format(version=2),
    "3": ENDS,
    "4": HANGS,
}


@dataclass
class Shop:
    """A StreamApp that names a version, and the catalogue of these versions."""

    counting: Counting
    journey: Journey
    cluster: Cluster

    def publish(self, directory: Path) -> None:
        """Make an image of each version, and the catalogue that names them."""
        for version, code in VERSIONS.items():
            place = directory / f"shop-{version}"
            place.mkdir()
            (place / "shop.py").write_text(code)
            self.cluster.images[image(version)] = python_image(place)
        self.catalogue({version: image(version) for version in VERSIONS})

    def catalogue(self, images: dict[str, str]) -> None:
        """Write the catalogue."""
        entries = [{"version": key, "image": value} for key, value in images.items()]
        self.journey.apply(
            {
                "apiVersion": "headwater.dev/v1alpha1",
                "kind": "StreamImageCatalog",
                "metadata": {"name": "shop"},
                "spec": {"images": entries},
            }
        )

    def apply(self) -> None:
        """Have workers of version 1; the first of another one is watched for a long time."""
        app = self.counting.app(
            replicas=WORKERS,
            topology={"module": "shop:build"},
            imageCatalogRef={"name": "shop", "version": "1"},
            upgrade={"canary": "1h"},
            assignment={"moveDelay": "2s"},
        )
        assert isinstance(app["spec"], dict)
        del app["spec"]["image"]
        self.journey.apply(app)

    def want(self, version: str, **upgrade: str) -> None:
        """Name another version, and say how it is rolled out."""
        changes = {f"/spec/upgrade/{name}": value for name, value in upgrade.items()}
        self.journey.patch_all({"/spec/imageCatalogRef/version": version, **changes})

    def of(self, version: str) -> dict[str, str]:
        """The pods of a version that are not about to end: their uids by name."""
        return {
            pod["metadata"]["name"]: pod["metadata"]["uid"]
            for pod in self.journey.api.list(PODS, self.journey.namespace)
            if pod["spec"]["containers"][0]["image"] == image(version)
            and "deletionTimestamp" not in pod["metadata"]
        }

    def until_others_serve(self, before: dict[str, str]) -> None:
        """Wait until all tasks run, on workers that were there before, all but one of them."""
        tasks = self.counting.partitions
        self.journey.until(
            lambda: self.journey.status()["tasks"]["running"] == tasks, "the others to serve"
        )
        [bad] = replaced(self.journey, before)
        held = self.journey.held()
        assert sum(len(held[name]) for name in before if name != bad) == tasks

    def is_rolled_out(self, version: str) -> bool:
        """Whether all workers run a version, and all is settled."""
        return self.journey.is_settled() and len(self.of(version)) == WORKERS


def image(version: str) -> str:
    return f"headwater-test/shop:{version}"


def replaced(journey: Journey, before: dict[str, str]) -> list[str]:
    """The workers that have another pod than before, or none."""
    now = journey.uids()
    return [name for name, uid in before.items() if now.get(name) != uid]


def test_another_version_of_the_catalogue_goes_first_to_one_and_a_bad_one_to_no_other(
    bootstrap_servers: str,
    unique_name: str,
    journey: Journey,
    own_installation: Installation,
    cluster: Cluster,
    tmp_path: Path,
) -> None:
    counting = Counting(bootstrap_servers, unique_name)
    shop = Shop(counting, journey, cluster)
    own_installation.sweep_s = SWEEP_S
    with explained(journey, own_installation.process("first"), cluster):
        with step("three workers of version 1"):
            shop.publish(tmp_path)
            shop.apply()
            until_shared(journey, WORKERS)
            counting.feed(f"first-{number}" for number in range(500))
            assert len(shop.of("1")) == WORKERS
        with counting.under_load():
            roll_behind_a_canary(shop)
            halt(shop)
            roll_back(shop)
            with step("mended in the catalogue, the version is rolled out"):
                shop.catalogue({"4": image("1"), "2": image("2")})
                journey.until(lambda: shop.is_rolled_out("1"), "the mended version to run")
                assert journey.condition("Ready")[:2] == ("True", "Running")
            counting.until_more()
        counting.until_counted()
        journey.kubectl("delete", "sapp", APP, "--timeout=220s")
        counting.check_volumes(journey, cluster)


def roll_behind_a_canary(shop: Shop) -> None:
    """One worker has the new version for as long as it is watched, and then all have it."""
    journey = shop.journey
    with step("version 2: one worker goes first, then the others"), one_at_a_time(journey):
        before = journey.uids()
        shop.want("2")

        def is_watched() -> bool:
            return "spec.upgrade.canary" in journey.condition("Progressing")[2]

        journey.until(is_watched, "the first of version 2 to be watched")
        [canary] = shop.of("2")
        said = journey.condition("Progressing")[2]
        assert f"{canary} is the first of the new revision" in said
        # It serves, and the two others are those of before.
        until_shared_by(shop, canary)
        assert replaced(journey, before) == [canary]
        assert "shop 2 is imported" in shop.cluster.log(journey.namespace, canary)
        journey.patch("/spec/upgrade/canary", "1s")
        journey.until(lambda: shop.is_rolled_out("2"), "version 2 to run everywhere")


def until_shared_by(shop: Shop, canary: str) -> None:
    """Wait until the first of a version has tasks and all run."""
    journey, tasks = shop.journey, shop.counting.partitions
    journey.until(
        lambda: journey.held()[canary] and journey.status()["tasks"]["running"] == tasks,
        "the first of the version to have tasks",
    )


def halt(shop: Shop) -> None:
    """A version whose process ends gets one worker; the others serve, and somebody has to act."""
    journey = shop.journey
    with step("version 3, whose process ends: the roll-out halts, and is rolled back when asked"):
        before = journey.uids()
        shop.want("3", readyTimeout=READY_TIMEOUT, onFailure="Halt")
        until_halted(shop)
        shop.until_others_serve(before)
        [bad] = replaced(journey, before)
        assert "shop 3 has no model" in shop.cluster.log(journey.namespace, bad)
        shop.counting.until_more()
        # Nobody else was taken meanwhile.
        assert replaced(journey, before) == [bad]
        journey.patch("/spec/upgrade/onFailure", "RollBack")
        until_back(shop, before)


def roll_back(shop: Shop) -> None:
    """A version that never becomes ready is rolled back by itself."""
    journey = shop.journey
    with step("version 4, which never is ready: it is rolled back"):
        before = journey.uids()
        shop.want("4")
        journey.until(lambda: shop.of("4"), "the first of version 4")
        until_back(shop, before)
        [bad] = replaced(journey, before)
        assert f"{bad} did not become ready within 45 s" in journey.condition("Ready")[2]


def until_halted(shop: Shop) -> None:
    def is_halted() -> bool:
        return shop.journey.condition("Progressing")[:2] == ("False", "RolloutHalted")

    shop.journey.until(is_halted, "the roll-out to halt")
    said = shop.journey.condition("Progressing")[2]
    assert "did not become ready within 45 s" in said


def until_back(shop: Shop, before: dict[str, str]) -> None:
    """Wait until version 2 runs everywhere again; the others have never been away."""
    journey = shop.journey

    def is_back() -> bool:
        is_said = journey.condition("Ready")[:2] == ("False", "RolledBack")
        ready = journey.status()["readyReplicas"]
        return is_said and len(shop.of("2")) == ready == WORKERS

    journey.until(is_back, "version 2 to run everywhere again")
    assert len(replaced(journey, before)) == 1
    revision = journey.status()["revision"]
    assert revision["current"] == revision["lastStable"] != revision["failed"]
