"""How far a step of a backfill is: what its tasks commit, what Spark has computed."""

from __future__ import annotations

import contextlib
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from headwater.errors import HeadwaterError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType
    from typing import Self

    from headwater.ids import TopicPartition

_INTERVAL_S: Final = 1.0
_BAR_LONGEST: Final = 30
_BAR_SHORTEST: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far one stage is.

    Attributes:
        done: records committed, those of earlier drivers among them.
        total: records of the stage.
        new: of ``done``, those since the stage began under this driver.
        elapsed_s: since then.
    """

    done: int
    total: int
    new: int
    elapsed_s: float

    @property
    def rate(self) -> float:
        """Records per second under this driver."""
        return self.new / self.elapsed_s if self.elapsed_s > 0 else 0.0

    @property
    def part(self) -> float:
        """Which part is done."""
        return self.done / self.total if self.total else 1.0

    @property
    def is_complete(self) -> bool:
        """Whether the stage is at its end."""
        return self.done == self.total

    @property
    def left_s(self) -> float | None:
        """Seconds left at this rate; ``None`` while there is none."""
        return (self.total - self.done) / self.rate if self.rate > 0 else None

    def __str__(self) -> str:
        left = "" if self.left_s is None else f", {_duration(self.left_s)} left"
        return (
            f"{self.part:4.0%}  {self.done:,} of {self.total:,} records, {self.rate:,.0f}/s{left}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Computing:
    """How far Spark is with DataFrames. What comes after the reading it does not know.

    Attributes:
        stages: stages of Spark that are done.
        done: tasks done of those that run.
        total: tasks of those that run.
        reading: how far the readers are, as far as that is known.
    """

    stages: int
    done: int
    total: int
    reading: Progress | None = None

    @property
    def part(self) -> float:
        """Which part is done of the reading, then of the tasks that run."""
        reading = self._is_reading
        if reading is not None:
            return reading.part
        if not self.total:
            return 1.0 if self.stages else 0.0
        return self.done / self.total

    @property
    def is_complete(self) -> bool:
        """Whether it is at its end, which is not known."""
        return False

    def __str__(self) -> str:
        reading = self._is_reading
        if reading is not None:
            return f"reading: {reading}"
        done = self.reading.done if self.reading else 0
        read = f"{done:,} records read, " if done else ""
        next_one = f"{self.done:,} of {self.total:,} tasks of the next"
        return f"{read}{self.stages:,} stages of Spark done; {next_one}"

    @property
    def _is_reading(self) -> Progress | None:
        """What is known of the reading while there is something to tell of it."""
        found = self.reading
        return found if found is not None and 0 < found.done < found.total else None


Shown: TypeAlias = "Progress | Computing"


class Watch:
    """Looks now and then, in a thread of its own, while it is entered, and once at the end.

    Args:
        look: says how far it is; what it cannot find out is left out.
        tell: told that.
    """

    def __init__(self, look: Callable[[], Shown], tell: Callable[[Shown], None]) -> None:
        self._look = look
        self._tell = tell
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="progress", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while True:
            is_last = self._over.is_set()
            # What is wrong the tasks themselves say; this is only the view of it.
            with contextlib.suppress(HeadwaterError):
                self._tell(self._look())
            if is_last:
                return
            self._over.wait(_INTERVAL_S)


class Committed:
    """Says how far tasks are by the offsets that they commit.

    Args:
        committed: asked for the offset of each partition.
        start: where the partitions begin.
        goal: where they end.
    """

    def __init__(
        self,
        committed: Callable[[], Mapping[TopicPartition, int]],
        *,
        start: Mapping[TopicPartition, int],
        goal: Mapping[TopicPartition, int],
    ) -> None:
        self._committed = committed
        self._start = start
        self._goal = goal
        self._began = time.monotonic()
        self._before: int | None = None

    def __call__(self) -> Progress:
        """Ask once more."""
        found = self._committed()
        done = sum(found.get(p, first) - first for p, first in self._start.items())
        if self._before is None:
            self._before = done
        return Progress(
            done=done,
            total=sum(self._goal[p] - first for p, first in self._start.items()),
            new=done - self._before,
            elapsed_s=time.monotonic() - self._began,
        )


def line_of(shown: Shown, columns: int) -> str:
    """Return a line with a bar, which takes the room that the numbers leave."""
    text = str(shown)
    width = min(_BAR_LONGEST, max(_BAR_SHORTEST, columns - len("[] ") - len(text)))
    filled = int(shown.part * width)
    return f"[{'#' * filled}{'.' * (width - filled)}] {text}"[:columns]


def _duration(seconds: float) -> str:
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, left = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{left:02}" if hours else f"{minutes}:{left:02}"
