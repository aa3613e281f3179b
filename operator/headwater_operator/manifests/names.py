"""Labels, names and owners: how the operator finds again what it has made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from headwater.model.cluster import API_VERSION
from headwater.model.streamapp import KIND

if TYPE_CHECKING:
    from collections.abc import Mapping

Manifest = dict[str, Any]

PREFIX: Final = "headwater.dev/"
APP_LABEL: Final = f"{PREFIX}app"
"""The StreamApp's name; on everything that was made for it."""
WORKER_LABEL: Final = f"{PREFIX}worker"
"""The StreamWorker's name; on its pod, claim and Lease."""
REVISION_LABEL: Final = f"{PREFIX}revision"
"""The revision of the specification that a pod or ConfigMap was made from."""
ACTION_ANNOTATION: Final = f"{PREFIX}made-for-action"
"""The uid of the StreamAction that something was made for."""
APPLICATION_ID_ANNOTATION: Final = f"{PREFIX}application-id"
"""On a claim: whose state lies on the volume."""
TAKEN_ANNOTATION: Final = f"{PREFIX}taken-at-version"
"""On a claim: the resource version it had when it was given to a pod for the last time."""
DIGEST_ANNOTATION: Final = f"{PREFIX}spec-digest"
"""On a StreamWorker: a digest of the specification as the operator wrote it."""
RECOUNT_ANNOTATION: Final = f"{PREFIX}recount"
"""On a PodDisruptionBudget: it is changed to have the pods counted anew."""
PAUSE_ANNOTATION: Final = f"{PREFIX}pause-reconciliation"
"""On a StreamApp, ``"true"``: the operator looks on and does nothing."""
RESET_ANNOTATION: Final = f"{PREFIX}reset"
"""On a StreamApp, ``"now"`` or where to begin (``headwater.model.resetting``): asks for a reset.

It is taken away when that is done."""
SHIFTS_ANNOTATION: Final = f"{PREFIX}shifts"
"""On a StreamApp: how many resets have shifted offsets."""

FINALIZER: Final = f"{PREFIX}operator"
"""Ours, on a StreamApp: workers are stopped and volumes treated as it says before it goes."""

MANAGED_BY: Final = "headwater"

GENERATION_ANNOTATION: Final = f"{PREFIX}engine-generation"
"""On a driver's pod: the take-over that it was started for."""
EXECUTORS_ANNOTATION: Final = f"{PREFIX}executors"
"""On a driver's pod: how many executors it was started with."""
STARTED_FROM_ANNOTATION: Final = f"{PREFIX}started-from"
"""On a driver's pod: a digest of what it was started from."""

COMPONENT_LABEL: Final = "app.kubernetes.io/component"
_MANAGER: Final = "app.kubernetes.io/managed-by"
WORKER_COMPONENT: Final = "worker"
DRIVER_COMPONENT: Final = "driver"
EXECUTOR_COMPONENT: Final = "executor"


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The StreamApp that everything belongs to.

    Attributes:
        name: its name.
        namespace: where it lives.
        uid: tells it from a later one of the same name.
    """

    name: str
    namespace: str
    uid: str

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name."""
        return self.namespace, self.name

    def reference(self, *, is_controller: bool = True) -> Manifest:
        """Return the owner reference for something that belongs to it."""
        return {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "name": self.name,
            "uid": self.uid,
            "controller": is_controller,
            # To set it on another object needs rights on the owner's finalizers.
            "blockOwnerDeletion": False,
        }


def labels(
    app: str, *, worker: str = "", revision: str = "", component: str = ""
) -> dict[str, str]:
    """Return the labels of something made for an application, or for one worker of it."""
    found = {
        "app.kubernetes.io/name": "headwater",
        "app.kubernetes.io/instance": app,
        _MANAGER: MANAGED_BY,
        APP_LABEL: app,
    }
    if worker:
        found |= {COMPONENT_LABEL: WORKER_COMPONENT, WORKER_LABEL: worker}
    if component:
        found[COMPONENT_LABEL] = component
    if revision:
        found[REVISION_LABEL] = revision
    return found


def made_by_us() -> str:
    """Return the selector of everything that any operator has made for any application."""
    return f"{_MANAGER}={MANAGED_BY}"


def of_app(app: str) -> str:
    """Return the selector of everything made for an application."""
    return f"{_MANAGER}={MANAGED_BY},{APP_LABEL}={app}"


def pod_labels(app: str, component: str = WORKER_COMPONENT) -> dict[str, str]:
    """Return the labels that all pods of a kind have in an application, and no other pod."""
    return {APP_LABEL: app, COMPONENT_LABEL: component}


def pod_selector(app: str, component: str = WORKER_COMPONENT) -> str:
    """Return the same as a selector: ``status.selector``, for autoscalers."""
    return ",".join(f"{name}={value}" for name, value in pod_labels(app, component).items())


def component_of(manifest: Mapping[str, Any]) -> str:
    """Return what kind of pod one is; empty if it does not say."""
    return str((manifest["metadata"].get("labels") or {}).get(COMPONENT_LABEL, ""))


def app_of(manifest: Mapping[str, Any]) -> str:
    """Return the name of the StreamApp that an object was made for; empty if it does not say."""
    return str((manifest["metadata"].get("labels") or {}).get(APP_LABEL, ""))


def lacking_labels(manifest: Mapping[str, Any], app: str, worker: str) -> dict[str, str]:
    """Return the labels that an object of a worker was made with and has no more."""
    return missing_labels(manifest, app, worker=worker)


def missing_labels(
    manifest: Mapping[str, Any], app: str, *, worker: str = "", component: str = ""
) -> dict[str, str]:
    """Return the labels that an object was made with and has no more."""
    found = manifest["metadata"].get("labels") or {}
    made = labels(app, worker=worker, component=component)
    return {name: value for name, value in made.items() if found.get(name) != value}


def claim_name(worker: str) -> str:
    """Return the name of the claim with a worker's state."""
    return f"{worker}-state"


def driver_name(app: str) -> str:
    """Return the name of the driver's pod: there can be but one at a time; and of its Service."""
    return f"{app}-driver"


def config_name(app: str, revision: str) -> str:
    """Return the name of the ConfigMap that the workers of a revision read."""
    return f"{app}-{revision}"


def annotating(annotation: str, value: str, *, is_annotated: bool) -> list[Manifest]:
    """Return the operations of a JSON patch that set an annotation.

    Args:
        annotation: its name.
        value: its text.
        is_annotated: whether there is any annotation; a patch cannot add to none.
    """
    path = "/metadata/annotations"
    return [
        *([] if is_annotated else [{"op": "add", "path": path, "value": {}}]),
        {"op": "add", "path": f"{path}/{annotation.replace('/', '~1')}", "value": value},
    ]


def metadata(
    owner: Owner,
    name: str,
    *,
    worker: str = "",
    revision: str = "",
    component: str = "",
    is_owned: bool = True,
) -> Manifest:
    """Return the metadata of something made for an application."""
    found: Manifest = {
        "name": name,
        "namespace": owner.namespace,
        "labels": labels(owner.name, worker=worker, revision=revision, component=component),
    }
    if is_owned:
        found["ownerReferences"] = [owner.reference()]
    return found
