"""SnapshotVolume and RestoreVolume: a worker's volume is copied, and brought back.

    Snapshotting ──ready to use──► Complete
    Draining ──retired──► Replacing ──claim made anew──► Returning ──ready──► Complete

A volume may be copied while it is in use: a store is valid after any crash, and its position says
how far it reaches. What a restored one lacks its worker reads from the changelogs; what it holds of
another changelog, or is too old, its worker throws away.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from headwater_operator.decide.streamactions.asked import DRAINING, RETURNING
from headwater_operator.decide.streamactions.drain import (
    leave,
    leaves_already,
    returning,
    still_held,
    without_it,
)
from headwater_operator.decide.streamactions.objects import REPLACING, SNAPSHOTTING
from headwater_operator.decide.streamactions.standing import (
    Standing,
    complete,
    failed,
    listed,
    runs,
)
from headwater_operator.decide.streamactions.workers import refused

if TYPE_CHECKING:
    from headwater_operator.decide.fleet import Fleet
    from headwater_operator.decide.scene import Scene
    from headwater_operator.decide.streamactions.asked import ActionView


def begin_snapshot(scene: Scene, view: ActionView) -> Standing:
    """See whether there is something to copy, and somebody who can."""
    part = view.spec.snapshot_volume
    assert part is not None
    if not view.objects.knows_snapshots:
        return _unknown_kind()
    if scene.named(part.worker) is None or not view.objects.has_volume:
        its = listed([worker.name for worker in scene.workers]) or "none"
        return failed(
            "UnknownVolume",
            f"{part.worker} has no volume of {scene.app.name}; its workers are {its}. Create "
            "another StreamAction with one of these",
        )
    found = view.objects.snapshot
    if found is not None and found.made_for != view.uid:
        return _taken(view)
    return runs(SNAPSHOTTING, f"the volume of {part.worker} is copied", total=1)


def go_on_snapshot(view: ActionView) -> Standing:
    """Tell whether it can be used."""
    found = view.objects.snapshot
    if not view.objects.knows_snapshots:
        return _unknown_kind()
    if found is None:
        return runs(SNAPSHOTTING, f"the VolumeSnapshot {view.name} is made", total=1)
    if found.made_for != view.uid:
        return _taken(view)
    if found.is_ready:
        said = f"the VolumeSnapshot {view.name} can be used"
        return complete(said, done=1, total=1, result=view.name)
    said = found.error or f"the VolumeSnapshot {view.name} is not ready to use yet"
    return runs(SNAPSHOTTING, said, total=1, result=view.name)


def begin_restore(scene: Scene, fleet: Fleet, view: ActionView) -> Standing:
    """See whether the snapshot can be used, and others can take the tasks."""
    part = view.spec.restore_volume
    assert part is not None
    if not view.objects.knows_snapshots:
        return _unknown_kind()
    found = view.objects.snapshot
    if found is None or not found.is_ready:
        state = "is not ready to use" if found is not None else "is not there"
        return failed(
            "SnapshotNotReady",
            f"the VolumeSnapshot {part.snapshot} {state}: look at `kubectl get volumesnapshots`, "
            "then create another StreamAction",
        )
    if (problem := refused(scene, part.worker)) is not None:
        return problem
    if (problem := leaves_already(fleet, part.worker)) is not None:
        return problem
    if (problem := without_it(fleet, part.worker)) is not None:
        return problem
    worker = scene.named(part.worker)
    count = len(worker.held) if worker is not None else 0
    return runs(DRAINING, f"{leave(count)} {part.worker}", total=count)


def go_on_restore(scene: Scene, fleet: Fleet, view: ActionView) -> Standing:
    """Tell how far it has come."""
    part = view.spec.restore_volume
    assert part is not None
    total, name = view.status.total, part.worker
    worker = scene.named(name)
    if view.status.step == RETURNING:
        found = returning(scene, fleet, worker, name, total)
        if found.phase.is_final and name in fleet.wanted:
            said = f"{name} runs on the volume made from {part.snapshot}"
            return replace(found, message=said, result=part.snapshot)
        return found
    if worker is None:
        return failed("WorkerLeft", f"{name} is gone: name another worker in a new StreamAction")
    if view.status.step == REPLACING and view.objects.is_restored:
        return runs(RETURNING, f"{name} is started on its new volume", done=total, total=total)
    if view.status.step == REPLACING or worker.is_retired:
        said = f"the volume of {name} is made anew from {part.snapshot}"
        return runs(REPLACING, said, done=total, total=total)
    left = len(worker.held)
    return runs(
        DRAINING, still_held(scene, worker), done=min(total, max(0, total - left)), total=total
    )


def _unknown_kind() -> Standing:
    return failed(
        "NoVolumeSnapshots",
        "the cluster has no VolumeSnapshot (snapshot.storage.k8s.io/v1): install the snapshot "
        "controller and a CSI driver that makes snapshots, then create another StreamAction",
    )


def _taken(view: ActionView) -> Standing:
    return failed(
        "NameTaken",
        f"there is a VolumeSnapshot {view.name} that this StreamAction has not made: give the "
        "StreamAction another name",
    )
