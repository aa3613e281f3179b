"""Children live no longer than their parent and say why they ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest
from tests.support.local_cluster import is_gone
from tests.support.waiting import wait_for

from headwater.native.messages import Failed
from headwater.native.process import ChildProcess

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.processes

TARGETS = "tests.support.children"


@contextmanager
def child(target: str, settings: object = None) -> Iterator[ChildProcess]:
    started = ChildProcess(f"{TARGETS}:{target}", settings, name="child")
    try:
        yield started
    finally:
        started.close()


def test_values_travel_both_ways_and_a_returning_child_exits_with_0() -> None:
    with child("echo", {"slot": 3}) as echo:
        assert echo.receive(30) == [{"slot": 3}]

        echo.send((1, None))
        assert echo.receive(30) == [(1, None)]

        echo.send("stop")
        assert echo.wait(30) == 0
        assert echo.receive(1) == []
        assert echo.gone
        assert not echo.send("too late")


@pytest.mark.parametrize(
    ("target", "failure", "exit_code"),
    [
        (
            "user_mistake",
            Failed(error="ConfigError", message="poll.ms must be a number: write poll.ms: 100"),
            2,
        ),
        (
            "fenced",
            Failed(error="FencedError", message="another producer took app-w-0", fenced=True),
            5,
        ),
    ],
)
def test_an_error_of_ours_arrives_as_a_message_without_traceback(
    target: str, failure: Failed, exit_code: int
) -> None:
    with child(target) as ending:
        assert ending.receive(30) == [failure]
        assert ending.wait(30) == exit_code


@pytest.mark.parametrize(
    ("target", "shown"),
    [("our_mistake", "RuntimeError: broken inside"), ("failing_user_code", "in failing_user_code")],
)
def test_a_traceback_is_kept_where_code_must_be_fixed(target: str, shown: str) -> None:
    with child(target) as ending:
        [failure] = ending.receive(30)

        assert shown in failure.traceback


def test_a_killed_parent_takes_its_children_along() -> None:
    with child("parent_of_deaf") as parent:
        [pid] = parent.receive(60)
        grandchild = psutil.Process(pid)
        assert not is_gone(grandchild)

        os.kill(parent.pid, signal.SIGKILL)

        wait_for(lambda: is_gone(grandchild), what="the end of the grandchild")


def test_a_child_started_from_a_short_lived_thread_lives_on() -> None:
    started: list[ChildProcess] = []
    thread = threading.Thread(
        target=lambda: started.append(ChildProcess(f"{TARGETS}:echo", 1, name="child"))
    )
    thread.start()
    thread.join()
    [echo] = started
    try:
        assert echo.receive(30) == [1]
        echo.send(2)
        assert echo.receive(30) == [2]
    finally:
        echo.close()


def test_a_script_without_a_main_guard_is_not_run_again(tmp_path: Path) -> None:
    script = tmp_path / "plain.py"
    script.write_text(
        "from headwater.native.process import ChildProcess\n"
        "print('script runs', flush=True)\n"
        f"child = ChildProcess('{TARGETS}:echo', 5, name='child')\n"
        "print(child.receive(30))\n"
        "child.close()\n"
    )

    done = subprocess.run(
        [sys.executable, str(script)],
        env={**os.environ, "PYTHONPATH": str(Path.cwd())},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    assert done.stdout.splitlines() == ["script runs", "[5]"]


def test_a_child_whose_native_call_holds_pythons_lock_shows_its_stacks_all_the_same(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with child("holds_the_lock") as stuck:
        assert stuck.receive(30) == ["holding"]

        stuck.show_stacks()

        written: list[str] = []

        def is_shown() -> bool:
            written.append(capfd.readouterr().err)
            return "in holds_the_lock" in "".join(written)

        wait_for(is_shown, what="the stacks")
        assert stuck.exit_code is None
        assert stuck.kill() == -signal.SIGKILL
    stuck.show_stacks()  # nothing happens once it is gone
