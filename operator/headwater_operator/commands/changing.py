"""``scale``, ``pause`` and ``resume`` of a StreamApp on a cluster: each changes its specification.

The operator carries it out. The patch is made of the StreamApp as it was read: where somebody else
has written meanwhile, it is read and changed again, a few times.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any, Final

from headwater.errors import UserError
from headwater.model.streamapp import parse
from headwater_operator.kube.errors import ConflictError
from headwater_operator.wording import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from headwater.model.streamapp import StreamApp
    from headwater_operator.commands.places import OnCluster

_ATTEMPTS: Final = 10
_PAUSE_S: Final = 0.2


def scale(place: OnCluster, name: str, replicas: int | None, threads: int | None) -> int:
    """Ask for another number of workers, of StreamThreads in each, or both.

    Args:
        place: where the StreamApp is.
        name: its name.
        replicas: workers; ``None`` leaves their number as it is.
        threads: StreamThreads in each worker, likewise.

    Raises:
        SpecError: there is no such StreamApp, or a number is out of range.
        UserError: no number is given.
        KubeApiError: the API server refuses.
    """
    if replicas is None and threads is None:
        raise UserError("scale: give --replicas, --threads, or both")

    def scaled(wanted: StreamApp) -> StreamApp:
        wanted = wanted if replicas is None else wanted.with_replicas(replicas)
        return wanted if threads is None else wanted.with_threads(threads)

    before, after = _change(
        place, name, scaled, {"replicas": replicas, "threadsPerWorker": threads}
    )
    if replicas is not None:
        _say(f"{name}: {before.spec.replicas} -> {counted(after.spec.replicas, 'worker')}")
    if threads is not None:
        now = counted(after.spec.threads_per_worker, "StreamThread")
        _say(f"{name}: {before.spec.threads_per_worker} -> {now} per worker")
    return 0


def pause(place: OnCluster, name: str, *, paused: bool) -> int:
    """Ask for processing to pause, or to go on.

    Raises:
        SpecError: there is no such StreamApp, or Spark runs it.
        KubeApiError: the API server refuses.
    """
    before, _ = _change(place, name, lambda now: now.with_pause(paused=paused), {"paused": paused})
    if before.spec.paused == paused:
        _say(f"{name} {'is paused already' if paused else 'is not paused'}")
    else:
        _say(f"{name} {'pauses' if paused else 'goes on'}")
    return 0


def _change(
    place: OnCluster,
    name: str,
    changed: Callable[[StreamApp], StreamApp],
    fields: Mapping[str, Any],
) -> tuple[StreamApp, StreamApp]:
    """Write fields of the specification; return the StreamApp before and after.

    Args:
        place: where the StreamApp is.
        name: its name.
        changed: refuses what cannot be.
        fields: of ``spec``; ``None`` leaves one as it is.

    Raises:
        ConflictError: somebody else has written before each attempt.
    """
    for attempt in range(_ATTEMPTS):
        if attempt:
            time.sleep(_PAUSE_S)
        found = place.read(name)
        before = parse(found)
        after = changed(before)
        if before == after:
            return before, after
        operations = [
            {"op": "add", "path": f"/spec/{field}", "value": value}
            for field, value in fields.items()
            if value is not None
        ]
        try:
            place.app(name).change(found, operations)
        except ConflictError:
            continue  # somebody has written meanwhile
        return before, after
    raise ConflictError(
        f"somebody else has changed {name} before each of {_ATTEMPTS} attempts to change it: "
        "find out who writes it, and try again"
    )


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
