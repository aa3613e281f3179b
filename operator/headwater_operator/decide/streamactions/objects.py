"""What StreamActions need of objects other than workers: VolumeSnapshots, claims, Jobs.

What was read of them stands in the ``ActionView``; what is to be done to them is a value, carried
out after the statuses were written. Each is safe to see twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from headwater.model.streamaction import ActionType

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headwater_operator.decide.scene import Scene

SNAPSHOTTING: Final = "Snapshotting"
REPLACING: Final = "Replacing"
STOPPING: Final = "Stopping"
BACKFILLING: Final = "Backfilling"


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotView:
    """A VolumeSnapshot as it was read.

    Attributes:
        made_for: uid of the StreamAction that has made it; empty if none has.
        is_ready: a volume can be made from it.
        error: what its controller says is wrong; empty for nothing.
    """

    made_for: str = ""
    is_ready: bool = False
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobView:
    """A Job as it was read.

    Attributes:
        uid: tells it from another one of that name.
        app: the StreamApp that its label names; empty if it names none.
        is_suspended: it is not to run yet.
        has_begun: it was let run once.
        is_complete: it has succeeded.
        failure: why it has failed; empty if it has not.
    """

    uid: str = ""
    app: str = ""
    is_suspended: bool = False
    has_begun: bool = False
    is_complete: bool = False
    failure: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectsView:
    """The objects that one action is about.

    Attributes:
        refused: which right the operator lacks to read them; empty if it lacks none.
        refusal: what the API server answered when it refused to change them; empty if it did not.
        knows_snapshots: the cluster has VolumeSnapshots.
        snapshot: the one that is made, or read.
        job: the Job of a backfill.
        has_volume: the worker's claim is bound.
        is_restored: the worker's claim was made for this very action.
    """

    refused: str = ""
    refusal: str = ""
    knows_snapshots: bool = True
    snapshot: SnapshotView | None = None
    job: JobView | None = None
    has_volume: bool = False
    is_restored: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateSnapshot:
    """Make a VolumeSnapshot of a worker's volume.

    Attributes:
        name: of the VolumeSnapshot.
        worker: whose volume.
        class_name: the VolumeSnapshotClass; ``None``: the default.
        made_for: uid of the StreamAction.
    """

    name: str
    worker: str
    class_name: str | None
    made_for: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreClaim:
    """Make a worker's claim anew, from a VolumeSnapshot. The worker has no process.

    Attributes:
        worker: whose claim.
        snapshot: name of the VolumeSnapshot.
        made_for: uid of the StreamAction.
    """

    worker: str
    snapshot: str
    made_for: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StartJob:
    """Let a Job run that was created suspended.

    Attributes:
        name: of the Job.
        uid: of that very one.
        made_for: uid of the StreamAction.
    """

    name: str
    uid: str
    made_for: str


Work: TypeAlias = CreateSnapshot | RestoreClaim | StartJob


def work_of(scene: Scene) -> tuple[Work, ...]:
    """Return what is to be done now because of actions whose step says so."""
    return tuple(_work(scene))


def _work(scene: Scene) -> Iterator[Work]:
    for view in scene.observed.actions:
        if not view.is_effective(scene.observed.clock):
            continue
        spec, step, objects = view.spec, view.status.step, view.objects
        if objects.refused and spec.restore_volume is None:
            continue
        if spec.snapshot_volume is not None and objects.snapshot is None:
            part = spec.snapshot_volume
            yield CreateSnapshot(
                name=view.name,
                worker=part.worker,
                class_name=part.snapshot_class_name,
                made_for=view.uid,
            )
        elif spec.restore_volume is not None and step == REPLACING and not objects.is_restored:
            worker = scene.named(spec.restore_volume.worker)
            if worker is not None and worker.is_retired:
                yield RestoreClaim(
                    worker=worker.name, snapshot=spec.restore_volume.snapshot, made_for=view.uid
                )
        elif spec.type is ActionType.BACKFILL and step == BACKFILLING:
            job = objects.job
            if job is not None and job.is_suspended and spec.backfill is not None:
                yield StartJob(name=spec.backfill.job, uid=job.uid, made_for=view.uid)
