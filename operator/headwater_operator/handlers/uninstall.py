"""Delete StreamApps and wait until the operator has let go of them, before it is uninstalled.

Helm removes the operator and its rights before the definitions. A StreamApp that is still there
then keeps its finalizer, which nobody takes off, and its definition stays Terminating. So the chart
runs this in a hook before anything is removed.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from headwater.errors import EnvironmentProblemError
from headwater.model.lifecycle import ClientState
from headwater_operator.kube.api import STREAM_APPS
from headwater_operator.kube.errors import ApiUnavailableError, ConflictError, NotFoundError
from headwater_operator.manifests.names import FINALIZER

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from headwater_operator.kube.api import KubeApi, Manifest

_log = logging.getLogger(__name__)

PAUSE_MS: Final = 1_000
"""Between two looks at what is left."""
_NAMED: Final = 10
"""So many StreamApps are named in the error."""


class StreamAppsRemainError(EnvironmentProblemError):
    """StreamApps that were deleted still exist when the time is over; the message names them."""


def delete_stream_apps(
    api: KubeApi,
    namespaces: Collection[str | None],
    *,
    timeout_ms: int,
    now_ms: Callable[[], int],
    pause: Callable[[int], None],
) -> int:
    """Delete all StreamApps, and return when none exists any more.

    The running operator ends their workers, treats their volumes as ``spec.state.retention`` says,
    and takes its finalizer off. One that is created meanwhile is deleted, too. Nothing else is
    written: the caller needs the rights to list and delete StreamApps.

    Args:
        api: the API server.
        namespaces: whose StreamApps; ``None`` stands for all namespaces.
        timeout_ms: how long to wait for the operator.
        now_ms: a clock that never goes back.
        pause: waits for so many milliseconds.

    Returns:
        how many StreamApps were deleted.

    Raises:
        StreamAppsRemainError: some exist when the time is over; they stay marked for deletion.
        ApiUnavailableError: the API server has not answered until then.
        KubeApiError: it refused.
    """
    end_ms = now_ms() + timeout_ms
    deleted: set[str] = set()
    while True:
        is_late = now_ms() >= end_ms
        try:
            left = _delete_each(api, namespaces, deleted)
        except ApiUnavailableError:
            if is_late:
                raise
        else:
            if not left:
                return len(deleted)
            if is_late:
                raise StreamAppsRemainError(_remaining(left, timeout_ms // 1_000))
        pause(PAUSE_MS)


def _delete_each(
    api: KubeApi, namespaces: Collection[str | None], deleted: set[str]
) -> list[Manifest]:
    """Ask for the deletion of every StreamApp that is not being deleted; return all there are."""
    left = [app for namespace in namespaces for app in _listed(api, namespace)]
    for app in left:
        metadata = app["metadata"]
        uid = metadata["uid"]
        if uid not in deleted:
            _log.info("deleting StreamApp %s", _name(app))
        if "deletionTimestamp" not in metadata:
            try:
                api.delete(STREAM_APPS, metadata["namespace"], metadata["name"], uid=uid)
            except ConflictError:
                continue  # another one of its name by now: the next look sees it
        deleted.add(uid)
    return left


def _listed(api: KubeApi, namespace: str | None) -> Sequence[Manifest]:
    try:
        return api.list(STREAM_APPS, namespace)
    except NotFoundError:
        return ()  # the definition is gone, and every StreamApp with it


def _name(app: Manifest) -> str:
    return f"{app['metadata']['namespace']}/{app['metadata']['name']}"


def _remaining(left: Sequence[Manifest], seconds: int) -> str:
    described = [f"{_name(app)} ({_reason(app)})" for app in left[:_NAMED]]
    if len(left) > _NAMED:
        described.append(f"{len(left) - _NAMED} more")
    return (
        f"StreamApps still exist {seconds} s after they were deleted: {', '.join(described)}. "
        "Only a running operator that watches their namespace lets them go: see that one runs, "
        "then uninstall again, with more time if workers take long to end "
        "(crds.deleteTimeoutSeconds and helm uninstall --timeout). If no operator will run again: "
        "kubectl patch streamapp NAME --namespace NAMESPACE --type merge "
        '--patch \'{"metadata":{"finalizers":null}}\''
    )


def _reason(app: Manifest) -> str:
    """Return what the operator says that it waits for, else which finalizers are there."""
    status: dict[str, Any] = app.get("status") or {}
    finalizers = app["metadata"].get("finalizers") or ()
    if FINALIZER in finalizers and status.get("state") == ClientState.PENDING_SHUTDOWN:
        return str(status.get("reason"))
    return f"finalizers: {' '.join(finalizers)}"
