"""What users do with StreamApps and what becomes of it: a real control plane, played machines."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
import yaml

from headwater_operator.kube.api import (
    BUDGETS,
    CLAIMS,
    CONFIG_MAPS,
    LEASES,
    NAMESPACES,
    PODS,
    ROLE_BINDINGS,
    ROLES,
    SERVICE_ACCOUNTS,
    STREAM_APPS,
    STREAM_WORKERS,
)
from headwater_operator.manifests.names import Owner, metadata
from tests.kube.journey import TASKS, streamapp
from tests.kube.players import NO_SUCH_IMAGE, RACK, ZONE
from tests.support import pages

if TYPE_CHECKING:
    from pathlib import Path

    from headwater_operator.kube.client import KubeClient
    from tests.kube.fixtures import Command
    from tests.kube.journey import Journey
    from tests.kube.players import Node

pytestmark = pytest.mark.usefixtures("installation")

SECOND, THIRD = "headwater-test/worker:2", "headwater-test/worker:3"
OURS = (PODS, STREAM_WORKERS, LEASES, BUDGETS, ROLES, ROLE_BINDINGS)


def test_an_applied_streamapp_becomes_ready_and_says_how_it_is(
    user: Journey, kubectl: Command
) -> None:
    user.apply(streamapp())

    kubectl("wait", "--for=condition=Ready", "sapp/wc", "--timeout=220s")

    user.until(user.is_settled, "all workers to run")
    assert user.tasks() == TASKS
    assert user.names(PODS) == ["wc-w-0", "wc-w-1"]
    assert user.names(CLAIMS) == ["wc-w-0-state", "wc-w-1-state"]
    assert "RUNNING" in kubectl("get", "sapp", "wc", "--output=wide")
    described = kubectl("describe", "sw", "wc-w-0")
    assert "Why:" in described
    assert "Reason:" in described
    before = user.status()
    user.apply(streamapp())
    kubectl("diff", "--server-side", "--filename=-", stdin=json.dumps(streamapp()))
    assert user.status() == before


def test_the_pods_of_the_page_are_admitted_as_restricted_and_rolled_out_once(
    user: Journey, kubectl: Command
) -> None:
    [block] = pages.blocks("pod-template.md", "yaml")
    spec = yaml.safe_load(block)["spec"]
    kubectl("label", "namespace", user.namespace, "pod-security.kubernetes.io/enforce=restricted")
    user.begin()
    before = user.uids()

    user.patch_all({f"/spec/{name}": spec[name] for name in ("podTemplate", "state")})
    user.until(
        lambda: (
            len(user.uids()) == 2
            and not {*before.values()} & {*user.uids().values()}
            and user.is_settled()
        ),
        "both workers to be replaced",
    )

    after = user.uids()
    for pod in user.api.list(PODS, user.namespace):
        assert [each["name"] for each in pod["spec"]["containers"]] == ["worker", "shipper"]
        proxy = pod["spec"]["initContainers"][1]
        # The API server has filled in what nobody has written.
        assert proxy["startupProbe"]["failureThreshold"] == 3
        assert proxy["ports"][0]["protocol"] == "TCP"
    [account] = user.api.list(SERVICE_ACCOUNTS, user.namespace, labels="headwater.dev/app=wc")
    given = spec["podTemplate"]["serviceAccount"]["annotations"]
    assert account["metadata"]["annotations"].items() >= given.items()
    for claim in user.api.list(CLAIMS, user.namespace):
        assert claim["metadata"]["labels"]["backup"] == "nightly"
    # Whatever else is decided afterwards, pods as they are stored are those that are wanted.
    user.patch("/spec/threadsPerWorker", 2)
    user.until(lambda: all(spec.get("threads") == 2 for spec in specs(user)), "two threads each")
    user.until(user.is_settled, "everything to run")
    assert user.uids() == after
    assert sum(reason == "NewRevision" for reason, _ in user.events()) == 2


def test_helm_waits_until_what_was_asked_for_serves(
    user: Journey, helm: Command, tmp_path: Path
) -> None:
    chart = tmp_path / "wc"
    (chart / "templates").mkdir(parents=True)
    (chart / "Chart.yaml").write_text("{apiVersion: v2, name: wc, version: 0.1.0}")
    # Helm gives up at once if a StreamApp of an earlier test has yet to go that has the same id.
    app = streamapp(image="IMAGE", applicationId="released")
    (chart / "templates" / "app.yaml").write_text(
        json.dumps(app).replace("IMAGE", "{{ .Values.image }}")
    )

    def ask(verb: str, image: str) -> str:
        wait = (f"--set=image={image}", "--wait", "--timeout=200s")
        return helm.run(verb, "wc", str(chart), *wait).stderr

    def images() -> set[str]:
        pods = user.api.list(PODS, user.namespace)
        return {pod["spec"]["containers"][0]["image"] for pod in pods}

    assert ask("install", SECOND) == ""
    assert user.condition("Ready")[0] == "True"
    assert ask("upgrade", THIRD) == ""
    assert images() == {THIRD}
    assert "status: Failed" in ask("upgrade", NO_SUCH_IMAGE)
    assert user.condition("Progressing")[1] == "RolloutHalted"


@pytest.mark.sampled
def test_workers_are_spread_and_their_standbys_are_in_another_rack_and_zone(user: Journey) -> None:
    # So many that it cannot be by chance.
    user.workers.of("wc").topics["lines"] = 8
    with_state = {f"1_{number}" for number in range(8)}
    user.begin(
        replicas=4,
        assignment={"standbyReplicas": 1, "topologyKeys": [RACK, ZONE]},
    )

    pods = user.api.list(PODS, user.namespace)
    on = {each["metadata"]["name"]: user.stage.nodes[each["spec"]["nodeName"]] for each in pods}
    assert sorted(node.name for node in on.values()) == sorted(user.stage.nodes)

    def placed(role: str) -> dict[str, Node]:
        workers = user.api.list(STREAM_WORKERS, user.namespace)
        return {
            task: on[worker["metadata"]["name"]]
            for worker in workers
            for task in worker["spec"].get(role, ())
        }

    def are_apart() -> bool:
        active, standby = placed("active"), placed("standby")
        return standby.keys() == with_state <= active.keys() and all(
            node.rack != active[task].rack and node.zone != active[task].zone
            for task, node in standby.items()
        )

    user.until(are_apart, "every standby to be in another rack and another zone")
    user.until(lambda: user.condition("StandbysReady")[0] == "True", "standbys to catch up")
    assert are_apart()


@pytest.mark.soak(
    stays="tests/kube/test_real_scaling.py::test_workers_of_an_installed_chart_are_scaled_and_count_each_update_once"
)
def test_scaling_up_and_down_keeps_volumes_and_takes_them_again(user: Journey) -> None:
    user.begin()
    user.scale(3)
    user.until(user.is_settled, "the third worker")
    # What is converged has given it its share.
    assert sorted(map(len, user.held().values())) == [1, 1, 2]
    volumes = {name: user.uid(CLAIMS, name) for name in user.names(CLAIMS)}
    assert len(volumes) == 3

    user.scale(1)
    user.until(lambda: user.is_settled() and len(user.names(PODS)) == 1, "two workers to go")

    assert user.tasks() == TASKS
    assert {name: user.uid(CLAIMS, name) for name in user.names(CLAIMS)} == volumes
    user.scale(3)
    user.until(user.is_settled, "them to come back")
    assert {name: user.uid(CLAIMS, name) for name in user.names(CLAIMS)} == volumes
    assert user.tasks() == TASKS


@pytest.mark.soak(
    stays="tests/kube/test_real_scaling.py::test_workers_of_an_installed_chart_are_scaled_and_count_each_update_once"
)
def test_a_worker_that_is_named_goes_and_another_one_takes_its_place(user: Journey) -> None:
    user.begin()

    user.patch("/spec/scaleDown", {"workersToRemove": ["wc-w-0"]})

    def is_replaced() -> bool:
        return user.is_settled() and user.names(PODS) == ["wc-w-1", "wc-w-2"]

    user.until(lambda: is_replaced() and user.tasks() == TASKS, "it to be replaced")
    assert user.held()["wc-w-0"] == []


@pytest.mark.soak(
    stays="tests/kube/test_journeys.py::test_helm_waits_until_what_was_asked_for_serves"
)
def test_a_new_image_is_rolled_out_and_one_that_does_not_exist_halts(user: Journey) -> None:
    user.begin(assignment={"moveDelay": "1s"})

    def images() -> list[str]:
        pods = user.api.list(PODS, user.namespace)
        return sorted(pod["spec"]["containers"][0]["image"] for pod in pods)

    def is_rolled_out(image: str) -> bool:
        is_new = user.status()["updatedReplicas"] == 2 and images() == [image, image]
        return is_new and user.is_settled() and user.tasks() == TASKS

    user.patch("/spec/image", SECOND)
    user.until(lambda: is_rolled_out(SECOND), "the new image to run everywhere")
    good = user.status()["revision"]

    user.patch("/spec/image", NO_SUCH_IMAGE)
    user.until_degraded("ImagePullFailed")
    user.until(lambda: user.status()["tasks"]["running"] == 4, "one worker to run everything")
    user.until(lambda: user.condition("Progressing")[1] == "RolloutHalted", "it to halt")

    assert images() == [NO_SUCH_IMAGE, SECOND]
    assert user.status()["revision"]["current"] == good["current"]
    assert user.condition("Ready")[:2] == ("False", "ImagePullFailed")
    user.patch("/spec/image", THIRD)
    user.until(lambda: is_rolled_out(THIRD), "the corrected image to run everywhere")
    assert sum(reason == "NewRevision" for reason, _ in user.events()) == 5


def test_a_suspended_streamapp_stops_and_goes_on_where_it_stopped(user: Journey) -> None:
    user.begin()

    user.patch("/spec/suspend", True)
    user.until(lambda: user.status()["state"] == "NOT_RUNNING", "everything to stop")

    assert user.condition("Ready")[:2] == ("False", "Suspended")
    user.until(lambda: user.names(PODS) == [], "their pods to go")
    assert len(user.names(CLAIMS)) == 2
    user.patch("/spec/suspend", False)
    user.until(user.is_settled, "it to go on")
    assert user.tasks() == TASKS


@pytest.mark.parametrize(
    "options",
    [
        pytest.param((), id="grace", marks=pytest.mark.soak),
        pytest.param(("--grace-period=0", "--force"), id="force"),
    ],
)
@pytest.mark.sampled
def test_a_deleted_pod_is_replaced(
    options: tuple[str, ...], user: Journey, kubectl: Command
) -> None:
    user.begin()
    before = user.uid(PODS, "wc-w-1")

    kubectl("delete", "pod", "wc-w-1", *options)

    user.until(lambda: user.uid(PODS, "wc-w-1") not in ("", before), "another pod")
    user.until(lambda: user.is_settled() and user.tasks() == TASKS, "its tasks to run")
    assert "wc-wc-w-1-0" in user.workers.of("wc").fenced


@pytest.mark.soak(
    stays="tests/kube/test_real_workers.py::test_two_workers_count_exactly_through_faults_and_a_bad_roll_out"
)
def test_a_container_that_ends_is_replaced_without_waiting_for_its_lease(user: Journey) -> None:
    user.begin()
    for worker in user.workers.workers.values():
        worker.lease_s = 36_000
    user.until(lambda: user.lease_s("wc-w-0") == user.lease_s("wc-w-1") == 36_000, "long Leases")
    before = user.uid(PODS, "wc-w-0")

    user.stage.end(user.namespace, "wc-w-0", 137)

    user.until(lambda: user.uid(PODS, "wc-w-0") not in ("", before), "another pod")
    user.until(lambda: user.is_settled() and user.tasks() == TASKS, "its tasks to run")
    assert any("it had ended: killed by SIGKILL" in said for _, said in user.events())


@pytest.mark.soak(
    stays="tests/kube/test_namespaces.py::test_a_namespace_deleted_in_the_middle_of_a_scale_up_holds_up_no_other"
)
def test_a_silent_worker_is_fenced_before_its_tasks_move(user: Journey) -> None:
    user.begin()
    silent = user.workers["wc-w-0"]
    silent.lease_s = 4
    user.until(lambda: user.lease_s("wc-w-0") == 4 and user.held()["wc-w-0"], "a short Lease")
    pod = user.uid(PODS, "wc-w-0")

    silent.frozen = True
    # On a busy machine it may have been taken for silent before, and for one that is back.
    user.until(lambda: user.held()["wc-w-0"] == [] and user.tasks() == TASKS, "its tasks to move")

    assert "wc-wc-w-0-0" in user.workers.of("wc").fenced
    # It may be a network that is cut: what cannot write any more may stay.
    assert user.uid(PODS, "wc-w-0") == pod
    silent.frozen = False
    user.until(lambda: user.is_settled() and user.held()["wc-w-0"], "it to take tasks again")


def test_a_drain_of_nodes_takes_one_worker_at_a_time(user: Journey) -> None:
    user.begin()

    def allowed() -> int:
        # The controllers hear of new kinds twice a minute; then the operator has them look again.
        found = user.api.get(BUDGETS, user.namespace, "wc")
        return int(((found or {}).get("status") or {}).get("disruptionsAllowed", 0))

    user.until(lambda: allowed() == 1, "the budget to count the workers")
    before = user.uid(PODS, "wc-w-1")
    # Else another pod may be in its place before the second one is asked to go.
    user.workers["wc-w-0"].holds_on = True

    assert user.evict("wc-w-0")
    assert not user.evict("wc-w-1")

    assert user.uid(PODS, "wc-w-1") == before
    user.workers["wc-w-0"].holds_on = False
    user.until(lambda: user.is_settled() and allowed() == 1, "the first one to be back")
    assert user.evict("wc-w-1")


@pytest.mark.parametrize("kept", ["Retain", pytest.param("Delete", marks=pytest.mark.soak)])
def test_a_deleted_streamapp_leaves_nothing_but_what_it_says(
    kept: str, user: Journey, kubectl: Command
) -> None:
    user.begin(state={"retention": {"whenDeleted": kept}})
    user.scale(1)
    user.until(lambda: user.is_settled() and len(user.names(PODS)) == 1, "one worker to go")

    kubectl("delete", "sapp", "wc", "--timeout=220s")

    expected = ["wc-w-0-state", "wc-w-1-state"] if kept == "Retain" else []
    user.until(lambda: user.names(CLAIMS) == expected, "claims to go as it says")
    user.until(lambda: all(user.names(kind) == [] for kind in OURS), "everything else to go")
    # The garbage collector takes these, in its own time and order.
    user.until(lambda: user.names(SERVICE_ACCOUNTS) == ["default"], "the account to go")
    user.until(lambda: user.names(CONFIG_MAPS) == ["kube-root-ca.crt"], "ConfigMaps to go")


@pytest.mark.soak(
    stays="tests/kube/test_namespaces.py::test_a_namespace_deleted_in_the_middle_of_a_scale_up_holds_up_no_other"
)
def test_a_namespace_deleted_in_the_middle_of_a_scale_up_goes_away(
    user: Journey, kubectl: Command, admin: KubeClient
) -> None:
    user.begin()
    user.scale(4)
    user.until(lambda: len(user.names(STREAM_WORKERS)) > 2, "a new worker")

    kubectl("delete", "namespace", user.namespace, "--wait=false")

    user.until(lambda: admin.get(NAMESPACES, None, user.namespace) is None, "it to be gone")


def test_a_streamworker_edited_by_hand_is_fenced_and_written_anew(user: Journey) -> None:
    user.begin()

    operation = {"op": "add", "path": "/spec/active", "value": TASKS}
    user.api.patch(STREAM_WORKERS, user.namespace, "wc-w-0", [operation])

    user.until(lambda: "wc-wc-w-0-0" in user.workers.of("wc").fenced, "it to be fenced")
    user.until(lambda: user.is_settled() and user.tasks() == TASKS, "what was there before")
    assert any(reason == "TamperedWorker" for reason, _ in user.events())


@pytest.mark.soak(
    stays="tests/unit/kube_operator/test_rounds.py::test_a_streamworker_without_an_epoch_is_taken_over"
)
def test_a_streamworker_made_by_hand_is_taken_over(user: Journey) -> None:
    user.begin()
    owner = Owner(name="wc", namespace=user.namespace, uid="")
    made = metadata(owner, "wc-w-2", worker="wc-w-2", is_owned=False)
    # As a backup may bring it back: without an epoch, and without annotations.
    kind = {"apiVersion": STREAM_WORKERS.api_version, "kind": STREAM_WORKERS.kind}
    user.api.create(STREAM_WORKERS, {**kind, "metadata": made, "spec": {"app": "wc"}})
    user.scale(3)

    user.until(user.is_settled, "it to be taken over")

    assert user.held()["wc-w-2"]


@pytest.mark.soak(
    stays="tests/unit/kube_operator/test_rounds.py::test_no_replicas_at_all_is_a_state_of_rest"
)
def test_no_workers_and_more_workers_than_tasks_are_both_a_state_of_rest(user: Journey) -> None:
    user.begin(replicas=6)
    assert user.condition("ScalingLimited")[:2] == ("True", "FewerTasksThanWorkers")

    user.scale(0)

    user.until(lambda: user.condition("Ready")[:2] == ("False", "NoReplicas"), "all to stop")
    user.until(lambda: user.names(PODS) == [], "their pods to go")
    assert len(user.names(CLAIMS)) == 6


@pytest.mark.soak(
    stays="tests/unit/kube_operator/test_rounds.py::test_of_two_streamapps_with_one_application_id_only_the_older_runs"
)
def test_of_two_streamapps_with_one_application_id_the_older_runs(user: Journey) -> None:
    user.begin()
    user.apply(streamapp("copy", applicationId="wc"))

    user.until(
        lambda: user.condition("SpecValid", "copy")[1] == "ApplicationIdInUse", "a condition"
    )

    assert f"{user.namespace}/wc" in user.condition("Ready", "copy")[2]
    assert user.names(PODS) == ["wc-w-0", "wc-w-1"]
    user.kubectl("delete", "sapp", "wc", "--timeout=220s")
    user.until(lambda: user.is_settled("copy"), "the other one to run")


TROUBLE = {
    "image": ({"image": NO_SUCH_IMAGE}, "ImagePullFailed", "correct spec.image"),
    "volume": (
        {"state": {"storageClassName": "no-such-class"}},
        "VolumeNotProvisioned",
        'storageclass.storage.k8s.io "no-such-class" not found; create the storage class',
    ),
    "node": (
        {"podTemplate": {"nodeSelector": {"disk": "none-such"}}},
        "Unschedulable",
        "add nodes, or ask for less",
    ),
    "secret": (
        {
            "kafka": {
                "authentication": {"type": "SCRAM-SHA-512", "secretRef": {"name": "no-such-secret"}}
            }
        },
        "VolumeUnavailable",
        (
            'secret "no-such-secret" not found; '
            "spec.kafka.authentication needs its keys username and password; create the Secret"
        ),
    ),
}


def test_what_keeps_workers_from_starting_is_named_with_the_next_step(user: Journey) -> None:
    for name, (spec, _, _) in TROUBLE.items():
        user.apply(streamapp(name, replicas=1, **spec))
    user.begin()

    for name, (_, reason, said) in TROUBLE.items():
        user.until_degraded(reason, name)
        state, why, message = user.condition("Ready", name)
        assert (state, why) == ("False", reason)
        assert said in message
        assert f"{name}-w-0" in message

    assert user.is_settled()
    assert user.names(STREAM_APPS) == sorted(["wc", *TROUBLE])


def test_threads_and_a_pause_are_changed_in_the_pods_that_run(user: Journey) -> None:
    user.begin()
    pods = user.uids()
    user.patch("/spec/threadsPerWorker", 3)
    user.until(lambda: all(spec.get("threads") == 3 for spec in specs(user)), "three threads each")

    user.patch("/spec/paused", value=True)
    user.until(lambda: user.condition("Paused")[:2] == ("True", "SpecPaused"), "the pause")
    assert user.condition("Ready")[0] == "True"
    user.patch("/spec/paused", value=False)
    user.until(lambda: user.condition("Paused")[:2] == ("False", "NotPaused"), "it to go on")

    user.until(user.is_settled, "everything to run")
    assert user.uids() == pods


def specs(user: Journey) -> list[dict[str, object]]:
    return [worker["spec"] for worker in user.api.list(STREAM_WORKERS, user.namespace)]
