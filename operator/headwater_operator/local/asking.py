"""``headwater get``, ``scale``, ``pause`` and ``resume``: read what is there, change one field."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from headwater import driverlock
from headwater.errors import UserError
from headwater.model.cluster import LAG_UNKNOWN, Role, format_epoch
from headwater.model.lifecycle import Engine
from headwater_operator.decide.autoscaling.owner import wanted_workers
from headwater_operator.local import control
from headwater_operator.local.observe import (
    process_state,
    read_process,
    read_record,
    read_report,
    read_worker,
)
from headwater_operator.local.tables import print_table
from headwater_operator.observe.driver import DriverAnswer, question
from headwater_operator.wording import counted

if TYPE_CHECKING:
    from headwater.driverlock import HandDriver
    from headwater.model.cluster import TaskStatus
    from headwater.model.streamapp import StreamApp
    from headwater_operator.local.layout import AppDir, ClusterDir
    from headwater_operator.local.records import SupervisorRecord


def get(cluster: ClusterDir, app: str | None, *, as_json: bool) -> int:
    """Print all applications, or one with its workers and tasks.

    Raises:
        SpecError: there is no such application.
    """
    if app is not None:
        control.require(cluster, app)
    chosen = [directory for directory in cluster.apps() if app in (None, directory.name)]
    supervisor = control.running_supervisor(cluster)
    if as_json:
        documents = [_document(directory) for directory in chosen]
        json.dump(documents if app is None else documents[0], sys.stdout, indent=2)
        sys.stdout.write("\n")
        return 0
    by_hand = {driver.app: driver for driver in driverlock.drivers_of(cluster.root)}
    rows = [
        _summary(directory, supervisor, by_hand.pop(directory.name, None)) for directory in chosen
    ]
    if app is None:
        rows += [_by_hand_row(driver) for driver in by_hand.values()]
    if not rows:
        sys.stdout.write(f"no applications in {cluster.root}; start one: headwater up -f FILE\n")
        return 0
    print_table(("NAME", "STATE", "READY", "TASKS", "EPOCH", "KAFKA", "REASON"), rows)
    if app is not None:
        _print_workers(chosen[0])
    return 0


def scale(cluster: ClusterDir, app: str, replicas: int | None, threads: int | None) -> int:
    """Ask for another number of workers, of StreamThreads in each, or both.

    Args:
        cluster: where.
        app: its name.
        replicas: workers; ``None`` leaves their number as it is.
        threads: StreamThreads in each worker, likewise.

    Raises:
        SpecError: there is no such application, or a number is out of range.
        UserError: no number is given.
    """
    if replicas is None and threads is None:
        raise UserError("scale: give --replicas, --threads, or both")
    before = control.require(cluster, app).app.spec

    def scaled(wanted: StreamApp) -> StreamApp:
        wanted = wanted if replicas is None else wanted.with_replicas(replicas)
        return wanted if threads is None else wanted.with_threads(threads)

    after = control.change_app(cluster, app, scaled).app.spec
    if replicas is not None:
        _say(cluster, f"{app}: {before.replicas} -> {counted(after.replicas, 'worker')}")
    if threads is not None:
        now = counted(after.threads_per_worker, "StreamThread")
        _say(cluster, f"{app}: {before.threads_per_worker} -> {now} per worker")
    return 0


def pause(cluster: ClusterDir, app: str, *, paused: bool) -> int:
    """Ask for processing to pause, or to go on.

    Raises:
        SpecError: there is no such application, or Spark runs it.
        InstanceRunningError: a driver that somebody started by hand runs it.
    """
    wanted = control.require(cluster, app).app
    driver = driverlock.driver_of(cluster.root, wanted.application_id)
    if driver is not None:
        again = "headwater pause" if paused else "headwater resume"
        raise driver.refusal(f"run it with headwater up, and {again} again")
    control.change_app(cluster, app, lambda now: now.with_pause(paused=paused))
    if wanted.spec.paused == paused:
        _say(cluster, f"{app} {'is paused already' if paused else 'is not paused'}")
    else:
        _say(cluster, f"{app} {'pauses' if paused else 'goes on'}")
    return 0


def _say(cluster: ClusterDir, text: str) -> None:
    later = "" if control.running_supervisor(cluster) else " (it does not run now)"
    sys.stdout.write(f"{text}{later}\n")


def _summary(
    directory: AppDir, supervisor: SupervisorRecord | None, driver: HandDriver | None
) -> tuple[str, ...]:
    record, report = read_record(directory), read_report(directory)
    assert record is not None
    if driver is not None:
        return _by_hand_row(driver, record.app.spec.kafka.bootstrap_servers)
    status, is_up = report.status, supervisor is not None
    is_decided = report.applied >= record.applied
    state = str(status.state) if is_decided else "starting"
    reason = status.failure.message if status.failure is not None else status.reason
    if not is_decided:
        reason = "the control loop has yet to look at it"
    wanted = wanted_workers(record.app, status)
    private = "" if supervisor is None else supervisor.kafka.bootstrap_servers
    return (
        directory.name,
        state if is_up else "DOWN",
        f"{status.ready_replicas if is_up and is_decided else 0}/{wanted}",
        f"{status.tasks.running if is_up and is_decided else 0}/{status.tasks.total}",
        format_epoch(status.assignment_epoch),
        record.app.spec.kafka.bootstrap_servers or private or "-",
        reason if is_up else "the local cluster does not run",
    )


def _by_hand_row(driver: HandDriver, kafka: str | None = None) -> tuple[str, ...]:
    """Tell of a driver that is not the control loop's what it says of itself."""
    answer = question(driver.http).answer() if driver.http else DriverAnswer()
    state = answer.state if answer.batches else "STARTING"
    return (driver.app, state, "-", str(len(answer.tasks)), "-", kafka or "-", str(driver))


def _print_workers(directory: AppDir) -> None:
    workers, tasks = [], []
    for path in directory.workers():
        worker = read_worker(path)
        if worker is None:
            continue
        pod, process = read_process(path)
        workers.append(
            (
                worker.name,
                str(process_state(pod, process)),
                str(process.pid if process is not None else "-"),
                format_epoch(worker.status.acknowledged_epoch),
                str(len(worker.status.tasks)),
                worker.status.error.message if worker.status.error is not None else "",
            )
        )
        tasks += [_task_row(task, worker.name) for task in worker.status.tasks]
    report = read_report(directory)
    if report.status.engine.name is not Engine.NATIVE:
        engine = report.status.engine
        batch = str(engine.last_batch) if engine.last_batch >= 0 else "-"
        rates = (str(engine.input_rows_per_second), str(engine.processed_rows_per_second))
        row = (engine.name.value, str(engine.generation), engine.driver or "-", batch, *rates)
        sys.stdout.write("\n")
        print_table(("ENGINE", "GENERATION", "DRIVER", "BATCH", "IN/S", "PROCESSED/S"), [row])
    if workers:
        sys.stdout.write("\n")
        print_table(("WORKER", "PROCESS", "PID", "EPOCH", "TASKS", "PROBLEM"), workers)
    if tasks:
        sys.stdout.write("\n")
        print_table(("TASK", "ROLE", "STATE", "WORKER", "SLOT", "LAG"), sorted(tasks))


def _task_row(task: TaskStatus, worker: str) -> tuple[str, ...]:
    """Tell of one task; of a copy how far it is behind, as its worker reported last."""
    if task.role is Role.ACTIVE:
        return str(task.task), "Active", str(task.state), worker, str(task.slot), "-"
    lag = "unknown" if task.lag >= LAG_UNKNOWN else f"at most {task.lag:,}"
    said = "caught up" if task.caught_up else lag
    return str(task.task), str(task.role), str(task.state), worker, "-", said


def _document(directory: AppDir) -> dict[str, object]:
    record, report = read_record(directory), read_report(directory)
    assert record is not None
    workers = [worker for path in directory.workers() if (worker := read_worker(path)) is not None]
    return {
        **record.app.to_dict(),
        "status": report.status.to_dict(),
        "workers": [worker.to_dict() for worker in workers],
    }
