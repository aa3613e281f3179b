"""The types of the DSL reach its users, by two type checkers."""

from __future__ import annotations

import contextlib
import os
import runpy
import subprocess
import sys
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any

import pytest

import headwater
from headwater.errors import TopologyError

if TYPE_CHECKING:
    from types import FrameType

ROOT = Path(__file__).parents[2]
DRAWN = (
    "StreamsBuilder",
    "KStream",
    "KTable",
    "GlobalKTable",
    "BranchedKStream",
    "KGroupedStream",
    "KGroupedTable",
    "CogroupedKStream",
    "TimeWindowedKStream",
    "SlidingWindowedKStream",
    "SessionWindowedKStream",
    "TimeWindowedCogroupedKStream",
    "SessionWindowedCogroupedKStream",
)
"""The classes on which a topology is drawn."""
CALLED_BY_JOINS = {("GlobalKTable", "joined_with")}


def check(*command: str) -> None:
    checked = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"},
    )

    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.slow
def test_mypy_knows_keys_and_values_through_the_dsl_and_accepts_the_examples() -> None:
    check("mypy", "--strict", "--explicit-package-bases", "tests/typing", "examples")


@pytest.mark.slow
def test_pyright_knows_keys_and_values_through_the_dsl_and_accepts_the_examples() -> None:
    check("pyright")


def test_every_operator_is_seen_by_the_type_checkers() -> None:
    offered = {
        (name, method)
        for name in DRAWN
        for method in dir(getattr(headwater, name))
        if not method.startswith("_")
        and isinstance(getattr(getattr(headwater, name), method), FunctionType)
    }
    seen: set[tuple[str, str]] = set()

    def note(frame: FrameType, event: str, _argument: Any) -> None:
        if event == "call" and "self" in frame.f_locals:
            seen.add((type(frame.f_locals["self"]).__name__, frame.f_code.co_name))

    for module in sorted((ROOT / "tests" / "typing").glob("*.py")):
        before = sys.getprofile()
        sys.setprofile(note)
        # What a module has a checker refuse, it may refuse, too.
        with contextlib.suppress(TopologyError, TypeError, ValueError):
            runpy.run_path(str(module))
        sys.setprofile(before)

    assert offered - seen - CALLED_BY_JOINS == set()
