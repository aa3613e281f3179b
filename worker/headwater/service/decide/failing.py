"""Failures of StreamThreads and restores: tried again, the handler's to decide, or the end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headwater import errors
from headwater.errors import HeadwaterError
from headwater.model.cluster import WorkerError
from headwater.model.uncaught import StreamThreadExceptionResponse as Response
from headwater.native.messages import Failed
from headwater.service.decide.observations import GlobalThreadSaid, ThreadSaid, UpdaterSaid
from headwater.service.decide.values import (
    REPORT_LAG_MS,
    TRIES,
    TRIES_UNKNOWN,
    SlotPhase,
    TaskPhase,
    pause_ms,
)

if TYPE_CHECKING:
    from headwater.service.decide.global_thread import GlobalThread
    from headwater.service.decide.observations import Observation
    from headwater.service.decide.values import Slot, Table

_RETRIABLE: Final = (errors.KafkaUnavailableError, errors.FencedError)
"""What no number of tries ends: brokers come back, if within ``task.timeout.ms``."""

_PASSING: Final = (errors.StoreLockedError, errors.StoreCorruptedError)
"""What passes soon or not at all: locks are released, damaged stores are rebuilt."""


def stop(table: Table, now_ms: int) -> None:
    """Begin to end: release everything, then leave."""
    if table.stopping_since_ms is None:
        table.stopping_since_ms = now_ms


def fail(
    table: Table, failure: Failed, now_ms: int, *, shuts_down_application: bool = False
) -> None:
    """Give up: remember why, and begin to end; the whole application, if so."""
    if table.error is None:
        table.error = WorkerError(
            error=failure.error,
            message=failure.message,
            task=failure.task,
            shuts_down_application=shuts_down_application,
        )
        kind = getattr(errors, failure.error, HeadwaterError)
        table.exit_code = kind.exit_code if issubclass(kind, HeadwaterError) else 1
    stop(table, now_ms)


def is_for_handler(table: Table, observation: Observation, now_ms: int) -> bool:
    """Whether the uncaught exception handler, if there is one, decides about what was observed.

    It does about what would end the worker, and about every exception that is none of ours.
    """
    if table.stopping_since_ms is not None:
        return False  # The end is decided already.
    match observation:
        case ThreadSaid(slot=number, message=Failed(fenced=False) as failure):
            tries, asked_ms = _tries_of_slot(table.slots[number], now_ms)
        case UpdaterSaid(updater=number, message=Failed(following=False) as failure):
            tries, asked_ms = _tries_of_restore(table, number, failure), now_ms
        case GlobalThreadSaid(message=Failed() as failure) if table.global_thread is not None:
            tries, asked_ms = table.global_thread.failures, table.global_thread.began_ms
        case _:
            return False
    return not _is_ours(failure) or _is_uncaught(table, failure, tries, asked_ms, now_ms)


def thread_failed(
    table: Table, slot: Slot, failure: Failed, response: Response | None, now_ms: int
) -> None:
    """Note that a StreamThread has failed; its process is killed, and another one starts.

    Args:
        table: what is known.
        slot: whose process has failed.
        failure: what it said.
        response: of the uncaught exception handler, if it was asked.
        now_ms: boot-time clock.
    """
    slot.failed = slot.doomed = f"{failure.error}: {failure.message}"
    tries, asked_ms = _tries_of_slot(slot, now_ms)
    if failure.fenced:
        slot.phase = SlotPhase.FENCED
        slot.fenced_epoch = table.epoch
        for task in [task for task in table.tasks.values() if task.slot == slot.number]:
            table.barred[task.id] = table.epoch
            if not task.on_updater:
                del table.tasks[task.id]  # A restore under way is cancelled first: not wanted now.
    elif response is not None:
        _respond(table, failure, response, now_ms)
    elif _is_uncaught(table, failure, tries, asked_ms, now_ms):
        fail(table, failure, now_ms)


def global_thread_failed(
    table: Table, thread: GlobalThread, failure: Failed, response: Response | None, now_ms: int
) -> None:
    """Note that the GlobalStreamThread has failed; its process is killed.

    A handler's REPLACE_THREAD counts as SHUTDOWN_CLIENT: as in Java, it is not replaced then.
    """
    thread.problem, thread.doomed = f"{failure.error}: {failure.message}", True
    if response is not None:
        is_all = response is Response.SHUTDOWN_APPLICATION
        fail(table, failure, now_ms, shuts_down_application=is_all)
    elif _is_uncaught(table, failure, thread.failures, thread.began_ms, now_ms):
        fail(table, failure, now_ms)


def restore_failed(
    table: Table, number: int, failure: Failed, response: Response | None, now_ms: int
) -> None:
    """Note that a restore has failed; it is tried again later.

    Args:
        table: what is known.
        number: of the StateUpdater.
        failure: what it said.
        response: of the uncaught exception handler, if it was asked.
        now_ms: boot-time clock.
    """
    task = table.tasks.get(failure.task) if failure.task is not None else None
    tries = _tries_of_restore(table, number, failure)
    if response is not None:
        _respond(table, failure, response, now_ms)
    elif _is_uncaught(table, failure, tries, now_ms, now_ms):
        fail(table, failure, now_ms)
    if task is not None and task.on_updater and task.updater == number:
        task.phase = TaskPhase.WAITING
        task.failures += 1
        task.retry_ms = now_ms + max(1_000, pause_ms(task.failures))


def _respond(table: Table, failure: Failed, response: Response, now_ms: int) -> None:
    """Do as the handler says; what has failed is tried again unless the worker ends."""
    if response is not Response.REPLACE_THREAD:
        is_all = response is Response.SHUTDOWN_APPLICATION
        fail(table, failure, now_ms, shuts_down_application=is_all)


def _tries_of_slot(slot: Slot, now_ms: int) -> tuple[int, int]:
    """Return how often in a row it has failed before, and when it began to ask a broker."""
    return slot.failures, slot.began_ms if slot.phase is SlotPhase.STARTING else now_ms


def _tries_of_restore(table: Table, number: int, failure: Failed) -> int:
    task = table.tasks.get(failure.task) if failure.task is not None else None
    return table.updaters[number].failures if task is None else task.failures


def _is_uncaught(table: Table, failure: Failed, tries: int, asked_ms: int, now_ms: int) -> bool:
    return is_final(failure, tries) or _is_given_up(table, failure, asked_ms, now_ms)


def _is_ours(failure: Failed) -> bool:
    kind = getattr(errors, failure.error, None)
    return isinstance(kind, type) and issubclass(kind, HeadwaterError)


def _is_given_up(table: Table, failure: Failed, asked_ms: int, now_ms: int) -> bool:
    """Whether brokers have been silent for ``task.timeout.ms``, now that one more wait is over."""
    if failure.error != errors.KafkaUnavailableError.__name__:
        return False
    table.unanswered_since_ms = table.unanswered_since_ms or asked_ms
    return now_ms - table.unanswered_since_ms >= table.patience_ms - REPORT_LAG_MS


def is_final(failure: Failed, failures: int) -> bool:
    """Whether trying again cannot help, or was tried often enough."""
    if not _is_ours(failure):
        return failures + 1 >= TRIES_UNKNOWN
    kind = getattr(errors, failure.error)
    if issubclass(kind, _PASSING):
        return failures + 1 >= TRIES
    return not issubclass(kind, _RETRIABLE)
