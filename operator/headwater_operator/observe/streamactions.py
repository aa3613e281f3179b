"""StreamActions as values."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from headwater.errors import SpecError
from headwater.model.streamaction import parse
from headwater.model.streamaction_status import StreamActionStatus
from headwater_operator.decide.streamactions.asked import ActionView
from headwater_operator.decide.streamactions.objects import JobView, ObjectsView, SnapshotView
from headwater_operator.kube.api import JOBS, STREAM_ACTIONS, VOLUME_SNAPSHOTS
from headwater_operator.kube.errors import ForbiddenError, NotFoundError
from headwater_operator.manifests.names import ACTION_ANNOTATION, app_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from headwater_operator.kube.api import KubeApi, Manifest
    from headwater_operator.views import ClaimView

_JOB_RIGHTS: Final = "get and patch jobs (batch)"
_SNAPSHOT_RIGHTS: Final = "list and create volumesnapshots (snapshot.storage.k8s.io)"


def app_of_action(manifest: Manifest) -> str:
    """Return the StreamApp that a StreamAction is about; empty if it names none."""
    spec: Any = manifest.get("spec")
    return str(spec.get("app") or "") if isinstance(spec, dict) else ""


def read_actions(api: KubeApi, namespace: str, app: str) -> tuple[ActionView, ...]:
    """Read the StreamActions of an application, in the order of their creation.

    None on a cluster that does not know StreamActions yet, and none where the operator has no
    right to read them: the sweep warns of that.

    Raises:
        KubeApiError: they could not be read.
    """
    try:
        listed = api.list(STREAM_ACTIONS, namespace, fields=f"spec.app={app}")
    except (ForbiddenError, NotFoundError):
        return ()
    found = [
        _with_objects(api, namespace, read_action(manifest))
        for manifest in listed
        if app_of_action(manifest) == app
    ]
    return tuple(sorted(found, key=lambda view: view.turn))


def read_action(manifest: Manifest) -> ActionView:
    """Read one StreamAction."""
    metadata = manifest["metadata"]
    try:
        action, problem = parse(manifest), ""
    except SpecError as error:
        action, problem = None, str(error)
    return ActionView(
        action=action,
        name=metadata["name"],
        uid=metadata["uid"],
        version=metadata["resourceVersion"],
        created=str(metadata.get("creationTimestamp") or ""),
        generation=int(metadata.get("generation") or 1),
        problem=problem,
        written=action.status if action is not None else _status(manifest),
    )


def with_claims(
    actions: tuple[ActionView, ...], claims: Mapping[str, ClaimView]
) -> tuple[ActionView, ...]:
    """Return the same with what is known of the volumes that they are about."""
    found = []
    for view in actions:
        claim = claims.get(view.spec.target) if view.action is not None else None
        if claim is not None and not claim.is_deleting:
            is_restored = bool(view.uid) and claim.restored_by == view.uid
            objects = replace(view.objects, has_volume=claim.is_bound, is_restored=is_restored)
            view = replace(view, objects=objects)  # noqa: PLW2901
        found.append(view)
    return tuple(found)


def _with_objects(api: KubeApi, namespace: str, view: ActionView) -> ActionView:
    """Return the same with the VolumeSnapshot or Job that it is about, while it is open."""
    if view.action is None or view.status.phase.is_final:
        return view
    try:
        objects = _objects(api, namespace, view)
    except ForbiddenError as error:
        rights = _JOB_RIGHTS if view.spec.backfill is not None else _SNAPSHOT_RIGHTS
        why = f"the operator needs the right to {rights}: add it to the operator's Role ({error})"
        objects = ObjectsView(refused=why)
    return replace(view, objects=objects)


def _objects(api: KubeApi, namespace: str, view: ActionView) -> ObjectsView:
    spec = view.spec
    if spec.backfill is not None:
        job = api.get(JOBS, namespace, spec.backfill.job)
        return ObjectsView(job=None if job is None else _job(job))
    name = spec.restore_volume.snapshot if spec.restore_volume is not None else view.name
    if spec.restore_volume is None and spec.snapshot_volume is None:
        return view.objects
    try:
        listed = api.list(VOLUME_SNAPSHOTS, namespace, fields=f"metadata.name={name}")
    except NotFoundError:
        return ObjectsView(knows_snapshots=False)
    snapshots = [_snapshot(manifest) for manifest in listed]
    return ObjectsView(snapshot=snapshots[0] if snapshots else None)


def _snapshot(manifest: Manifest) -> SnapshotView:
    status: Mapping[str, Any] = manifest.get("status") or {}
    annotations: Mapping[str, Any] = manifest["metadata"].get("annotations") or {}
    return SnapshotView(
        made_for=str(annotations.get(ACTION_ANNOTATION, "")),
        is_ready=bool(status.get("readyToUse")),
        error=str((status.get("error") or {}).get("message") or ""),
    )


def _job(manifest: Manifest) -> JobView:
    status: Mapping[str, Any] = manifest.get("status") or {}
    conditions: Iterable[Mapping[str, Any]] = status.get("conditions") or ()
    held = {each["type"]: each for each in conditions if each.get("status") == "True"}
    failed = held.get("Failed")
    said = f"{failed.get('reason', '')}: {failed.get('message', '')}" if failed else ""
    return JobView(
        uid=manifest["metadata"]["uid"],
        app=app_of(manifest),
        is_suspended=bool((manifest.get("spec") or {}).get("suspend")),
        has_begun=bool(status.get("startTime")),
        is_complete="Complete" in held,
        failure=said,
    )


def _status(manifest: Manifest) -> StreamActionStatus:
    try:
        return StreamActionStatus.from_dict(manifest.get("status") or {})
    except SpecError:
        return StreamActionStatus()
