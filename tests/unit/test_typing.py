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
