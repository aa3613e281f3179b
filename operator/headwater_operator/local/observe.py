"""Reads one snapshot of one application from its files; decides nothing."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from headwater.errors import SpecError
from headwater.model.cluster import Lease, StreamWorker
from headwater.model.streamapp_assignment import HOSTNAME_KEY
from headwater_operator.decide.observed import Observed, ProcessState, WorkerView
from headwater_operator.local import files
from headwater_operator.local.pods import Phase, Pod, PodProcess
from headwater_operator.local.records import AppRecord, AppReport

if TYPE_CHECKING:
    from headwater_operator.local.layout import AppDir, WorkerDir


def read_record(directory: AppDir) -> AppRecord | None:
    """Read what is wanted of an application; ``None`` if nothing is known of it.

    Raises:
        SpecError: the record is damaged.
    """
    data = files.read(directory.app)
    return None if data is None else AppRecord.from_dict(data)


def read_report(directory: AppDir) -> AppReport:
    """Read what the control loop said last; an empty report if it has said nothing.

    Raises:
        SpecError: the report is damaged.
    """
    data = files.read(directory.status)
    return AppReport() if data is None else AppReport.from_dict(data)


def read_worker(directory: WorkerDir) -> StreamWorker | None:
    """Read a StreamWorker: what the control loop wrote, with what the worker says.

    Raises:
        SpecError: the spec is damaged. A damaged status is as good as none: the worker will write
            another.
    """
    spec = files.read(directory.spec)
    if spec is None:
        return None
    try:
        # The worker's file holds the status alone; together they are one resource.
        reported = files.read(directory.status)
        return StreamWorker.from_dict({**spec, **(reported or {}), "spec": spec["spec"]})
    except (SpecError, KeyError):
        return StreamWorker.from_dict({**spec, "status": {}})


def read_process(directory: WorkerDir) -> tuple[Pod | None, PodProcess | None]:
    """Read which process a worker should have, and which it has or had last.

    Raises:
        SpecError: a file is damaged.
    """
    pod, process = files.read(directory.pod), files.read(directory.process)
    return (
        None if pod is None else Pod.from_dict(pod, path=str(directory.pod)),
        None if process is None else PodProcess.from_dict(process, path=str(directory.process)),
    )


def read_lease(directory: WorkerDir) -> Lease | None:
    """Read a worker's Lease; a damaged one is as good as none, it will soon be replaced."""
    try:
        data = files.read(directory.lease)
        return None if data is None else Lease.from_dict(data)
    except SpecError:
        return None


def process_state(pod: Pod | None, process: PodProcess | None) -> ProcessState:
    """Tell what is known about a worker's process.

    An attempt that the supervisor has not taken up counts as running: it may start at any moment.
    """
    if pod is None:
        is_over = process is None or process.phase is Phase.ENDED
        return ProcessState.NONE if is_over else ProcessState.RUNNING
    if process is None or process.attempt < pod.attempt or process.phase is Phase.RUNNING:
        return ProcessState.RUNNING
    return ProcessState.ENDED


def observe(directory: AppDir, record: AppRecord, *, generation: int) -> Observed:
    """Read one snapshot of an application.

    Args:
        directory: the application's.
        record: what is wanted of it.
        generation: of this run of the control loop.

    Raises:
        SpecError: a file that only we write is damaged.
    """
    spec = record.app.spec
    report = read_report(directory)
    status = report.status
    if report.applied < record.applied:
        # Somebody has applied it anew: what was final is tried once more.
        status = replace(status, failure=None)
    views: list[WorkerView] = []
    for worker_directory in directory.workers():
        worker = read_worker(worker_directory)
        if worker is None:
            continue
        if _is_of_before(worker_directory, directory):
            worker = replace(worker, status=replace(worker.status, error=None))
        views.append(
            WorkerView(
                worker=worker,
                process=process_state(*read_process(worker_directory)),
                lease=read_lease(worker_directory),
                # All processes share the machine, so copies are apart by their worker only.
                labels={HOSTNAME_KEY: "localhost"},
            )
        )
    return Observed(
        app=replace(record.app, spec=replace(spec, kafka=spec.kafka.settled(None))),
        intent=record.intent,
        generation=generation,
        workers=tuple(views),
        status=status,
        request=record.applied,
        reset_to=record.reset_to,
        hour=int(time.time()) // 3600,
        minute=int(time.time()) // 60,
        driver_log=f"`headwater logs {record.app.name} --worker driver` shows what it was doing",
    )


def _is_of_before(worker: WorkerDir, app: AppDir) -> bool:
    """Whether a worker's status was written before somebody has applied the application last.

    A process that runs since before that says what is true now. What one that has ended has failed
    with may be mended: the next one tells.
    """
    try:
        written, process = worker.status.stat().st_mtime_ns, worker.process.stat().st_mtime_ns
        return written < min(process, app.app.stat().st_mtime_ns)
    except FileNotFoundError:
        return False


def stamp(directory: AppDir) -> tuple[object, ...]:
    """Something that differs when anything that others write about an application has changed."""
    watched = [directory.app, directory.driver.process, directory.driver_address]
    for worker in directory.workers():
        watched += [worker.status, worker.lease, worker.process]
    found: list[object] = []
    for path in watched:
        try:
            status = path.stat()
        except FileNotFoundError:
            found.append(None)
        else:
            found.append((status.st_ino, status.st_mtime_ns))
    return tuple(found)
