"""Users who create StreamActions at random moments, and what must hold of these."""

from __future__ import annotations

from itertools import combinations
from random import Random
from typing import TYPE_CHECKING, Any, Final

from headwater_operator.actions import Reason, StopWorker
from headwater_operator.decide.streamactions.asked import digest_of
from headwater_operator.kube.api import (
    JOBS,
    STREAM_ACTIONS,
    STREAM_APPS,
    STREAM_WORKERS,
    Manifest,
)
from tests.sim.kubernetes.objects import runs_reset, suspended_job, who_can_commit
from tests.sim.kubernetes.world import APP, NAMESPACE, KubeWorld, Ticking
from tests.sim.world import ViolationError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headwater_operator.decide import Decision, Observed

_AFTER_MS: Final = 20_000
_TASKS: Final = ("0_0", "0_1", "1_0", "1_1")
_ENDS: Final = ("Complete", "Failed")
_MOST: Final = 8
_KINDS: Final = (
    *("Restart", "DrainWorker", "MoveTask", "SnapshotVolume", "SnapshotVolume"),
    *("RestoreVolume", "RestoreVolume", "Reset", "Backfill"),
)
_ALONE: Final = frozenset({"Reset", "Backfill"})


class Acting(Ticking):
    """Creates actions, and cancels some; draws from numbers of its own."""

    def __init__(self, world: KubeWorld, until_ms: int) -> None:
        self.until_ms = until_ms
        self.own = Random(f"actions of {world.seed}")
        self.count = 0
        super().__init__(world, "acting")

    def run(self) -> Iterator[int]:
        yield _AFTER_MS
        while self.world.now_ms < self.until_ms and self.count < _MOST:
            if not self.world.is_api_down:
                self._create()
                if self.own.random() < 0.3:
                    self._cancel()
            yield self.own.choice((200, 3_000, 10_000, 25_000))

    def _create(self) -> None:
        self.count += 1
        kind = self.own.choice(_KINDS)
        spec: dict[str, Any] = {
            "app": APP,
            "type": kind,
            "timeout": "120s"
            if kind == "RestoreVolume"
            else self.own.choice(("30s", "60s", "60s")),
            **self._part(kind),
        }
        if self.own.random() < 0.3:
            spec["ttlSecondsAfterFinished"] = self.own.choice((0, 20))
        self.world.note(f"user: creates act-{self.count}: {spec}")
        metadata = {"name": f"act-{self.count}", "namespace": NAMESPACE}
        self.world.api.create(STREAM_ACTIONS, {"metadata": metadata, "spec": spec})

    def _part(self, kind: str) -> dict[str, Any]:  # noqa: PLR0911 - one for each type
        names = [each["metadata"]["name"] for each in self.world.all(STREAM_WORKERS)]
        worker = self.own.choice([*names, f"{APP}-w-9"])
        if kind == "DrainWorker":
            is_out = self.own.random() < 0.4
            return {"drainWorker": {"worker": worker, **({"keepOut": True} if is_out else {})}}
        if kind == "MoveTask":
            return {"moveTask": {"task": self.own.choice(_TASKS), "worker": worker}}
        if kind == "Reset":
            return {"reset": {"to": "earliest"}}
        if kind == "SnapshotVolume":
            return {"snapshotVolume": {"worker": worker}}
        if kind == "RestoreVolume":
            copies = sorted(self.world.copies) or ["none"]
            return {"restoreVolume": {"worker": worker, "snapshot": self.own.choice(copies)}}
        if kind == "Backfill":
            self.world.api.create(JOBS, suspended_job(f"job-{self.count}"))
            return {"backfill": {"job": f"job-{self.count}"}}
        return {"restart": {"workers": [worker]}} if self.own.random() < 0.3 else {}

    def _cancel(self) -> None:
        found = self.world.all(STREAM_ACTIONS)
        if found:
            name = self.own.choice(found)["metadata"]["name"]
            self.world.note(f"user: cancels {name}")
            cancel = {"op": "add", "path": "/spec/cancel", "value": True}
            self.world.api.patch(STREAM_ACTIONS, NAMESPACE, name, [cancel])


class ActionLaws:
    """Looks at every status of an action, and at every decision."""

    def __init__(self, world: KubeWorld) -> None:
        self.world = world
        self.before: dict[str, Manifest] = {}
        self.ended: dict[tuple[str, str], str] = {}
        """By action and worker, the process that was ended for it."""
        self.complete: list[str] = []
        self.begun: set[str] = set()
        """Jobs that were let run."""
        self.resets: set[str] = set()
        """Duties to reset that were given to a worker while an action asked for them."""
        world.observers.append(self.saw)
        world.judges.append(self.judge)

    def saw(self, plural: str, manifest: Manifest) -> None:
        """What has ended is left alone, what runs goes on, and no two run that may not."""
        if plural == JOBS.plural:
            self.job_begins(manifest)
        if plural == STREAM_WORKERS.plural:
            duties = manifest["spec"].get("duties") or ()
            given = {each["id"] for each in duties if each["kind"] == "Reset"} - self.resets
            if given and runs_reset(self.world):
                self.resets |= given
        if plural != STREAM_ACTIONS.plural:
            return
        uid, name = manifest["metadata"]["uid"], manifest["metadata"]["name"]
        status = manifest.get("status") or {}
        before = (self.before.get(uid) or {}).get("status") or {}
        self.before[uid] = manifest
        phase, was = status.get("phase", "Pending"), before.get("phase", "Pending")
        if was in _ENDS and status != before:
            raise ViolationError(f"the action {name} goes on after it was {was}")
        if was == "Running":
            if phase not in ("Running", *_ENDS) or status["startedAt"] != before["startedAt"]:
                raise ViolationError(f"the action {name} is begun twice")
            if not set(status.get("processes", ())) <= set(before.get("processes", ())):
                raise ViolationError(f"the action {name} is to end more processes than before")
        if phase == "Complete" and was != phase:
            self.complete.append(manifest["spec"]["type"])
        running = [
            each
            for each in self.world.all(STREAM_ACTIONS)
            if (each.get("status") or {}).get("phase") == "Running"
        ]
        for one, other in combinations(running, 2):
            if _exclude(one["spec"], other["spec"]):
                names = f"{one['metadata']['name']} and {other['metadata']['name']}"
                raise ViolationError(f"the actions {names} run at the same time")

    def job_begins(self, job: Manifest) -> None:
        """A Job computes state anew only while nobody else can write it."""
        uid, name = job["metadata"]["uid"], job["metadata"]["name"]
        if job["spec"].get("suspend") or uid in self.begun:
            return
        self.begun.add(uid)
        if writers := who_can_commit(self.world):
            raise ViolationError(f"the Job {name} begins while {writers} can commit")

    def may_delete(self, claim: str) -> bool:
        """Whether an action that runs asks for the deletion of a claim."""
        for each in self.world.all(STREAM_ACTIONS):
            part = each["spec"].get("restoreVolume") or {}
            is_meant = each["spec"]["type"] == "Reset" or f"{part.get('worker')}-state" == claim
            if is_meant and (each.get("status") or {}).get("phase") == "Running":
                return True
        return False

    def judge(self, observed: Observed, decision: Decision, _: int) -> None:
        """Of each worker a restart ends one process, and it is one that was there before."""
        for action in decision.actions:
            if not isinstance(action, StopWorker) or action.reason is not Reason.RESTART:
                continue
            [view] = [each for each in observed.workers if each.worker.name == action.worker]
            meant = [
                each
                for each in observed.actions
                if digest_of(view.process_id) in each.status.processes
            ]
            if not meant:
                raise ViolationError(f"{action.worker} is restarted although nobody asks for it")
            key = (meant[0].uid, action.worker)
            if self.ended.setdefault(key, view.process_id) != view.process_id:
                raise ViolationError(f"{action.worker} is restarted twice by {meant[0].name}")


def open_actions(world: KubeWorld) -> str:
    """Say which actions have not ended; empty if all have."""
    if world.find(STREAM_APPS, APP) is None:
        return ""
    for each in world.all(STREAM_ACTIONS):
        status = each.get("status") or {}
        if status.get("phase") not in _ENDS:
            name = each["metadata"]["name"]
            return f"the action {name} is {status.get('phase')}: {status.get('message')}"
    return ""


def _exclude(one: Manifest, other: Manifest) -> bool:
    kinds = {one["type"], other["type"]}
    if kinds == {"MoveTask"}:
        return bool(one["moveTask"]["task"] == other["moveTask"]["task"])
    if "SnapshotVolume" in kinds:
        return bool(kinds & (_ALONE | {"RestoreVolume"}))
    return True
