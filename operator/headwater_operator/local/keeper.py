"""The supervisor's half of a pod: starts a process as wished, awaits the end of all it started."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from headwater.errors import EnvironmentProblemError, SpecError
from headwater_operator.local import files
from headwater_operator.local.pods import Phase, Pod, PodProcess, Step, Wish, next_step
from headwater_operator.local.processes import ProcessId, identify, kill_group, spawn

if TYPE_CHECKING:
    from pathlib import Path

    from headwater_operator.local.layout import WorkerDir

log = logging.getLogger(__name__)

_LOG_KEPT_BYTES: Final = 20_000_000
_LEFTOVER_S: Final = 5.0


class PodKeeper:
    """Keeps one worker's process as its pod says.

    Args:
        directory: the worker's resources.

    Raises:
        EnvironmentProblemError: a process of an earlier supervisor cannot be ended.
    """

    def __init__(self, directory: WorkerDir) -> None:
        self.directory = directory
        """The worker's resources."""
        self._pod: Pod | None = None
        self._pod_stamp: tuple[int, int] | None = None
        self._process = _left_behind(directory)
        self._popen: subprocess.Popen[bytes] | None = None
        self._main_ended = False
        self._exit_code = 0
        self._stopping_since: float | None = None

    @property
    def is_running(self) -> bool:
        """Whether anything of the process group may still run."""
        return self._process is not None and self._process.phase is Phase.RUNNING

    @property
    def is_forgotten(self) -> bool:
        """Whether nothing runs and nothing is wished for any more."""
        return not self.is_running and self._pod is None

    @property
    def pid(self) -> int | None:
        """Number of the main process that has not been awaited yet."""
        return None if self._popen is None or self._main_ended else self._popen.pid

    def step(self) -> None:
        """Do the next thing that the pod asks for, if there is one."""
        self._read_pod()
        self._do(next_step(self._pod, self._process, stopping_ms=self._stopping_ms()))

    def stop(self, *, grace_ms: int) -> None:
        """Have the process terminate, whatever the pod says; kill it when its grace is over."""
        if self.is_running:
            assert self._process is not None
            pod = Pod(attempt=self._process.attempt, wish=Wish.STOP, grace_ms=grace_ms)
            self._do(next_step(pod, self._process, stopping_ms=self._stopping_ms()))

    def kill(self) -> None:
        """Kill the whole group; its end is still to be awaited."""
        if self.is_running:
            self._do(Step.KILL)

    def main_ended(self, exit_code: int) -> None:
        """Hear that the main process was awaited."""
        assert self._popen is not None
        self._popen.returncode = exit_code
        self._main_ended = True
        self._exit_code = exit_code

    def finish(self) -> bool:
        """See to the rest of the group after its leader's end; return whether all has ended now."""
        if not self.is_running or not self._main_ended:
            return False
        assert self._popen is not None
        assert self._process is not None
        if not kill_group(self._popen.pid):
            return False
        name, pid = self.directory.name, self._popen.pid
        log.info("%s: process %d ended with %d", name, pid, self._exit_code)
        self._record(replace(self._process, phase=Phase.ENDED, exit_code=self._exit_code))
        self._popen, self._main_ended, self._stopping_since = None, False, None
        return True

    def _read_pod(self) -> None:
        try:
            status = self.directory.pod.stat()
        except FileNotFoundError:
            self._pod, self._pod_stamp = None, None
            return
        stamp = (status.st_ino, status.st_mtime_ns)
        if stamp == self._pod_stamp:
            return
        try:
            data = files.read(self.directory.pod)
            if data is not None:
                self._pod = Pod.from_dict(data, path=str(self.directory.pod))
        except SpecError as error:
            # What was wished before stays: a damaged file is no reason to stop a worker.
            log.error("%s", error)  # noqa: TRY400  # the message says all
        self._pod_stamp = stamp

    def _do(self, step: Step) -> None:
        match step:
            case Step.NOTHING:
                return
            case Step.START:
                self._start()
            case Step.NEVER_START:
                assert self._pod is not None
                never = PodProcess(attempt=self._pod.attempt, phase=Phase.ENDED, pid=0, started="")
                self._record(never)
            case Step.TERMINATE:
                if self.pid is not None:
                    log.info("%s: terminating process %d", self.directory.name, self.pid)
                    # It is our child and not awaited yet: the number is still its own.
                    os.kill(self.pid, signal.SIGTERM)
                self._stopping_since = time.monotonic()
            case Step.KILL:
                if self._popen is not None:
                    kill_group(self._popen.pid)

    def _start(self) -> None:
        pod = self._pod
        assert pod is not None
        _rotate(self.directory.log)
        paths = [*pod.import_path, *filter(None, [os.environ.get("PYTHONPATH")])]
        with self.directory.log.open("ab") as log_file:
            self._popen = spawn(
                pod.command,
                stdin=subprocess.DEVNULL,
                stdout=log_file,
                stderr=log_file,
                environment={"PYTHONPATH": os.pathsep.join(paths), "PYTHONUNBUFFERED": "1"},
            )
        self._main_ended, self._stopping_since = False, None
        identity = identify(self._popen.pid)
        log.info("%s: attempt %d is process %d", self.directory.name, pod.attempt, self._popen.pid)
        self._record(
            PodProcess(
                attempt=pod.attempt,
                phase=Phase.RUNNING,
                pid=self._popen.pid,
                started=identity.started if identity is not None else "",
            )
        )

    def _record(self, process: PodProcess) -> None:
        self._process = process
        files.replace(self.directory.process, process.to_dict())

    def _stopping_ms(self) -> int | None:
        if self._stopping_since is None:
            return None
        return int((time.monotonic() - self._stopping_since) * 1000)


def _left_behind(directory: WorkerDir) -> PodProcess | None:
    """Read the process of an earlier supervisor and make sure that it ended with its owner."""
    try:
        data = files.read(directory.process)
        if data is None:
            return None
        process = PodProcess.from_dict(data, path=str(directory.process))
    except SpecError as error:
        log.error("%s", error)  # noqa: TRY400  # the message says all
        return None
    if process.phase is Phase.ENDED:
        return process
    left = ProcessId(pid=process.pid, started=process.started)
    if left.is_alive():
        kill_group(process.pid)
        left.signal(signal.SIGKILL)
        if not left.wait(_LEFTOVER_S):
            raise EnvironmentProblemError(
                f"process {process.pid} of an earlier run of worker {directory.name} does not end; "
                "end it yourself, then try again"
            )
    ended = replace(process, phase=Phase.ENDED, exit_code=-signal.SIGKILL)
    files.replace(directory.process, ended.to_dict())
    return ended


def _rotate(path: Path) -> None:
    if path.exists() and path.stat().st_size > _LOG_KEPT_BYTES:
        path.replace(path.with_suffix(".log.1"))
