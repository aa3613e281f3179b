"""How many workers there are to be: one sample in, the number and the reason out.

    learn     the sample ─► what comes in, what a StreamThread can process      (``load``)
    size      ─► workers that would do now, with a margin for up and one for down (``sizing``)
    wait      ─► the worst of these during a window                            (``windows``)
    advise    ─► the number that counts from now on, what is desired, and why

A number counts only while the assignment is settled: a warm-up can follow a change only then, and
what is measured while tasks move is no measure.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from headwater_operator.decide.autoscaling import sizing
from headwater_operator.decide.autoscaling.load import Load, learn
from headwater_operator.decide.autoscaling.windows import Window
from headwater_operator.wording import counted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headwater.ids import TaskId
    from headwater.model.streamapp_autoscaling import AutoscalingSpec
    from headwater_operator.decide.autoscaling.load import Reading
    from headwater_operator.decide.autoscaling.sizing import Shape

_SAMPLES_MS: Final = 10_000
_LEAST_SAMPLES_MS: Final = 1_000
_SAMPLES_OF_A_WINDOW: Final = 6
_UNREAD_SAMPLES: Final = 3
_SHOWN: Final = 3
_NOTHING: Final = 0.5
"""Fewer records per second are none."""


class Why(StrEnum):
    """What a verdict is about: while it stays the same, its sentence is not written anew.

    The values are those of the label ``reason`` of ``headwater_operator_streamapp_autoscaling``.
    """

    BOUNDS = "OutOfBounds"
    UNSETTLED = "Unsettled"
    COLD = "StateInMemory"
    UNREAD = "LagUnknown"
    LEARNING = "Measuring"
    UP = "TooFew"
    DOWN = "TooMany"
    UP_SOON = "TooFewForNow"
    DOWN_SOON = "TooManyForNow"
    GONE_BEFORE = "CatchesUpSooner"
    AT_MOST = "AtMost"
    HOT = "HotTask"
    RIGHT = "Right"


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What one decision about the number of workers looks at.

    Attributes:
        replicas: how many count now.
        shape: what tasks are shared out among.
        readings: of every task that runs; ``None`` if nobody was asked just now.
        unread: why the lag cannot be read, if it was asked for; empty if it can.
        unsettled: why the assignment is not what it is to be; empty if it is.
        cold: tasks whose state no copy can follow.
        bounds: the least and the greatest number of workers now.
        is_advice: what is decided is not carried out.
    """

    replicas: int
    shape: Shape
    readings: Mapping[TaskId, Reading] | None
    unread: str = ""
    unsettled: str = ""
    cold: tuple[TaskId, ...] = ()
    bounds: tuple[int, int]
    is_advice: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingMemory:
    """What one run of the control loop remembers; empty at its start, which costs a window.

    Attributes:
        load: what was learned.
        asked_ms: when workers were asked last.
        read_ms: when all of them told their lags last.
        ups: workers that would do, with the margin for adding some.
        downs: workers that would do, with the margin for taking some away.
        why: what the last verdict was about.
        told: what the one was about that was written last.
        told_ms: when that was.
    """

    load: Load = field(default_factory=Load)
    asked_ms: int | None = None
    read_ms: int | None = None
    ups: Window = field(default_factory=Window)
    downs: Window = field(default_factory=Window)
    why: Why | None = None
    told: Why | None = None
    told_ms: int | None = None

    @property
    def word(self) -> str:
        """What was told last, in a word."""
        return (self.told or Why.LEARNING).value


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """How many workers there are to be.

    Attributes:
        replicas: how many count from now on, as far as the mode lets that be.
        why: what it is about.
        reason: a sentence.
    """

    replicas: int
    why: Why
    reason: str


def sample_every_ms(policy: AutoscalingSpec) -> int:
    """Return how often workers are asked: several times in each window, and not all the time."""
    behavior = policy.behavior
    shortest = min(
        behavior.scale_up.stabilization_window_ms, behavior.scale_down.stabilization_window_ms
    )
    return min(_SAMPLES_MS, max(_LEAST_SAMPLES_MS, shortest // _SAMPLES_OF_A_WINDOW))


def is_sample_due(policy: AutoscalingSpec, memory: ScalingMemory, now_ms: int) -> bool:
    """Whether workers are to be asked for this decision."""
    return memory.asked_ms is None or now_ms - memory.asked_ms >= sample_every_ms(policy)


def advise(
    policy: AutoscalingSpec, seen: Seen, memory: ScalingMemory, now_ms: int
) -> tuple[Verdict, ScalingMemory]:
    """Decide how many workers there are to be.

    Args:
        policy: ``spec.autoscaling``.
        seen: what was seen just now.
        memory: what the last call has returned; ``ScalingMemory()`` for the first of a run.
        now_ms: of a clock that never goes back.
    """
    memory = _remember(policy, seen, memory, now_ms)
    verdict = _bounded(seen) or _held(policy, seen, memory, now_ms)
    verdict = verdict or _sized(policy, seen, memory, now_ms)
    is_move = verdict.replicas != seen.replicas and not seen.is_advice
    if is_move or verdict.why is Why.UNSETTLED:
        # What was right before says nothing about the time after.
        memory = replace(memory, ups=Window(), downs=Window())
    return verdict, replace(memory, why=verdict.why)


def _remember(
    policy: AutoscalingSpec, seen: Seen, memory: ScalingMemory, now_ms: int
) -> ScalingMemory:
    if seen.readings is None:
        return memory
    memory = replace(memory, asked_ms=now_ms)
    if seen.unread:
        return memory
    is_calm = not seen.unsettled
    load = learn(memory.load, seen.readings, now_ms, is_calm=is_calm)
    memory = replace(memory, load=load, read_ms=now_ms)
    if not is_calm or not load.arrivals.keys() >= seen.readings.keys():
        return memory
    up, down = _numbers(policy, seen, load)
    ups, downs = policy.behavior.scale_up, policy.behavior.scale_down
    return replace(
        memory,
        ups=memory.ups.with_number(now_ms, up, ups.stabilization_window_ms, min),
        downs=memory.downs.with_number(now_ms, down, downs.stabilization_window_ms, max),
    )


def _numbers(policy: AutoscalingSpec, seen: Seen, load: Load) -> tuple[int, int]:
    """Return how many workers would do now, with the margin for up and with that for down."""
    if load.capacity <= 0 and (load.arrival >= _NOTHING or load.lag):
        return seen.replicas, seen.replicas
    rate = sizing.demand(policy, load)
    up = sizing.wanted(rate, load, seen.shape, margin=sizing.UP_MARGIN)
    down = sizing.wanted(rate, load, seen.shape, margin=sizing.DOWN_MARGIN)
    # A guess is good enough to see that there are too many; too few show by their lag.
    return (up if load.is_measured else min(up, seen.replicas)), down


def _bounded(seen: Seen) -> Verdict | None:
    """Return the verdict if there are more or fewer workers than are allowed."""
    least, most = seen.bounds
    number = min(most, max(least, seen.replicas))
    if number == seen.replicas:
        return None
    which = "least" if number == least else "most"
    return Verdict(
        replicas=number, why=Why.BOUNDS, reason=f"{_workers(number)} is the {which} now allowed"
    )


def _held(
    policy: AutoscalingSpec, seen: Seen, memory: ScalingMemory, now_ms: int
) -> Verdict | None:
    """Return the verdict if the number must stay as it is."""
    if seen.unsettled:
        reason = f"the number stays until tasks are where they are to be: {seen.unsettled}"
        return Verdict(replicas=seen.replicas, why=Why.UNSETTLED, reason=reason)
    if seen.cold:
        listed = " ".join(map(str, seen.cold[:_SHOWN]))
        more = f" and {len(seen.cold) - _SHOWN} more" if len(seen.cold) > _SHOWN else ""
        reason = (
            f"no copy can follow the state of {listed}{more}, so each move would stop them for a "
            "restore: the number stays; set spec.replicas, or keep their state on disk"
        )
        return Verdict(replicas=seen.replicas, why=Why.COLD, reason=reason)
    limit_ms = _UNREAD_SAMPLES * sample_every_ms(policy)
    if seen.unread and (memory.read_ms is None or now_ms - memory.read_ms >= limit_ms):
        reason = f"the number stays, because the lag cannot be read: {seen.unread}"
        return Verdict(replicas=seen.replicas, why=Why.UNREAD, reason=reason)
    if memory.ups.since_ms is None:
        reason = "the number stays until rates have been measured"
        return Verdict(replicas=seen.replicas, why=Why.LEARNING, reason=reason)
    return None


def _sized(policy: AutoscalingSpec, seen: Seen, memory: ScalingMemory, now_ms: int) -> Verdict:
    """Return the verdict by the load."""
    least, most = seen.bounds
    now, load, behavior = seen.replicas, memory.load, policy.behavior
    most_useful = max(least, seen.shape.useful(min(most, seen.shape.most_useful)))
    up = memory.ups.number(now_ms, behavior.scale_up.stabilization_window_ms, min)
    down = memory.downs.number(now_ms, behavior.scale_down.stabilization_window_ms, max)
    up_now, down_now = _numbers(policy, seen, load)
    if up is not None and min(up, most_useful) > now:
        return _up(seen, load, min(up, most_useful))
    if down is not None and max(down, least) < now:
        number = max(down, least)
        reason = f"{_workers(number)} can process what comes in, with a margin"
        return Verdict(replicas=number, why=Why.DOWN, reason=reason)
    if min(up_now, most_useful) > now:
        reason = f"{_workers(min(up_now, most_useful))} would do, if that stays so (scaleUp)"
        return Verdict(replicas=now, why=Why.UP_SOON, reason=reason)
    if max(down_now, least) < now:
        reason = f"{_workers(max(down_now, least))} would do, if that stays so (scaleDown)"
        return Verdict(replicas=now, why=Why.DOWN_SOON, reason=reason)
    return _right(seen, load, up_now, most)


def _up(seen: Seen, load: Load, number: int) -> Verdict:
    gone_s = sizing.gone_after_s(load, seen.shape, seen.replicas)
    useful_s = sizing.useful_after_s(seen.shape, seen.replicas)
    if gone_s is not None and gone_s <= useful_s:
        reason = (
            f"{_workers(seen.replicas)} will have processed what waits before another one has "
            "warmed up"
        )
        return Verdict(replicas=seen.replicas, why=Why.GONE_BEFORE, reason=reason)
    reason = f"{_workers(number)} are needed for what comes in and what waits"
    return Verdict(replicas=number, why=Why.UP, reason=reason)


def _right(seen: Seen, load: Load, wanted: int, most: int) -> Verdict:
    now = seen.replicas
    if tasks := sizing.hot(load):
        listed = " ".join(map(str, tasks[:_SHOWN]))
        reason = (
            f"more comes in for {listed} than one StreamThread can process: no further worker "
            "helps; give the topic more partitions, or spread its keys"
        )
        return Verdict(replicas=now, why=Why.HOT, reason=reason)
    if wanted > now:
        limit = "there is no task for another one" if now < most else "maxReplicas allows no more"
        reason = f"{_workers(wanted)} would do, but {limit}"
        return Verdict(replicas=now, why=Why.AT_MOST, reason=reason)
    reason = f"{_workers(now)} can process what comes in"
    return Verdict(replicas=now, why=Why.RIGHT, reason=reason)


def _workers(count: int) -> str:
    return counted(count, "worker")
