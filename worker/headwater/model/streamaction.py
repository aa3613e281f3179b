"""The StreamAction: something to do once with a StreamApp, as frozen values.

    apiVersion: headwater.dev/v1alpha1
    kind: StreamAction
    metadata: {name: drain-word-count-w-1}
    spec:
      app: word-count
      type: DrainWorker
      drainWorker: {worker: word-count-w-1}
      timeout: 30m
      ttlSecondsAfterFinished: 86400

A user creates it; the control loop carries it out and reports in its status
(``model.streamaction_status``). Only ``spec.cancel`` can be changed afterwards. The types here are
the schema, as those of ``model.streamapp`` are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final

from headwater.errors import SpecError
from headwater.ids import TaskId  # noqa: TC001  # read by the codec
from headwater.model.cluster import API_VERSION
from headwater.model.codec import decode, encode_object
from headwater.model.fields import Rule, camel_case, meta
from headwater.model.streamaction_status import StreamActionStatus
from headwater.model.streamapp_kafka import NAME_MEANING, NAME_PATTERN

if TYPE_CHECKING:
    from collections.abc import Iterator

KIND: Final = "StreamAction"

_WORKER: Final = meta(
    pattern="[a-z0-9]([-a-z0-9]*[a-z0-9])?-w-[0-9]{1,9}",
    meaning="a worker's name, <name of the StreamApp>-w-<number>",
    max_length=63,
)


class ActionType(StrEnum):
    """What a StreamAction does."""

    RESET = "Reset"
    DRAIN_WORKER = "DrainWorker"
    MOVE_TASK = "MoveTask"
    RESTART = "Restart"
    BACKFILL = "Backfill"
    SNAPSHOT_VOLUME = "SnapshotVolume"
    RESTORE_VOLUME = "RestoreVolume"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetAction:
    """Where the application begins after a reset.

    Attributes:
        to: as in the annotation headwater.dev/reset: now, earliest, latest, a time, a duration,
            offset:N, shift:N or offsets:TOPIC,PARTITION,OFFSET;... , and after a space
            topics:NAME,... for some topics only.
    """

    to: str = field(default="now", metadata=meta(max_length=32_768))


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainWorkerAction:
    """Which worker is drained, and whether it comes back.

    Attributes:
        worker: its tasks go to other workers, each behind a warm-up; then its process ends.
        keep_out: another worker takes its place, and this one stays without a process until
            replicas grow. Left out: it is started again as soon as it has ended.
    """

    worker: str = field(metadata=_WORKER)
    keep_out: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveTaskAction:
    """Which task goes where.

    Attributes:
        task: moves behind a warm-up, if it has state.
        worker: that is to have it. If that has its share of tasks already, it gives up another one.
    """

    task: TaskId
    worker: str = field(metadata=_WORKER)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartAction:
    """Which workers get a new process, one at a time.

    Attributes:
        workers: only these; left out: all.
    """

    workers: tuple[str, ...] = field(default=(), metadata=meta(each=_WORKER, unique=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillAction:
    """Which Job computes the state anew on Spark.

    Attributes:
        job: name of a Job in this namespace that runs headwater backfill, created with
            spec.suspend: true and with the label headwater.dev/app, the StreamApp's name. It is let
            run once the workers have ended, and they go on when it has succeeded.
    """

    job: str = field(metadata=meta(pattern=NAME_PATTERN, meaning=NAME_MEANING, max_length=253))


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotVolumeAction:
    """Of which volume a VolumeSnapshot is made; it is named after the StreamAction.

    Attributes:
        worker: whose volume.
        snapshot_class_name: the VolumeSnapshotClass; left out: the cluster's default.
    """

    worker: str = field(metadata=_WORKER)
    snapshot_class_name: str | None = field(
        default=None, metadata=meta(pattern=NAME_PATTERN, meaning=NAME_MEANING, max_length=253)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreVolumeAction:
    """Which worker gets its volume made anew, from which VolumeSnapshot.

    Attributes:
        worker: is drained first, and started on the new volume.
        snapshot: name of a VolumeSnapshot in this namespace. What it lacks is restored from the
            changelogs.
    """

    worker: str = field(metadata=_WORKER)
    snapshot: str = field(metadata=meta(pattern=NAME_PATTERN, meaning=NAME_MEANING, max_length=253))


PARTS: Final[Mapping[ActionType, str]] = {
    ActionType.RESET: "reset",
    ActionType.DRAIN_WORKER: "drain_worker",
    ActionType.MOVE_TASK: "move_task",
    ActionType.RESTART: "restart",
    ActionType.BACKFILL: "backfill",
    ActionType.SNAPSHOT_VOLUME: "snapshot_volume",
    ActionType.RESTORE_VOLUME: "restore_volume",
}
"""The attribute of a specification that says more about each type."""
_REQUIRED: Final = (
    ActionType.DRAIN_WORKER,
    ActionType.MOVE_TASK,
    ActionType.BACKFILL,
    ActionType.SNAPSHOT_VOLUME,
    ActionType.RESTORE_VOLUME,
)
_FIXED: Final = (
    "app",
    "type",
    *map(camel_case, PARTS.values()),
    "timeout",
    "ttlSecondsAfterFinished",
)


def _says_more(kind: ActionType, spec: StreamActionSpec) -> bool:
    return spec.type is not kind or spec.part is not None


def _says_nothing_else(kind: ActionType, spec: StreamActionSpec) -> bool:
    return spec.type is kind or spec.part_of(kind) is None


def _rules() -> Iterator[Rule]:
    for kind, attribute in PARTS.items():
        part = camel_case(attribute)
        if kind in _REQUIRED:
            yield Rule(
                cel=f"self.type != '{kind}' || has(self.{part})",
                message=f"with type {kind} {part} says more: write it",
                field=part,
                holds=partial(_says_more, kind),
            )
        yield Rule(
            cel=f"self.type == '{kind}' || !has(self.{part})",
            message=f"{part} is for type {kind}: take it away, or correct the type",
            field=part,
            holds=partial(_says_nothing_else, kind),
        )
    same = " && ".join(
        f"(has(self.{name}) == has(oldSelf.{name}) "
        f"&& (!has(self.{name}) || self.{name} == oldSelf.{name}))"
        for name in _FIXED
    )
    yield Rule(
        cel=same,
        message=(
            "only cancel can be changed: set it, and create another StreamAction for something else"
        ),
        reason="FieldValueForbidden",
    )
    yield Rule(
        cel="!has(oldSelf.cancel) || !oldSelf.cancel || (has(self.cancel) && self.cancel)",
        message="what was cancelled stays so: create another StreamAction",
        field="cancel",
        reason="FieldValueForbidden",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamActionSpec:
    """What is to be done.

    Attributes:
        app: the StreamApp, in the same namespace.
        type: what is done. Reset begins the application anew. DrainWorker moves all tasks of a
            worker away and ends its process. MoveTask moves one task. Restart replaces processes,
            one at a time. Backfill computes the state anew on Spark. SnapshotVolume and
            RestoreVolume copy a worker's volume, and bring it back.
        reset: says more about a Reset.
        drain_worker: says more about a DrainWorker.
        move_task: says more about a MoveTask.
        restart: says more about a Restart.
        backfill: says more about a Backfill.
        snapshot_volume: says more about a SnapshotVolume.
        restore_volume: says more about a RestoreVolume.
        timeout_ms: it fails if it is not complete so long after it was begun. What it had asked for
            is taken back; nothing is lost.
        cancel: give it up. It fails with the reason Cancelled, unless it is complete by then.
        ttl_seconds_after_finished: it is deleted so long after it has ended; left out: it stays.
    """

    RULES: ClassVar[tuple[Rule, ...]] = tuple(_rules())

    app: str = field(metadata=meta(pattern=NAME_PATTERN, meaning=NAME_MEANING, max_length=53))
    type: ActionType
    reset: ResetAction | None = None
    drain_worker: DrainWorkerAction | None = None
    move_task: MoveTaskAction | None = None
    restart: RestartAction | None = None
    backfill: BackfillAction | None = None
    snapshot_volume: SnapshotVolumeAction | None = None
    restore_volume: RestoreVolumeAction | None = None
    timeout_ms: int = field(default=3_600_000, metadata=meta(json="timeout", duration=True))
    cancel: bool = False
    ttl_seconds_after_finished: int | None = field(
        default=None, metadata=meta(minimum=0, maximum=2_147_483_647)
    )

    def part_of(self, kind: ActionType) -> object | None:
        """Return what is said about one type; ``None`` if nothing is."""
        part: object | None = getattr(self, PARTS[kind])
        return part

    @property
    def part(self) -> object | None:
        """What is said about its own type; ``None`` if nothing is."""
        return self.part_of(self.type)

    @property
    def target(self) -> str:
        """The worker that it is about; empty if it is about all, or some."""
        for part in (
            self.drain_worker,
            self.move_task,
            self.snapshot_volume,
            self.restore_volume,
        ):
            if part is not None:
                return part.worker
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamAction:
    """Something to do once with a StreamApp, and what has become of it."""

    name: str
    spec: StreamActionSpec
    status: StreamActionStatus = field(default_factory=StreamActionStatus)

    def to_dict(self) -> dict[str, object]:
        """Return the resource as JSON values; :func:`parse` reads it back."""
        return {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": {"name": self.name},
            "spec": encode_object(self.spec),
            "status": self.status.to_dict(),
        }


def parse(document: Mapping[str, object]) -> StreamAction:
    """Read a StreamAction from JSON values; a damaged status is as good as none.

    Raises:
        SpecError: a field of the specification is unknown, missing or wrong.
    """
    metadata = document.get("metadata")
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    if not isinstance(name, str) or not name:
        raise SpecError("metadata.name: required field is missing")
    spec = decode(StreamActionSpec, document.get("spec") or {}, path="spec", strict=True)
    try:
        status = StreamActionStatus.from_dict(document.get("status") or {})
    except SpecError:
        status = StreamActionStatus()
    return StreamAction(name=name, spec=spec, status=status)
