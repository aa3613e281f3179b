"""The operator's rounds on the model API server, with workers that do as their specs say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.support.kube_fakes import IMAGE, condition_in
from tests.support.kube_model import unavailable
from tests.support.kube_rig import (
    NAMESPACE,
    OPERATORS,
    STEP_MS,
    KubeRig,
    count_budget,
    streamapp,
)

from headwater.model.cluster import WorkerError, generation_of
from headwater_operator.handlers.sweep import SWEEP_MS
from headwater_operator.kube.api import (
    BUDGETS,
    CLAIMS,
    CONFIG_MAPS,
    LEASES,
    PODS,
    ROLE_BINDINGS,
    ROLES,
    SERVICE_ACCOUNTS,
    STREAM_APPS,
    STREAM_WORKERS,
    Manifest,
)
from headwater_operator.kube.errors import ForbiddenError, NotFoundError
from headwater_operator.manifests.names import (
    APP_LABEL,
    FINALIZER,
    PAUSE_ANNOTATION,
    WORKER_LABEL,
)
from headwater_operator.manifests.storage import claim_taken

TASKS = ["0_0", "0_1", "1_0", "1_1"]


ROOT = Path(__file__).parents[3]


def test_a_new_streamapp_gets_workers_with_volumes_and_becomes_ready(rig: KubeRig) -> None:
    rig.apply(streamapp())

    rig.until(rig.is_ready)

    assert rig.names(STREAM_WORKERS) == ["wc-w-0", "wc-w-1"]
    assert rig.names(PODS) == ["wc-w-0", "wc-w-1"]
    assert rig.names(CLAIMS) == ["wc-w-0-state", "wc-w-1-state"]
    assert rig.names(BUDGETS) == ["wc"]
    assert rig.tasks() == TASKS
    assert {len(tasks) for tasks in rig.held().values()} == {2}
    assert rig.status()["replicas"] == rig.status()["readyReplicas"] == 2
    assert rig.condition("Progressing")[:2] == ("False", "Complete")
    assert ("WorkerCreated", "wc-w-0: started: the application needs another worker") in (
        rig.events()
    )


def test_conditions_are_unknown_at_first(rig: KubeRig) -> None:
    written: list[set[str]] = []
    hear = rig.api.on_change

    def record(plural: str, manifest: dict[str, Any]) -> None:
        if plural == STREAM_APPS.plural and "conditions" in manifest.get("status", {}):
            written.append({each["status"] for each in manifest["status"]["conditions"]})
        hear(plural, manifest)

    rig.api.on_change = record
    rig.apply(streamapp())
    rig.until(rig.is_ready)

    assert written[0] == {"Unknown"}
    assert written[-1] == {"True", "False"}


def test_an_application_at_rest_is_left_alone(ready: KubeRig) -> None:
    ready.turn(4)
    ready.api.calls.clear()

    ready.turn(8)

    writes = {verb for verb, resource in ready.api.calls if resource != "leases"}
    assert writes == {"list", "get"}


def test_what_belongs_to_it_goes_with_it_but_volumes_only_if_it_says_so(ready: KubeRig) -> None:
    owners = {
        resource.plural: ready.api.list(resource, NAMESPACE)[0]["metadata"].get("ownerReferences")
        for resource in (PODS, CLAIMS, STREAM_WORKERS, LEASES, BUDGETS, ROLES, CONFIG_MAPS)
        if resource is not LEASES
    }

    assert owners.pop("persistentvolumeclaims") is None
    assert all(owner and owner[0]["kind"] == "StreamApp" for owner in owners.values())
    assert owners["pods"][0]["controller"] is True
    ready.set("/spec/state", {"retention": {"whenDeleted": "Delete"}})
    ready.turn(3)
    claim = ready.api.list(CLAIMS, NAMESPACE)[0]
    assert claim["metadata"]["ownerReferences"][0]["kind"] == "StreamApp"


def test_scaling_up_moves_tasks_to_a_new_worker(ready: KubeRig) -> None:
    ready.scale(4)

    ready.until(lambda: {len(tasks) for tasks in ready.held().values()} == {1})

    assert ready.names(PODS) == ["wc-w-0", "wc-w-1", "wc-w-2", "wc-w-3"]
    assert ready.tasks() == TASKS


def test_a_worker_that_is_wanted_has_yet_to_join_until_it_has_its_tasks(ready: KubeRig) -> None:
    seen: list[tuple[str, str]] = []
    generation = ready.api.list(STREAM_APPS, NAMESPACE)[0]["metadata"]["generation"] + 1

    def look(plural: str, manifest: Manifest) -> None:
        ready.operator.hear(plural, manifest)
        status = manifest.get("status") or {}
        if plural == STREAM_APPS.plural and status["observedGeneration"] == generation:
            has_joined = bool(ready.held().get("wc-w-2"))
            converged, reason, _ = condition_in(status, "AssignmentConverged")
            progressing = condition_in(status, "Progressing")[0]
            assert (converged, progressing) == ("False", "True") or has_joined
            seen.append((converged, reason))

    ready.api.on_change = look
    ready.node.lost = True
    ready.scale(3)
    ready.turn(20)
    said = "wc-w-2 has yet to join"
    assert ready.condition("AssignmentConverged") == ("False", "Moving", said)
    assert ready.is_ready()
    ready.node.lost = False

    ready.until(lambda: ready.condition("AssignmentConverged")[0] == "True")

    assert seen[0] == ("False", "Moving")
    assert sorted(map(len, ready.held().values())) == [1, 1, 2]
    assert ready.condition("Progressing")[:2] == ("False", "Complete")


def test_a_worker_for_which_there_is_no_task_joins_all_the_same(ready: KubeRig) -> None:
    ready.scale(6)
    ready.until(lambda: ready.condition("AssignmentConverged")[0] == "False")

    ready.until(lambda: ready.condition("AssignmentConverged")[0] == "True")

    assert ready.status()["readyReplicas"] == 6
    assert ready.tasks() == TASKS


def test_scaling_down_drains_a_worker_and_keeps_its_volume_for_its_return(ready: KubeRig) -> None:
    claims = {item["metadata"]["uid"] for item in ready.api.list(CLAIMS, NAMESPACE)}

    ready.scale(1)
    ready.until(lambda: len(ready.names(PODS)) == 1)
    assert ready.tasks() == TASKS
    assert len(ready.names(CLAIMS)) == len(ready.names(STREAM_WORKERS)) == 2
    ready.scale(2)
    ready.until(lambda: {len(tasks) for tasks in ready.held().values()} == {2})

    assert {item["metadata"]["uid"] for item in ready.api.list(CLAIMS, NAMESPACE)} == claims
    assert ready.names(STREAM_WORKERS) == ["wc-w-0", "wc-w-1"]


def test_a_worker_that_is_not_wanted_back_takes_its_volume_with_it(ready: KubeRig) -> None:
    ready.set("/spec/state", {"retention": {"whenScaled": "Delete"}})

    ready.scale(1)

    ready.until(lambda: len(ready.names(STREAM_WORKERS)) == 1)
    assert len(ready.names(CLAIMS)) == len(ready.names(PODS)) == len(ready.names(LEASES)) == 1
    assert ready.tasks() == TASKS


def test_a_streamapp_that_goes_back_to_a_revision_finds_its_configmap_again(ready: KubeRig) -> None:
    first = ready.names(CONFIG_MAPS)

    def has_one_other_than(names: list[str]) -> bool:
        found = ready.names(CONFIG_MAPS)
        return len(found) == 1 and found != names and ready.condition("Progressing")[0] == "False"

    ready.set("/spec/config", {"commit.interval.ms": 200})
    ready.until(lambda: has_one_other_than(first))
    second = ready.names(CONFIG_MAPS)

    ready.set("/spec/config", {})
    ready.until(lambda: has_one_other_than(second))

    assert ready.names(CONFIG_MAPS) == first


def test_suspending_stops_the_pods_and_keeps_everything_else(ready: KubeRig) -> None:
    ready.set("/spec/suspend", True)

    ready.until(lambda: not ready.names(PODS))

    ready.until(lambda: ready.condition("Ready")[:2] == ("False", "Suspended"))
    assert ready.condition("Suspended")[0] == "True"
    assert len(ready.names(CLAIMS)) == len(ready.names(STREAM_WORKERS)) == 2
    ready.set("/spec/suspend", False)
    ready.until(ready.is_ready)
    assert ready.tasks() == TASKS


def test_a_container_that_ended_is_replaced_at_once_and_its_end_is_told(ready: KubeRig) -> None:
    ready.turn(300)
    before = ready.now_ms
    ready.node.end("wc-w-0", 137)

    ready.until(lambda: "wc-wc-w-0-0" in ready.workers.of("wc").fenced)
    ready.until(lambda: ready.status()["tasks"]["running"] == 4)

    assert ready.now_ms - before < 5_000
    assert ("NoProcess", "wc-w-0: started again; it had ended: killed by SIGKILL") in (
        ready.events()
    )
    assert ready.tasks() == TASKS


def test_a_silent_worker_is_fenced_before_its_tasks_move_and_its_pod_is_told_to_go(
    ready: KubeRig,
) -> None:
    ready.workers["wc-w-0"].frozen = True

    def grant_comes_after_fence() -> bool:
        moved = len(ready.held()["wc-w-1"]) > 2
        assert not moved or "wc-wc-w-0-0" in ready.workers.of("wc").fenced
        return moved

    ready.until(grant_comes_after_fence)
    ready.until(lambda: len(ready.held()["wc-w-1"]) == 4)
    ready.until(lambda: any(reason == "Silent" for reason, _ in ready.events()))


def test_a_pod_is_never_deleted_by_force(ready: KubeRig) -> None:
    ready.workers["wc-w-0"].frozen = True
    ready.node.lost = True

    ready.until(lambda: any(reason == "Silent" for reason, _ in ready.events()))

    pod = ready.api.get(PODS, NAMESPACE, "wc-w-0")
    assert pod is not None
    assert pod["metadata"]["deletionGracePeriodSeconds"] == 1


def test_while_the_api_server_is_away_nobody_is_declared_lost(ready: KubeRig) -> None:
    ready.turn(20)
    before = ready.held()
    fenced = list(ready.workers.of("wc").fenced)
    ready.api.on_call = unavailable
    # Nobody can renew a Lease or read one, for ten minutes.
    for _ in range(60):
        ready.operator.step()
        ready.now_ms += 10_000
    ready.api.on_call = lambda *_: None
    ready.operator = ready.new_operator()

    ready.turn(100)

    assert ready.held() == before
    assert ready.workers.of("wc").fenced == fenced


def test_an_operator_that_was_frozen_does_not_take_its_own_sleep_for_silence(
    ready: KubeRig,
) -> None:
    ready.turn(20)
    before, fenced = ready.held(), list(ready.workers.of("wc").fenced)
    leases = ready.operator.leases

    # Frozen for a minute, while the workers go on.
    for _ in range(60):
        ready.workers.step()
        ready.now_ms += 1_000
    seen_ms = leases.now_ms((NAMESPACE, "wc"))
    ready.turn(40)

    assert ready.operator.election.why_lost
    assert leases.now_ms((NAMESPACE, "wc")) - seen_ms <= 5_000
    assert ready.held() == before
    assert ready.workers.of("wc").fenced == fenced


def test_deleting_a_streamapp_ends_its_workers_and_keeps_its_volumes(ready: KubeRig) -> None:
    ready.delete()

    ready.until(lambda: ready.names(STREAM_APPS) == [])

    for resource in (PODS, STREAM_WORKERS, LEASES, BUDGETS, ROLES, ROLE_BINDINGS, CONFIG_MAPS):
        assert ready.names(resource) == [], resource.plural
    assert ready.names(SERVICE_ACCOUNTS) == []
    assert ready.names(CLAIMS) == ["wc-w-0-state", "wc-w-1-state"]


def test_deleting_a_streamapp_deletes_its_volumes_if_it_says_so(ready: KubeRig) -> None:
    ready.set("/spec/state", {"retention": {"whenDeleted": "Delete"}})
    ready.scale(1)
    ready.until(lambda: len(ready.names(PODS)) == 1)

    ready.delete()

    ready.until(lambda: ready.names(STREAM_APPS) == [])
    assert ready.names(CLAIMS) == []


def test_a_volume_that_a_pod_was_given_is_not_deleted_by_an_older_decision(ready: KubeRig) -> None:
    ready.set("/spec/state", {"retention": {"whenScaled": "Delete"}})
    uid = ready.uid(CLAIMS, "wc-w-1-state")
    asked: list[bool] = []

    def give_it_to_a_pod(verb: str, plural: str, name: str) -> None:
        """Another operator does it, between the decision to delete the claim and the deletion."""
        if (verb, plural, name) != ("delete", CLAIMS.plural, "wc-w-1-state"):
            return
        found = ready.api.get(CLAIMS, NAMESPACE, name)
        asked.append("deletionTimestamp" in found["metadata"])
        if len(asked) == 1:
            version = found["metadata"]["resourceVersion"]
            taken = claim_taken(version, is_annotated=True)
            ready.api.patch(CLAIMS, NAMESPACE, name, taken)

    ready.api.on_call = give_it_to_a_pod

    ready.scale(1)
    ready.until(lambda: len(ready.names(STREAM_WORKERS)) == 1)

    assert asked == [False, False], "it is decided afresh, and only then deleted"
    assert uid not in {item["metadata"]["uid"] for item in ready.api.list(CLAIMS, NAMESPACE)}


def test_a_streamapp_created_again_takes_its_retained_volumes(ready: KubeRig) -> None:
    claims = {item["metadata"]["uid"] for item in ready.api.list(CLAIMS, NAMESPACE)}
    ready.delete()
    ready.until(lambda: ready.names(STREAM_APPS) == [])

    ready.apply(streamapp())

    ready.until(ready.is_ready)
    assert {item["metadata"]["uid"] for item in ready.api.list(CLAIMS, NAMESPACE)} == claims


def test_a_volume_with_another_applications_state_is_not_taken(ready: KubeRig) -> None:
    ready.delete()
    ready.until(lambda: ready.names(STREAM_APPS) == [])

    ready.apply(streamapp(applicationId="other"))

    ready.until(lambda: ready.condition("Degraded")[0] == "True")
    _, reason, message = ready.condition("Degraded")
    assert reason == "VolumeOfAnotherApplication"
    assert "wc-w-0-state" in message
    assert ready.names(PODS) == []


def test_a_deletion_waits_for_a_pod_on_a_lost_node_and_says_so(ready: KubeRig) -> None:
    ready.node.lost = True

    ready.delete()
    ready.until(lambda: "node-1" in ready.condition("Ready")[2])

    assert ready.names(STREAM_APPS) == ["wc"]
    assert "wc-w-0 wc-w-1" in ready.condition("Ready")[2]
    ready.node.lost = False
    ready.until(lambda: ready.names(STREAM_APPS) == [])


def test_a_secret_that_comes_late_is_found_although_the_kubelet_backs_off(rig: KubeRig) -> None:
    rig.node.missing = "certificates"
    rig.apply(streamapp())
    rig.until(lambda: rig.condition("Degraded")[1] == "VolumeUnavailable")
    first = {name: rig.uid(PODS, name) for name in rig.names(PODS)}
    rig.until(lambda: all(rig.uid(PODS, name) not in first.values() for name in rig.names(PODS)))
    seen = set()
    for _ in range(300):
        rig.turn()
        seen.add(rig.condition("Degraded")[1])
    said = [reason for reason, _ in rig.events()]

    rig.node.missing = ""
    rig.until(rig.is_ready)

    assert seen == {"VolumeUnavailable"}
    # Every pod that is made anew would be an Event otherwise, for hours.
    assert not {"MountAgain", "NoProcess"} & set(said)
    assert rig.condition("Degraded")[0] == "False"


def requested(rig: KubeRig) -> set[str]:
    claims = rig.api.list(CLAIMS, NAMESPACE)
    return {each["spec"]["resources"]["requests"]["storage"] for each in claims}


def bind_claims(rig: KubeRig, capacity: str) -> None:
    status = {"phase": "Bound", "capacity": {"storage": capacity}}
    for name in rig.names(CLAIMS):
        rig.api.set_status(CLAIMS, NAMESPACE, name, status)


def test_volumes_grow_with_the_size_and_are_waited_for(ready: KubeRig) -> None:
    bind_claims(ready, "10Gi")

    ready.set("/spec/state", {"size": "20Gi"})
    ready.until(lambda: requested(ready) == {"20Gi"})
    ready.until(lambda: ready.condition("Progressing")[1] == "GrowingVolumes")

    assert "wc-w-0-state wc-w-1-state" in ready.condition("Reconciling")[2]
    bind_claims(ready, "20Gi")
    ready.until(lambda: ready.condition("Progressing")[1] == "Complete")
    ready.set("/spec/state", {"size": "5Gi"})
    ready.turn(20)
    assert requested(ready) == {"20Gi"}


def test_the_volume_of_a_worker_that_is_gone_is_not_waited_for(ready: KubeRig) -> None:
    bind_claims(ready, "10Gi")
    ready.set("/spec/state", {"size": "20Gi", "retention": {"whenScaled": "Retain"}})
    ready.until(lambda: ready.condition("Progressing")[1] == "GrowingVolumes")

    ready.scale(1)
    ready.until(lambda: len(ready.names(PODS)) == 1)
    status = {"phase": "Bound", "capacity": {"storage": "20Gi"}}
    ready.api.set_status(CLAIMS, NAMESPACE, "wc-w-0-state", status)
    ready.until(lambda: ready.condition("Progressing")[1] == "Complete")

    assert ready.names(CLAIMS) == ["wc-w-0-state", "wc-w-1-state"]
    assert ready.condition("Reconciling")[0] == "False"


def test_volumes_that_cannot_grow_are_named(ready: KubeRig) -> None:
    asked = []

    def refuse(verb: str, plural: str, name: str) -> None:
        if (verb, plural) == ("patch", CLAIMS.plural):
            asked.append(name)
            raise ForbiddenError("only dynamically provisioned pvc can be resized")

    bind_claims(ready, "10Gi")
    ready.api.on_call = refuse

    ready.set("/spec/state", {"size": "20Gi"})
    ready.until(lambda: ready.condition("Degraded")[1] == "VolumeTooSmall")
    ready.turn(40)

    assert sorted(asked) == ["wc-w-0-state", "wc-w-1-state"]
    assert "wc-w-0-state" in ready.condition("Degraded")[2]
    assert "allowVolumeExpansion" in ready.condition("Degraded")[2]
    assert ready.is_ready()
    ready.api.on_call = lambda *_: None
    ready.set("/spec/state", {"size": "10Gi"})
    ready.until(lambda: ready.condition("Degraded")[0] == "False")


def test_streamapps_are_let_go_although_the_definition_of_streamworkers_is_gone(
    ready: KubeRig,
) -> None:
    def is_gone(verb: str, plural: str, _: str) -> None:
        if ready.is_operator_at_work and (verb, plural) == ("list", STREAM_WORKERS.plural):
            raise NotFoundError("404 page not found")

    # As `kubectl delete --filename crds` does: both definitions, and what there is of both kinds.
    ready.delete()
    for name in ready.names(STREAM_WORKERS):
        ready.api.delete(STREAM_WORKERS, NAMESPACE, name)
    ready.api.on_call = is_gone

    ready.until(lambda: ready.names(STREAM_APPS) == [])

    assert ready.names(PODS) == []
    assert ready.operator.failures == []


def test_without_our_finalizer_a_deletion_is_left_to_kubernetes(rig: KubeRig) -> None:
    app = streamapp()
    app["metadata"]["finalizers"] = ["somebody/else"]
    rig.apply(app)
    rig.delete()

    rig.turn(5)

    found = rig.api.get(STREAM_APPS, NAMESPACE, "wc")
    assert found is not None
    assert found["metadata"]["finalizers"] == ["somebody/else"]
    assert rig.names(STREAM_WORKERS) == []


def test_the_finalizers_of_others_stay(rig: KubeRig) -> None:
    app = streamapp()
    app["metadata"]["finalizers"] = ["somebody/else"]
    rig.apply(app)
    rig.until(rig.is_ready)

    rig.delete()
    rig.until(lambda: not rig.names(STREAM_WORKERS))
    rig.turn(3)

    found = rig.api.get(STREAM_APPS, NAMESPACE, "wc")
    assert found is not None
    assert found["metadata"]["finalizers"] == ["somebody/else"]
    assert FINALIZER not in found["metadata"]["finalizers"]


def test_of_two_operators_the_one_without_the_lease_does_nothing(rig: KubeRig) -> None:
    rig.turn()
    other = rig.new_operator(place="elsewhere")
    rig.apply(streamapp())
    rig.operator, leader = other, rig.operator

    rig.turn(10)

    assert rig.names(STREAM_WORKERS) == []
    assert rig.condition("Ready") == ("", "", "")
    rig.operator = leader
    rig.until(rig.is_ready)


def test_a_leader_that_was_replaced_while_it_was_frozen_writes_nothing_more(
    ready: KubeRig,
) -> None:
    old = ready.operator
    ready.operator = ready.new_operator(place="elsewhere")
    ready.until(lambda: ready.operator.election.generation == 2, turns=100)
    ready.until(lambda: generations(ready) == {2})
    ready.scale(3)
    ready.api.calls.clear()

    old.step()

    assert not {verb for verb, _ in ready.api.calls} & {"create", "patch", "apply", "delete"}
    ready.until(lambda: len(ready.names(PODS)) == 3)


def test_one_that_was_frozen_past_its_lease_in_the_middle_of_a_write_tells_nothing_of_it(
    ready: KubeRig,
) -> None:
    ready.turn(20)
    before = ready.events()

    def freeze(verb: str, plural: str, name: str) -> None:
        if ready.is_operator_at_work and (verb, plural) == ("apply", STREAM_APPS.plural):
            ready.now_ms += 60_000

    ready.api.on_call = freeze
    ready.node.end("wc-w-0")
    ready.turn(5)

    assert ready.operator.election.why_lost
    assert ready.status()["state"] == "REBALANCING"
    assert ready.events() == before


def generations(rig: KubeRig) -> set[int]:
    found = rig.api.list(STREAM_WORKERS, NAMESPACE)
    return {generation_of(int(each["spec"]["epoch"])) for each in found}


def test_a_deleted_lease_of_the_operator_does_not_bring_old_epochs_back(ready: KubeRig) -> None:
    for _ in range(3):
        ready.operator = ready.new_operator()
        ready.turn(3)
    assert generations(ready) == {4}
    ready.api.delete(LEASES, OPERATORS, "headwater-operator")
    ready.operator = ready.new_operator()

    ready.turn(5)

    assert generations(ready) == {5}
    ready.scale(1)
    ready.until(lambda: len(ready.names(PODS)) == 1)


def test_a_paused_streamapp_is_looked_at_and_left_alone(ready: KubeRig) -> None:
    ready.set("/metadata/annotations", {"headwater.dev/pause-reconciliation": "true"})
    ready.turn(2)
    ready.scale(4)

    ready.turn(20)

    assert len(ready.names(PODS)) == 2
    state, _, said = ready.condition("Paused")
    assert state == "True"
    assert f"until the annotation {PAUSE_ANNOTATION} is gone" in said
    assert f"`{PAUSE_ANNOTATION}: " in (ROOT / "docs" / "install.md").read_text()
    ready.set("/metadata/annotations", {})
    ready.until(lambda: len(ready.names(PODS)) == 4)
    assert ready.condition("Paused")[0] == "False"


def test_while_paused_the_current_revision_is_the_one_that_workers_run(ready: KubeRig) -> None:
    before = ready.status()["revision"]
    ready.set("/metadata/annotations", {"headwater.dev/pause-reconciliation": "true"})
    ready.turn(2)
    ready.set("/spec/restartNonce", 1)

    ready.turn(20)

    said = ready.status()["revision"]
    assert said["update"] != before["current"]
    assert said["current"] == said["lastStable"] == before["current"]
    ready.set("/metadata/annotations", {})
    ready.until(lambda: ready.status()["revision"]["current"] == said["update"], turns=2_000)


def test_another_number_of_threads_and_a_pause_are_carried_out_in_the_pods_that_run(
    ready: KubeRig,
) -> None:
    def specs() -> list[Manifest]:
        return [worker["spec"] for worker in ready.api.list(STREAM_WORKERS, NAMESPACE)]

    pods = [ready.uid(PODS, name) for name in ready.names(PODS)]
    ready.set("/spec/threadsPerWorker", 3)
    ready.until(lambda: all(spec["threads"] == 3 for spec in specs()))
    ready.set("/spec/threadsPerWorker", 1)
    ready.until(lambda: all(spec["threads"] == 1 for spec in specs()))
    assert all(spec["slots"] == [0, 1, 2] for spec in specs())

    ready.set("/spec/paused", value=True)
    ready.until(lambda: ready.condition("Paused")[:2] == ("True", "SpecPaused"))
    assert all(spec["paused"] for spec in specs())
    assert ready.status()["paused"] is True
    assert ready.is_ready()
    assert "have paused" in ready.status()["reason"]

    ready.set("/spec/paused", value=False)
    ready.until(lambda: ready.condition("Paused")[:2] == ("False", "NotPaused"))
    ready.until(lambda: not any(spec.get("paused") for spec in specs()))
    assert [ready.uid(PODS, name) for name in ready.names(PODS)] == pods


def test_a_specification_that_cannot_be_used_leaves_the_last_one_running(ready: KubeRig) -> None:
    ready.set("/spec/topology", {"configMapRef": {"name": "missing"}})

    ready.until(lambda: ready.condition("SpecValid")[0] == "False")

    assert "'missing'" in ready.condition("SpecValid")[2]
    assert ready.condition("Degraded")[0] == "True"
    ready.node.end("wc-w-0")
    ready.until(lambda: ready.tasks() == TASKS and ready.status()["readyReplicas"] == 2)


def test_an_edit_of_the_config_map_with_the_topology_is_rolled_out(rig: KubeRig) -> None:
    def uids() -> set[str]:
        return {pod["metadata"]["uid"] for pod in rig.api.list(PODS, NAMESPACE)}

    def is_rolled_out() -> bool:
        return rig.is_ready() and not uids() & before and rig.status()["updatedReplicas"] == 2

    metadata = {"name": "code", "namespace": NAMESPACE}
    rig.api.create(CONFIG_MAPS, {"metadata": metadata, "data": {"topology.py": "first"}})
    rig.apply(streamapp(topology={"configMapRef": {"name": "code"}}))
    rig.until(rig.is_ready)
    count_budget(rig, "InsufficientPods")  # else it is looked at for that
    before, first = uids(), rig.status()["revision"]["current"]
    rig.turn(2 * SWEEP_MS // STEP_MS)
    assert uids() == before, "it has been read again, and has not changed"

    edited = {"op": "replace", "path": "/data/topology.py", "value": "second"}
    rig.api.patch(CONFIG_MAPS, NAMESPACE, "code", [edited])

    rig.until(lambda: rig.status()["revision"]["update"] != first, turns=1 + SWEEP_MS // STEP_MS)
    rig.until(is_rolled_out)
    rig.until(lambda: rig.status()["revision"]["current"] not in ("", first))
    rig.until(lambda: rig.tasks() == TASKS)


def test_a_specification_that_cannot_be_used_from_the_start_says_what_to_do(rig: KubeRig) -> None:
    app = streamapp()
    del app["spec"]["image"]
    rig.apply(app)

    rig.until(lambda: rig.condition("SpecValid")[0] == "False")

    assert rig.condition("SpecValid")[2].startswith("spec.image: say which worker image to run")
    assert rig.condition("Ready")[:2] == ("False", "InvalidSpec")
    assert rig.names(STREAM_WORKERS) == []
    rig.set("/spec/image", IMAGE)
    rig.until(rig.is_ready)
    assert rig.condition("SpecValid")[0] == "True"


def degraded_of(rig: KubeRig) -> float | None:
    """How many StreamApps the operator says to be degraded."""
    registry = rig.operator.metrics.registry
    return registry.get_sample_value("headwater_operator_streamapps_degraded")


def test_an_image_that_cannot_be_pulled_is_named_and_waited_for(rig: KubeRig) -> None:
    rig.node.images = {"example/other:1"}
    rig.apply(streamapp())

    rig.until(lambda: rig.condition("Degraded")[1] == "ImagePullFailed")

    assert IMAGE in rig.condition("Degraded")[2]
    assert "correct spec.image" in rig.condition("Degraded")[2]
    assert degraded_of(rig) == 1
    uids = {item["metadata"]["uid"] for item in rig.api.list(PODS, NAMESPACE)}
    rig.turn(800)
    assert {item["metadata"]["uid"] for item in rig.api.list(PODS, NAMESPACE)} == uids
    rig.node.images = {IMAGE}
    rig.until(rig.is_ready)
    assert rig.condition("Degraded")[0] == "False"
    assert degraded_of(rig) == 0


def test_what_a_worker_says_of_its_end_is_in_the_condition_until_the_streamapp_changes(
    rig: KubeRig,
) -> None:
    rig.apply(streamapp(replicas=1))
    rig.until(lambda: "wc-w-0" in rig.workers.workers)
    rig.workers["wc-w-0"].error = WorkerError(
        error="ImportPathError", message="a:b: No module named 'a'"
    )

    rig.until(lambda: rig.condition("Degraded")[1] == "ImportPathError")

    assert rig.condition("Ready")[2] == "wc-w-0: a:b: No module named 'a'"
    assert rig.status()["failure"]["isFinal"] is True
    rig.until(lambda: rig.status()["state"] == "ERROR")
    rig.workers["wc-w-0"].error = None
    rig.set("/spec/topology", {"module": "c:d"})
    rig.until(rig.is_ready)


def test_a_streamworker_changed_by_hand_is_fenced_and_written_anew(ready: KubeRig) -> None:
    taken = {"op": "add", "path": "/spec/active", "value": TASKS}
    ready.api.patch(STREAM_WORKERS, NAMESPACE, "wc-w-0", [taken])

    ready.until(lambda: "wc-wc-w-0-0" in ready.workers.of("wc").fenced)

    ready.until(lambda: ready.is_ready() and ready.tasks() == TASKS)
    assert any(reason == "TamperedWorker" for reason, _ in ready.events())


def test_an_epoch_raised_by_hand_is_outdone(ready: KubeRig) -> None:
    raised = {"op": "replace", "path": "/spec/epoch", "value": 77 << 32}
    ready.api.patch(STREAM_WORKERS, NAMESPACE, "wc-w-0", [raised])

    ready.until(lambda: generations(ready) == {78})

    ready.until(lambda: ready.is_ready() and ready.tasks() == TASKS)


def test_of_two_streamapps_with_one_application_id_only_the_older_runs(ready: KubeRig) -> None:
    ready.apply(streamapp("copy", applicationId="wc"))

    ready.until(lambda: ready.condition("SpecValid", "copy")[1] == "ApplicationIdInUse")

    assert "default/wc" in ready.condition("SpecValid", "copy")[2]
    ready.turn(20)
    assert ready.names(PODS) == ["wc-w-0", "wc-w-1"]
    assert ready.is_ready()
    ready.delete()
    ready.until(lambda: ready.is_ready("copy"))


def test_one_application_id_on_two_kafkas_is_two_applications(ready: KubeRig) -> None:
    other = {"bootstrapServers": "elsewhere:9092"}
    ready.apply(streamapp("copy", applicationId="wc", kafka=other))

    ready.until(lambda: ready.is_ready("copy"))


def test_a_namespace_deleted_in_the_middle_of_a_scale_up_leaves_nothing(ready: KubeRig) -> None:
    ready.scale(4)
    ready.turn(1)

    ready.api.terminate_namespace(NAMESPACE)

    ready.until(lambda: ready.names(STREAM_APPS) == [])
    assert ready.names(PODS) == ready.names(STREAM_WORKERS) == []


def test_a_quota_that_stops_one_worker_does_not_stop_the_others(ready: KubeRig) -> None:
    def quota(verb: str, plural: str, name: str) -> None:
        if (verb, plural) == ("create", "pods") and name == "wc-w-2":
            raise ForbiddenError('pods "wc-w-2" is forbidden: exceeded quota: pods=2')

    ready.api.on_call = quota
    ready.scale(4)

    ready.until(lambda: ready.condition("Degraded")[1] == "PodRefused")

    assert "exceeded quota" in ready.condition("Degraded")[2]
    ready.until(lambda: "wc-w-3" in ready.names(PODS))
    ready.api.on_call = lambda *_: None
    ready.until(lambda: {len(tasks) for tasks in ready.held().values()} == {1})
    assert ready.condition("Degraded")[0] == "False"


def test_more_workers_than_tasks_are_reported_not_refused(ready: KubeRig) -> None:
    ready.scale(6)

    ready.until(lambda: ready.status()["readyReplicas"] == 6)

    assert ready.condition("ScalingLimited")[:2] == ("True", "FewerTasksThanWorkers")
    assert ready.is_ready()


def test_no_replicas_at_all_is_a_state_of_rest(ready: KubeRig) -> None:
    ready.scale(0)

    ready.until(lambda: ready.condition("Ready")[:2] == ("False", "NoReplicas"))

    assert ready.names(PODS) == []
    assert ready.status()["replicas"] == 0
    assert len(ready.names(CLAIMS)) == 2


def test_a_budget_whose_pods_could_not_be_counted_is_changed_until_they_are(ready: KubeRig) -> None:
    count_budget(ready, "SyncFailed")
    changes = []

    def look(plural: str, manifest: Manifest) -> None:
        ready.operator.hear(plural, manifest)
        if plural == BUDGETS.plural:
            changes.append(manifest["metadata"].get("annotations"))

    ready.api.on_change = look
    ready.until(lambda: len(changes) >= 3)
    assert None not in changes
    assert len({str(each) for each in changes}) >= 3
    count_budget(ready, "InsufficientPods")
    ready.turn(80)  # it has heard of that by now
    changes.clear()

    ready.turn(400)

    assert changes == []


def test_a_budget_that_somebody_deleted_comes_back_in_time(ready: KubeRig) -> None:
    ready.api.delete(BUDGETS, NAMESPACE, "wc")

    ready.until(lambda: ready.names(BUDGETS) == ["wc"])


def by_hand(name: str) -> Manifest:
    """A StreamWorker as somebody may write it, or bring it back from a backup."""
    labels = {APP_LABEL: "wc", WORKER_LABEL: name, "app.kubernetes.io/managed-by": "headwater"}
    metadata = {"name": name, "namespace": NAMESPACE, "labels": labels}
    return {"metadata": metadata, "spec": {"app": "wc"}}


def test_a_streamworker_without_an_epoch_is_taken_over(ready: KubeRig) -> None:
    ready.api.create(STREAM_WORKERS, by_hand("wc-w-2"))
    ready.scale(3)

    ready.until(lambda: sorted(map(len, ready.held().values())) == [1, 1, 2])

    found = ready.api.get(STREAM_WORKERS, NAMESPACE, "wc-w-2")
    assert found is not None
    assert generation_of(found["spec"]["epoch"]) == 1
    assert ready.names(STREAM_WORKERS) == ["wc-w-0", "wc-w-1", "wc-w-2"]


def test_a_streamworker_whose_annotations_were_taken_away_is_written_all_the_same(
    ready: KubeRig,
) -> None:
    operation = {"op": "remove", "path": "/metadata/annotations"}
    ready.api.patch(STREAM_WORKERS, NAMESPACE, "wc-w-0", [operation])

    ready.until(lambda: "wc-wc-w-0-0" in ready.workers.of("wc").fenced)

    ready.until(lambda: ready.is_ready() and ready.tasks() == TASKS)
