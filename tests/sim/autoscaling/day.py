"""A day, sample by sample, and what must hold of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

from headwater.model.streamapp_autoscaling import (
    AutoscalingMode,
    AutoscalingSpec,
    ScheduleWindow,
)
from headwater_operator.decide.autoscaling.verdict import (
    ScalingMemory,
    Seen,
    Verdict,
    Why,
    advise,
    sample_every_ms,
)
from tests.sim.autoscaling.load import DAY_S, TASKS, Arrivals
from tests.sim.autoscaling.world import CAPACITY, World
from tests.sim.world import ViolationError

if TYPE_CHECKING:
    from collections.abc import Callable

Advise: TypeAlias = (
    "Callable[[AutoscalingSpec, Seen, ScalingMemory, int], tuple[Verdict, ScalingMemory]]"
)

POLICY: Final = AutoscalingSpec(
    mode=AutoscalingMode.AUTO,
    min_replicas=1,
    max_replicas=12,
    target_catch_up_ms=120_000,
    schedule=(
        ScheduleWindow(name="batch", start="0 1 * * *", end="30 1 * * *", min_replicas=4),
        ScheduleWindow(name="never", start="0 0 31 2 *", end="0 1 31 2 *", min_replicas=9),
    ),
)
MOVES_MAX: Final = 30
"""More changes of the number than that in a day are thrash."""
STRETCH_MAX_S: Final = 900
"""So long at most more may wait than the target allows: a change is decided, warmed up, and what
has come in meanwhile is processed."""


@dataclass
class Moment:
    """One sample of the day; ``helped`` is the lag without the hot task's."""

    at_s: float
    arrival: float
    helped: float
    replicas: int
    why: str
    reason: str


@dataclass
class Day:
    """What happened.

    Attributes:
        seed: of the day.
        moments: every sample.
        moves: second, number before, number after, why.
    """

    seed: str
    moments: list[Moment] = field(default_factory=list)
    moves: list[tuple[float, int, int, str]] = field(default_factory=list)


def simulate(seed: str, *, decide: Advise = advise, policy: AutoscalingSpec = POLICY) -> Day:
    """Play a day.

    Raises:
        ViolationError: something that must hold does not.
    """
    day, arrivals, world = Day(seed), Arrivals(seed), World()
    memory, every_ms = ScalingMemory(), sample_every_ms(policy)
    laws = Laws(day, arrivals, policy)
    try:
        for sample in range(DAY_S * 1000 // every_ms):
            rates = arrivals.at(world.now_s)
            world.step(every_ms / 1000, rates)
            seen = Seen(
                replicas=world.wanted,
                shape=world.shape,
                readings=world.readings(),
                unsettled=world.unsettled,
                bounds=policy.bounds(int(world.now_s) // 60),
            )
            verdict, memory = decide(policy, seen, memory, (sample + 1) * every_ms)
            laws.look(world, seen, verdict)
            if verdict.replicas != world.wanted:
                day.moves.append((world.now_s, world.wanted, verdict.replicas, verdict.why.name))
                world.scale(verdict.replicas, is_asked=verdict.why is Why.BOUNDS)
            helped = sum(
                task.lag for number, task in enumerate(world.tasks) if number != arrivals.hot_task
            )
            day.moments.append(
                Moment(
                    at_s=world.now_s,
                    arrival=sum(rates),
                    helped=helped,
                    replicas=verdict.replicas,
                    why=verdict.why.name,
                    reason=verdict.reason,
                )
            )
        laws.at_last()
    except ViolationError as violation:
        violation.add_note(f"seed {seed!r}")
        raise
    return day


class Laws:
    """What must hold."""

    def __init__(self, day: Day, arrivals: Arrivals, policy: AutoscalingSpec) -> None:
        self.day, self.arrivals, self.policy = day, arrivals, policy
        self.settled_s: float | None = 0.0
        self.beyond_since_s: float | None = None

    def look(self, world: World, seen: Seen, verdict: Verdict) -> None:
        """Look at one sample before it is acted on."""
        least, most = seen.bounds
        if not least <= verdict.replicas <= most:
            raise ViolationError(f"{verdict.replicas} workers, outside {least} to {most}")
        if not seen.unsettled and self.settled_s is None:
            self.settled_s = world.now_s
        if verdict.replicas != seen.replicas:
            self._no_reversal(world, seen, verdict)
            self.settled_s = None
        self._lag_is_bounded(world)

    def at_last(self) -> None:
        """Look at the day as a whole."""
        if len(self.day.moves) > MOVES_MAX:
            raise ViolationError(f"thrash: {len(self.day.moves)} changes of the number in a day")

    def _no_reversal(self, world: World, seen: Seen, verdict: Verdict) -> None:
        """A change the other way waits for its whole window after the last one has settled."""
        moves = [move for move in self.day.moves if move[3] != "BOUNDS"]
        if not moves or verdict.why.name == "BOUNDS":
            return
        _, before, after, _ = moves[-1]
        is_up, was_up = verdict.replicas > seen.replicas, after > before
        behavior = self.policy.behavior
        window_ms = (behavior.scale_up if is_up else behavior.scale_down).stabilization_window_ms
        calm_s = -1.0 if self.settled_s is None else world.now_s - self.settled_s
        if is_up != was_up and calm_s < window_ms / 1000:
            raise ViolationError(
                f"from {seen.replicas} to {verdict.replicas} workers within the stabilisation "
                f"window, {calm_s:.0f} s after the way back"
            )

    def _lag_is_bounded(self, world: World) -> None:
        """What waits is soon within the target again, as far as workers can help."""
        rates = self.day.moments[-1].arrival if self.day.moments else 0.0
        waits = sum(
            task.lag
            for number, task in enumerate(world.tasks)
            if number != self.arrivals.hot_task or not self._was_hot(world.now_s)
        )
        target_s = (self.policy.target_catch_up_ms or 0) / 1000
        allowed = CAPACITY * world.wanted * target_s
        can = rates <= 0.8 * CAPACITY * min(TASKS, self.policy.max_replicas)
        if waits <= allowed or not can:
            self.beyond_since_s = None
        elif self.beyond_since_s is None:
            self.beyond_since_s = world.now_s
        elif world.now_s - self.beyond_since_s > STRETCH_MAX_S:
            raise ViolationError(
                f"{waits:.0f} records have waited beyond the target for "
                f"{world.now_s - self.beyond_since_s:.0f} s, with {world.wanted} workers"
            )

    def _was_hot(self, now_s: float) -> bool:
        """Whether the one task has, or still has left over, more than a StreamThread can do."""
        begin, end = self.arrivals.hot
        return begin <= now_s < end + 3 * 3600
