"""A worker's claim: the volume that its state lies on, which outlives its pods."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import TYPE_CHECKING, Final

from headwater.model.streamapp import Retention
from headwater_operator.manifests.names import (
    ACTION_ANNOTATION,
    APPLICATION_ID_ANNOTATION,
    TAKEN_ANNOTATION,
    Manifest,
    Owner,
    annotating,
    claim_name,
    metadata,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headwater.model.streamapp import StreamApp

_UNITS: Final = {
    **{unit: Decimal(1000) ** power for power, unit in zip(range(-3, 0), "num", strict=True)},
    **{unit: Decimal(1000) ** power for power, unit in enumerate(("", *"kMGTPE"))},
    **{f"{unit}i": Decimal(1024) ** power for power, unit in enumerate("KMGTPE", 1)},
}


def claim(app: StreamApp, owner: Owner, worker: str) -> Manifest:
    """Return the claim of a worker, as it is created."""
    state = app.spec.state
    spec: Manifest = {
        "accessModes": [state.access_mode.value],
        "resources": {"requests": {"storage": str(state.size)}},
    }
    if state.storage_class_name is not None:
        spec["storageClassName"] = state.storage_class_name
    made = metadata(owner, claim_name(worker), worker=worker, is_owned=is_claim_owned(app))
    chosen = state.volume_claim
    made["labels"] = {**chosen.labels, **made["labels"]}
    made["annotations"] = {**chosen.annotations, APPLICATION_ID_ANNOTATION: app.application_id}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": made, "spec": spec}


def restored_claim(
    app: StreamApp, owner: Owner, worker: str, *, snapshot: str, made_for: str
) -> Manifest:
    """Return the claim of a worker whose volume is made from a VolumeSnapshot.

    Args:
        app: the application.
        owner: the StreamApp.
        worker: whose claim.
        snapshot: name of the VolumeSnapshot.
        made_for: uid of the StreamAction that asks for it.
    """
    made = claim(app, owner, worker)
    source = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": snapshot}
    made["spec"]["dataSource"] = source
    made["metadata"]["annotations"][ACTION_ANNOTATION] = made_for
    return made


def volume_snapshot(
    owner: Owner, worker: str, *, name: str, class_name: str | None, made_for: str
) -> Manifest:
    """Return a VolumeSnapshot of a worker's volume; it stays when the StreamApp goes.

    Args:
        owner: the StreamApp.
        worker: whose volume.
        name: of the VolumeSnapshot.
        class_name: its VolumeSnapshotClass; ``None``: the cluster's default.
        made_for: uid of the StreamAction that asks for it.
    """
    made = metadata(owner, name, worker=worker, is_owned=False)
    made["annotations"] = {ACTION_ANNOTATION: made_for}
    spec: Manifest = {"source": {"persistentVolumeClaimName": claim_name(worker)}}
    if class_name is not None:
        spec["volumeSnapshotClassName"] = class_name
    return {
        "apiVersion": "snapshot.storage.k8s.io/v1",
        "kind": "VolumeSnapshot",
        "metadata": made,
        "spec": spec,
    }


def bytes_of(quantity: str | int) -> int:
    """Return a quantity of Kubernetes as a whole number of bytes, rounded up."""
    text = str(quantity)
    number = text.rstrip("numkKMGTPEi")
    unit = text[len(number) :]
    return math.ceil(Decimal(number) * _UNITS[unit])


def claim_grown(uid: str, version: str, size: str | int) -> list[Manifest]:
    """Return the patch that has a claim ask for more, if nobody has changed it meanwhile.

    An API server takes a smaller request, too, while the volume has not grown to the larger.
    """
    return [
        {"op": "test", "path": "/metadata/uid", "value": uid},
        {"op": "test", "path": "/metadata/resourceVersion", "value": version},
        {"op": "replace", "path": "/spec/resources/requests/storage", "value": str(size)},
    ]


def claim_labelled(
    labels: Mapping[str, str], annotations: Mapping[str, str], *, is_annotated: bool
) -> list[Manifest]:
    """Return the patch that gives a claim labels and annotations; it has labels of ours.

    Args:
        labels: those it lacks.
        annotations: those it lacks.
        is_annotated: whether it has any annotation.
    """
    return [
        *(
            {"op": "add", "path": f"/metadata/labels/{_escaped(key)}", "value": value}
            for key, value in labels.items()
        ),
        *([] if is_annotated else [{"op": "add", "path": "/metadata/annotations", "value": {}}]),
        *(
            {"op": "add", "path": f"/metadata/annotations/{_escaped(key)}", "value": value}
            for key, value in annotations.items()
        ),
    ]


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def claim_taken(version: str, *, is_annotated: bool) -> list[Manifest]:
    """Return the patch that makes a claim the one of a pod about to be created.

    Whoever has decided to delete the claim before this can do so no more, however late it wakes:
    its version is another one then.

    Args:
        version: the resource version that is stored.
        is_annotated: whether the claim has any annotation.
    """
    return [
        {"op": "test", "path": "/metadata/resourceVersion", "value": version},
        # Each time another text, or nothing would be written.
        *annotating(TAKEN_ANNOTATION, version, is_annotated=is_annotated),
    ]


def is_claim_owned(app: StreamApp) -> bool:
    """Whether claims are to go with the StreamApp, should it go without the operator's help."""
    return app.spec.state.retention.when_deleted is Retention.DELETE
