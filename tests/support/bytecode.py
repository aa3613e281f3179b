"""Compiled Python, kept where a test run is told to write none beside the sources.

Containers often set ``PYTHONDONTWRITEBYTECODE``. Each of the thousands of processes of a test run
would then compile all that it imports: a StreamThread takes 0.50 s of the processor instead of
0.34 s, pandas and pyarrow 1.7 s instead of 0.5 s.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

KEPT: Final = {
    "PYTHONDONTWRITEBYTECODE": "",
    "PYTHONPYCACHEPREFIX": str(Path(sys.prefix) / "bytecode"),
}
"""The environment of a process whose imports are compiled once: beside what they are of."""
