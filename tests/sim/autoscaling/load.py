"""What comes in during a day, drawn from a seed."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import cos, pi
from random import Random
from typing import Final

DAY_S: Final = 24 * 3600
HOUR_S: Final = 3600
TASKS: Final = 12


@dataclass
class Arrivals:
    """Records per second, by task.

    Attributes:
        seed: the same seed draws the same day.
        peak: records per second at noon, without bursts.
        bursts: when each begins and ends, and how many times as much comes in meanwhile.
        dead: when the hour begins in which nothing comes in.
        hot: when it begins and ends that one task has more than a StreamThread can process.
        hot_task: which.
        hot_rate: how many records per second it has then.
    """

    seed: str
    peak: float = 5_200.0
    bursts: list[tuple[float, float, float]] = field(default_factory=list)
    dead: float = 0.0
    hot: tuple[float, float] = (0.0, 0.0)
    hot_task: int = 0
    hot_rate: float = 1_600.0
    _shares: list[float] = field(default_factory=list)
    _noise: Random = field(default_factory=Random)

    def __post_init__(self) -> None:
        rng = Random(f"day of {self.seed}")
        self._noise = Random(f"noise of {self.seed}")
        shares = [rng.uniform(0.85, 1.15) for _ in range(TASKS)]
        self._shares = [share / sum(shares) for share in shares]
        for _ in range(6):
            begin = rng.uniform(0, DAY_S)
            length = rng.choice((60.0, 240.0, 900.0))
            self.bursts.append((begin, begin + length, rng.uniform(1.3, 1.9)))
        self.dead = rng.uniform(2, 5) * HOUR_S
        begin = rng.uniform(14, 19) * HOUR_S
        self.hot = (begin, begin + HOUR_S)
        self.hot_task = rng.randrange(TASKS)

    def at(self, now_s: float) -> list[float]:
        """Return what comes in now, by task; every call draws new noise."""
        if self.dead <= now_s < self.dead + HOUR_S:
            return [0.0] * TASKS
        day = (1 - cos(2 * pi * now_s / DAY_S)) / 2
        total = self.peak * (0.12 + 0.88 * day)
        for begin, end, factor in self.bursts:
            total *= factor if begin <= now_s < end else 1.0
        rates = [total * share * max(0.0, self._noise.gauss(1.0, 0.12)) for share in self._shares]
        if self.is_hot(now_s):
            rates[self.hot_task] += self.hot_rate
        return rates

    def is_hot(self, now_s: float) -> bool:
        """Whether one task has more than a StreamThread can process."""
        return self.hot[0] <= now_s < self.hot[1]
