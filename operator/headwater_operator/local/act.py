"""Carries out one action on one machine: writes resources and pods for others to act on."""

from __future__ import annotations

import shutil
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from headwater.model.cluster import StreamWorker, WorkerSpec
from headwater_operator.actions import (
    Action,
    DeleteWorker,
    StartDriver,
    StartWorker,
    StopDriver,
    StopHow,
    StopWorker,
    WriteWorkerSpec,
    news_of,
)
from headwater_operator.local import files
from headwater_operator.local.driver import start_driver, stop_driver
from headwater_operator.local.endings import describe_end
from headwater_operator.local.observe import process_state, read_process
from headwater_operator.local.pods import Pod, Wish
from headwater_operator.overview.events import Event, EventKind

if TYPE_CHECKING:
    from headwater_operator.local.layout import AppDir, ClusterDir
    from headwater_operator.local.records import AppRecord


class OutdatedDecisionError(Exception):
    """Somebody else wrote what the action was to replace: decide afresh."""


class Actor:
    """Carries out the actions for one application.

    Args:
        cluster: where everything lies.
        record: what is wanted of the application.
    """

    def __init__(self, cluster: ClusterDir, record: AppRecord) -> None:
        self._cluster = cluster
        self._record = record
        self._app: AppDir = cluster.app(record.app.name)

    def carry_out(self, action: Action) -> Event | None:
        """Do what the action says; return what to tell people, ``None`` if it was done before.

        Raises:
            OutdatedDecisionError: the decision was made from something that is no longer so.
        """
        match action:
            case WriteWorkerSpec():
                return self._write_spec(action)
            case StartWorker():
                return self._start(action)
            case StopWorker():
                return self._stop(action)
            case DeleteWorker():
                return self._delete(action)
            case StartDriver():
                return start_driver(self._app, self._record, action)
            case StopDriver():
                return stop_driver(self._app, action)

    def _write_spec(self, action: WriteWorkerSpec) -> Event | None:
        path = self._app.worker(action.worker).spec
        before: list[WorkerSpec] = []

        def write(data: dict[str, object] | None) -> dict[str, object]:
            stored = None if data is None else StreamWorker.from_dict(data).spec
            if (0 if stored is None else stored.epoch) != action.replaces:
                raise OutdatedDecisionError(action.worker)
            before.append(stored or WorkerSpec(app=action.spec.app))
            return StreamWorker(name=action.worker, spec=action.spec).to_dict()

        files.update(path, write)
        return _event_of_spec(before[0], action)

    def _start(self, action: StartWorker) -> Event | None:
        directory = self._app.worker(action.worker)
        pod, process = read_process(directory)
        if not process_state(pod, process).is_proof_of_end:
            return None
        last = max(pod.attempt if pod else 0, process.attempt if process else 0)
        wanted = Pod(
            # The clock keeps it greater than that of a worker of this name that was deleted.
            attempt=max(last + 1, int(time.time() * 1000)),
            command=worker_command(self._cluster, self._record.app.name, action.worker),
            import_path=self._record.import_path,
        )
        files.replace(directory.pod, wanted.to_dict())
        if process is None or not (why := describe_end(process, directory.log)):
            return _event(EventKind.STARTED, action.worker, f"started: {action.reason}")
        return _event(EventKind.STARTED, action.worker, f"started again; it had ended: {why}")

    def _stop(self, action: StopWorker) -> Event | None:
        directory = self._app.worker(action.worker)
        pod, process = read_process(directory)
        if pod is None or process_state(pod, process).is_proof_of_end:
            return None
        wish = Wish.STOP if action.how is StopHow.GRACEFULLY else Wish.KILL
        if pod.wish in {wish, Wish.KILL}:
            return None
        files.replace(directory.pod, replace(pod, wish=wish).to_dict())
        verb = "told to stop" if wish is Wish.STOP else "killed"
        return _event(EventKind.STOPPED, action.worker, f"{verb}: {action.reason}")

    def _delete(self, action: DeleteWorker) -> Event | None:
        directory = self._app.worker(action.worker)
        stored = files.read(directory.spec)
        if stored is None:
            return None
        if StreamWorker.from_dict(stored).spec.epoch != action.replaces:
            raise OutdatedDecisionError(action.worker)
        # The spec goes last: without it the worker is not seen any more, whatever is left of it.
        if action.delete_state:
            shutil.rmtree(self._app.state(action.worker), ignore_errors=True)
        for path in (
            directory.lease,
            directory.status,
            directory.pod,
            directory.process,
            directory.spec,
        ):
            files.remove(path)
        state = " with its state" if action.delete_state else ""
        return _event(EventKind.DELETED, action.worker, f"deleted{state}: {action.reason}")


def worker_command(cluster: ClusterDir, app: str, worker: str) -> tuple[str, ...]:
    """The command that runs a worker on one machine."""
    return (
        *(sys.executable, "-m", "headwater.cli.main", "worker"),
        *("--cluster-dir", str(cluster.apps_root), "--app", app, "--name", worker),
        *("--state-dir", str(cluster.app(app).state(worker)), "--log-level", "INFO"),
    )


def _event_of_spec(before: WorkerSpec, action: WriteWorkerSpec) -> Event | None:
    """Tell what a spec changes; ``None`` if that is no news."""
    text = news_of(before, action)
    if text is None:
        return None
    granted = tuple(sorted(set(action.spec.active) - set(before.active)))
    revoked = tuple(sorted(set(before.active) - set(action.spec.active)))
    return Event(
        at_ms=_now_ms(),
        kind=EventKind.TASKS if granted or revoked else EventKind.DUTY,
        worker=action.worker,
        text=text,
        granted=granted,
        revoked=revoked,
    )


def _event(kind: EventKind, worker: str, text: str) -> Event:
    return Event(at_ms=_now_ms(), kind=kind, worker=worker, text=text)


def _now_ms() -> int:
    return int(time.time() * 1000)
