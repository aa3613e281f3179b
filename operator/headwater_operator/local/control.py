"""What a person can do to a local cluster: apply, scale, stop, reset; the commands only add words.

Everything is written as a wish into an ``app.json``; the control loop carries it out. Starting a
supervisor is the one thing done here directly.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from headwater.errors import EnvironmentProblemError, HeadwaterError, ResetError, SpecError
from headwater.model.streamapp import Retention
from headwater.privatefiles import own_directory
from headwater_operator.decide.observed import RESET_NOW, Intent
from headwater_operator.local import files
from headwater_operator.local.observe import read_record
from headwater_operator.local.records import AppRecord, ClusterPhase, SupervisorRecord
from headwater_operator.local.rootlock import RootLock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from headwater.model.resetting import Beginning
    from headwater.model.streamapp import StreamApp
    from headwater_operator.local.layout import ClusterDir

_START_S: Final = 60.0
_POLL_S: Final = 0.05


class Supervision:
    """A supervisor that we started and that ends with us.

    Args:
        process: the supervisor.
    """

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    @property
    def pid(self) -> int:
        """The supervisor's process id."""
        return self._process.pid

    def is_running(self) -> bool:
        """Whether it still runs."""
        return self._process.poll() is None

    def stop(self) -> None:
        """Ask it to stop everything in order; :meth:`wait` for the end."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError, ValueError):
            self._process.stdin.write(b"stop\n")
            self._process.stdin.flush()

    def kill(self) -> None:
        """Have everything killed at once."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()

    def wait(self, timeout_s: float) -> bool:
        """Wait for its end; return whether it has ended."""
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return False
        return True


def running_supervisor(cluster: ClusterDir) -> SupervisorRecord | None:
    """The supervisor that runs this cluster now; ``None`` if none does."""
    if not RootLock(cluster.lock).is_held():
        return None
    record = last_supervisor(cluster)
    if record is None or record.phase is ClusterPhase.STOPPED:
        return None
    return record if record.identity.is_alive() else None


def last_supervisor(cluster: ClusterDir) -> SupervisorRecord | None:
    """The supervisor that runs this cluster, or ran it last, as it described itself."""
    data = files.read(cluster.supervisor)
    return None if data is None else SupervisorRecord.from_dict(data)


def start_supervisor(cluster: ClusterDir, *, detached: bool) -> Supervision:
    """Start a supervisor and return when it has taken charge.

    Args:
        cluster: its cluster.
        detached: it lives on without us; otherwise it ends with us at the latest.

    Raises:
        EnvironmentProblemError: it did not start.
    """
    own_directory(cluster.root)
    command = [sys.executable, "-m", "headwater_operator.local.supervisor", str(cluster.root)]
    with files.private_log(cluster.supervisor_log) as log_file:
        process = subprocess.Popen(
            [*command, "--detached"] if detached else command,
            stdin=subprocess.DEVNULL if detached else subprocess.PIPE,
            stdout=log_file,
            stderr=log_file,
            start_new_session=True,
        )
    deadline = time.monotonic() + _START_S
    while (record := running_supervisor(cluster)) is None or record.pid != process.pid:
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            process.wait()
            raise EnvironmentProblemError(
                f"the local cluster in {cluster.root} did not start; its log ends with:\n"
                f"{files.tail(cluster.supervisor_log)}"
            )
        time.sleep(_POLL_S)
    if detached:
        process.returncode = 0  # it lives on: nobody here waits for it
    return Supervision(process)


def stop_supervisor(record: SupervisorRecord, *, timeout_s: float) -> bool:
    """Ask a supervisor that others started to stop everything in order; return whether it has."""
    record.identity.signal(signal.SIGTERM)
    return record.identity.wait(timeout_s)


def apply(cluster: ClusterDir, app: StreamApp, *, import_path: Iterable[Path]) -> AppRecord:
    """Ask for an application to run as described, from now on.

    Raises:
        SpecError: it contradicts what is there: another application id, or one that another
            application has.
    """
    for other in cluster.apps():
        record = read_record(other)
        if record is None:
            continue
        if other.name == app.name and record.app.application_id != app.application_id:
            raise SpecError(
                f"spec.applicationId: {app.name} has run as {record.app.application_id!r}, and its "
                "offsets and changelogs bear that name; use another metadata.name, or first: "
                f"headwater down {app.name} --delete"
            )
        if other.name != app.name and record.app.application_id == app.application_id:
            raise SpecError(
                f"spec.applicationId: {app.application_id!r} is that of {other.name}; two "
                "applications of one id would take each other's offsets and topics: choose another"
            )
    paths = tuple(str(path) for path in import_path)

    def applied(data: dict[str, object] | None) -> dict[str, object]:
        before = AppRecord(app=app, applied=0) if data is None else AppRecord.from_dict(data)
        return replace(before.asked(Intent.RUN), app=app, import_path=paths).to_dict()

    data = files.update(cluster.app(app.name).app, applied)
    assert data is not None
    return AppRecord.from_dict(data)


def require(cluster: ClusterDir, name: str) -> AppRecord:
    """Return what is wanted of an application.

    Raises:
        SpecError: there is no such application here.
    """
    record = read_record(cluster.app(name))
    if record is not None:
        return record
    known = ", ".join(app.name for app in cluster.apps()) or "none"
    raise SpecError(
        f"there is no application {name!r} in {cluster.root} (known: {known}); "
        "start it with: headwater up -f FILE"
    )


def change_app(
    cluster: ClusterDir, name: str, changed: Callable[[StreamApp], StreamApp]
) -> AppRecord:
    """Ask for an application as ``changed`` makes it from what is wanted now.

    Raises:
        SpecError: there is no such application, or ``changed`` refuses.
    """
    require(cluster, name)
    return change(cluster, name, lambda record: replace(record, app=changed(record.app)))


def want(cluster: ClusterDir, name: str, intent: Intent, *, reset_to: str = RESET_NOW) -> AppRecord:
    """Change what is wanted of an application as a whole.

    Args:
        cluster: its cluster.
        name: of the application.
        intent: what is wanted.
        reset_to: where it begins after a reset.

    Raises:
        SpecError: there is no such application.
    """
    require(cluster, name)
    return change(cluster, name, lambda record: record.asked(intent, reset_to=reset_to))


def leave_stopped(cluster: ClusterDir, *, but: Iterable[str]) -> list[str]:
    """Have all other applications stay stopped when a supervisor starts.

    Returns:
        those that ran when the last one ended.
    """
    wanted = set(but)
    stopped = []
    for app in cluster.apps():
        record = read_record(app)
        if app.name not in wanted and record is not None and record.intent is Intent.RUN:
            want(cluster, app.name, Intent.STOP)
            stopped.append(app.name)
    return stopped


def fetch_private_kafka() -> None:
    """Have the private Kafka's jars and Java at hand, showing the first download on this terminal.

    Raises:
        EnvironmentProblemError: they cannot be had.
    """
    done = subprocess.run(
        [sys.executable, "-m", "headwater.cli.main", "kafka", "fetch"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        check=False,
    )
    if done.returncode != 0:
        raise EnvironmentProblemError(
            "the private Kafka cannot be had (see above); "
            "or name a broker in spec.kafka.bootstrapServers"
        )


def show_reset_plan(cluster: ClusterDir, name: str, to: Beginning) -> None:
    """Print which offsets a reset would commit: a worker's program asks Kafka.

    Raises:
        HeadwaterError: the offsets cannot be chosen, or Kafka does not answer.
    """
    sys.stdout.flush()
    program = [sys.executable, "-m", "headwater.cli.resetplan", str(cluster.root), name, str(to)]
    done = subprocess.run(program, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
    if done.returncode == 0:
        return
    said = done.stderr.decode(errors="replace").strip().rpartition("error: ")[2]
    kind = {
        ResetError.exit_code: ResetError,
        EnvironmentProblemError.exit_code: EnvironmentProblemError,
    }.get(done.returncode, HeadwaterError)
    raise kind(said or f"the offsets cannot be looked up (exit code {done.returncode})")


def change(cluster: ClusterDir, name: str, make: Callable[[AppRecord], AppRecord]) -> AppRecord:
    """Replace the record of an application that is known."""

    def changed(data: dict[str, object] | None) -> dict[str, object] | None:
        if data is None:
            return None
        return make(AppRecord.from_dict(data)).to_dict()

    data = files.update(cluster.app(name).app, changed)
    assert data is not None, name
    return AppRecord.from_dict(data)


def forget(cluster: ClusterDir, name: str) -> None:
    """Remove what is known of an application that does not run, and its state if it says so."""
    directory = cluster.app(name)
    record = require(cluster, name)
    if record.app.spec.state.retention.when_deleted is Retention.DELETE:
        shutil.rmtree(directory.path)
        return
    shutil.rmtree(directory.path / "workers", ignore_errors=True)
    shutil.rmtree(directory.driver.path, ignore_errors=True)
    for path in (directory.status, directory.streamapp, directory.events, directory.app):
        files.remove(path)
