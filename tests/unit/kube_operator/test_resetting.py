"""A reset on a cluster: asked for with an annotation, carried out when no worker runs a task."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.kube_life import TASKS
from tests.support.kube_rig import NAMESPACE, KubeRig, streamapp

from headwater.model.cluster import WorkerError
from headwater_operator.kube.api import CLAIMS, PODS, STREAM_APPS, STREAM_WORKERS
from headwater_operator.manifests.names import RESET_ANNOTATION, SHIFTS_ANNOTATION

if TYPE_CHECKING:
    from headwater_operator.kube.api import Manifest


def annotations(rig: KubeRig) -> Manifest:
    found = rig.api.get(STREAM_APPS, NAMESPACE, "wc")
    assert found is not None
    return dict(found["metadata"].get("annotations") or {})


def is_over(rig: KubeRig) -> bool:
    return annotations(rig) == {"else": "x"} and rig.is_ready() and rig.tasks() == TASKS


def test_a_reset_deletes_what_kafka_and_volumes_hold_and_the_application_begins_anew(
    ready: KubeRig,
) -> None:
    claims = {name: ready.uid(CLAIMS, name) for name in ready.names(CLAIMS)}
    ready.set("/metadata/annotations", {RESET_ANNOTATION: "now", "else": "x"})
    ready.until(lambda: ready.condition("Ready")[:2] == ("False", "Resetting"))
    assert ready.condition("Reconciling")[0] == "True"
    assert ready.status()["operation"]["type"] == "Reset"

    ready.until(lambda: is_over(ready))

    assert ready.workers.of("wc").resets == 1
    assert all(ready.uid(CLAIMS, name) != uid for name, uid in claims.items())
    assert len(ready.names(STREAM_WORKERS)) == 2
    assert [reason for reason, _ in ready.events()].count("Reset") == 1


def test_each_annotation_is_a_reset_of_its_own(ready: KubeRig) -> None:
    for number in (1, 2):
        ready.set("/metadata/annotations", {RESET_ANNOTATION: "now", "else": "x"})
        ready.until(lambda: is_over(ready))
        assert ready.workers.of("wc").resets == number


@pytest.mark.parametrize("value", ["false", "", "later"])
def test_any_other_value_of_the_annotation_resets_nothing_and_is_told(
    ready: KubeRig, value: str
) -> None:
    ready.set("/metadata/annotations", {RESET_ANNOTATION: value})
    ready.until(lambda: ready.condition("Degraded")[1] == "ResetNotUnderstood")
    ready.turn(20)

    assert ready.workers.of("wc").resets == 0
    assert ready.is_ready()
    assert f"{RESET_ANNOTATION}=now" in ready.condition("Degraded")[2]

    ready.set("/metadata/annotations", {})
    ready.until(lambda: ready.condition("Degraded")[0] == "False")


@pytest.mark.parametrize(
    ("value", "to"),
    [
        ("earliest", "earliest"),
        ("2026-01-31T08:00:00Z", "2026-01-31T08:00:00Z"),
        ("PT90M", "PT1H30M"),
        ("offset:7 topics:lines", "offset:7 topics:lines"),
    ],
)
def test_the_annotation_says_where_the_application_begins(
    ready: KubeRig, value: str, to: str
) -> None:
    ready.set("/metadata/annotations", {RESET_ANNOTATION: value, "else": "x"})

    ready.until(lambda: is_over(ready))

    assert ready.workers.of("wc").reset_to == [to]


def test_a_reset_that_is_refused_is_told_and_another_value_is_another_request(
    ready: KubeRig,
) -> None:
    ready.set("/metadata/annotations", {RESET_ANNOTATION: "shift:-5", "else": "x"})
    ready.until(lambda: (ready.status().get("failure") or {}).get("error") == "ResetError")
    ready.turn(20)
    assert ready.workers.of("wc").resets == 0

    ready.set("/metadata/annotations", {RESET_ANNOTATION: "earliest", "else": "x"})
    ready.until(lambda: is_over(ready))

    assert ready.workers.of("wc").reset_to == ["earliest"]
    assert "failure" not in ready.status()


def test_shifts_are_counted_so_that_the_same_wish_is_another_request(ready: KubeRig) -> None:
    ready.workers.of("wc").has_offsets = True
    for number in (1, 2):
        mine = {RESET_ANNOTATION: "shift:-5", "else": "x"}
        ready.set("/metadata/annotations", {**annotations(ready), **mine})
        counted = {SHIFTS_ANNOTATION: str(number), "else": "x"}
        ready.until(lambda counted=counted: annotations(ready) == counted and ready.is_ready())

    first, second = ready.workers.of("wc").requests
    assert first != second


def test_a_suspended_streamapp_is_reset_and_stays_suspended(ready: KubeRig) -> None:
    ready.set("/spec/suspend", value=True)
    ready.until(lambda: ready.status()["state"] == "NOT_RUNNING")

    ready.set("/metadata/annotations", {RESET_ANNOTATION: "now", "else": "x"})
    ready.until(lambda: annotations(ready) == {"else": "x"})
    ready.until(lambda: ready.condition("Ready")[1] == "Suspended")

    assert ready.workers.of("wc").resets == 1
    assert ready.names(CLAIMS) == []


def test_an_application_that_was_given_up_for_expired_offsets_runs_again_after_it(
    ready: KubeRig,
) -> None:
    expired = WorkerError(error="OffsetsExpiredError", message="headwater.dev/reset=now")
    for worker in ready.workers.workers.values():
        worker.error = expired
    ready.until(lambda: ready.status()["state"] == "ERROR")

    ready.set("/metadata/annotations", {RESET_ANNOTATION: "now", "else": "x"})
    ready.until(lambda: ready.condition("Ready")[1] == "Resetting")
    for worker in ready.workers.workers.values():
        worker.error = None
    ready.until(lambda: is_over(ready))

    assert ready.workers.of("wc").resets == 1
    assert "failure" not in ready.status()


def test_who_has_an_application_id_in_vain_does_not_reset_the_one_that_runs(
    ready: KubeRig,
) -> None:
    younger = streamapp(applicationId="wc")
    younger["metadata"] |= {"name": "younger", "annotations": {RESET_ANNOTATION: "now"}}
    ready.api.create(STREAM_APPS, younger)
    ready.turn(400)

    found = ready.api.get(STREAM_APPS, NAMESPACE, "younger")
    assert found is not None
    assert found["metadata"]["annotations"] == {RESET_ANNOTATION: "now"}
    assert found["status"]["conditions"][0]["reason"] == "ApplicationIdInUse"
    assert ready.workers.of("wc").resets == ready.workers.of("younger").resets == 0
    assert ready.names(PODS) == ["wc-w-0", "wc-w-1"]
