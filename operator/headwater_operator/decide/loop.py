"""The decision: one snapshot in, everything to do now out."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from headwater.model.duties import DescribeGroup
from headwater_operator.actions import (
    DeleteWorker,
    Reason,
    StartDriver,
    StartWorker,
    StopDriver,
    StopWorker,
    WriteWorkerSpec,
)
from headwater_operator.decide.autoscaling.applied import autoscaled
from headwater_operator.decide.engines import driver_actions
from headwater_operator.decide.fleet import plan_fleet
from headwater_operator.decide.limits import LATER_MS, SOON_MS
from headwater_operator.decide.observed import Decision
from headwater_operator.decide.placing import place
from headwater_operator.decide.processes import deletions, starts, stops
from headwater_operator.decide.recall import remember
from headwater_operator.decide.rolling import is_settled, roll, roll_for_actions
from headwater_operator.decide.scene import differing_topics, set_scene
from headwater_operator.decide.status import (
    app_status,
    why_importing,
    why_unsettled,
    why_waiting,
)
from headwater_operator.decide.streamactions.objects import work_of
from headwater_operator.decide.streamactions.ruling import Stage, rulings
from headwater_operator.decide.writing import spec_writes

if TYPE_CHECKING:
    from headwater.model.cluster import WorkerSpec
    from headwater_operator.actions import Action
    from headwater_operator.decide.fleet import Fleet
    from headwater_operator.decide.memory import Memory
    from headwater_operator.decide.observed import Observed
    from headwater_operator.decide.scene import Scene


def decide(observed: Observed, memory: Memory, now_ms: int) -> Decision:
    """Decide what to do now; asked again about the same world, it decides the same.

    Safe to be killed after: whatever was carried out of one decision is seen by the next.

    Args:
        observed: one snapshot, read just now.
        memory: what the last decision of this run returned; ``Memory()`` for the first.
        now_ms: of a clock of this process that never goes back.
    """
    scene = set_scene(observed, remember(observed, memory, now_ms), now_ms)
    if scene.is_replaced:
        return Decision(
            actions=(), status=observed.status, memory=scene.memory, again_after_ms=LATER_MS
        )
    scene = autoscaled(scene)
    fleet = plan_fleet(scene)
    placing = place(scene, fleet)
    rolled = roll(scene, fleet)
    asked = roll_for_actions(scene, fleet, rolled)
    writes = spec_writes(scene, fleet, placing, {rolled.next, asked.next})
    actions: tuple[Action, ...] = (
        *writes,
        *stops(scene, fleet, rolled.next, asked.next),
        *starts(scene, fleet),
        *driver_actions(scene),
        *deletions(scene, fleet),
    )
    unsettled = why_unsettled(scene, fleet, placing, writes)
    return Decision(
        actions=actions,
        status=app_status(scene, placing, writes),
        memory=replace(_note(scene, fleet, actions), unsettled=unsettled),
        again_after_ms=SOON_MS if actions else LATER_MS,
        roll=rolled,
        unsettled=unsettled,
        waits_for=why_waiting(scene, fleet, placing),
        importing=why_importing(scene),
        held_back=placing.waiting.described,
        warnings=differing_topics(scene.app, scene.memory),
        rulings=rulings(Stage(scene, fleet, placing, asked)),
        work=work_of(scene),
    )


def _note(scene: Scene, fleet: Fleet, actions: tuple[Action, ...]) -> Memory:
    """Remember when the actions of this decision were decided, and who is to leave."""
    memory, now_ms = scene.memory, scene.now_ms
    settled = {worker.name for worker in scene.workers if is_settled(scene, worker)}
    # The time of a worker to become ready counts from when it is to have a process.
    late = fleet.wanted - settled
    workers = {
        name: replace(
            known,
            leaving_ms=_since(known.leaving_ms, now_ms, is_so=name in fleet.unwanted),
            unready_ms=_since(known.unready_ms, now_ms, is_so=name in late),
            ready_ms=_since(known.ready_ms, now_ms, is_so=name in settled),
        )
        for name, known in memory.workers.items()
    }
    for action in actions:
        match action:
            case StartWorker(worker=name):
                known = workers.get(name, memory.of(name))
                known = known.of_revision(scene.observed.revision)
                workers[name] = replace(
                    known, started_ms=now_ms, stopped_ms=None, is_made_anew=False
                )
            case StopWorker(worker=name, reason=reason):
                known = workers.get(name, memory.of(name))
                is_made_anew = reason is Reason.MOUNT_AGAIN
                workers[name] = replace(known, stopped_ms=now_ms, is_made_anew=is_made_anew)
            case WriteWorkerSpec(spec=spec) if _asks_for_a_look(spec):
                memory = replace(memory, looked_ms=now_ms)
            case StartDriver():
                memory = replace(memory, driver=memory.driver.started(now_ms))
            case StopDriver(reason=reason):
                is_silent = memory.driver.is_silent or reason is Reason.DRIVER_SILENT
                is_stalled = memory.driver.is_stalled or reason is Reason.DRIVER_STALLED
                driver = replace(
                    memory.driver, stopped_ms=now_ms, is_silent=is_silent, is_stalled=is_stalled
                )
                memory = replace(memory, driver=driver)
            case WriteWorkerSpec() | DeleteWorker():
                pass
    return replace(memory, workers=workers)


def _since(before_ms: int | None, now_ms: int, *, is_so: bool) -> int | None:
    """Return since when something is so; ``None`` while it is not."""
    if not is_so:
        return None
    return now_ms if before_ms is None else before_ms


def _asks_for_a_look(spec: WorkerSpec) -> bool:
    return any(isinstance(duty, DescribeGroup) and duty.epoch == spec.epoch for duty in spec.duties)
