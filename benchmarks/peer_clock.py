"""The clock of the programs that other systems run in environments of their own.

They are run by their paths, so this file lies beside them; nothing of this project is imported.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Clock:
    """Counts records, time and CPU time of a run.

    Args:
        cpu_s: tells the CPU time so far, in seconds; of this process, if it is not given.

    Attributes:
        seen: records so far, for who notes them.
    """

    def __init__(self, cpu_s: Callable[[], float] = time.process_time) -> None:
        self.seen = 0
        self._cpu_s = cpu_s
        self._started = self._cpu = 0.0

    def start(self) -> None:
        """Count from now."""
        self._started, self._cpu = time.perf_counter(), self._cpu_s()

    def note(self) -> None:
        """Count a record; the first starts the clock."""
        if not self.seen:
            self.start()
        self.seen += 1

    def report(self, records: int) -> None:
        """Print the line that ``systems.json_of`` waits for: all is written and closed."""
        result = {
            "records": records,
            "seconds_closed": round(time.perf_counter() - self._started, 3),
            "cpu_seconds": round(self._cpu_s() - self._cpu, 3),
        }
        print(json.dumps(result), flush=True)
