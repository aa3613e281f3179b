"""Memory brought up to date with what was observed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from headwater.model.cluster import LAG_UNKNOWN, Role, generation_of
from headwater.model.duties import (
    DescribeTopics,
    DutyFailed,
    EngineTaken,
    Fence,
    GroupDescribed,
    IdsFenced,
    Reset,
    ResetDone,
    TakeEngine,
    TopicsCreated,
    TopicsDescribed,
)
from headwater_operator.decide.driving import remember_driver
from headwater_operator.decide.judge import judge, unseen_after_ms
from headwater_operator.decide.limits import HEALTHY_MS, START_LIMIT_MS
from headwater_operator.decide.memory import (
    EngineMemory,
    Failed,
    Memory,
    WarmupMemory,
    WorkerMemory,
)
from headwater_operator.decide.observed import Intent

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from headwater.ids import TaskId
    from headwater.model.cluster import Lease
    from headwater.model.duties import Duty, DutyResult
    from headwater_operator.decide.observed import Observed, WorkerView


def remember(observed: Observed, memory: Memory, now_ms: int) -> Memory:
    """Take in what is new: leases that were renewed, processes that came and went, answers."""
    memory = _remember_request(observed, memory)
    workers = {
        view.worker.name: _remember_worker(view, memory, now_ms) for view in observed.workers
    }
    warmups = _remember_warmups(observed, memory, now_ms)
    driver = remember_driver(observed, memory.driver, now_ms)
    memory = replace(memory, workers=workers, warmups=warmups, driver=driver)
    for duty, result in _new_answers(observed, memory):
        memory = _take_in(memory, duty, result, now_ms)
    standing = {duty.id for view in observed.workers for duty in view.worker.spec.duties}
    return replace(memory, answered=memory.answered & standing)


def _remember_request(observed: Observed, memory: Memory) -> Memory:
    """Begin a new request without the answers to earlier ones."""
    if memory.request == observed.request:
        is_reset = memory.reset_done and observed.intent is Intent.RESET
        return replace(memory, reset_done=is_reset)
    is_first = memory.request is None
    memory = replace(
        memory,
        request=observed.request,
        asked_epoch=max((view.worker.spec.epoch for view in observed.workers), default=0),
        reset_done=False,
    )
    if is_first or any(view.worker.spec.active for view in observed.workers):
        return memory
    return replace(_without_topics(memory), failed={})


def _without_topics(memory: Memory) -> Memory:
    """Forget the topics and the group: somebody may have deleted them."""
    return replace(
        memory,
        members=None,
        partitions=None,
        topic_ids={},
        delete_retention_ms={},
        looked_ms=None,
    )


def _remember_warmups(
    observed: Observed, memory: Memory, now_ms: int
) -> dict[tuple[str, TaskId], WarmupMemory]:
    """Note which warm-ups have come nearer to the end; those given up are kept for a while."""
    timeout_ms = observed.app.spec.assignment.warmup_timeout_ms
    found = {
        key: known
        for key, known in memory.warmups.items()
        if timeout_ms <= now_ms - known.progress_ms < 2 * timeout_ms
    }
    for view in observed.workers:
        name, lags = view.worker.name, _lags(view)
        for task in view.worker.spec.warmup:
            lag = lags.get(task, LAG_UNKNOWN)
            known = memory.warmups.get((name, task))
            if known is None or lag < known.lag:
                known = WarmupMemory(lag=lag, progress_ms=now_ms)
            found[name, task] = known
    return found


def _lags(view: WorkerView) -> dict[TaskId, int]:
    """Return the lags of copies; within a bucket, only exact ones show that one comes nearer."""
    told = {
        status.task: status.lag
        for status in view.worker.status.tasks
        if status.role is not Role.ACTIVE
    }
    return {**told, **view.lags}


def failure_key(duty: Duty) -> str:
    """Return under which name the failure of a duty is remembered."""
    return f"{duty.KIND} {duty.worker}" if isinstance(duty, Fence) else duty.KIND


def renewed(memory: Memory, leases: Mapping[str, Lease | None], now_ms: int) -> Memory | None:
    """Take in renewals of Leases; ``None`` if there is more to be decided about them.

    Args:
        memory: of the last decision.
        leases: by worker, as they were read last.
        now_ms: of the clock of ``decide``.
    """
    workers = {}
    for name, known in memory.workers.items():
        lease = leases.get(name)
        if lease is None or known.lease is None or lease.holder != known.lease[0]:
            return None
        if lease.renewals != known.lease[1]:
            workers[name] = replace(known, lease=(lease.holder, lease.renewals), lease_ms=now_ms)
        elif now_ms - known.lease_ms >= unseen_after_ms(lease):
            return None
    return replace(memory, workers={**memory.workers, **workers}) if workers else memory


def _remember_worker(view: WorkerView, memory: Memory, now_ms: int) -> WorkerMemory:
    is_new = view.worker.name not in memory.workers
    known = memory.of(view.worker.name)
    lease = (view.lease.holder, view.lease.renewals) if view.lease is not None else None
    if is_new or lease != known.lease:
        known = replace(known, lease=lease, lease_ms=now_ms)
    incarnation = view.worker.status.incarnation
    has_ended = view.process.is_proof_of_end
    if is_new and has_ended:
        # It ended before this run began, or has never run: there is no early death to count.
        return replace(known, dead=incarnation, gone_ms=now_ms)
    if incarnation not in (known.dead, known.heard):
        # A status may outlive its process: the next one may be of another revision.
        said_by = view.revision or known.revision
        known = replace(known, heard=incarnation, heard_revision=said_by, unheard=0)
    if has_ended:
        return _remember_end(known, now_ms)
    known = known.of_revision(view.revision)
    if view.is_stopping != (known.stopping_ms is not None):
        known = replace(known, stopping_ms=now_ms if view.is_stopping else None)
    if bool(view.waits_for) != (known.waiting_ms is not None):
        known = replace(known, waiting_ms=now_ms if view.waits_for else None)
    if known.started_ms is None or view.waits_for:
        # A process has its full time to start from when it can.
        known = replace(known, started_ms=now_ms)
    if not judge(view, known, now_ms).is_live:
        return replace(known, live_ms=None)
    live_ms = known.live_ms if known.live_ms is not None else now_ms
    is_healthy = now_ms - live_ms >= HEALTHY_MS
    return replace(
        known,
        live_ms=live_ms,
        gone_ms=None,
        early_deaths=0 if is_healthy else known.early_deaths,
    )


def _remember_end(known: WorkerMemory, now_ms: int) -> WorkerMemory:
    if known.started_ms is None and known.heard in ("", known.dead):
        return known
    is_early = known.started_ms is None or now_ms - known.started_ms < HEALTHY_MS
    deaths = known.early_deaths + 1 if is_early else 1
    if known.is_made_anew:
        deaths = known.early_deaths  # it had not begun
    has_reported = known.heard not in ("", known.dead)
    is_late = known.started_ms is not None and now_ms - known.started_ms >= START_LIMIT_MS
    return replace(
        known,
        dead=known.heard or known.dead,
        started_ms=None,
        waiting_ms=None,
        stopped_ms=None,
        stopping_ms=None,
        live_ms=None,
        ended_ms=now_ms,
        gone_ms=known.gone_ms if known.gone_ms is not None else now_ms,
        unheard=0 if has_reported else known.unheard + is_late,
        early_deaths=deaths,
    )


def _new_answers(observed: Observed, memory: Memory) -> Iterator[tuple[Duty, DutyResult]]:
    """Yield duties of this run whose result was not taken in yet, the oldest first."""
    found = [
        (duty, result)
        for view in observed.workers
        for duty in view.worker.spec.duties
        if duty.id not in memory.answered
        and (generation_of(duty.epoch) == observed.generation or isinstance(duty, Reset))
        and (result := view.worker.status.result_of(duty.id)) is not None
    ]
    yield from sorted(found, key=lambda pair: pair[0].epoch)


def _take_in(memory: Memory, duty: Duty, result: DutyResult, now_ms: int) -> Memory:
    key = failure_key(duty)
    failed = {name: failure for name, failure in memory.failed.items() if name != key}
    memory = replace(memory, failed=failed, answered=memory.answered | {duty.id})
    match result:
        case GroupDescribed(members=members):
            memory = replace(memory, members=members, engine=_engine_seen(memory, result))
        case EngineTaken(engine=engine, engine_generation=generation):
            taken = EngineMemory(engine=engine, generation=generation, is_ours=True)
            memory = replace(memory, engine=taken)
        case TopicsDescribed(partitions=partitions, topic_ids=ids, delete_retention_ms=kept):
            is_counted = isinstance(duty, DescribeTopics) and bool(duty.inputs)
            return replace(
                memory,
                partitions=partitions,
                topic_ids=ids,
                delete_retention_ms=kept,
                unread=result.unread if is_counted else None,
            )
        case TopicsCreated() if memory.partitions is None:
            pass  # of an earlier request: some topics alone are no look at all of them
        case TopicsCreated(partitions=partitions, topic_ids=ids, delete_retention_ms=kept):
            return replace(
                memory,
                partitions={**(memory.partitions or {}), **partitions},
                topic_ids={**memory.topic_ids, **ids},
                delete_retention_ms={**memory.delete_retention_ms, **kept},
            )
        case ResetDone():
            is_ours = duty.epoch > memory.asked_epoch
            return replace(_without_topics(memory), reset_done=memory.reset_done or is_ours)
        case DutyFailed():
            failure = Failed(result=result, at_ms=now_ms)
            if isinstance(duty, TakeEngine):
                # Somebody may have come first, or it was broken off half-way: how it is now is
                # looked up before the next try.
                memory = replace(memory, engine=None, looked_ms=None)
            return replace(memory, failed={**failed, key: failure})
        case IdsFenced():
            pass
    return memory


def _engine_seen(memory: Memory, seen: GroupDescribed) -> EngineMemory:
    """Return which engine has the application, after a look that may have been overtaken."""
    known = memory.engine
    found = EngineMemory(
        engine=seen.engine, generation=seen.engine_generation, is_fenced=seen.engine_fenced
    )
    if known is None:
        return found
    is_new = (known.generation, known.is_fenced) < (found.generation, found.is_fenced)
    return found if is_new else known
