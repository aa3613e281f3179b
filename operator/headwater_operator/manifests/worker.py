"""StreamWorker and Lease as the operator creates and changes them."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from headwater.model.cluster import API_VERSION
from headwater.model.codec import encode_object
from headwater_operator.manifests.names import (
    DIGEST_ANNOTATION,
    Manifest,
    Owner,
    annotating,
    metadata,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headwater.model.cluster import WorkerSpec

_LABELS_PATH = "/metadata/labels"


def stream_worker(owner: Owner, name: str, spec: WorkerSpec) -> Manifest:
    """Return a StreamWorker as it is created."""
    encoded = encode_object(spec)
    made = metadata(owner, name, worker=name)
    made["annotations"] = {DIGEST_ANNOTATION: digest(encoded)}
    return {"apiVersion": API_VERSION, "kind": "StreamWorker", "metadata": made, "spec": encoded}


def spec_patch(
    spec: WorkerSpec,
    *,
    replaces: int,
    version: str = "",
    is_annotated: bool = True,
    labels: Mapping[str, str] | None = None,
) -> list[Manifest]:
    """Return the JSON patch that writes a StreamWorker's spec if the epoch is still ``replaces``.

    Its status, which the worker writes at any time, does not get in the way. It does where somebody
    else has made the StreamWorker, or taken what we wrote there: an epoch of 0 need not be written
    out, and a patch cannot add to annotations that are not there.

    Args:
        spec: to write.
        replaces: the epoch that is stored.
        version: the resource version that is stored.
        is_annotated: whether it has any annotation.
        labels: to put back, if some were taken away.
    """
    encoded = encode_object(spec)
    same_epoch = {"op": "test", "path": "/spec/epoch", "value": replaces}
    same_version = {"op": "test", "path": "/metadata/resourceVersion", "value": version}
    return [
        same_epoch if replaces and is_annotated and labels is None else same_version,
        {"op": "replace", "path": "/spec", "value": encoded},
        *([] if labels is None else [{"op": "add", "path": _LABELS_PATH, "value": {**labels}}]),
        *annotating(DIGEST_ANNOTATION, digest(encoded), is_annotated=is_annotated),
    ]


def digest(spec: Mapping[str, Any]) -> str:
    """Return a digest of a spec: it tells when somebody else has changed it."""
    text = json.dumps(spec, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def is_as_written(manifest: Mapping[str, Any], spec: WorkerSpec) -> bool:
    """Whether a StreamWorker's spec is what an operator wrote last.

    Args:
        manifest: as stored.
        spec: read from it.
    """
    annotations = manifest["metadata"].get("annotations") or {}
    return bool(annotations.get(DIGEST_ANNOTATION) == digest(encode_object(spec)))


def lease(owner: Owner, worker: str, uid: str) -> Manifest:
    """Return the Lease of a worker as it is created: nobody holds it yet.

    Args:
        owner: the StreamApp.
        worker: whose.
        uid: of its StreamWorker, which the Lease goes with.
    """
    made = metadata(owner, worker, worker=worker, is_owned=False)
    made["ownerReferences"] = [
        {
            "apiVersion": API_VERSION,
            "kind": "StreamWorker",
            "name": worker,
            "uid": uid,
            "controller": True,
            "blockOwnerDeletion": False,
        }
    ]
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": made,
        "spec": {"holderIdentity": "", "leaseDurationSeconds": 30, "leaseTransitions": 0},
    }
