"""The types of the DSL reach its users."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.slow
def test_a_type_checker_knows_keys_and_values_through_the_dsl() -> None:
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "tests/typing"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert checked.returncode == 0, checked.stdout


@pytest.mark.slow
@pytest.mark.parametrize("example", ["word_count_by_key", "word_count_processor"])
def test_a_type_checker_accepts_an_example(example: str) -> None:
    files = [f"examples/{example}/{name}.py" for name in ("app", "test_app")]
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--explicit-package-bases", *files],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert checked.returncode == 0, checked.stdout
