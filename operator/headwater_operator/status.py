"""What a StreamApp reports on a cluster: conditions with reasons, from what was seen and decided.

``Ready`` is the one to trust. What each says when all is well is ``ConditionType.when_well``; all
are Unknown until something was decided. A message says what is so and, if it is bad, what to do
next; logs and Events say the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from headwater.model.appstatus import (
    AppStatus,
    Condition,
    ConditionStatus,
    ConditionType,
    Operation,
    OperationType,
    Revision,
)
from headwater.model.lifecycle import ClientState
from headwater.version import VERSION
from headwater_operator.manifests.names import PAUSE_ANNOTATION
from headwater_operator.rollout import Roll, failed_revision
from headwater_operator.wording import counted, every

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_MESSAGE_MAX: Final = 4_000
_SETTLING_MS: Final = 30_000
"""For so long may tasks move before an application that was ready counts as not ready."""

_GIVEN_UP: Final = (ClientState.ERROR, ClientState.PENDING_ERROR)

_WARMING_UP: Final = "WarmingUp"


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Something that somebody has to do something about.

    Attributes:
        reason: one word in CamelCase, for programs.
        message: cause and next step.
    """

    reason: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Everything that conditions are made from.

    Attributes:
        generation: of the StreamApp that was read.
        decided: the status that the decision returned.
        wanted: how many workers there are to be.
        is_suspended: ``spec.suspend``.
        is_resetting: a reset was asked for, and is not done.
        is_paused: the operator was told to look on.
        is_to_pause: ``spec.paused``.
        is_deleting: the StreamApp is being deleted.
        spec_problem: why the specification as it stands is not carried out.
        rolled_back: why what was ready before is carried out in its place.
        is_to_roll_back: a revision that does not become ready is to be rolled back.
        problems: what else is wrong, the worst first.
        roll: how far a rolling change has come.
        revision: that is wanted.
        serving: the revision that was ready last, with every process of it.
        outdated: processes of another revision than the wanted one.
        changed: what of spec.upgrade.rollOn holds something else than when processes began.
        is_stuck: a process of the wanted revision cannot start until somebody mends it.
        growing: claims whose volumes do not hold yet what they ask for; empty if there is none.
        acted_on: the generation that the operator has acted on last, if it does not act on this
            one: it is paused, or the API server refuses it. ``None``: this one.
        standby_replicas: how many standbys of each task are wanted.
        unsettled: why the assignment is not what it is to be, although all tasks may run.
        waits_for: what the assignment waits for, other than tasks that move: a worker that has yet
            to join, or something to look up first.
        is_importing: whether a worker imports its topology.
        held_back: which moves wait for a window until when; empty for none.
        unsettled_ms: for how long not every task has been running.
    """

    generation: int
    decided: AppStatus
    wanted: int = 0
    is_suspended: bool = False
    is_resetting: bool = False
    is_paused: bool = False
    is_to_pause: bool = False
    is_deleting: bool = False
    spec_problem: Problem | None = None
    rolled_back: Problem | None = None
    is_to_roll_back: bool = False
    problems: tuple[Problem, ...] = ()
    roll: Roll = field(default_factory=Roll)
    revision: str = ""
    serving: str = ""
    outdated: tuple[str, ...] = ()
    changed: str = ""
    is_stuck: bool = False
    growing: str = ""
    acted_on: int | None = None
    standby_replicas: int = 0
    unsettled: str = ""
    waits_for: str = ""
    is_importing: bool = False
    held_back: str = ""
    unsettled_ms: int = 0

    @property
    def not_carried_out(self) -> Problem | None:
        """Why another specification than the present one is carried out."""
        return self.spec_problem or self.rolled_back

    @property
    def observed_generation(self) -> int:
        """The generation that the status is about."""
        return self.generation if self.acted_on is None else self.acted_on


def conditions(facts: Facts, before: Sequence[Condition], now: str) -> tuple[Condition, ...]:
    """Return all conditions.

    Args:
        facts: what is known.
        before: as last written; a condition that stays as it is keeps its time.
        now: the time of day.
    """
    known = {condition.type: condition for condition in before}
    found = []
    for kind, is_so, reason, message in (
        _ready(facts, known.get(ConditionType.READY)),
        _progressing(facts),
        _spec_valid(facts),
        _converged(facts),
        _restored(facts),
        _standbys(facts),
        _degraded(facts),
        (ConditionType.SUSPENDED, facts.is_suspended, *_suspended(facts)),
        _paused(facts),
        _limited(facts),
        _reconciling(facts),
        _stalled(facts),
    ):
        state = _STATES[is_so]
        last = known.get(kind)
        since = last.last_transition_time if last is not None and last.status is state else now
        found.append(
            Condition(
                type=kind,
                status=state,
                reason=reason,
                message=message[:_MESSAGE_MAX],
                last_transition_time=since,
                observed_generation=_generation(facts, kind),
            )
        )
    return tuple(found)


def _generation(facts: Facts, kind: ConditionType) -> int:
    """Return what a condition is about: looking on is all that a paused operator does."""
    return facts.generation if kind is ConditionType.PAUSED else max(0, facts.observed_generation)


def first_conditions(generation: int, now: str) -> tuple[Condition, ...]:
    """Return the conditions of a StreamApp that was seen and about which nothing was decided."""
    return tuple(
        Condition(
            type=kind,
            status=ConditionStatus.UNKNOWN,
            reason="Seen",
            message="the operator has seen the StreamApp and decides what to do",
            last_transition_time=now,
            observed_generation=generation,
        )
        for kind in ConditionType
    )


_Judged = tuple[ConditionType, bool | None, str, str]

_STATES: Final[Mapping[bool | None, ConditionStatus]] = {
    True: ConditionStatus.TRUE,
    False: ConditionStatus.FALSE,
    None: ConditionStatus.UNKNOWN,
}


def worst(facts: Facts) -> Problem | None:
    """Return what is wrong, the worst of it; ``None`` if nothing is."""
    failure = facts.decided.failure
    if failure is not None and failure.is_final:
        return Problem(reason=failure.error, message=_said(failure.worker, failure.message))
    if facts.not_carried_out is not None:
        return facts.not_carried_out
    if facts.problems:
        return facts.problems[0]
    if facts.roll.halted:
        return Problem(reason="RolloutHalted", message=_halted(facts.roll))
    if failure is not None:
        return Problem(reason=failure.error, message=_said(failure.worker, failure.message))
    return None


def _said(worker: str, message: str) -> str:
    return f"{worker}: {message}" if worker else message


def _halted(roll: Roll) -> str:
    rest = len(roll.outdated)
    if not rest:
        return f"the roll-out has halted with its last worker: {roll.halted}"
    old = counted(rest, "worker of the revision before goes", "workers of the revision before go")
    return f"the roll-out has halted, {old} on: {roll.halted}"


def _ready(facts: Facts, before: Condition | None) -> _Judged:
    kind, status = ConditionType.READY, facts.decided
    if said := _meant_to_stand_still(facts) or _not_wanted(facts):
        return kind, False, *said
    problem = worst(facts)
    if status.state is ClientState.RUNNING:
        if problem is None:
            return kind, True, "Running", status.reason
        # It serves, and somebody has to do something: both are to be seen at a glance.
        return kind, True, problem.reason, f"{status.reason}, but: {problem.message}"
    if problem is not None:
        return kind, False, problem.reason, problem.message
    was_ready = before is not None and before.status is ConditionStatus.TRUE
    if was_ready and facts.serving == facts.revision and facts.unsettled_ms < _SETTLING_MS:
        return kind, True, "Rebalancing", status.reason
    reason = "Rebalancing" if status.state is ClientState.REBALANCING else "Starting"
    reason = "Importing" if facts.is_importing else reason
    return kind, False, reason, status.reason


def _not_wanted(facts: Facts) -> tuple[str, str] | None:
    """Return why what serves is not what is wanted; ``None`` if it is, or nothing serves.

    Who waits for Ready after a change waits for that change.
    """
    if facts.outdated:
        return _not_yet(facts, worst(facts))
    problem = worst(facts) if facts.not_carried_out is not None else None
    return None if problem is None else (problem.reason, problem.message)


def _not_yet(facts: Facts, problem: Problem | None) -> tuple[str, str]:
    """Return why the revision that serves is not the wanted one, as reason and message."""
    if problem is not None:
        return problem.reason, problem.message
    return "RollingOut", _rest(facts)


def _rest(facts: Facts) -> str:
    one, many = "process of another revision is", "processes of another revision are"
    old = counted(len(facts.outdated), one, many)
    because = f", because of spec.upgrade.rollOn: changed is {facts.changed}"
    rest = f"{old} still to be replaced{because if facts.changed else ''}"
    return f"{rest}; {facts.roll.waits_for}" if facts.roll.waits_for else rest


def _meant_to_stand_still(facts: Facts) -> tuple[str, str] | None:
    """Return reason and message if nothing is to run; ``None`` if something is."""
    if facts.is_deleting:
        return "Deleting", facts.decided.reason
    if facts.is_resetting:
        return "Resetting", facts.decided.reason
    operation = facts.decided.operation
    if operation is not None and operation.type is OperationType.BACKFILL:
        return "Backfilling", f"a StreamAction has the state computed anew: {operation.phase}"
    if facts.is_suspended:
        return "Suspended", "spec.suspend is true: workers are stopped, volumes kept"
    # With a problem of the specification, whatever stands still does so because of that.
    return _without_replicas(facts) if facts.spec_problem is None else None


def _without_replicas(facts: Facts) -> tuple[str, str] | None:
    if facts.wanted == 0 and facts.decided.state is ClientState.NOT_RUNNING:
        return "NoReplicas", "spec.replicas is 0: nothing runs, volumes are kept"
    if facts.wanted == 0 and facts.decided.state is ClientState.PENDING_SHUTDOWN:
        return "Stopping", facts.decided.reason
    return None


def _progressing(facts: Facts) -> _Judged:
    kind, status, roll = ConditionType.PROGRESSING, facts.decided, facts.roll
    problem = worst(facts)
    if status.state in _GIVEN_UP and problem is not None:
        return kind, False, problem.reason, problem.message
    if roll.halted:
        return kind, False, "RolloutHalted", _halted(roll)
    if roll.outdated:
        return kind, True, "RollingOut", _rest(facts)
    operation = status.operation
    if operation is not None:
        return kind, True, operation.type.value, _doing(operation)
    return kind, *_moving(facts)


def _moving(facts: Facts) -> tuple[bool, str, str]:
    """Tell whether tasks or copies are on their way, with reason and message."""
    status = facts.decided
    if facts.is_resetting:
        return True, "Resetting", status.reason
    if status.state not in (ClientState.RUNNING, ClientState.NOT_RUNNING):
        return True, "Rebalancing", status.reason
    # Tasks that are to move wait for copies that warm up; a worker that has yet to join does not.
    unsettled = facts.waits_for or ("" if status.tasks.warmup else facts.unsettled)
    if unsettled and status.state is ClientState.RUNNING:
        return True, "Rebalancing", unsettled
    if begun := _begun(facts):
        return True, *begun
    # Last: it alone is not waited for.
    if status.tasks.warmup:
        return True, _WARMING_UP, _warming_up(status)
    return False, "Complete", "everything is as the StreamApp wants it"


def _begun(facts: Facts) -> tuple[str, str] | None:
    """Return reason and message of what is carried out while all tasks run; ``None``: nothing."""
    if facts.is_to_pause and not facts.decided.paused:
        return _paused(facts)[2:]
    if facts.growing:
        return "GrowingVolumes", f"volumes do not hold what they are to: {facts.growing}"
    return None


def _warming_up(status: AppStatus) -> str:
    return f"copies that warm up where something is to move: {status.tasks.warmup}"


def _doing(operation: Operation) -> str:
    about = operation.target or "all workers"
    return f"{about}: {operation.phase}" if operation.phase else about


def _reconciling(facts: Facts) -> _Judged:
    """Judge as kstatus has it: True while what is wanted is not there, and is being worked on."""
    kind = ConditionType.RECONCILING
    if _stalled(facts)[1]:
        return kind, False, "Stalled", "nothing is done until somebody acts; see Stalled"
    if facts.is_paused:
        return kind, False, *_paused(facts)[2:]
    _, is_so, reason, message = _progressing(facts)
    if is_so and reason != _WARMING_UP:
        return kind, True, reason, message
    if facts.outdated:
        return kind, True, *_not_yet(facts, worst(facts))
    return kind, False, "Reconciled", "everything runs as the StreamApp wants it"


def _stalled(facts: Facts) -> _Judged:
    """Judge as kstatus has it: True when waiting is no use. Helm and Flux give up then."""
    kind, problem = ConditionType.STALLED, worst(facts)
    is_final = facts.decided.failure is not None and facts.decided.failure.is_final
    is_refused = facts.spec_problem is not None or bool(facts.rolled_back and not facts.outdated)
    is_stuck = is_final or is_refused or bool(facts.roll.halted) or facts.is_stuck
    if is_stuck and problem is not None:
        return kind, True, problem.reason, problem.message
    return kind, False, "NotStalled", "the operator gets on, or has nothing to do"


def _spec_valid(facts: Facts) -> _Judged:
    kind = ConditionType.SPEC_VALID
    if (problem := facts.not_carried_out) is not None:
        return kind, False, problem.reason, problem.message
    return kind, True, "Accepted", "the specification is carried out"


def _converged(facts: Facts) -> _Judged:
    kind, tasks = ConditionType.ASSIGNMENT_CONVERGED, facts.decided.tasks
    if tasks.total == 0:
        return kind, None, "NoTasks", "no topology was reported yet"
    if tasks.revoking or tasks.unassigned:
        return kind, False, "Moving", facts.decided.reason
    if tasks.warmup:
        return kind, False, _WARMING_UP, _warming_up(facts.decided)
    if facts.unsettled:
        return kind, False, "Moving", facts.unsettled
    if facts.held_back:
        return kind, True, "WaitsForWindow", facts.held_back
    said = every(tasks.total, "task is where it belongs", "tasks are where they belong")
    return kind, True, "Assigned", said


def _restored(facts: Facts) -> _Judged:
    kind, tasks = ConditionType.STATE_RESTORED, facts.decided.tasks
    if tasks.total == 0:
        return kind, None, "NoTasks", "no topology was reported yet"
    if tasks.restoring:
        said = counted(tasks.restoring, "task starts or restores", "tasks start or restore")
        return kind, False, "Restoring", said
    return kind, True, "Restored", "no active task restores"


def _standbys(facts: Facts) -> _Judged:
    kind = ConditionType.STANDBYS_READY
    tasks = facts.decided.tasks
    if tasks.total == 0:
        return kind, None, "NoTasks", "no topology was reported yet"
    if tasks.standby == 0:
        return kind, True, "NoneWanted", "no standbys are wanted, or no task keeps state on disk"
    said = f"{tasks.caught_up} of {tasks.standby} standbys have caught up"
    if tasks.caught_up >= tasks.standby:
        return kind, True, "CaughtUp", said
    if facts.wanted <= facts.standby_replicas:
        message = (
            f"{said}: each standby of a task needs a worker of its own beside the task's; "
            "raise spec.replicas or lower spec.assignment.standbyReplicas"
        )
        return kind, False, "TooFewWorkers", message
    return kind, False, "CatchingUp", f"{said}; a worker lost now would cost a longer restore"


def _degraded(facts: Facts) -> _Judged:
    kind, problem = ConditionType.DEGRADED, worst(facts)
    if problem is not None:
        return kind, True, problem.reason, problem.message
    return kind, False, "AsExpected", "nothing is wrong"


def _suspended(facts: Facts) -> tuple[str, str]:
    if facts.is_suspended:
        return "SpecSuspend", "set spec.suspend to false to go on where it stopped"
    return "NotSuspended", "spec.suspend is false"


def _paused(facts: Facts) -> _Judged:
    """Tell of both pauses: of the operator, which is the one to see first, and of processing."""
    kind = ConditionType.PAUSED
    if facts.is_paused:
        until = f"until the annotation {PAUSE_ANNOTATION} is gone"
        return kind, True, "Annotation", f"the operator looks on and does nothing {until}"
    if facts.is_to_pause and facts.decided.paused:
        said = "nothing is processed, and all is committed; set spec.paused to false to go on"
        return kind, True, "SpecPaused", said
    if facts.is_to_pause:
        return kind, False, "Pausing", "workers commit what they have processed, and pause"
    return kind, False, "NotPaused", "the operator works, and tasks are processed"


def _limited(facts: Facts) -> _Judged:
    kind, total = ConditionType.SCALING_LIMITED, facts.decided.tasks.total
    if 0 < total < facts.wanted:
        message = (
            f"{facts.wanted} workers are wanted for {counted(total, 'task')}: "
            f"{counted(facts.wanted - total, 'worker holds', 'workers hold')} copies at best; "
            "lower spec.replicas, or give the input topics more partitions"
        )
        return kind, True, "FewerTasksThanWorkers", message
    return kind, False, "Sufficient", "there is a task for every worker"


def full_status(
    facts: Facts, before: AppStatus, *, selector: str, updated: int, now: str
) -> AppStatus:
    """Return the whole status to write.

    Args:
        facts: what is known.
        before: as last written.
        selector: selects the worker pods.
        updated: workers of the wanted revision.
        now: the time of day.
    """
    decided = facts.decided
    is_stable = decided.state is ClientState.RUNNING and not facts.outdated
    is_yet_to_run = bool(facts.roll.outdated) or facts.acted_on is not None
    failed, failed_message = failed_revision(
        facts.roll,
        facts.revision,
        before.revision,
        is_asked=facts.is_to_roll_back,
        is_rolled_back=facts.rolled_back is not None,
    )
    revision = Revision(
        current=before.revision.current if is_yet_to_run else facts.revision,
        update=facts.revision,
        last_stable=facts.revision if is_stable else before.revision.last_stable,
        failed=failed,
        failed_message=failed_message,
    )
    return replace(
        decided,
        observed_generation=facts.observed_generation,
        updated_replicas=updated,
        selector=selector,
        revision=revision,
        conditions=conditions(facts, before.conditions, now),
        version=VERSION,
    )
