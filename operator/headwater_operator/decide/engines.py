"""Which engine has the application, and how it gets from one to the other.

    Native ──► workers release everything ──► taken over for Spark ──► the driver is started
    Spark  ──► the driver ends ──────────────► taken over for Native ──► workers get their tasks

Taking over is a duty of a worker (``TakeEngine``): it writes the next generation where every task
of either engine looks before it writes, fences all ids of the engine that leaves, and writes that
this is done. Nothing is given to an engine before the duty's answer stands in the application's
status; a take-over that was left before its end is one of nobody, and is followed by another one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from headwater.model.appstatus import EngineStatus, TaskCounts
from headwater.model.duties import TakeEngine
from headwater.model.lifecycle import ClientState, Engine
from headwater_operator.actions import Reason, StartDriver, StopDriver, StopHow
from headwater_operator.decide.limits import (
    DRIVER_BELIEVED_MS,
    DRIVER_SILENCE_MS,
    DRIVER_START_MS,
    STOP_AGAIN_MS,
    pause_ms,
)
from headwater_operator.decide.observed import RUNNING, Intent
from headwater_operator.decide.progress import is_stalled
from headwater_operator.wording import every

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headwater.model.appstatus import Failure
    from headwater_operator.decide.memory import Memory
    from headwater_operator.decide.observed import DriverView, Observed
    from headwater_operator.decide.scene import Scene


def wanted_engine(scene: Scene) -> Engine:
    """Return the engine that is to have the application; a reset is done by workers."""
    return Engine.NATIVE if scene.intent is Intent.RESET else scene.app.spec.engine


def runs_natively(scene: Scene) -> bool:
    """Whether workers are to process records."""
    return wanted_engine(scene) is Engine.NATIVE


def engine_now(scene: Scene) -> EngineStatus:
    """Return which engine has the application; generation 0 of Spark is nobody of ours."""
    status, known = scene.observed.status.engine, scene.memory.engine
    found = EngineStatus(name=status.name, generation=status.generation)
    if known is not None and known.generation > status.generation:
        is_usable = known.is_ours or known.engine is Engine.NATIVE
        found = EngineStatus(name=known.engine, generation=known.generation if is_usable else 0)
    if known is not None and not known.is_fenced:
        # Whichever engine it is for: nobody may run, and a status that is all that the next run of
        # the control loop knows must not say otherwise.
        found = EngineStatus(name=Engine.SPARK, generation=0)
    driver = scene.observed.driver
    if found.name is not Engine.NATIVE and driver.is_fenced:
        # Somebody has taken over from the very driver that was started for it.
        found = replace(found, generation=found.generation * (driver.generation < found.generation))
    return found


def owed_engine(scene: Scene) -> Engine | None:
    """Return the engine for which the application is to be taken over; ``None`` if it has it."""
    is_idle = scene.intent is Intent.RUN and scene.app.wanted_workers == 0
    if is_idle or scene.intent not in (Intent.RUN, Intent.RESET):
        return None
    has, wanted = engine_now(scene), wanted_engine(scene)
    if wanted is Engine.NATIVE:
        return wanted if has.name is not Engine.NATIVE else None
    return None if has.name is wanted and has.generation else wanted


def take_engine(scene: Scene, epoch: int) -> TakeEngine | None:
    """Return the duty that takes the application over; ``None`` while it is not its time."""
    wanted, known, plan = owed_engine(scene), scene.memory.engine, scene.plan
    if wanted is None or known is None or plan is None or scene.memory.members != ():
        return None
    if plan.missing_topics(scene.memory.partitions or {}):
        return None
    if wanted is Engine.NATIVE:
        if not scene.observed.driver.process.is_proof_of_end:
            return None
    elif scene.is_anything_held or scene.owes_fence:
        return None
    application_id = scene.app.application_id
    ids = [
        transactional_id
        for worker in scene.workers
        for transactional_id in worker.worker.transactional_ids(application_id)
    ]
    return TakeEngine(
        id=f"engine-{epoch}",
        epoch=epoch,
        engine=wanted,
        replaces=known.generation,
        # Whatever the guarantee is now: what sleeps may have begun under exactly-once.
        transactional_ids=tuple(ids),
        engine_tasks=tuple(map(str, plan.tasks)),
    )


# -- the driver ----------------------------------------------------------------------------------


def driver_actions(scene: Scene) -> Iterator[StartDriver | StopDriver]:
    """Yield what is to become of the driver: at most one action."""
    driver, memory = scene.observed.driver, scene.memory.driver
    has = engine_now(scene)
    if driver.process.is_proof_of_end:
        if _may_run(scene) and _is_time(scene):
            is_first = memory.ended_ms is None
            yield StartDriver(
                generation=has.generation,
                executors=scene.app.wanted_workers,
                reason=Reason.ENGINE_TAKEN if is_first else Reason.DRIVER_ENDED,
            )
        return
    if memory.stopped_ms is not None and scene.now_ms - memory.stopped_ms < STOP_AGAIN_MS:
        return
    reason = _why_stop(scene)
    if reason is not None:
        yield StopDriver(how=StopHow.GRACEFULLY, reason=reason)
    elif scene.now_ms - memory.heard_ms >= _patience_ms(scene):
        yield StopDriver(how=StopHow.AT_ONCE, reason=Reason.DRIVER_SILENT)
    elif is_stalled(driver, memory, scene.app.spec.spark, scene.now_ms):
        yield StopDriver(how=StopHow.AT_ONCE, reason=Reason.DRIVER_STALLED)


def _may_run(scene: Scene) -> bool:
    """Whether a driver is to run: Spark is wanted, and has the application."""
    is_wanted = scene.intent is Intent.RUN and scene.app.wanted_workers > 0
    return is_wanted and not runs_natively(scene) and owed_engine(scene) is None


def _is_time(scene: Scene) -> bool:
    memory = scene.memory.driver
    if memory.ended_ms is None:
        return True
    return scene.now_ms - memory.ended_ms >= pause_ms(memory.early_deaths)


def _why_stop(scene: Scene) -> Reason | None:
    driver = scene.observed.driver
    if not _may_run(scene):
        return Reason.ENGINE_LEAVES if owed_engine(scene) else Reason.DRIVER_NOT_WANTED
    if driver.generation != engine_now(scene).generation:
        return Reason.DRIVER_OUTDATED
    if driver.started_from != scene.observed.started_from:
        return Reason.DRIVER_CHANGED
    if driver.executors != scene.app.wanted_workers:
        return Reason.EXECUTORS
    return None


def _patience_ms(scene: Scene) -> int:
    """Return for how long the driver may not say that it runs: long before it has ever run.

    One that answers that it starts, and goes on to say so, hangs as well as one that is silent.
    """
    driver, memory = scene.observed.driver, scene.memory.driver
    tells = scene.now_ms - memory.answered_ms < DRIVER_BELIEVED_MS
    is_starting = not memory.has_run or (tells and driver.state not in ("", RUNNING))
    start_ms = max(DRIVER_START_MS, scene.app.spec.topology.import_timeout_ms)
    return start_ms if is_starting else DRIVER_SILENCE_MS


def driver_failure(observed: Observed, memory: Memory) -> Failure | None:
    """Return why the driver does not run, if one has ended by itself or was killed in this run."""
    return None if observed.app.spec.engine is Engine.NATIVE else memory.driver.failure


# -- what is said of it --------------------------------------------------------------------------


def engine_status(scene: Scene) -> EngineStatus:
    """Return what to report of the engine."""
    driver, has = scene.observed.driver, engine_now(scene)
    if driver.process.is_proof_of_end:
        return has
    return replace(
        has,
        driver=driver.state or "STARTING",
        last_batch=driver.last_batch,
        input_rows_per_second=driver.input_rows_per_second,
        processed_rows_per_second=driver.processed_rows_per_second,
    )


def counts_on(scene: Scene, counts: TaskCounts) -> TaskCounts:
    """Return the counts of tasks, those of the driver instead of the workers' once it has them."""
    if not _may_run(scene):
        return counts
    total = scene.observed.driver.tasks or counts.total
    running = total if _is_at_work(scene) else 0
    return TaskCounts(total=total, running=running, restoring=total - running)


def engine_state(scene: Scene) -> ClientState | None:
    """Return the state of an application that runs on Spark or is on its way; ``None``: ask else.

    Asked only while it is to run.
    """
    if _may_run(scene):
        driver = scene.observed.driver
        is_it = _is_at_work(scene) and driver.generation == engine_now(scene).generation
        return ClientState.RUNNING if is_it else ClientState.REBALANCING
    return ClientState.REBALANCING if owed_engine(scene) else None


def _is_at_work(scene: Scene) -> bool:
    """Whether the driver has done a micro-batch; one that is killed as silent is given up."""
    return scene.observed.driver.is_processing and not scene.memory.driver.is_silent


def engine_reason(scene: Scene) -> str:
    """Say how far a hand-over is, or what the driver does; empty if there is nothing to say."""
    owed = owed_engine(scene)
    if owed is not None:
        return _handing_over(scene, owed)
    if not _may_run(scene):
        return ""
    driver = scene.observed.driver
    if driver.process.is_proof_of_end:
        return "Spark has the application; its driver is to be started"
    return _silence(scene) or _doing(driver)


def _doing(driver: DriverView) -> str:
    if not driver.is_running:
        return "Spark's driver starts"
    if not driver.is_processing:
        return (
            "Spark's driver runs; its executors start and restore state for the first micro-batch"
        )
    if not driver.tasks:
        return "runs on Spark"
    return every(driver.tasks, "task runs on Spark", "tasks run on Spark")


def _silence(scene: Scene) -> str:
    """Say that a driver that has run does not answer; in steps, or a status would always change."""
    driver, memory = scene.observed.driver, scene.memory.driver
    if memory.is_silent:
        return "Spark's driver did not answer, and is being killed"
    silent_ms = scene.now_ms - memory.answered_ms
    if not memory.has_run or silent_ms < DRIVER_BELIEVED_MS:
        return ""
    silent_s = silent_ms // DRIVER_BELIEVED_MS * DRIVER_BELIEVED_MS // 1_000
    return (
        f"Spark's driver has not answered for {silent_s} s, and is killed after "
        f"{DRIVER_SILENCE_MS // 1_000} s; when it answered last, it was {driver.state}"
    )


def _handing_over(scene: Scene, owed: Engine) -> str:
    driver = scene.observed.driver
    if owed is Engine.NATIVE and not driver.process.is_proof_of_end:
        return "handing over to workers: the driver finishes its micro-batch"
    if owed is not Engine.NATIVE and scene.is_anything_held:
        return f"handing over to {owed.value}: workers commit and release their tasks"
    who = "workers" if owed is Engine.NATIVE else owed.value
    return f"handing over to {who}: the ids of the engine before are being fenced"
