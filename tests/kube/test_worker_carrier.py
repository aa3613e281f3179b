"""A worker's way to its resources when somebody is in the way: rights, tokens, rivals, outages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from headwater.model import podcontract
from headwater.model.cluster import Lease, WorkerSpec, WorkerStatus
from headwater.service.carrier import CarrierLostError, CarrierUnavailableError
from headwater_operator.manifests.access import role
from tests.kube.workers import APP, WORKER, WorkerResources
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kubernetes.client import ApiClient

    from headwater.service.kube.carrier import KubeCarrier
    from tests.kube.control_plane import ControlPlane

pytestmark = pytest.mark.usefixtures("crds")


@pytest.fixture
def resources(kube_api: ApiClient, namespace: str, tmp_path: Path) -> WorkerResources:
    made = WorkerResources(kube_api, namespace, tmp_path)
    made.create(WorkerSpec(app=APP, epoch=1))
    made.create_pod()
    return made


@pytest.fixture
def carrier(resources: WorkerResources) -> Iterator[KubeCarrier]:
    made = resources.carrier()
    yield made
    made.close()


def lease_of(holder: str, **fields: Any) -> Lease:
    return Lease(worker=WORKER, holder=holder, **fields)


def renews(carrier: KubeCarrier, holder: str) -> int:
    """Ask until a renewal is told; what is in the way meanwhile passes."""

    def told() -> int | None:
        try:
            return carrier.renew(lease_of(holder))
        except CarrierUnavailableError:
            return None

    return wait_for(told, what=f"a renewal for {holder}", every_s=0.02)


def refusal(carrier: KubeCarrier, *words: str) -> str:
    """Wait until a read is refused in these words."""

    def refused() -> str:
        try:
            carrier.read()
        except CarrierUnavailableError as error:
            return str(error) if all(word in str(error) for word in words) else ""
        return ""

    return wait_for(refused, what=f"a refusal that says {words}", timeout_s=40)


def is_lost(carrier: KubeCarrier, holder: str) -> str:
    def lost() -> str:
        try:
            carrier.renew(lease_of(holder))
        except CarrierLostError as error:
            return str(error)
        except CarrierUnavailableError:
            pass
        return ""

    return wait_for(lost, what="the loss of the Lease", every_s=0.02)


def has_read_all(carrier: KubeCarrier) -> bool:
    """Read if there seems to be news, as the worker does; the watch may tell of what was read."""
    if carrier.has_changed():
        carrier.read()
        return False
    return True


# -- rights and tokens ----------------------------------------------------------------------------


def test_a_right_taken_away_is_named_and_works_again_once_given_back(
    resources: WorkerResources, carrier: KubeCarrier
) -> None:
    name = podcontract.service_account(APP)
    resources.rbac.delete_namespaced_role(name, resources.namespace)

    message = refusal(carrier, "(403)", f"StreamWorker {WORKER}")
    assert "check the Role and RoleBinding" in message

    resources.rbac.create_namespaced_role(resources.namespace, role(resources.owner))
    resources.await_rights(carrier.read)
    renews(carrier, "abc")


def test_a_token_is_read_anew_for_every_request(
    resources: WorkerResources, carrier: KubeCarrier
) -> None:
    token = resources.token_dir / podcontract.TOKEN_FILE
    token.write_text("worthless")
    with pytest.raises(CarrierUnavailableError, match=r"\(401\).*the pod's token is not accepted"):
        carrier.read()
    token.write_text("")
    with pytest.raises(CarrierUnavailableError, match="token is empty"):
        carrier.read()
    token.unlink()
    with pytest.raises(CarrierUnavailableError, match=r"cannot read the pod's token .*/token"):
        carrier.read()

    resources.give_token()

    assert carrier.read() == WorkerSpec(app=APP, epoch=1)


def test_when_the_pod_is_gone_its_process_is_refused_and_the_next_pods_is_not(
    resources: WorkerResources, carrier: KubeCarrier
) -> None:
    old = (resources.token_dir / podcontract.TOKEN_FILE).read_text()
    renews(carrier, "abc")
    resources.delete_pod()
    refusal(carrier, "(401)", "the pod was deleted")

    resources.create_pod()
    successor = resources.carrier()
    renews(successor, "def")
    successor.close()

    (resources.token_dir / podcontract.TOKEN_FILE).write_text(old)
    refusal(carrier, "(401)")
    assert resources.lease is not None
    assert resources.lease.holder == "def"


# -- rivals ---------------------------------------------------------------------------------------


def test_a_process_that_was_replaced_never_takes_lease_or_status_back(
    resources: WorkerResources, carrier: KubeCarrier
) -> None:
    renews(carrier, "abc")
    carrier.write_status(WorkerStatus(incarnation="abc"))
    wait_for(lambda: resources.status.incarnation == "abc", what="the first status")
    successor = resources.carrier()
    renews(successor, "def")
    successor.write_status(WorkerStatus(incarnation="def"))

    message = is_lost(carrier, "abc")

    assert "held by def" in message
    assert "ends without committing" in message
    carrier.write_status(WorkerStatus(incarnation="abc", acknowledged_epoch=1))
    with pytest.raises(CarrierLostError):
        carrier.read()
    carrier.close()
    renews(successor, "def")
    wait_for(lambda: resources.status.incarnation == "def", what="the status of the successor")
    assert resources.lease is not None
    assert resources.lease.holder == "def"
    assert resources.stored_lease["spec"]["leaseTransitions"] == 2
    successor.close()


def test_a_status_that_an_earlier_process_wrote_over_ours_is_written_again(
    resources: WorkerResources, carrier: KubeCarrier
) -> None:
    ours = WorkerStatus(incarnation="abc", acknowledged_epoch=1)
    carrier.write_status(ours)
    wait_for(lambda: resources.status == ours, what="our status")

    resources.workers.write_status(WORKER, {"incarnation": "zombie"})

    wait_for(lambda: resources.status == ours, what="our status again")


def test_a_lease_that_somebody_else_touches_is_renewed_all_the_same(
    resources: WorkerResources, carrier: KubeCarrier
) -> None:
    renews(carrier, "abc")

    resources.leases.patch_namespaced_lease(
        WORKER, resources.namespace, {"metadata": {"labels": {"touched": "yes"}}}
    )

    renews(carrier, "abc")
    stored = resources.stored_lease
    assert stored["metadata"]["labels"]["touched"] == "yes"
    assert stored["spec"]["leaseTransitions"] == 1


def test_a_deleted_lease_is_waited_for_and_taken_once_it_is_back(
    resources: WorkerResources, carrier: KubeCarrier
) -> None:
    renews(carrier, "abc")
    resources.leases.delete_namespaced_lease(WORKER, resources.namespace)

    def refused() -> str:
        try:
            carrier.renew(lease_of("abc"))
        except CarrierUnavailableError as error:
            return str(error)
        return ""

    assert f"there is no Lease {WORKER}" in wait_for(refused, what="the refusal")

    resources.create_lease(resources.workers.read(WORKER)["metadata"]["uid"])
    renews(carrier, "abc")


def test_who_loses_its_streamworker_has_lost_everything(resources: WorkerResources) -> None:
    deleted, replaced = resources.carrier(), resources.carrier()
    resources.workers.delete(WORKER)
    with pytest.raises(CarrierLostError, match=f"StreamWorker {WORKER} was deleted: "):
        deleted.read()

    resources.create_worker(WorkerSpec(app=APP, epoch=9))

    with pytest.raises(CarrierLostError, match="another made in its place"):
        replaced.read()
    for each in (deleted, replaced):
        each.write_status(WorkerStatus(incarnation="abc"))
        each.close()
    assert resources.status.incarnation == ""


def test_a_deletion_is_noticed_by_the_watch(
    resources: WorkerResources, carrier: KubeCarrier
) -> None:
    wait_for(lambda: has_read_all(carrier), what="nothing new")
    # Only a watch that has begun hears of a deletion.
    resources.write(drain=True)
    wait_for(carrier.has_changed, what="the watch to begin")
    wait_for(lambda: has_read_all(carrier), what="nothing new again")
    carrier._read_again_ms += 600_000  # nothing but the watch can tell now

    resources.workers.delete(WORKER)

    wait_for(carrier.has_changed, what="the deletion to be noticed")


# -- outages --------------------------------------------------------------------------------------


def test_a_restarted_api_server_with_a_compacted_store_is_found_again(
    control_plane: ControlPlane, resources: WorkerResources, carrier: KubeCarrier
) -> None:
    before_ms = renews(carrier, "abc")
    resources.write(drain=True)
    wait_for(carrier.has_changed, what="the first change")
    carrier.read()
    control_plane.compact()
    control_plane.stop_api_server()
    try:
        message = refusal(carrier, "gave no answer")
        assert carrier._client._access.server in message
        carrier.write_status(WorkerStatus(incarnation="abc", acknowledged_epoch=2))
    finally:
        control_plane.start_api_server()

    assert renews(carrier, "abc") > before_ms
    wait_for(lambda: resources.status.acknowledged_epoch == 2, what="the status")
    resources.await_rights(carrier.read)
    resources.write(drain=False)
    wait_for(carrier.has_changed, what="the change after the outage")
    read = carrier.read()
    assert read is not None
    assert read.epoch == 3
