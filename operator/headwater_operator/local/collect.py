"""Gathers what the live view shows: resource files, and the numbers that workers serve."""

from __future__ import annotations

import signal
import time
from collections import deque
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from headwater.errors import SpecError
from headwater.model import metrics
from headwater.model.appstatus import AppStatus
from headwater.model.cluster import Role, StreamWorker, format_epoch
from headwater.model.lifecycle import Engine
from headwater_operator.decide.observed import ProcessState
from headwater_operator.local import files
from headwater_operator.local.driver import answer_of
from headwater_operator.local.endings import describe_end
from headwater_operator.local.events import Event, read_events
from headwater_operator.local.knocking import answers
from headwater_operator.local.observe import (
    process_state,
    read_process,
    read_record,
    read_report,
    read_worker,
)
from headwater_operator.local.pods import Wish
from headwater_operator.local.records import SupervisorRecord
from headwater_operator.local.snapshot import CopyRow, DriverRow, Snapshot, TaskRow, WorkerRow
from headwater_operator.observe.driver import DriverAnswer
from headwater_operator.observe.numbers import HttpNumbers, WorkerAnswer

if TYPE_CHECKING:
    from headwater.ids import TaskId
    from headwater.model.appstatus import EngineStatus
    from headwater.model.metrics import Snapshot as Numbers
    from headwater.model.streamapp import StreamApp
    from headwater_operator.local.layout import ClusterDir, WorkerDir
    from headwater_operator.local.pods import Pod, PodProcess

_EVENTS_KEPT: Final = 50
_RATES_KEPT: Final = 120
_RATE_WINDOW_S: Final = 3.0
_SILENT_S: Final = 30.0
_KNOCK_AFTER_S: Final = 3.0
"""Brokers that answer have done so by then."""


class Rate:
    """Turns a growing count into a rate over the last seconds."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, int]] = deque()

    def add(self, count: int, now_s: float) -> float:
        """Take in a count and return the rate per second."""
        samples = self._samples
        if samples and count < samples[-1][1]:
            samples.clear()  # somebody else counts now, from the beginning
        samples.append((now_s, count))
        while len(samples) > 2 and samples[1][0] < now_s - _RATE_WINDOW_S:
            samples.popleft()
        (first_s, first), (last_s, last) = samples[0], samples[-1]
        return (last - first) / (last_s - first_s) if last_s > first_s else 0.0


@dataclass(slots=True)
class _Seen:
    """One worker, as its files and its HTTP service tell of it."""

    directory: WorkerDir
    worker: StreamWorker
    pod: Pod | None
    process: PodProcess | None
    answer: WorkerAnswer = field(default_factory=WorkerAnswer)

    @property
    def numbers(self) -> Numbers:
        return self.answer.numbers


class Collector:
    """Looks at one application again and again.

    Args:
        cluster: where it runs.
        app: its name.
        since_ms: events before this wall-clock time are not shown.
    """

    def __init__(self, cluster: ClusterDir, app: str, *, since_ms: int = 0) -> None:
        self._cluster = cluster
        self._directory = cluster.app(app)
        self._began = time.monotonic()
        self._events: deque[Event] = deque(maxlen=_EVENTS_KEPT)
        self._position = -1
        self._since_ms = since_ms
        self._rates: dict[tuple[str, TaskId], Rate] = {}
        self._history: deque[float] = deque(maxlen=_RATES_KEPT)
        self._numbers = HttpNumbers(silence_ms=0)
        self._answered = 0, DriverAnswer()

    def close(self) -> None:
        """Ask nobody any more."""
        self._numbers.close()

    def note(self, event: Event) -> None:
        """Add an event of our own."""
        self._events.append(event)

    def collect(self) -> Snapshot:
        """Look at everything once."""
        try:
            return self._collect()
        except SpecError as error:
            return Snapshot(app=self._directory.name, failure=str(error))

    def _collect(self) -> Snapshot:
        record, report = read_record(self._directory), read_report(self._directory)
        if record is None:
            return Snapshot(app=self._directory.name, reason="not applied, or deleted")
        seen = self._look_at_workers()
        now_s = time.monotonic()
        tasks = self._task_rows(seen, now_s)
        workers = tuple(_worker_row(one, tasks) for one in seen)
        events, self._position = read_events(self._directory.events, since=self._position)
        self._events.extend(event for event in events if event.at_ms >= self._since_ms)
        is_decided = report.applied >= record.applied
        # What a former run has left is not what happens now.
        status = report.status if is_decided else AppStatus(engine=report.status.engine)
        is_elsewhere = status.engine.name is not Engine.NATIVE
        driver = self._driver_row(status.engine, is_wanted=is_elsewhere and is_decided)
        if is_elsewhere or not is_decided:
            # They are kept for when the application comes back; that they have ended is no news.
            workers = tuple(row for row in workers if row.state not in {"ended", "stopped"})
        on_spark = 0.0 if driver is None else driver.input_rows_per_s
        self._history.append(on_spark + sum(row.records_per_s for row in workers))
        supervisor = files.read(self._cluster.supervisor)
        private = (
            ""
            if supervisor is None
            else SupervisorRecord.from_dict(supervisor).kafka.bootstrap_servers
        )
        named = record.app.spec.kafka.bootstrap_servers
        reason = status.reason
        if named and not tasks and now_s - self._began > _KNOCK_AFTER_S and not answers(named):
            reason = f"waiting for {named}"
        return Snapshot(
            app=record.app.name,
            state=str(status.state) if is_decided else "starting",
            reason=reason,
            guarantee=str(record.app.spec.processing_guarantee),
            epoch=format_epoch(status.assignment_epoch),
            replicas=record.app.spec.replicas,
            kafka=named or private,
            is_private_kafka=named is None,
            generation=report.generation,
            engine=status.engine.name.value,
            driver=driver,
            workers=workers,
            tasks=tasks,
            paused=_paused(record.app, status) if is_decided else "",
            unread=status.unread_records,
            events=tuple(self._events),
            rates=tuple(self._history),
            failure=""
            if status.failure is None
            else f"{status.failure.error}: {status.failure.message}",
            uptime_s=now_s - self._began,
        )

    def _driver_row(self, engine: EngineStatus, *, is_wanted: bool) -> DriverRow | None:
        pod, process = read_process(self._directory.driver)
        is_there = process_state(pod, process) is ProcessState.RUNNING
        if not is_there and not is_wanted:
            return None
        generation = engine.generation if pod is None else pod.generation
        if not is_there:
            log = self._directory.driver.log
            problem = "" if process is None else describe_end(process, log)
            return DriverRow(state="ended", generation=generation, problem=problem)
        answer, attempt = answer_of(self._directory), 0 if pod is None else pod.attempt
        if answer.state or attempt != self._answered[0]:
            self._answered = attempt, answer
        # One that does not answer in time is shown as it was; the reason tells for how long.
        answer = self._answered[1]
        return DriverRow(
            state=_driver_state(answer),
            pid=process.pid if process is not None else 0,
            generation=generation,
            last_batch=None if answer.last_batch < 0 else answer.last_batch,
            batch_rows=answer.input_rows,
            batch_ms=answer.duration_ms,
            input_rows_per_s=answer.input_rows_per_second,
            processed_rows_per_s=answer.processed_rows_per_second,
            tasks=len(answer.tasks),
        )

    def _look_at_workers(self) -> list[_Seen]:
        seen = []
        for directory in self._directory.workers():
            worker = read_worker(directory)
            if worker is not None:
                seen.append(_Seen(directory, worker, *read_process(directory)))
        asked = {
            one.worker.name: endpoint
            for one in seen
            if (endpoint := one.worker.status.endpoint) and _is_alive(one)
        }
        answers = self._numbers.ask(asked)
        for one in seen:
            one.answer = answers.get(one.worker.name, one.answer)
        return seen

    def _task_rows(self, seen: list[_Seen], now_s: float) -> tuple[TaskRow, ...]:
        rows: dict[TaskId, TaskRow] = {}
        for one in seen:
            spec, status = one.worker.spec, one.worker.status
            for task in spec.active:
                rows.setdefault(task, TaskRow(task=task, state="GRANTED", worker=one.worker.name))
            for task in spec.revoking:
                rows.setdefault(task, TaskRow(task=task, state="REVOKING", worker=one.worker.name))
            if not _is_alive(one) or not _has_reported(one.directory):
                continue
            for held in status.tasks:
                if held.role is Role.ACTIVE:
                    state = str(held.state)
                    rows[held.task] = self._held_row(one, held.task, state, held.slot, now_s)
        copies = _copies(seen)
        return tuple(replace(rows[task], copies=copies.get(task, ())) for task in sorted(rows))

    def _held_row(self, one: _Seen, task: TaskId, state: str, slot: int, now_s: float) -> TaskRow:
        numbers, name = one.numbers, str(task)
        processed = numbers.count(metrics.TASK_PROCESS, name)
        if processed is None:
            return TaskRow(task=task, state=state, worker=one.worker.name, slot=slot)
        rate = self._rates.setdefault((one.worker.name, task), Rate())
        return TaskRow(
            task=task,
            state=state,
            worker=one.worker.name,
            slot=slot,
            processed=processed,
            lag=numbers.count(metrics.RECORDS_LAG, name),
            records_per_s=rate.add(processed, now_s),
            restored=numbers.count(metrics.LAST_RESTORED_RECORDS, name) or 0,
            remaining=numbers.count(metrics.RESTORE_REMAINING_RECORDS, name),
        )


def _copies(seen: list[_Seen]) -> dict[TaskId, tuple[CopyRow, ...]]:
    """Return the standby and warm-up tasks there are to be, with what is known of each."""
    found: dict[TaskId, tuple[CopyRow, ...]] = {}
    for one in seen:
        spec = one.worker.spec
        is_known = _is_alive(one) and _has_reported(one.directory)
        said = {held.task: held for held in one.worker.status.tasks} if is_known else {}
        for role in (Role.STANDBY, Role.WARMUP):
            for task in spec.tasks_of(role):
                known = said.get(task)
                row = CopyRow(
                    worker=one.worker.name,
                    role=role,
                    behind=one.numbers.count(metrics.STANDBY_RECORDS_LAG, str(task)),
                    is_caught_up=known is not None and known.caught_up,
                )
                found[task] = (*found.get(task, ()), row)
    return found


def _is_alive(one: _Seen) -> bool:
    return process_state(one.pod, one.process) is ProcessState.RUNNING


def _has_reported(directory: WorkerDir) -> bool:
    """Whether the status is of the process that runs now: older than its start, it is not."""
    try:
        return directory.status.stat().st_mtime_ns >= directory.process.stat().st_mtime_ns
    except FileNotFoundError:
        return False


def _worker_row(one: _Seen, tasks: tuple[TaskRow, ...]) -> WorkerRow:
    age_s = _age_s(one.directory)
    own = [row for row in tasks if row.worker == one.worker.name]
    error = one.worker.status.error
    problem = ""
    if error is not None:
        problem = error.message
    elif one.process is not None and not _is_alive(one) and not _was_stopped(one):
        problem = describe_end(one.process, one.directory.log)
    return WorkerRow(
        name=one.worker.name,
        state=_worker_state(one, age_s),
        pid=one.process.pid if one.process is not None and _is_alive(one) else 0,
        lease_age_s=age_s if _is_alive(one) else None,
        tasks=len(own),
        copies=len(one.worker.spec.standby) + len(one.worker.spec.warmup),
        records_per_s=sum(row.records_per_s for row in own),
        open_transactions=one.numbers.total(metrics.TRANSACTION_OPEN),
        restored=one.numbers.count(metrics.RESTORE_RECORDS) or 0,
        filling=one.numbers.count(metrics.GLOBAL_REMAINING),
        problem=problem,
    )


def _paused(app: StreamApp, status: AppStatus) -> str:
    if not app.spec.paused:
        return ""
    return "paused" if status.paused else "pausing"


def _driver_state(answer: DriverAnswer) -> str:
    """Return the state for people: before its first micro-batch nothing of it runs."""
    if answer.state == "RUNNING" and not answer.batches:
        return "STARTING"
    return answer.state or "STARTING"


def _was_stopped(one: _Seen) -> bool:
    """Whether a worker has ended because it was to; before it is up, SIGTERM itself ends it."""
    in_order = (0, -signal.SIGTERM)
    is_asked = one.pod is not None and one.pod.wish is not Wish.RUN
    return is_asked and one.process is not None and one.process.exit_code in in_order


def _worker_state(one: _Seen, lease_age_s: float | None) -> str:
    if not _is_alive(one):
        return "stopped" if _was_stopped(one) else "ended"
    if one.pod is not None and one.pod.wish is not Wish.RUN:
        return "stopping"
    if one.worker.spec.is_fencing:
        return "fenced"
    if not one.worker.status.endpoint or lease_age_s is None:
        return "starting"
    return "silent" if lease_age_s > _SILENT_S else "running"


def _age_s(directory: WorkerDir) -> float | None:
    """How old the Lease's file is: good for the eye; the control loop judges by its own clock."""
    try:
        return max(0.0, time.time() - directory.lease.stat().st_mtime)
    except FileNotFoundError:
        return None
