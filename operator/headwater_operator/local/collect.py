"""Gathers what the live view shows: resource files, and the numbers that workers serve."""

from __future__ import annotations

import signal
import time
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from headwater.errors import SpecError
from headwater.model.appstatus import AppStatus
from headwater.model.lifecycle import Engine
from headwater_operator.decide.observed import ProcessState
from headwater_operator.local import files
from headwater_operator.local.driver import answer_of
from headwater_operator.local.endings import describe_end
from headwater_operator.local.events import read_events
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
from headwater_operator.observe.driver import DriverAnswer
from headwater_operator.observe.numbers import HttpNumbers
from headwater_operator.overview.application import snapshot_of
from headwater_operator.overview.rates import Rates
from headwater_operator.overview.seen import SeenWorker
from headwater_operator.overview.snapshot import DriverRow, Snapshot

if TYPE_CHECKING:
    from headwater.model.appstatus import EngineStatus
    from headwater.model.cluster import StreamWorker
    from headwater_operator.local.layout import ClusterDir, WorkerDir
    from headwater_operator.local.pods import Pod, PodProcess
    from headwater_operator.overview.events import Event

_EVENTS_KEPT: Final = 50
_RATES_KEPT: Final = 120
_KNOCK_AFTER_S: Final = 3.0
"""Brokers that answer have done so by then."""


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
        self._rates = Rates(time.monotonic)
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
        events, self._position = read_events(self._directory.events, since=self._position)
        self._events.extend(event for event in events if event.at_ms >= self._since_ms)
        is_decided = report.applied >= record.applied
        # What a former run has left is not what happens now.
        status = report.status if is_decided else AppStatus(engine=report.status.engine)
        is_elsewhere = status.engine.name is not Engine.NATIVE
        found = snapshot_of(
            record.app,
            status,
            seen,
            rate=self._rates.add,
            is_decided=is_decided,
            driver=self._driver_row(status.engine, is_wanted=is_elsewhere and is_decided),
            events=self._events,
        )
        self._history.append(found.records_per_s)
        named, reason = record.app.spec.kafka.bootstrap_servers, found.reason
        is_late = now_s - self._began > _KNOCK_AFTER_S
        if named and not found.tasks and is_late and not answers(named):
            reason = f"waiting for {named}"
        return replace(
            found,
            reason=reason,
            kafka=named or self._private_kafka(),
            is_private_kafka=named is None,
            generation=report.generation,
            rates=tuple(self._history),
            uptime_s=now_s - self._began,
        )

    def _private_kafka(self) -> str:
        supervisor = files.read(self._cluster.supervisor)
        if supervisor is None:
            return ""
        return SupervisorRecord.from_dict(supervisor).kafka.bootstrap_servers

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

    def _look_at_workers(self) -> list[SeenWorker]:
        seen = []
        for directory in self._directory.workers():
            worker = read_worker(directory)
            if worker is not None:
                seen.append(_seen(directory, worker))
        asked = {
            one.worker.name: endpoint
            for one in seen
            if (endpoint := one.worker.status.endpoint) and one.is_alive
        }
        answers = self._numbers.ask(asked)
        return [
            one if (answer := answers.get(one.worker.name)) is None else answer.told_by(one)
            for one in seen
        ]


def _seen(directory: WorkerDir, worker: StreamWorker) -> SeenWorker:
    pod, process = read_process(directory)
    state = process_state(pod, process)
    was_stopped = _was_stopped(pod, process)
    has_ended = process is not None and state is not ProcessState.RUNNING
    return SeenWorker(
        worker=worker,
        process=state,
        has_reported=_has_reported(directory),
        is_stopping=pod is not None and pod.wish is not Wish.RUN,
        was_stopped=was_stopped,
        ended=describe_end(process, directory.log)
        if process is not None and has_ended and not was_stopped
        else "",
        pid=process.pid if process is not None else 0,
        lease_age_s=_age_s(directory),
    )


def _has_reported(directory: WorkerDir) -> bool:
    """Whether the status is of the process that runs now: older than its start, it is not."""
    try:
        return directory.status.stat().st_mtime_ns >= directory.process.stat().st_mtime_ns
    except FileNotFoundError:
        return False


def _driver_state(answer: DriverAnswer) -> str:
    """Return the state for people: before its first micro-batch nothing of it runs."""
    if answer.state == "RUNNING" and not answer.batches:
        return "STARTING"
    return answer.state or "STARTING"


def _was_stopped(pod: Pod | None, process: PodProcess | None) -> bool:
    """Whether a worker has ended because it was to; before it is up, SIGTERM itself ends it."""
    in_order = (0, -signal.SIGTERM)
    is_asked = pod is not None and pod.wish is not Wish.RUN
    return is_asked and process is not None and process.exit_code in in_order


def _age_s(directory: WorkerDir) -> float | None:
    """How old the Lease's file is: good for the eye; the control loop judges by its own clock."""
    try:
        return max(0.0, time.time() - directory.lease.stat().st_mtime)
    except FileNotFoundError:
        return None
