"""What works on a machine without the extra `spark`."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
for name in ("numpy", "pandas", "pyarrow", "pyspark"):
    sys.modules[name] = None
# All that `headwater backfill --abort` imports: see `headwater.cli.backfill.run`.
import headwater.spark.backfill, headwater.spark.cluster
"""


def test_a_backfill_is_given_up_without_spark() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=False
    )

    assert done.stderr == ""
