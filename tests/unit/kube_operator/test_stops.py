"""A worker that is told to stop: it is written down before, and told again if it never heard."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.kube_rig import NAMESPACE, KubeRig, streamapp

from headwater.model import podcontract
from headwater_operator.kube.api import EVENTS, PODS, STREAM_APPS
from headwater_operator.kube.errors import ApiUnavailableError


@pytest.fixture
def ready() -> KubeRig:
    rig = KubeRig()
    rig.apply(streamapp())
    rig.until(lambda: rig.is_ready() and rig.status()["readyReplicas"] == 2)
    return rig


def test_a_rolling_change_goes_on_after_a_stop_that_got_no_answer(ready: KubeRig) -> None:
    revision = ready.status()["revision"]["current"]
    left = 1

    def refuse(verb: str, plural: str, name: str) -> None:
        nonlocal left
        if ready.is_operator_at_work and (verb, plural) == ("delete", PODS.plural) and left:
            left -= 1
            raise ApiUnavailableError("no answer")

    ready.api.on_call = refuse
    ready.set("/spec/config", {"commit.interval.ms": 200})

    ready.until(lambda: ready.status()["revision"]["current"] != revision)
    ready.until(lambda: ready.is_ready() and ready.status()["updatedReplicas"] == 2)
    assert left == 0


def test_the_end_of_a_silent_worker_is_written_down_before(ready: KubeRig) -> None:
    doing: list[tuple[str, str]] = []

    def note(verb: str, plural: str, name: str) -> None:
        pod = ready.api._objects["pods"].get(("pods", NAMESPACE, name))
        is_asked = pod is not None and "deletionTimestamp" in pod["metadata"]
        if ready.is_operator_at_work and (verb, plural) == ("delete", "pods") and not is_asked:
            operation = ready.status().get("operation") or {}
            doing.append((operation.get("type", ""), operation.get("target", "")))

    ready.api.on_call = note
    ready.workers["wc-w-0"].frozen = True

    ready.until(lambda: any(reason == "Silent" for reason, _ in ready.events()))

    assert doing[0] == ("Replace", "wc-w-0")


def test_pods_that_did_not_hear_that_their_streamapp_is_deleted_are_told_with_less_grace(
    rig: KubeRig,
) -> None:
    """SIGTERM that comes before a handler is there is lost, and the grace period is long."""
    rig.node.deaf, rig.node.starts = True, False
    rig.workers.speechless = True
    rig.apply(streamapp())
    rig.until(lambda: len(running(rig)) == 2)
    began_ms = rig.now_ms

    rig.delete()
    rig.until(lambda: not rig.names(STREAM_APPS))

    assert rig.now_ms - began_ms < 10_000
    assert rig.names(PODS) == []


def test_a_pod_that_has_begun_has_its_whole_grace_when_its_streamapp_is_deleted(
    ready: KubeRig,
) -> None:
    ready.node.deaf = True

    ready.delete()
    ready.turn(100)

    graces = {pod["metadata"]["deletionGracePeriodSeconds"] for pod in pods(ready)}
    assert graces == {podcontract.GRACE_S}


def pods(rig: KubeRig) -> list[dict[str, Any]]:
    return list(rig.api.list(PODS, NAMESPACE))


def running(rig: KubeRig) -> list[dict[str, Any]]:
    return [pod for pod in pods(rig) if (pod.get("status") or {}).get("phase") == "Running"]


def test_a_worker_that_comes_back_is_a_scale_up_and_no_replacement(ready: KubeRig) -> None:
    ready.scale(1)
    ready.until(lambda: len(running(ready)) == 1 and not ready.status().get("operation"))
    ready.scale(2)
    doing = set()

    def has_come() -> bool:
        doing.add((ready.status().get("operation") or {}).get("type", ""))
        return len(running(ready)) == 2 and ready.status()["readyReplicas"] == 2

    ready.until(has_come)

    assert doing <= {"", "ScaleUp"}
    told = [reason for reason, text in ready.events() if "wc-w-1: started" in text]
    assert sorted(told) == ["WorkerCreated", "WorkerReturns"]


def test_a_message_that_flips_is_one_event_that_counts(ready: KubeRig) -> None:
    """As that of an image that cannot be pulled does: ErrImagePull, ImagePullBackOff, and again."""
    ready.node.images = {"worker:1"}
    ready.set("/spec/image", "worker:2")
    ready.until(lambda: ready.condition("Degraded")[0] == "True")
    flips = 6
    for number in range(flips):
        ready.node.why = f"ImagePullBackOff {number}"
        ready.turn(12)

    events = [each for each in ready.api.list(EVENTS, NAMESPACE) if each["type"] == "Warning"]
    pulls = [each for each in events if each["reason"] == "ImagePullFailed"]

    assert len(pulls) == 1
    assert pulls[0]["count"] >= flips
    assert f"ImagePullBackOff {flips - 1}" in pulls[0]["message"]


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (
            'MountVolume.SetUp failed for volume "headwater-kafka" : secret "login" not found',
            ('secret "login" not found', "spec.kafka.authentication needs its keys username and"),
        ),
        (
            'MountVolume.SetUp failed for "kafka" : references non-existent secret key: password',
            ("secret key: password", "Secret login: spec.kafka.authentication needs its keys"),
        ),
    ],
    ids=["no Secret", "no key"],
)
def test_a_secret_that_is_missing_is_told_within_seconds_with_its_keys(
    rig: KubeRig, said: str, words: tuple[str, ...]
) -> None:
    authentication = {"type": "SCRAM-SHA-512", "secretRef": {"name": "login"}}
    kafka = {"bootstrapServers": "broker:9092", "authentication": authentication}
    rig.node.lost = True
    rig.apply(streamapp(kafka=kafka, replicas=1))
    rig.until(lambda: rig.names(PODS))
    about = {"uid": rig.uid(PODS, "wc-w-0")}
    named = {"name": "late", "namespace": NAMESPACE}
    rig.api.create(
        EVENTS,
        {"metadata": named, "involvedObject": about, "reason": "FailedMount", "message": said},
    )
    began_ms = rig.now_ms

    rig.until(lambda: rig.condition("Ready")[1] == "VolumeUnavailable")

    assert rig.now_ms - began_ms < 10_000
    assert [each for each in words if each not in rig.condition("Ready")[2]] == []
