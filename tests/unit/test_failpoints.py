"""A fail point acts at the hit that was asked for, once, and is silent otherwise."""

from __future__ import annotations

import errno
import os
import select
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from headwater import failpoints

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def _disarmed() -> Iterator[None]:
    yield
    failpoints.disarm()


def test_a_point_that_is_not_armed_does_nothing() -> None:
    failpoints.arm("other=error")

    failpoints.hit("commit.after_transaction")


def test_a_point_acts_at_the_hit_asked_for_and_never_again() -> None:
    failpoints.arm("a=error@2; b=disk_full")

    failpoints.hit("a")
    with pytest.raises(failpoints.FailpointError, match="a"):
        failpoints.hit("a")
    failpoints.hit("a")
    with pytest.raises(OSError, match="No space left") as full:
        failpoints.hit("b")
    assert full.value.errno == errno.ENOSPC


def test_a_point_acts_from_the_hit_asked_for_on() -> None:
    failpoints.arm("a=error@2+")

    failpoints.hit("a")
    for _ in range(3):
        with pytest.raises(failpoints.FailpointError):
            failpoints.hit("a")


def test_a_point_with_a_file_acts_when_there_is_none_and_leaves_it_behind(tmp_path: Path) -> None:
    claim = tmp_path / "claim"
    failpoints.arm(f"a=error@2!{claim}")

    failpoints.hit("a")
    assert not claim.exists()
    with pytest.raises(failpoints.FailpointError):
        failpoints.hit("a")
    failpoints.hit("a")
    assert claim.read_text() == f"{os.getpid()}\n"

    claim.unlink()
    with pytest.raises(failpoints.FailpointError):
        failpoints.hit("a")


def test_arming_anew_forgets_what_was_armed() -> None:
    failpoints.arm("a=error")
    failpoints.arm("")

    failpoints.hit("a")


@pytest.mark.parametrize("text", ["a", "a=", "=kill", "a=explode", "a=kill@x", "a=kill@+1"])
def test_a_mistake_in_the_variable_is_named(text: str) -> None:
    with pytest.raises(ValueError, match="HEADWATER_FAILPOINTS"):
        failpoints.arm(text)


_STOPPED_IN_A_THREAD = """
import os, threading, select
from headwater import failpoints

def work():
    failpoints.hit("here")
    os.write(1, b"went on")

failpoints.arm("here=stop")
thread = threading.Thread(target=work)
thread.start()
while thread.is_alive():
    select.select([], [], [], 0.002)
"""


def test_a_thread_that_freezes_its_process_does_nothing_more() -> None:
    """A signal to the process as a whole is taken by another thread, some time later."""
    for _ in range(15):
        with subprocess.Popen(
            [sys.executable, "-c", _STOPPED_IN_A_THREAD], stdout=subprocess.PIPE
        ) as process:
            assert process.stdout is not None
            _, status = os.waitpid(process.pid, os.WUNTRACED)
            assert os.WIFSTOPPED(status)
            written, _, _ = select.select([process.stdout], [], [], 0)
            process.kill()
        assert written == []
