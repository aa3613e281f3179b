"""spec.upgrade.canary: the first worker of a new revision is on probation, the others serve."""

from __future__ import annotations

import pytest
from tests.support.kube_rig import IMAGE, NAMESPACE, KubeRig, streamapp

from headwater.model.cluster import WorkerError
from headwater_operator.kube.api import PODS

BETTER = "example/worker:2"
CANARY_MS = 60_000


@pytest.fixture
def serving(rig: KubeRig) -> KubeRig:
    """Three workers that are ready, and nodes that can pull two images."""
    rig.node.images = {IMAGE, BETTER}
    upgrade = {"canary": "60s", "readyTimeout": "120s"}
    rig.apply(streamapp(replicas=3, upgrade=upgrade))
    rig.until(rig.is_ready)
    return rig


def of(rig: KubeRig, image: str) -> list[str]:
    """The workers that run an image."""
    pods = rig.api.list(PODS, NAMESPACE)
    found = {
        pod["metadata"]["name"]: pod["spec"]["containers"][0]["image"]
        for pod in pods
        if "deletionTimestamp" not in pod["metadata"]
    }
    return sorted(name for name, its in found.items() if its == image)


def until_watched(rig: KubeRig) -> str:
    """Turn until the first is ready, and watched; return its name."""
    rig.until(lambda: "spec.upgrade.canary" in rig.condition("Progressing")[2], turns=2_000)
    [canary] = of(rig, BETTER)
    return canary


def test_the_others_follow_only_once_the_first_was_ready_for_so_long(serving: KubeRig) -> None:
    serving.set("/spec/image", BETTER)
    canary = until_watched(serving)
    began_ms = serving.now_ms
    assert f"{canary} is the first of the new revision" in serving.condition("Progressing")[2]
    assert serving.condition("Ready")[:2] == ("False", "RollingOut")
    assert serving.status()["readyReplicas"] == 3, "all serve meanwhile"

    serving.until(lambda: len(of(serving, IMAGE)) < 2, turns=2_000)

    assert CANARY_MS - 1_000 <= serving.now_ms - began_ms <= CANARY_MS + 5_000
    serving.until(serving.is_ready, turns=2_000)
    assert len(of(serving, BETTER)) == 3
    # The third need not wait as long again.
    assert serving.now_ms - began_ms < 2 * CANARY_MS


def fail(rig: KubeRig, name: str) -> None:
    """Have the new process of a worker end with an error whenever it runs."""
    is_new = name in of(rig, BETTER)
    error = WorkerError(error="ConfigError", message="no such option")
    rig.workers[name].error = error if is_new else None


def test_a_first_that_fails_while_it_is_watched_leaves_the_others_as_they_are(
    serving: KubeRig,
) -> None:
    serving.set("/spec/image", BETTER)
    canary = until_watched(serving)
    others = {name: serving.uid(PODS, name) for name in of(serving, IMAGE)}

    def has_halted() -> bool:
        fail(serving, canary)
        return serving.condition("Progressing")[1] == "RolloutHalted"

    serving.until(has_halted, turns=2_000)
    for _ in range(2 * CANARY_MS // 250):
        fail(serving, canary)
        serving.turn()

    assert {name: serving.uid(PODS, name) for name in of(serving, IMAGE)} == others
    assert "no such option" in serving.condition("Degraded")[2]
    tasks = [task for name in others for task in serving.held()[name]]
    assert len({*tasks}) == len(tasks)


def test_a_first_that_fails_while_it_is_watched_is_rolled_back(serving: KubeRig) -> None:
    serving.set("/spec/upgrade/onFailure", "RollBack")
    serving.set("/spec/image", BETTER)
    canary = until_watched(serving)
    others = {name: serving.uid(PODS, name) for name in of(serving, IMAGE)}

    def is_back() -> bool:
        fail(serving, canary)
        is_said = serving.condition("Ready")[:2] == ("False", "RolledBack")
        return is_said and len(of(serving, IMAGE)) == serving.status()["readyReplicas"] == 3

    serving.until(is_back, turns=4_000)

    assert {name: serving.uid(PODS, name) for name in others} == others, "they were never touched"


def test_another_operator_watches_the_first_for_no_less(serving: KubeRig) -> None:
    serving.set("/spec/image", BETTER)
    canary = until_watched(serving)
    serving.turn(CANARY_MS // 2 // 250)

    serving.operator = serving.new_operator("pod-2")
    began_ms = serving.now_ms
    serving.until(lambda: len(of(serving, IMAGE)) < 2, turns=4_000)

    assert serving.now_ms - began_ms >= CANARY_MS
    assert canary in of(serving, BETTER)


def test_a_correction_need_not_wait_for_the_first(serving: KubeRig) -> None:
    """The correction has a first of its own: the one that is there is of the past."""
    serving.set("/spec/image", BETTER)
    canary = until_watched(serving)

    serving.set("/spec/image", IMAGE)
    serving.until(serving.is_ready, turns=2_000)

    assert len(of(serving, IMAGE)) == 3
    assert canary in of(serving, IMAGE)
