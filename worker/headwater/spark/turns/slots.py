"""How many tasks an executor runs at a time. Pure but for the number of cores."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from typing import Protocol

    class Conf(Protocol):
        """Options of Spark."""

        def get(self, key: str, default: str) -> str | None:
            """Return one."""
            ...


_LOCAL: Final = re.compile(r"local(?:\[(\*|\d+)(?:,\d+)?\])?")
_LOCAL_CLUSTER: Final = re.compile(r"local-cluster\[\s*\d+\s*,\s*(\d+)\s*,\s*\d+\s*\]")


def slots_of(master: str, conf: Conf) -> int:
    """Return the number: each gets a task host of its own.

    Args:
        master: of Spark; a local one says how many.
        conf: names ``spark.executor.cores`` for any other.
    """
    if local := _LOCAL.fullmatch(master):
        cores = local[1] or "1"
        return (os.cpu_count() or 1) if cores == "*" else int(cores)
    if cluster := _LOCAL_CLUSTER.fullmatch(master):
        return int(cluster[1])
    return int(conf.get("spark.executor.cores", "1") or 1)
