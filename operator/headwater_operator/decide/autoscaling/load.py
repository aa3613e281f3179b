"""What comes in and what a StreamThread can process, learned from one sample to the next.

A task's arrivals are what it processed between two samples and what its lag has grown by. What a
StreamThread can process is its rate while it is behind. Before any was behind, its rate divided by
the share of its time that it was busy stands for that, with a margin.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import exp
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headwater.ids import TaskId

_SMOOTHED_S: Final = 45.0
"""Arrivals are smoothed over about so long."""
_BEHIND_S: Final = 2.0
"""A StreamThread is behind while so many seconds of its work wait."""
_LEARNED: Final = 0.3
"""The weight of what a new sample says of the capacity."""
_LEAST_BUSY: Final = 0.05
"""Of a StreamThread that is busy less, its capacity is not guessed."""
_GUESS_MARGIN: Final = 0.8
"""The part of a guessed capacity that is counted on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What a worker's process tells of one of its active tasks.

    Attributes:
        thread: the StreamThread, with the process that it belongs to.
        processed: records since the StreamThread took the task.
        lag: input records that wait; ``None`` if that is not known.
        busy: share of its time that the StreamThread did not wait for records; ``None`` if that is
            not known.
    """

    thread: str
    processed: int
    lag: int | None
    busy: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What has been learned.

    Attributes:
        at_ms: when the last sample was taken; ``None`` before the first.
        readings: of that.
        arrivals: records per second that come in, by task, smoothed.
        processed: records per second that were processed between the last two samples.
        capacity: records per second that a StreamThread can process; 0 while it is not known.
        is_measured: whether any was seen behind; else the capacity is guessed.
    """

    at_ms: int | None = None
    readings: Mapping[TaskId, Reading] = field(default_factory=dict)
    arrivals: Mapping[TaskId, float] = field(default_factory=dict)
    processed: float = 0.0
    capacity: float = 0.0
    is_measured: bool = False

    @property
    def lag(self) -> int:
        """Input records that wait, of all tasks together, as far as they are known."""
        return sum(reading.lag or 0 for reading in self.readings.values())

    @property
    def arrival(self) -> float:
        """Records per second that come in, of all tasks together."""
        return sum(self.arrivals.values())


def learn(load: Load, readings: Mapping[TaskId, Reading], now_ms: int, *, is_calm: bool) -> Load:
    """Take in a sample.

    Args:
        load: what was learned before.
        readings: of all tasks that run, by task.
        now_ms: when they were taken.
        is_calm: nothing moves or is restored; else what a StreamThread manages is no measure.
    """
    if load.at_ms is None or now_ms <= load.at_ms:
        return replace(load, at_ms=now_ms, readings=readings)
    seconds = (now_ms - load.at_ms) / 1000
    pairs = {
        task: (before, reading)
        for task, reading in readings.items()
        if (before := load.readings.get(task)) is not None
        and before.thread == reading.thread
        and reading.processed >= before.processed
    }
    found = replace(
        load,
        at_ms=now_ms,
        readings=readings,
        arrivals=_arrivals(load, readings, pairs, seconds),
        processed=sum(now.processed - then.processed for then, now in pairs.values()) / seconds,
    )
    return _with_capacity(found, pairs, seconds) if is_calm else found


def _arrivals(
    load: Load,
    readings: Mapping[TaskId, Reading],
    pairs: Mapping[TaskId, tuple[Reading, Reading]],
    seconds: float,
) -> dict[TaskId, float]:
    weight = 1 - exp(-seconds / _SMOOTHED_S)
    arrivals = {task: rate for task, rate in load.arrivals.items() if task in readings}
    for task, (then, now) in pairs.items():
        if then.lag is None or now.lag is None:
            continue
        rate = max(0.0, (now.processed - then.processed + now.lag - then.lag) / seconds)
        known = arrivals.get(task, rate)
        arrivals[task] = known + weight * (rate - known)
    return arrivals


@dataclass(slots=True)
class _Thread:
    rate: float = 0.0
    lag_before: int = 0
    lag: int = 0
    busy: float | None = None

    @property
    def is_behind(self) -> bool:
        return self.rate > 0 and min(self.lag_before, self.lag) >= self.rate * _BEHIND_S


def _with_capacity(
    load: Load, pairs: Mapping[TaskId, tuple[Reading, Reading]], seconds: float
) -> Load:
    threads: dict[str, _Thread] = {}
    for then, now in pairs.values():
        thread = threads.setdefault(now.thread, _Thread())
        thread.rate += (now.processed - then.processed) / seconds
        thread.lag_before += then.lag or 0
        thread.lag += now.lag or 0
        thread.busy = now.busy
    if behind := [thread.rate for thread in threads.values() if thread.is_behind]:
        measured = sum(behind) / len(behind)
        known = load.capacity if load.is_measured else measured
        return replace(load, capacity=known + _LEARNED * (measured - known), is_measured=True)
    most = max((thread.rate for thread in threads.values()), default=0.0)
    if load.is_measured:
        return replace(load, capacity=max(load.capacity, most))
    guesses = [
        _GUESS_MARGIN * thread.rate / thread.busy
        for thread in threads.values()
        if thread.rate > 0 and thread.busy is not None and thread.busy >= _LEAST_BUSY
    ]
    if not guesses:
        return load
    return replace(load, capacity=max(sum(guesses) / len(guesses), most))
