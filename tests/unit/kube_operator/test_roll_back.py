"""A revision that does not become ready is rolled back, if that is asked for."""

from __future__ import annotations

import pytest
from tests.support.kube_rig import IMAGE, NAMESPACE, KubeRig, streamapp

from headwater.model.changes import rolled_part, with_rolled_part
from headwater.model.cluster import WorkerError
from headwater.model.streamapp import StreamAppSpec, parse
from headwater_operator.kube.api import PODS
from headwater_operator.manifests.names import REVISION_LABEL

BACK = {"onFailure": "RollBack", "readyTimeout": "60s"}
BAD, BETTER = "example/missing:1", "example/worker:2"


@pytest.fixture
def serving(rig: KubeRig) -> KubeRig:
    """Two workers that are ready, and nodes that can pull two images."""
    rig.node.images = {IMAGE, BETTER}
    rig.apply(streamapp(upgrade=BACK))
    rig.until(rig.is_ready)
    return rig


def images(rig: KubeRig) -> set[str]:
    return {pod["spec"]["containers"][0]["image"] for pod in rig.api.list(PODS, NAMESPACE)}


def revisions(rig: KubeRig) -> set[str]:
    pods = rig.api.list(PODS, NAMESPACE)
    return {pod["metadata"]["labels"][REVISION_LABEL] for pod in pods}


def is_rolled_back(rig: KubeRig) -> bool:
    return (
        rig.condition("Ready")[:2] == ("False", "RolledBack")
        and images(rig) == {IMAGE}
        and rig.status()["readyReplicas"] == 2
        and rig.condition("Progressing")[0] == "False"
    )


def test_a_revision_that_cannot_start_is_rolled_back_and_its_cause_is_named(
    serving: KubeRig,
) -> None:
    [before] = revisions(serving)
    serving.set("/spec/image", BAD)

    serving.until(lambda: is_rolled_back(serving), turns=2_000)

    revision = serving.status()["revision"]
    assert (revision["current"], revision["lastStable"]) == (before, before)
    assert revision["failed"] not in ("", before)
    assert BAD in revision["failedMessage"]
    said = serving.condition("Degraded")[2]
    assert f"was rolled back to {before}, which was ready before" in said
    assert BAD in said, "the cause"
    assert "change spec.restartNonce" in said, "the next step"
    assert serving.condition("Stalled")[:2] == ("True", "RolledBack")
    pods = {name: serving.uid(PODS, name) for name in serving.names(PODS)}
    serving.turn(300)
    assert {name: serving.uid(PODS, name) for name in serving.names(PODS)} == pods, "once"


def test_what_is_live_goes_on_being_carried_out_after_a_roll_back(serving: KubeRig) -> None:
    serving.set("/spec/image", BAD)
    serving.until(lambda: is_rolled_back(serving), turns=2_000)

    serving.scale(3)
    serving.until(lambda: len(serving.names(PODS)) == 3 and serving.status()["readyReplicas"] == 3)

    assert images(serving) == {IMAGE}
    assert serving.condition("Ready")[1] == "RolledBack"


def test_a_corrected_specification_is_rolled_out_after_a_roll_back(serving: KubeRig) -> None:
    serving.set("/spec/image", BAD)
    serving.until(lambda: is_rolled_back(serving), turns=2_000)

    serving.set("/spec/image", BETTER)
    serving.until(serving.is_ready, turns=2_000)

    assert images(serving) == {BETTER}
    assert "failed" not in serving.status()["revision"]
    assert serving.condition("SpecValid")[0] == "True"


def test_the_same_is_tried_again_for_another_restart_nonce(serving: KubeRig) -> None:
    serving.set("/spec/image", BAD)
    serving.until(lambda: is_rolled_back(serving), turns=2_000)

    serving.node.images = {IMAGE, BETTER, BAD}
    serving.set("/spec/restartNonce", 1)
    serving.until(serving.is_ready, turns=2_000)

    assert images(serving) == {BAD}


def test_another_operator_goes_on_with_a_roll_back(serving: KubeRig) -> None:
    serving.set("/spec/image", BAD)
    serving.until(lambda: "failed" in serving.status()["revision"], turns=2_000)

    serving.operator = serving.new_operator("pod-2")
    serving.until(lambda: is_rolled_back(serving), turns=4_000)


def test_without_being_asked_a_roll_out_halts(serving: KubeRig) -> None:
    serving.set("/spec/upgrade", {"onFailure": "Halt"})
    serving.set("/spec/image", BAD)

    serving.until(lambda: serving.condition("Progressing")[1] == "RolloutHalted", turns=2_000)
    serving.turn(300)

    assert images(serving) == {IMAGE, BAD}
    assert "failed" not in serving.status()["revision"]


def test_the_only_worker_is_rolled_back_too(rig: KubeRig) -> None:
    rig.node.images = {IMAGE, BETTER}
    rig.apply(streamapp(upgrade=BACK, replicas=1))
    rig.until(rig.is_ready)
    rig.set("/spec/image", BAD)

    rig.until(
        lambda: (
            rig.condition("Ready")[:2] == ("False", "RolledBack")
            and images(rig) == {IMAGE}
            and rig.status()["readyReplicas"] == 1
        ),
        turns=2_000,
    )

    assert BAD in rig.status()["revision"]["failedMessage"]


def test_a_failure_of_the_only_worker_is_rolled_back_and_does_not_end_the_application(
    rig: KubeRig,
) -> None:
    rig.node.images = {IMAGE, BETTER}
    rig.apply(streamapp(upgrade=BACK, replicas=1))
    rig.until(rig.is_ready)
    rig.set("/spec/image", BETTER)

    def is_back() -> bool:
        worker = rig.workers.workers["wc-w-0"]
        is_new = images(rig) == {BETTER}
        error = WorkerError(error="ImportPathError", message="a:b: no module")
        worker.error = error if is_new else None
        return rig.condition("Ready")[:2] == ("False", "RolledBack") and images(rig) == {IMAGE}

    rig.until(is_back, turns=2_000)
    rig.until(lambda: rig.status()["readyReplicas"] == 1, turns=800)
    assert "no module" in rig.status()["revision"]["failedMessage"]


def spec_of(**more: object) -> StreamAppSpec:
    document = streamapp(**more)
    return parse(document).spec


def test_the_rolled_part_comes_from_before_and_all_else_is_as_it_is_now() -> None:
    before = spec_of(
        image="a:1",
        config={"poll.ms": 5, "metrics.recording.level": "INFO"},
        kafka={"bootstrapServers": "b:1", "topics": [{"name": "old"}]},
        podTemplate={"labels": {"team": "a"}},
    )
    now = spec_of(
        image="a:2",
        replicas=5,
        config={"poll.ms": 6, "metrics.recording.level": "DEBUG"},
        logging={"level": "DEBUG"},
        kafka={"bootstrapServers": "b:2", "topics": [{"name": "new"}]},
        state={"size": "20Gi"},
    )

    merged = with_rolled_part(now, before)

    assert rolled_part(merged) == rolled_part(before)
    assert (merged.replicas, merged.state.size, merged.logging.level) == (5, "20Gi", "DEBUG")
    assert merged.config == {"poll.ms": 5, "metrics.recording.level": "DEBUG"}
    assert [topic.name for topic in merged.kafka.topics] == ["new"]
    assert with_rolled_part(now, now) == now
