"""What is remembered of Spark's driver: how it comes on, how it ended, and what that was due to.

started ──► it says that it runs ──► it ended by itself, was told to, or was killed as silent
    └────── it never says so: killed after ``DRIVER_START_MS`` ──┘
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from headwater.errors import EngineError, GroupInUseError, PartitionMismatchError
from headwater.model.appstatus import Failure
from headwater_operator.decide.failures import is_final, is_passing
from headwater_operator.decide.limits import DRIVER_SILENCE_MS, DRIVER_START_MS, HEALTHY_MS
from headwater_operator.decide.memory import DriverMemory
from headwater_operator.decide.observed import ProcessState
from headwater_operator.decide.progress import heard_of, stalled_ms

if TYPE_CHECKING:
    from headwater_operator.decide.observed import DriverView, Observed


def remember_driver(observed: Observed, known: DriverMemory, now_ms: int) -> DriverMemory:
    """Take in what the driver tells, or that it is not there any more."""
    view = observed.driver
    if view.process.is_proof_of_end:
        if known.started_ms is None:
            return replace(known, attempt=view.attempt)
        return _ended(observed, known, now_ms - known.started_ms, now_ms)
    if known.started_ms is None or view.attempt != known.attempt:
        known = replace(known, attempt=view.attempt).started(now_ms)
    if view.waits_for and known.stopped_ms is None:
        # It has its full time to start from when it can.
        known = known.started(now_ms)
    if not view.has_answered:
        # It is taken to be as it has said last; what counts is for how long.
        return known
    known = replace(known, answered_ms=now_ms)
    if not view.is_running:
        return known
    known = replace(heard_of(view, known, now_ms), has_run=True)
    # Only a micro-batch shows that what ended the one before is over.
    return replace(known, has_processed=True, failure=None) if view.is_processing else known


def _ended(observed: Observed, known: DriverMemory, lived_ms: int, now_ms: int) -> DriverMemory:
    view = observed.driver
    found = DriverMemory(attempt=view.attempt, ended_ms=now_ms)
    if known.stopped_ms is not None and not known.is_silent:
        return _after_stall(observed, known, found) if known.is_stalled else found
    is_early = lived_ms < HEALTHY_MS or not known.has_processed
    if is_early:
        found = replace(
            found,
            early_deaths=known.early_deaths,
            blamed=known.blamed,
            failure=known.failure,
        )
    is_gone = view.process is ProcessState.NONE or view.is_stopping
    if not known.is_silent and (is_gone or view.was_disrupted):
        # Somebody has deleted its pod, or had to: that is no fault of the process in it.
        return found
    found = replace(
        found,
        early_deaths=found.early_deaths + 1,
        blamed=found.blamed + _is_blamed(view, known),
    )
    if known.is_silent:
        return replace(found, failure=_silence(observed, known))
    return replace(found, failure=_end(view, known, found.blamed)) if view.end else found


def _after_stall(observed: Observed, known: DriverMemory, found: DriverMemory) -> DriverMemory:
    """Not blamed: what hangs may be a restore, a broker, or user code. But it is told."""
    if not known.has_processed:
        # Then what ended those before is not over either.
        found = replace(found, early_deaths=known.early_deaths, blamed=known.blamed)
    minutes = stalled_ms(observed.app.spec.spark) // 60_000
    killed = f"Spark's driver was killed, because no micro-batch had ended for {minutes} minutes"
    said = [f"{killed}; it is started again", observed.driver_log]
    message = "; ".join(filter(None, said))
    return replace(found, failure=Failure(error=EngineError.__name__, message=message))


def _is_blamed(view: DriverView, known: DriverMemory) -> bool:
    return not (known.is_silent or view.is_fenced or is_passing(view.error))


def _end(view: DriverView, known: DriverMemory, blamed: int) -> Failure:
    return Failure(
        error=view.error or EngineError.__name__,
        message=f"Spark's driver has ended: {view.end}",
        is_final=view.is_hopeless or _is_final(view.error, known, blamed),
    )


def _is_final(error: str, known: DriverMemory, blamed: int) -> bool:
    """Tell whether the application is given up; by the workers' rule, but for what a start cures.

    Members of the group that a driver finds may leave, or soon time out. And a topic that has got
    partitions ends a driver that runs: the next one has tasks for them, if that can be.
    """
    if error == GroupInUseError.__name__:
        return False
    if error == PartitionMismatchError.__name__ and known.has_processed:
        return False
    return is_final(error, early_deaths=blamed)


def _silence(observed: Observed, known: DriverMemory) -> Failure:
    """What hangs may be a machine or a cluster without room: that passes, and is told."""
    start_ms = max(DRIVER_START_MS, observed.app.spec.topology.import_timeout_ms)
    minutes = (DRIVER_SILENCE_MS if known.has_run else start_ms) // 60_000
    what = "had not told for" if known.has_run else "had not begun to run within"
    killed = f"Spark's driver was killed, because it {what} {minutes} minutes that it runs"
    said = [f"{killed}; it is started again", observed.driver_log]
    if observed.app.spec.spark.master is not None:
        said.append("see whether spec.spark.master has room for its executors")
    return Failure(error=EngineError.__name__, message="; ".join(filter(None, said)))
