"""Statuses of StreamActions are written, and those that have expired are deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater_operator.act.gate import OutdatedDecisionError
from headwater_operator.decide.streamactions.objects import CreateSnapshot, RestoreClaim, StartJob
from headwater_operator.kube.api import CLAIMS, JOBS, PODS, STREAM_ACTIONS, VOLUME_SNAPSHOTS
from headwater_operator.kube.errors import AlreadyExistsError, ConflictError, NotFoundError
from headwater_operator.manifests.storage import restored_claim, volume_snapshot

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headwater_operator.act.gate import Gate
    from headwater_operator.decide.streamactions.asked import ActionView
    from headwater_operator.decide.streamactions.objects import Work
    from headwater_operator.decide.streamactions.ruling import Ruling
    from headwater_operator.kube.api import KubeApi, Manifest
    from headwater_operator.views import AppView


def write_rulings(
    api: KubeApi,
    gate: Gate,
    namespace: str,
    actions: Iterable[ActionView],
    rulings: Iterable[Ruling],
) -> None:
    """Write the next statuses, each only over the one that it was decided from.

    Raises:
        OutdatedDecisionError: an action has changed, or is gone.
        KubeApiError: the API server refused, or did not answer.
    """
    known = {view.name: view for view in actions}
    for ruling in rulings:
        view = known[ruling.name]
        manifest: Manifest = {
            "metadata": {
                "name": view.name,
                "namespace": namespace,
                "uid": view.uid,
                "resourceVersion": view.version,
            },
            "status": ruling.status.to_dict(),
        }
        gate.before("write_action")
        try:
            api.apply(STREAM_ACTIONS, manifest, subresource="status")
        except (ConflictError, NotFoundError) as error:
            raise OutdatedDecisionError(str(error)) from error


def delete_expired(
    api: KubeApi, gate: Gate, namespace: str, actions: Iterable[ActionView], clock: str
) -> bool:
    """Delete the actions that ended long enough ago; return whether there were any.

    Raises:
        OutdatedDecisionError: an action has changed.
        KubeApiError: the API server refused, or did not answer.
    """
    expired = [view for view in actions if view.is_expired(clock)]
    for view in expired:
        gate.before("delete_action")
        try:
            api.delete(
                STREAM_ACTIONS, namespace, view.name, uid=view.uid, resource_version=view.version
            )
        except ConflictError as error:
            raise OutdatedDecisionError(str(error)) from error
    return bool(expired)


def carry_out(api: KubeApi, gate: Gate, view: AppView, work: Iterable[Work]) -> bool:
    """Do what actions need done to other objects than workers; return whether there was anything.

    Raises:
        OutdatedDecisionError: what it was decided from is no longer so.
        AlreadyExistsError: somebody else has made an object of that name.
        KubeApiError: the API server refused, or did not answer.
    """
    did = False
    for each in work:
        did = True
        try:
            _carry_out(api, gate, view, each)
        except AlreadyExistsError:
            raise  # somebody else's object of that name: to decide again would not help
        except (ConflictError, NotFoundError) as error:
            raise OutdatedDecisionError(str(error)) from error
    return did


def _carry_out(api: KubeApi, gate: Gate, view: AppView, work: Work) -> None:
    namespace = view.owner.namespace
    match work:
        case CreateSnapshot():
            gate.before("create_snapshot")
            manifest = volume_snapshot(
                view.owner,
                work.worker,
                name=work.name,
                class_name=work.class_name,
                made_for=work.made_for,
            )
            api.create(VOLUME_SNAPSHOTS, manifest)
        case RestoreClaim():
            _restore_claim(api, gate, view, work)
        case StartJob():
            gate.before("start_job")
            operations: list[Manifest] = [
                {"op": "test", "path": "/metadata/uid", "value": work.uid},
                {"op": "replace", "path": "/spec/suspend", "value": False},
            ]
            api.patch(JOBS, namespace, work.name, operations)


def _restore_claim(api: KubeApi, gate: Gate, view: AppView, work: RestoreClaim) -> None:
    """Delete the claim that there is; once it is gone, make another one."""
    assert view.app is not None
    found = view.claims.get(work.worker)
    if found is None:
        gate.before("create_claim")
        manifest = restored_claim(
            view.app,
            view.owner,
            work.worker,
            snapshot=work.snapshot,
            made_for=work.made_for,
        )
        api.create(CLAIMS, manifest)
        return
    pod = view.pods.get(work.worker)
    if pod is not None:
        # A claim stays as long as a pod uses it, and be it one that has ended.
        gate.before("delete_ended_pod")
        api.delete(PODS, view.owner.namespace, pod.worker, uid=pod.uid)
    if not found.is_deleting:
        gate.before("delete_claim")
        api.delete(
            CLAIMS,
            view.owner.namespace,
            found.name,
            uid=found.uid,
            resource_version=found.version,
        )
