"""StreamActions as values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headwater.errors import SpecError
from headwater.model.streamaction import parse
from headwater.model.streamaction_status import StreamActionStatus
from headwater_operator.decide.streamactions.asked import ActionView
from headwater_operator.kube.api import STREAM_ACTIONS
from headwater_operator.kube.errors import NotFoundError

if TYPE_CHECKING:
    from headwater_operator.kube.api import KubeApi, Manifest


def app_of_action(manifest: Manifest) -> str:
    """Return the StreamApp that a StreamAction is about; empty if it names none."""
    spec: Any = manifest.get("spec")
    return str(spec.get("app") or "") if isinstance(spec, dict) else ""


def read_actions(api: KubeApi, namespace: str, app: str) -> tuple[ActionView, ...]:
    """Read the StreamActions of an application, in the order of their creation.

    None on a cluster that does not know StreamActions yet.

    Raises:
        KubeApiError: they could not be read.
    """
    try:
        listed = api.list(STREAM_ACTIONS, namespace, fields=f"spec.app={app}")
    except NotFoundError:
        return ()
    found = [read_action(manifest) for manifest in listed if app_of_action(manifest) == app]
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


def _status(manifest: Manifest) -> StreamActionStatus:
    try:
        return StreamActionStatus.from_dict(manifest.get("status") or {})
    except SpecError:
        return StreamActionStatus()
