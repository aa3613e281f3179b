"""Other containers in the pods: what their states say, and that they move no task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml
from tests.support.documents import FULL
from tests.support.kube_rig import NAMESPACE, KubeRig, streamapp

from headwater_operator.decide import ProcessState
from headwater_operator.kube.api import CLAIMS, PODS, SERVICE_ACCOUNTS
from headwater_operator.observe.driver_pod import read_driver
from headwater_operator.observe.pods import is_hopeless, read_pod

if TYPE_CHECKING:
    from collections.abc import Mapping

RUNNING: Mapping[str, Any] = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
INITIALIZING: Mapping[str, Any] = {"waiting": {"reason": "PodInitializing"}}
LOOPING: Mapping[str, Any] = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}}
NO_IMAGE: Mapping[str, Any] = {"waiting": {"reason": "ErrImagePull", "message": "not found"}}


def failed(code: int = 3, words: str = "no model there") -> dict[str, Any]:
    return {"terminated": {"exitCode": code, "reason": "Error", "message": f"trying\n{words}"}}


def pod(
    worker: Mapping[str, Any],
    before: Mapping[str, Mapping[str, Any]] | None = None,
    beside: Mapping[str, Mapping[str, Any]] | None = None,
    *,
    phase: str = "Pending",
    ready: bool = False,
    main: str = "worker",
) -> dict[str, Any]:
    """A pod with states of its containers; names that begin with ``side`` are sidecars'."""
    return {
        "metadata": {"name": "wc-w-0", "uid": "u"},
        "spec": {
            "nodeName": "n",
            "initContainers": [
                {"name": name, **({"restartPolicy": "Always"} if name.startswith("side") else {})}
                for name in before or ()
            ],
        },
        "status": {
            "phase": phase,
            "initContainerStatuses": [
                {"name": name, "state": state, "ready": False}
                for name, state in (before or {}).items()
            ],
            "containerStatuses": [
                *(
                    {"name": name, "state": state, "ready": False}
                    for name, state in (beside or {}).items()
                ),
                {"name": main, "state": worker, "ready": ready, "started": ready},
            ],
        },
    }


def test_an_init_container_that_failed_ends_the_pod_and_says_why() -> None:
    view = read_pod(pod(INITIALIZING, {"fetch": failed()}, phase="Failed"))

    assert view.state is ProcessState.ENDED
    assert view.ended == "init container fetch: exit code 3: no model there"
    assert view.problem is not None
    assert view.problem.reason == "InitContainerFailed"
    assert "spec.podTemplate.initContainers" in view.problem.message
    assert not is_hopeless(view)  # the next one may not fail


def test_a_pod_that_was_evicted_is_no_fault_of_its_init_container() -> None:
    manifest = pod(INITIALIZING, {"fetch": failed(137)}, phase="Failed")
    manifest["status"] |= {"reason": "Evicted", "message": "low on memory"}

    assert read_pod(manifest).ended == "Evicted: low on memory"


def test_an_init_container_without_an_image_keeps_the_worker_from_beginning() -> None:
    view = read_pod(pod(INITIALIZING, {"fetch": NO_IMAGE}))

    assert view.problem is not None
    assert view.problem.reason == "ImagePullFailed"
    assert "container fetch: ErrImagePull: not found; correct fetch in" in view.problem.message
    assert is_hopeless(view)


@pytest.mark.parametrize(
    ("before", "awaited"),
    [
        ({"fetch": RUNNING}, "init container fetch to end"),
        ({"sidecar": RUNNING}, "sidecar sidecar to start"),
        ({"fetch": {"terminated": {"exitCode": 0}}}, "its container to be created"),
    ],
)
def test_what_a_worker_waits_for_is_named(
    before: Mapping[str, Mapping[str, Any]], awaited: str
) -> None:
    view = read_pod(pod(INITIALIZING, before))

    assert view.waits_for == awaited
    assert view.problem is None


def test_a_sidecar_that_cannot_start_keeps_the_worker_back() -> None:
    view = read_pod(pod(INITIALIZING, {"sidecar": LOOPING}))

    assert view.problem is not None
    assert view.problem.reason == "SidecarFailed"


@pytest.mark.parametrize(
    ("before", "beside"),
    [
        ({"sidecar": LOOPING}, {}),
        ({}, {"shipper": failed()}),
        ({}, {"shipper": NO_IMAGE}),
    ],
)
def test_what_is_wrong_beside_a_worker_that_runs_is_told_and_no_problem_of_the_worker(
    before: Mapping[str, Mapping[str, Any]], beside: Mapping[str, Mapping[str, Any]]
) -> None:
    view = read_pod(pod(RUNNING, before, beside, phase="Running", ready=True))

    assert view.state is ProcessState.RUNNING
    assert view.is_ready
    assert view.has_started
    assert view.problem is None
    assert view.waits_for == ""
    assert view.beside is not None
    assert view.beside.reason == "SidecarFailed"


def test_a_container_beside_the_worker_that_has_ended_well_is_told_too() -> None:
    once = {"once": {"terminated": {"exitCode": 0, "reason": "Completed"}}}
    view = read_pod(pod(RUNNING, beside=once, phase="Running", ready=True))

    assert view.beside is not None, "its pod is not ready for Kubernetes any more"
    assert "container once: exit code 0, and is not started again" in view.beside.message
    assert read_pod(pod(RUNNING, once, phase="Running", ready=True)).beside is None


@pytest.mark.parametrize("code", [0, 143])
def test_a_container_that_ends_because_its_pod_is_deleted_is_no_problem(code: int) -> None:
    manifest = pod(RUNNING, beside={"shipper": failed(code)}, phase="Running", ready=True)
    assert read_pod(manifest).beside is not None

    manifest["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"

    assert read_pod(manifest).beside is None


def test_a_ready_sidecar_makes_no_worker_ready_and_ends_none() -> None:
    manifest = pod(RUNNING, beside={"shipper": RUNNING}, phase="Running")
    manifest["status"]["containerStatuses"][0]["ready"] = True

    view = read_pod(manifest)

    assert not view.is_ready
    assert view.others_running == ("shipper",)
    assert read_pod(pod(failed(1), beside={"shipper": RUNNING}, phase="Running")).state is (
        ProcessState.ENDED
    )


def test_a_driver_whose_init_container_failed_was_not_disrupted() -> None:
    manifest = pod(INITIALIZING, {"fetch": failed()}, phase="Failed", main="driver")
    view = read_driver(manifest, read_pod(manifest), ())

    assert not view.was_disrupted
    assert view.end == "init container fetch: exit code 3: no model there"


# -- on the model API server ----------------------------------------------------------------------


def write_status(rig: KubeRig, name: str, **status: object) -> None:
    found = rig.api.get(PODS, NAMESPACE, name)
    assert found is not None
    metadata = {key: found["metadata"][key] for key in ("name", "namespace", "uid")}
    rig.api.apply(PODS, {"metadata": metadata, "status": status}, subresource="status")


def test_a_sidecar_that_fails_stands_in_a_condition_and_moves_no_task(ready: KubeRig) -> None:
    held, uids = ready.held(), {name: ready.uid(PODS, name) for name in ready.names(PODS)}
    found = ready.api.get(PODS, NAMESPACE, "wc-w-0")
    assert found is not None
    shipper = {"name": "shipper", "ready": False, "state": failed()}
    status = found["status"]
    write_status(
        ready,
        "wc-w-0",
        **{**status, "containerStatuses": [*status["containerStatuses"], shipper]},
    )

    ready.until(lambda: ready.condition("Degraded")[:2] == ("True", "SidecarFailed"))

    assert "container shipper: exit code 3: no model there" in ready.condition("Degraded")[2]
    assert ready.held() == held
    assert {name: ready.uid(PODS, name) for name in ready.names(PODS)} == uids


def test_an_init_container_that_fails_halts_a_roll_out_with_its_reason(ready: KubeRig) -> None:
    before = {name: ready.uid(PODS, name) for name in ready.names(PODS)}
    fetch = {"name": "fetch", "image": "fetch:1"}

    def fail(verb: str, plural: str, _: str) -> None:
        """Be a kubelet whose first container ends before the worker's begins."""
        if (verb, plural) != ("list", "pods"):
            return
        ready.api.on_call = lambda *_: None
        for each in ready.api.list(PODS, NAMESPACE):
            is_new = "initContainers" in each["spec"]
            if is_new and (each.get("status") or {}).get("phase") != "Failed":
                status = pod(INITIALIZING, {"fetch": failed()}, phase="Failed")["status"]
                write_status(ready, each["metadata"]["name"], **status)
        ready.api.on_call = fail

    ready.api.on_call = fail
    ready.set("/spec/podTemplate", {"initContainers": [fetch]})
    ready.until(lambda: ready.condition("Progressing")[1] == "RolloutHalted")

    assert ready.condition("Degraded")[1] == "InitContainerFailed"
    assert "init container fetch: exit code 3" in ready.condition("Degraded")[2]
    same = [name for name, uid in before.items() if ready.uid(PODS, name) == uid]
    assert len(same) == 1


def test_labels_of_claims_are_given_to_those_that_are_there(ready: KubeRig) -> None:
    before = {name: ready.uid(PODS, name) for name in ready.names(PODS)}

    ready.set(
        "/spec/state", {"volumeClaim": {"labels": {"a": "b"}, "annotations": {"x.y/z~": "1"}}}
    )
    ready.turn(4)

    for claim in ready.api.list(CLAIMS, NAMESPACE):
        assert claim["metadata"]["labels"]["a"] == "b"
        assert claim["metadata"]["labels"]["headwater.dev/app"] == "wc"
        assert claim["metadata"]["annotations"]["x.y/z~"] == "1"
    assert {name: ready.uid(PODS, name) for name in ready.names(PODS)} == before
    ready.api.calls.clear()
    ready.turn(4)
    assert {verb for verb, plural in ready.api.calls if plural == CLAIMS.plural} <= {"list"}


def test_a_pod_template_as_wide_as_can_be_is_rolled_out_once(rig: KubeRig) -> None:
    template = yaml.safe_load(FULL)["spec"]["podTemplate"]
    rig.apply(streamapp())
    rig.until(rig.is_ready)
    before = {name: rig.uid(PODS, name) for name in rig.names(PODS)}

    rig.set("/spec/podTemplate", template)
    rig.until(lambda: not {rig.uid(PODS, name) for name in rig.names(PODS)} & {*before.values()})
    rig.until(lambda: rig.is_ready() and rig.condition("Progressing")[1] == "Complete")
    after = {name: rig.uid(PODS, name) for name in rig.names(PODS)}
    rig.turn(20)

    assert {name: rig.uid(PODS, name) for name in rig.names(PODS)} == after
    [account] = rig.api.list(SERVICE_ACCOUNTS, NAMESPACE)
    given = template["serviceAccount"]
    assert account["metadata"]["annotations"].items() >= given["annotations"].items()
    assert account["metadata"]["labels"].items() >= given["labels"].items()
