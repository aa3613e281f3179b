"""What the supervisor counts as a failure of a program that it owns."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from headwater_operator.local.owned import OwnedProgram

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

READS_ITS_INPUT = ("json.tool",)


def _run(program: OwnedProgram, end: Callable[[], None]) -> None:
    """Start it, have it end, hear of it."""
    program.start(READS_ITS_INPUT)
    assert program.pid is not None
    pid = program.pid
    end()
    program.ended(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


def test_each_early_end_that_nobody_asked_for_is_a_failure(tmp_path: Path) -> None:
    program = OwnedProgram("program", tmp_path / "log")

    _run(program, program.kill)
    _run(program, program.kill)

    assert program.failures == 2


def test_stopping_a_program_is_no_failure_of_it(tmp_path: Path) -> None:
    program = OwnedProgram("program", tmp_path / "log")
    _run(program, program.kill)

    _run(program, program.stop)

    assert program.failures == 1


def test_a_program_that_ends_with_its_input_as_asked_has_not_failed(tmp_path: Path) -> None:
    program = OwnedProgram("program", tmp_path / "log")

    _run(program, program.let_go)

    assert program.failures == 0
