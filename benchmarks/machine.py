"""How much of the machine others take, and waiting until it is little."""

from __future__ import annotations

import os
import time
from pathlib import Path

_QUIET_CORES = 0.3
_LOOK_S = 3.0
_TICKS = os.sysconf("SC_CLK_TCK")


class Surroundings:
    """Looks at the CPU time that neither we, our children nor the broker used.

    Args:
        broker_pid: process id of the broker.
    """

    def __init__(self, broker_pid: int) -> None:
        self._broker_pid = broker_pid
        self._before = self._foreign_s()
        self._since = time.perf_counter()

    def others(self) -> float:
        """Return how many cores others kept busy on average since this was made."""
        elapsed = time.perf_counter() - self._since
        return max(0.0, (self._foreign_s() - self._before) / elapsed)

    def _foreign_s(self) -> float:
        own = os.times()
        ours = own.user + own.system + own.children_user + own.children_system
        return _busy_s() - ours - _process_s(self._broker_pid)


def wait_until_quiet(broker_pid: int, patience_s: float) -> None:
    """Wait until others leave the machine alone, for as long as patience lasts."""
    until = time.perf_counter() + patience_s
    while time.perf_counter() < until:
        around = Surroundings(broker_pid)
        time.sleep(_LOOK_S)
        if around.others() < _QUIET_CORES:
            return


def _busy_s() -> float:
    """All cores' time in programs and the kernel, without idling and waiting for disks."""
    user, nice, system, _idle, _wait, irq, soft_irq, *_ = (
        int(field) for field in Path("/proc/stat").read_text().splitlines()[0].split()[1:]
    )
    return (user + nice + system + irq + soft_irq) / _TICKS


def _process_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS
