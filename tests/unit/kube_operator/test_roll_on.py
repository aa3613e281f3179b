"""A change of a Secret or ConfigMap that spec.upgrade.rollOn names is rolled out, once."""

from __future__ import annotations

import pytest
from tests.support.kube_rig import IMAGE, NAMESPACE, KubeRig, streamapp

from headwater.model.cluster import WorkerError
from headwater_operator.kube.api import PODS, STREAM_APPS
from headwater_operator.manifests.names import REVISION_LABEL

DB = [{"kind": "Secret", "name": "db"}]


@pytest.fixture
def serving(rig: KubeRig) -> KubeRig:
    """Three workers that are ready and were started from the first password."""
    rig.workers.contents["Secret db"] = b"first"
    rig.apply(streamapp(replicas=3, upgrade={"rollOn": DB, "readyTimeout": "60s"}))
    rig.until(rig.is_ready)
    return rig


def pods(rig: KubeRig) -> dict[str, str]:
    return {name: rig.uid(PODS, name) for name in rig.names(PODS)}


def revisions(rig: KubeRig) -> list[str]:
    found = rig.api.list(PODS, NAMESPACE)
    return sorted(pod["metadata"]["labels"][REVISION_LABEL] for pod in found)


def started_from(rig: KubeRig) -> list[bytes]:
    return [worker.began[1]["Secret db"] for worker in rig.workers.workers.values()]


def has_rolled(rig: KubeRig, content: bytes = b"second") -> bool:
    is_over = rig.condition("Progressing")[0] == "False"
    return rig.is_ready() and is_over and started_from(rig) == [content] * 3


def test_workers_are_replaced_one_at_a_time_and_once(serving: KubeRig) -> None:
    before, [base] = pods(serving), {*revisions(serving)}
    serving.workers.contents["Secret db"] = b"second"

    def has_rolled_singly() -> bool:
        running = [worker for worker in serving.workers.workers.values() if worker.incarnation]
        assert len(running) >= 2
        return has_rolled(serving)

    serving.until(has_rolled_singly, turns=2_000)

    assert revisions(serving) == [f"{base}-1"] * 3
    revision = serving.status()["revision"]
    assert revision["current"] == revision["lastStable"] == f"{base}-1"
    after = pods(serving)
    assert not {*before.values()} & {*after.values()}
    serving.turn(300)
    assert pods(serving) == after, "once"
    said = [text for reason, text in serving.events() if reason == "ConfigurationChanged"]
    assert said == ["Secret db has changed since workers were started from it"]


def test_the_condition_names_what_has_changed_and_nothing_of_its_content(serving: KubeRig) -> None:
    serving.workers.contents["Secret db"] = b"second"

    serving.until(lambda: serving.condition("Progressing")[1] == "RollingOut")

    assert serving.condition("Progressing")[2].startswith(
        "3 processes of another revision are still to be replaced, because of spec.upgrade.rollOn: "
        "changed is Secret db"
    )
    assert serving.condition("Ready")[:2] == ("False", "RollingOut")
    assert "second" not in str(serving.api.get(STREAM_APPS, NAMESPACE, "wc"))


def test_another_operator_rolls_nothing_out_again(serving: KubeRig) -> None:
    serving.workers.contents["Secret db"] = b"second"
    serving.until(lambda: has_rolled(serving), turns=2_000)
    after = pods(serving)

    serving.operator = serving.new_operator("pod-2")
    serving.turn(400)

    assert serving.is_ready()
    assert pods(serving) == after


def test_another_operator_goes_on_with_a_roll_out(serving: KubeRig) -> None:
    serving.workers.contents["Secret db"] = b"second"
    serving.until(lambda: b"second" in started_from(serving), turns=2_000)

    serving.operator = serving.new_operator("pod-2")
    serving.until(lambda: has_rolled(serving), turns=4_000)

    assert revisions(serving)[0].endswith("-1")


def test_a_change_during_the_roll_out_is_rolled_out_with_it(serving: KubeRig) -> None:
    serving.workers.contents["Secret db"] = b"second"
    serving.until(lambda: b"second" in started_from(serving), turns=2_000)

    serving.workers.contents["Secret db"] = b"third"
    serving.until(lambda: has_rolled(serving, b"third"), turns=4_000)

    assert {*map(str, revisions(serving))} == {revisions(serving)[0]}
    assert revisions(serving)[0].endswith("-2")


def test_a_change_beside_one_of_the_specification_is_one_roll_out(serving: KubeRig) -> None:
    serving.set("/spec/restartNonce", 1)
    serving.workers.contents["Secret db"] = b"second"

    serving.until(lambda: has_rolled(serving), turns=4_000)

    after = pods(serving)
    serving.turn(300)
    assert pods(serving) == after


def test_workers_that_hear_of_it_late_are_replaced_with_the_others(serving: KubeRig) -> None:
    """Kubelets bring files up to date up to a minute apart."""
    for worker in serving.workers.workers.values():
        worker.sees = worker.name == "wc-w-2"
    serving.workers.contents["Secret db"] = b"second"

    serving.until(lambda: has_rolled(serving), turns=4_000)

    for worker in serving.workers.workers.values():
        worker.sees = True
    after = pods(serving)
    serving.turn(300)
    assert pods(serving) == after


def test_a_secret_that_is_deleted_warns_and_replaces_nobody(serving: KubeRig) -> None:
    before = pods(serving)
    serving.workers.contents["Secret db"] = b""

    serving.until(lambda: serving.condition("Degraded")[1] == "RollOnMissing")
    serving.turn(200)

    assert pods(serving) == before
    assert serving.condition("Ready")[0] == "True", "it serves"
    said = serving.condition("Degraded")[2]
    assert said.startswith("Secret db: not there")
    assert "spec.upgrade.rollOn" in said, "the next step"
    assert "RollOnMissing" in [reason for reason, _ in serving.events()]
    serving.workers.contents["Secret db"] = b"first"
    serving.until(lambda: serving.condition("Degraded")[0] == "False")
    serving.turn(200)
    assert pods(serving) == before, "it is the same again"


def test_one_that_comes_back_with_other_contents_is_rolled_out(serving: KubeRig) -> None:
    serving.workers.contents["Secret db"] = b""
    serving.until(lambda: serving.condition("Degraded")[1] == "RollOnMissing")

    serving.workers.contents["Secret db"] = b"second"

    serving.until(lambda: has_rolled(serving), turns=2_000)


def test_nothing_is_rolled_out_while_the_operator_looks_on(serving: KubeRig) -> None:
    before = pods(serving)
    annotation = {"headwater.dev/pause-reconciliation": "true"}
    serving.api.patch(
        STREAM_APPS,
        NAMESPACE,
        "wc",
        [{"op": "add", "path": "/metadata/annotations", "value": annotation}],
    )
    serving.turn(20)
    serving.workers.contents["Secret db"] = b"second"
    serving.turn(400)
    assert pods(serving) == before

    serving.api.patch(
        STREAM_APPS, NAMESPACE, "wc", [{"op": "remove", "path": "/metadata/annotations"}]
    )

    serving.until(lambda: has_rolled(serving), turns=2_000)


def break_those_of(rig: KubeRig, content: bytes) -> None:
    """Workers that are started from some contents end with an error."""
    for worker in rig.workers.workers.values():
        is_bad = worker.began[1].get("Secret db") == content
        error = WorkerError(error="ConfigError", message="the password is refused")
        worker.error = error if is_bad else None


@pytest.mark.parametrize("on_failure", ["Halt", "RollBack"])
def test_contents_with_which_no_worker_starts_halt_it_until_they_are_mended(
    serving: KubeRig, on_failure: str
) -> None:
    """There is no going back to what a Secret held before: the operator never knew it."""
    serving.set("/spec/upgrade/onFailure", on_failure)
    serving.turn(20)
    serving.workers.contents["Secret db"] = b"bad"

    def has_halted() -> bool:
        break_those_of(serving, b"bad")
        return serving.condition("Progressing")[1] == "RolloutHalted"

    serving.until(has_halted, turns=4_000)
    for _ in range(200):
        break_those_of(serving, b"bad")
        serving.turn()
    assert sorted(started_from(serving)) == [b"bad", b"first", b"first"]
    assert "the password is refused" in serving.condition("Degraded")[2]
    assert "failed" not in serving.status()["revision"]

    serving.workers.contents["Secret db"] = b"mended"

    def has_mended() -> bool:
        break_those_of(serving, b"bad")
        return has_rolled(serving, b"mended")

    serving.until(has_mended, turns=8_000)


def test_the_first_is_a_canary(serving: KubeRig) -> None:
    serving.set("/spec/upgrade/canary", "30s")
    serving.turn(20)
    # The others have not heard of it: that they are ready is no proof.
    for worker in serving.workers.workers.values():
        worker.sees = worker.name == "wc-w-0"
    serving.workers.contents["Secret db"] = b"second"
    serving.until(lambda: b"second" in started_from(serving), turns=2_000)
    serving.until(lambda: "spec.upgrade.canary" in serving.condition("Progressing")[2], turns=2_000)
    began_ms = serving.now_ms

    serving.until(lambda: started_from(serving).count(b"second") == 2, turns=2_000)

    assert serving.now_ms - began_ms > 28_000


def test_after_a_roll_back_changes_wait_for_the_correction(rig: KubeRig) -> None:
    rig.workers.contents["Secret db"] = b"first"
    rig.node.images = {IMAGE}
    upgrade = {"rollOn": DB, "readyTimeout": "60s", "onFailure": "RollBack"}
    rig.apply(streamapp(replicas=3, upgrade=upgrade))
    rig.until(rig.is_ready)
    rig.set("/spec/image", "example/missing:1")
    rig.until(lambda: rig.condition("Ready")[1] == "RolledBack", turns=2_000)
    rig.until(lambda: rig.status()["readyReplicas"] == 3, turns=2_000)
    rig.workers.contents["Secret db"] = b"second"
    rig.turn(400)
    assert rig.condition("Ready")[1] == "RolledBack"

    rig.set("/spec/image", IMAGE)

    rig.until(lambda: has_rolled(rig), turns=4_000)


def test_who_names_nothing_has_pods_as_before(rig: KubeRig) -> None:
    rig.apply(streamapp())
    rig.until(rig.is_ready)

    for pod in rig.api.list(PODS, NAMESPACE):
        names = {entry["name"] for entry in pod["spec"]["containers"][0]["env"]}
        assert not {name for name in names if "ROLL_ON" in name or "REVISION" in name}
