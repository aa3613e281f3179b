"""``headwater logs``: what the workers of an application print."""

from __future__ import annotations

import sys
import time
from typing import IO, TYPE_CHECKING, Final

from headwater.errors import SpecError
from headwater_operator.local import files
from headwater_operator.local.control import require

if TYPE_CHECKING:
    from headwater_operator.local.layout import ClusterDir, WorkerDir

_LOOK_S: Final = 0.2


def show(cluster: ClusterDir, app: str, *, worker: str | None, follow: bool, lines: int) -> int:
    """Print the last lines of the workers' logs, and go on with what is added if asked to.

    Raises:
        SpecError: there is no such application or worker.
    """
    require(cluster, app)
    workers = _chosen(cluster, app, worker)
    prefixes = {
        directory.name: f"{directory.name} | " if len(workers) > 1 else "" for directory in workers
    }
    if not workers:
        sys.stdout.write(f"no worker of {app} has printed anything yet\n")
    positions: dict[str, int] = {}
    for directory in workers:
        positions[directory.name] = directory.log.stat().st_size if directory.log.exists() else 0
        for line in files.tail(directory.log, lines).splitlines():
            sys.stdout.write(f"{prefixes[directory.name]}{line}\n")
    sys.stdout.flush()
    while follow:
        # Workers that are added later are shown as well.
        for directory in _chosen(cluster, app, worker):
            prefix = prefixes.setdefault(directory.name, f"{directory.name} | ")
            positions[directory.name] = _copy(
                directory, positions.get(directory.name, 0), prefix, sys.stdout
            )
        sys.stdout.flush()
        time.sleep(_LOOK_S)
    return 0


def _chosen(cluster: ClusterDir, app: str, worker: str | None) -> list[WorkerDir]:
    workers = [directory for directory in cluster.app(app).programs() if directory.log.exists()]
    if worker is None:
        return workers
    chosen = [w for w in workers if w.name == worker or w.name.rpartition("-")[2] == worker]
    if not chosen:
        known = ", ".join(w.name for w in workers) or "none"
        raise SpecError(f"{app} has no worker {worker!r} with a log (known: {known})")
    return chosen


def _copy(directory: WorkerDir, position: int, prefix: str, output: IO[str]) -> int:
    """Copy the whole lines behind ``position``; return the position behind them."""
    with directory.log.open("rb") as file:
        size = file.seek(0, 2)
        # A shorter file is another one: the old was put aside.
        file.seek(position if position <= size else 0)
        start = file.tell()
        whole, newline, _ = file.read().rpartition(b"\n")
    for line in whole.decode(errors="replace").split("\n") if newline else []:
        output.write(f"{prefix}{line}\n")
    return start + len(whole) + len(newline)
