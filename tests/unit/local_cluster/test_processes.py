"""Processes are told apart, end with their owner, and are awaited with all they started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from tests.support.waiting import wait_for

from headwater_operator.local import files
from headwater_operator.local.keeper import PodKeeper
from headwater_operator.local.layout import WorkerDir
from headwater_operator.local.pods import Phase, Pod, PodProcess, Wish
from headwater_operator.local.processes import ProcessId, identify

if TYPE_CHECKING:
    from pathlib import Path

# Starts a child of its own, writes both process ids, and waits for its end.
pytestmark = pytest.mark.processes

FAMILY = """
import os, signal, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
open(sys.argv[1], "w").write(f"{os.getpid()} {child.pid}")
signal.pause()
"""


def alive(pid: int) -> bool:
    return identify(pid) is not None


@pytest.fixture
def directory(tmp_path: Path) -> WorkerDir:
    worker = WorkerDir(tmp_path / "workers" / "app-w-0")
    worker.path.mkdir(parents=True)
    return worker


def reap(keeper: PodKeeper) -> bool:
    """What the supervisor does when a child ends."""
    if keeper.pid is not None:
        pid, status = os.waitpid(keeper.pid, os.WNOHANG)
        if pid:
            keeper.main_ended(os.waitstatus_to_exitcode(status))
    return keeper.finish()


def test_a_process_is_not_taken_for_a_later_one_of_its_number() -> None:
    own = identify(os.getpid())

    assert own is not None
    assert own.is_alive()
    assert not ProcessId(pid=own.pid, started="another boot-1").is_alive()


def test_the_end_of_a_process_can_be_awaited() -> None:
    sleeper = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
    identity = identify(sleeper.pid)
    assert identity is not None

    assert not identity.wait(0.01)
    identity.signal(signal.SIGKILL)

    assert identity.wait(10)
    sleeper.wait()
    assert identity.wait(0)


def test_a_process_has_ended_when_all_it_started_has_ended(
    directory: WorkerDir, tmp_path: Path
) -> None:
    told = tmp_path / "told"
    command = (sys.executable, "-c", FAMILY, str(told))
    files.replace(directory.pod, Pod(attempt=1, command=command).to_dict())
    keeper = PodKeeper(directory)
    keeper.step()
    wait_for(lambda: told.exists() and told.read_text(), what="the family")
    main, child = map(int, told.read_text().split())

    os.kill(main, signal.SIGKILL)
    wait_for(lambda: reap(keeper), what="the end of the group", every_s=0.01)

    assert not alive(child)
    process = PodProcess.from_dict(files.read(directory.process), path="")
    assert (process.phase, process.exit_code) == (Phase.ENDED, -signal.SIGKILL)


def test_a_process_that_does_not_stop_is_killed_when_its_grace_is_over(
    directory: WorkerDir, tmp_path: Path
) -> None:
    told = tmp_path / "told"
    deaf = (
        "import signal, sys; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
        "open(sys.argv[1], 'w').write('x'); signal.pause()"
    )
    pod = Pod(attempt=1, command=(sys.executable, "-c", deaf, str(told)), grace_ms=50)
    files.replace(directory.pod, pod.to_dict())
    keeper = PodKeeper(directory)
    keeper.step()
    wait_for(told.exists, what="the deaf process")

    stopped = Pod(attempt=1, command=pod.command, grace_ms=50, wish=Wish.STOP)
    files.replace(directory.pod, stopped.to_dict())
    wait_for(lambda: keeper.step() or reap(keeper), what="its end", every_s=0.01)

    assert not keeper.is_running


def test_a_process_of_an_earlier_supervisor_is_ended_first(directory: WorkerDir) -> None:
    left = subprocess.Popen(
        [sys.executable, "-c", "import signal; signal.pause()"], start_new_session=True
    )
    identity = identify(left.pid)
    assert identity is not None
    record = PodProcess(attempt=3, phase=Phase.RUNNING, pid=identity.pid, started=identity.started)
    files.replace(directory.process, record.to_dict())

    keeper = PodKeeper(directory)

    assert not keeper.is_running
    assert left.wait(10) == -signal.SIGKILL


def test_the_supervisors_death_is_the_death_of_what_it_started(tmp_path: Path) -> None:
    told = tmp_path / "told"
    owner = subprocess.Popen(
        [
            sys.executable,
            "-c",
            (
                "import signal, subprocess, sys\n"
                "from headwater_operator.local.processes import spawn\n"
                "child = spawn([sys.executable, '-c', 'import signal; signal.pause()'],"
                " stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)\n"
                "open(sys.argv[1], 'w').write(f'{child.pid} ')\n"
                "signal.pause()"
            ),
            str(told),
        ]
    )
    child = int(wait_for(lambda: told.exists() and told.read_text(), what="the child"))

    owner.kill()
    owner.wait()

    wait_for(lambda: not alive(child), what="the child's end")
