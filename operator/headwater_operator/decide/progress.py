"""Whether a driver gets on. A healthy one ends a micro-batch every second, with records or without.

So the number of those it has done is its sign of progress. One that hangs is replaced: what it has
committed stays, and the next one goes on from there.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from headwater_operator.decide.limits import DRIVER_STALLED_MS

if TYPE_CHECKING:
    from headwater.model.streamapp_spark import SparkSpec
    from headwater_operator.decide.memory import DriverMemory
    from headwater_operator.decide.observed import DriverView


def heard_of(view: DriverView, known: DriverMemory, now_ms: int) -> DriverMemory:
    """Return the memory of a driver that has just told that it runs."""
    is_moving = not known.has_run or view.batches != known.batches
    return replace(
        known,
        heard_ms=now_ms,
        batches=view.batches,
        progress_ms=now_ms if is_moving else known.progress_ms,
    )


def is_stalled(view: DriverView, known: DriverMemory, spec: SparkSpec, now_ms: int) -> bool:
    """Whether a driver that runs has ended no micro-batch for longer than one can take."""
    return view.is_running and now_ms - known.progress_ms >= stalled_ms(spec)


def stalled_ms(spec: SparkSpec) -> int:
    """Return how long a healthy driver may take from the end of one micro-batch to the next.

    Ten minutes, for whatever Spark, the broker or a restore may need; two trigger intervals; and a
    millisecond for each offset that a micro-batch may take.
    """
    return DRIVER_STALLED_MS + 2 * spec.trigger_interval_ms + spec.max_offsets_per_trigger
