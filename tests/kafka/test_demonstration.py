"""What ``make run`` shows, on less text."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[2]


def test_the_demonstration_kills_a_worker_and_finds_every_count_equal(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "examples.word_count.demo", "--plain", "--megabytes", "1"],
        cwd=ROOT,
        env={**os.environ, "HEADWATER_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )

    assert done.returncode == 0, (done.stdout, done.stderr)
    assert "counts equal" in done.stdout
    assert re.search(r"was killed with \d+ transactions? open", done.stdout)
    assert list(tmp_path.iterdir()) == []
