"""The end of a StreamApp: its workers end, its volumes are treated as it says, then it may go.

    stop pods ──all have ended──► claims ──► pods, Leases, StreamWorkers ──► finalizer

A worker that is told to end (SIGTERM) commits and closes what it has, so nothing needs to be asked
of it before. And nothing is fenced: the container's end proves that the process wrote its last, and
a transaction it left open is aborted by the broker within seconds. So a StreamApp can be deleted
while Kafka, or the namespace, is going away too. With ``watchNamespaces`` the operator's rights in
the latter may go first: then nothing but the finalizer is left to see to (:func:`let_go`).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from headwater.model.streamapp import Retention
from headwater_operator.act.objects import AT_ONCE_S
from headwater_operator.decide.judge import held_tasks
from headwater_operator.decide.limits import UNHEARD_STOP_MS
from headwater_operator.kube.api import LEASES, NAMESPACES, PODS, STREAM_APPS, STREAM_WORKERS
from headwater_operator.manifests.names import FINALIZER

if TYPE_CHECKING:
    from headwater_operator.act.gate import Gate
    from headwater_operator.act.upkeep import Upkeep
    from headwater_operator.kube.api import KubeApi
    from headwater_operator.views import AppView, PodView

log = logging.getLogger(__name__)


def remove(
    api: KubeApi, gate: Gate, upkeep: Upkeep, view: AppView, going: dict[str, int], now_ms: int
) -> str:
    """Go one round towards the end of a StreamApp.

    Args:
        api: the API server.
        gate: passed before every write.
        upkeep: of this StreamApp.
        view: as it was read just now.
        going: since when pods have been stopping, by uid; brought up to date.
        now_ms: of a clock that never goes back.

    Returns:
        what is waited for; empty when the finalizer is off.

    Raises:
        KubeApiError: the API server refused, or did not answer.
        OutdatedDecisionError: something has changed meanwhile.
    """
    namespace = view.owner.namespace
    running = [pod for pod in view.own_pods.values() if not pod.state.is_proof_of_end]
    for pod in running:
        if not pod.is_deleting:
            gate.before("delete_pod")
            api.delete(PODS, namespace, pod.worker, uid=pod.uid)
        elif now_ms - going.setdefault(pod.uid, now_ms) >= UNHEARD_STOP_MS and _may_be_deaf(
            view, pod
        ):
            gate.before("delete_pod")
            api.delete(PODS, namespace, pod.worker, uid=pod.uid, grace_s=AT_ONCE_S)
    if running:
        return _waits_for(running)
    if view.app is not None and view.app.spec.state.retention.when_deleted is Retention.DELETE:
        upkeep.delete_claims(view)
    elif view.app is not None:
        upkeep.keep_claims(view)
    for worker, pod in view.own_pods.items():
        gate.before("delete_ended_pod")
        api.delete(PODS, namespace, worker, uid=pod.uid)
    for worker in sorted(view.leases):
        gate.before("delete_lease")
        api.delete(LEASES, namespace, worker)
    for worker, stored in view.stored_workers.items():
        gate.before("delete_worker")
        api.delete(STREAM_WORKERS, namespace, worker, uid=stored.uid)
    upkeep.remove_finalizer(view)
    return ""


def let_go(api: KubeApi, gate: Gate, namespace: str) -> None:
    """Take the finalizer off the StreamApps of a namespace that is being deleted.

    Where the operator's rights in it have gone first, nothing else is left to do: pods, claims and
    the rest go with the namespace. It needs ``departure_rules``.

    Raises:
        KubeApiError: the API server refused, or did not answer.
        NotLeadingError: this operator has to end.
    """
    found = api.get(NAMESPACES, None, namespace)
    if found is None or "deletionTimestamp" not in found["metadata"]:
        return
    for manifest in api.list(STREAM_APPS, namespace):
        metadata = manifest["metadata"]
        finalizers = metadata.get("finalizers") or []
        if FINALIZER not in finalizers or "deletionTimestamp" not in metadata:
            continue
        gate.before("remove_finalizer")
        rest = [name for name in finalizers if name != FINALIZER]
        operations = [
            {"op": "test", "path": "/metadata/uid", "value": metadata["uid"]},
            {"op": "test", "path": "/metadata/finalizers", "value": finalizers},
            {"op": "replace", "path": "/metadata/finalizers", "value": rest},
        ]
        api.patch(STREAM_APPS, namespace, metadata["name"], operations)
        log.info("%s/%s goes with its namespace", namespace, metadata["name"])


def _may_be_deaf(view: AppView, pod: PodView) -> bool:
    """Whether a pod that is stopping may not have heard of it, and has nothing to close.

    It was told so early that the signal found no handler. Its worker serves HTTP, which the
    start-up probe asks for, before it is granted anything.
    """
    if pod.has_started or pod.grace_s <= AT_ONCE_S:
        return False
    return not any(
        held_tasks(each.worker.spec, each.worker.status)
        for each in view.workers
        if each.worker.name == pod.worker
    )


def _waits_for(pods: list[PodView]) -> str:
    names = " ".join(sorted(pod.worker for pod in pods))
    nodes = " ".join(sorted({pod.node for pod in pods if pod.node}))
    where = f" on {nodes}" if nodes else ""
    return (
        f"deleting: waiting for {names}{where} to end; a pod on a node that is gone ends when the "
        "node object is deleted"
    )
