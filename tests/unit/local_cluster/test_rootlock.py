"""The lock of a supervisor, and what the second one says."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

from headwater.errors import InstanceRunningError
from headwater_operator.local.layout import ClusterDir
from headwater_operator.local.rootlock import RootLock

if TYPE_CHECKING:
    from pathlib import Path


def test_a_second_supervisor_names_the_process_that_holds_the_lock(tmp_path: Path) -> None:
    cluster = ClusterDir(tmp_path)
    lock = RootLock(cluster.lock)
    assert lock.acquire()

    second = subprocess.run(
        [sys.executable, "-m", "headwater_operator.local.supervisor", str(tmp_path)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert second.returncode == InstanceRunningError.exit_code
    assert f"process {os.getpid()} (" in second.stderr
    assert str(cluster.lock) in second.stderr
    assert f"locked by process {os.getpid()} " in cluster.supervisor_log.read_text()
