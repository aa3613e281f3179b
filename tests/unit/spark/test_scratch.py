"""Directories of a backfill's tasks: one each, and none of a killed process stays."""

from __future__ import annotations

import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from headwater.spark.scratch import remove_abandoned, scratch_directory

if TYPE_CHECKING:
    from pathlib import Path

KILLED = """
import os, signal, sys
from pathlib import Path
from headwater.spark.scratch import scratch_directory
with scratch_directory(Path(sys.argv[1])) as path:
    (path / "store").mkdir()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_process_has_left_is_removed_by_the_next(tmp_path: Path) -> None:
    ended = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False)
    assert ended.returncode == -signal.SIGKILL
    (left,) = tmp_path.iterdir()
    assert (left / "store").is_dir()

    with scratch_directory(tmp_path) as path:
        assert list(tmp_path.iterdir()) == [path]

    assert list(tmp_path.iterdir()) == []


def test_what_somebody_holds_stays(tmp_path: Path) -> None:
    with scratch_directory(tmp_path) as first, scratch_directory(tmp_path) as second:
        remove_abandoned(tmp_path)

        assert set(tmp_path.iterdir()) == {first, second}


def test_what_was_not_made_here_stays(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    for directory in ("headwater-backfill-unlocked", "headwater-other", "elsewhere"):
        (tmp_path / directory / "store").mkdir(parents=True)
    (elsewhere / "lock").touch()
    (tmp_path / "headwater-backfill-link").symlink_to(elsewhere)
    (tmp_path / "headwater-backfill-file").touch()
    before = set(tmp_path.rglob("*"))

    remove_abandoned(tmp_path)

    assert set(tmp_path.rglob("*")) == before


def test_many_at_once_get_one_each(tmp_path: Path) -> None:
    def use(_number: int) -> bool:
        with scratch_directory(tmp_path) as path:
            (path / "mine").mkdir()
            remove_abandoned(tmp_path)
            return (path / "mine").is_dir() and (path / "lock").is_file()

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(use, range(200)))

    assert list(tmp_path.iterdir()) == []
