"""What users and other controllers do with VolumeSnapshots and Jobs, and what a reset deletes."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Final

from headwater.errors import KafkaUnavailableError
from headwater.ids import TopicPartition
from headwater.model.duties import DutyFailed, ResetDone
from headwater_operator.kube.api import CLAIMS, JOBS, STREAM_ACTIONS, VOLUME_SNAPSHOTS, Manifest
from tests.sim.kubernetes.world import APP, NAMESPACE, KubeWorld, Ticking
from tests.sim.thread import Thread
from tests.sim.world import (
    CHANGELOG,
    GROUP,
    LINES,
    OUT,
    PARTITIONS,
    WORDS,
    Disk,
    ViolationError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headwater.model.duties import Reset

_TICK_MS: Final = 700


class Objects(Ticking):
    """The snapshot controller with its driver, and the controller of Jobs."""

    def __init__(self, world: KubeWorld) -> None:
        self.own = Random(f"objects of {world.seed}")
        self.done_ms: dict[str, int] = {}
        super().__init__(world, "objects")

    def run(self) -> Iterator[int]:
        while True:
            yield _TICK_MS
            if self.world.is_api_down:
                continue
            for snapshot in self.world.all(VOLUME_SNAPSHOTS):
                self.copy(snapshot)
            for job in self.world.all(JOBS):
                self.go_on(job)

    def copy(self, snapshot: Manifest) -> None:
        """Copy the volume; one of ten is never ready."""
        uid = snapshot["metadata"]["uid"]
        if snapshot.get("status") or not self.is_due(uid, (0, 2_000, 8_000)):
            return
        name = snapshot["spec"]["source"]["persistentVolumeClaimName"]
        claim = self.world.find(CLAIMS, name)
        volume = self.world.volumes.get(claim["metadata"]["uid"]) if claim is not None else None
        if volume is None or self.own.random() < 0.1:
            status: Manifest = {"readyToUse": False, "error": {"message": "no room for a copy"}}
        else:
            self.world.copies[snapshot["metadata"]["name"]] = copied(volume.disk)
            status = {"readyToUse": True}
        self.tell(VOLUME_SNAPSHOTS, snapshot, status)

    def go_on(self, job: Manifest) -> None:
        """Run a Job that is not suspended: it begins, and succeeds or fails after a while."""
        status, uid = job.get("status") or {}, job["metadata"]["uid"]
        if job["spec"].get("suspend") or status.get("conditions"):
            return
        started = {"startTime": f"{self.world.wall_clock():%Y-%m-%dT%H:%M:%SZ}"}
        if not status:
            self.tell(JOBS, job, started)
        elif self.is_due(uid, (1_000, 5_000, 15_000)):
            end = "Failed" if self.own.random() < 0.2 else "Complete"
            self.tell(JOBS, job, {**status, "conditions": [{"type": end, "status": "True"}]})

    def is_due(self, uid: str, after_ms: tuple[int, ...]) -> bool:
        """Whether the time that one thing takes is over."""
        at_ms = self.done_ms.setdefault(uid, self.world.now_ms + self.own.choice(after_ms))
        return self.world.now_ms >= at_ms

    def tell(self, resource: object, manifest: Manifest, status: Manifest) -> None:
        """Write a status."""
        assert resource in (JOBS, VOLUME_SNAPSHOTS)
        kind = JOBS if resource is JOBS else VOLUME_SNAPSHOTS
        self.world.note(f"{kind.kind} {manifest['metadata']['name']}: {status}")
        self.world.api.set_status(kind, NAMESPACE, manifest["metadata"]["name"], status)


def copied(disk: Disk) -> Disk:
    """Return what a volume holds now."""
    stores = {task: store.copy() for task, store in disk.stores.items()}
    for store in stores.values():
        store.opened_by = None
    return Disk(stores=stores, highest_epoch=disk.highest_epoch)


def suspended_job(name: str) -> Manifest:
    """A Job as users create it for a backfill."""
    metadata = {"name": name, "namespace": NAMESPACE, "labels": {"headwater.dev/app": APP}}
    return {"metadata": metadata, "spec": {"suspend": True}}


def who_can_commit(world: KubeWorld) -> str:
    """The StreamThreads with tasks that nobody has fenced."""
    return " ".join(
        process.name
        for process in world.processes
        if isinstance(process, Thread) and process.tasks and not process.producer.is_fenced
    )


def runs_reset(world: KubeWorld) -> bool:
    """Whether an action that has not ended asks for a reset."""
    return any(
        each["spec"]["type"] == "Reset" and (each.get("status") or {}).get("phase") == "Running"
        for each in world.all(STREAM_ACTIONS)
    )


def carry_out_reset(world: KubeWorld, by: str, duty: Reset) -> ResetDone | DutyFailed:
    """Delete what an application has, and commit the first offsets.

    A worker that was given the duty in time goes on with it when the action ends early.

    Raises:
        ViolationError: the application runs, or nobody had asked for it.
    """
    running = runs_reset(world)
    writers = who_can_commit(world)
    if writers and not running:
        # One that was frozen with the duty in its hands: the group has members.
        error = KafkaUnavailableError.__name__
        return DutyFailed(id=duty.id, error=error, message="the group has members")
    if writers:
        raise ViolationError(f"the application is reset by {by} while {writers} can commit")
    broker = world.broker
    inputs = [TopicPartition(LINES, number) for number in range(PARTITIONS)]
    laws = world.action_laws
    if not running and (laws is None or duty.id not in laws.resets):
        raise ViolationError(f"the application is reset once more by {by}: nobody asks for it")
    world.note(f"{by} resets the application")
    world.topics_made += 1
    for topic in (WORDS, CHANGELOG, OUT):
        for number in range(PARTITIONS):
            broker.logs.pop(TopicPartition(topic, number), None)
    for known in (broker.offsets, broker.every_offset):
        for place in [place for place in known if place[0] == GROUP]:
            del known[place]
    broker.commit_offsets(GROUP, dict.fromkeys(inputs, 0))
    return ResetDone(id=duty.id, deleted_topics=(WORDS, CHANGELOG))
