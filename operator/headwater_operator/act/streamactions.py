"""Statuses of StreamActions are written, and those that have expired are deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater_operator.act.gate import OutdatedDecisionError
from headwater_operator.kube.api import STREAM_ACTIONS
from headwater_operator.kube.errors import ConflictError, NotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headwater_operator.act.gate import Gate
    from headwater_operator.decide.streamactions.asked import ActionView
    from headwater_operator.decide.streamactions.ruling import Ruling
    from headwater_operator.kube.api import KubeApi, Manifest


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
