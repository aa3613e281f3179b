"""Workers with one StreamThread each: they process in turns, start slowly and warm up."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from headwater.ids import TaskId
from headwater_operator.decide.autoscaling.load import Reading
from headwater_operator.decide.autoscaling.sizing import Shape
from tests.sim.autoscaling.load import TASKS
from tests.sim.world import ViolationError

CAPACITY: Final = 1_000.0
"""Records per second that a StreamThread can process."""
STATE: Final = 2_000_000
"""Changelog records of each task."""
RESTORE_RATE: Final = 150_000.0
START_S: Final = 15.0


@dataclass
class Task:
    """A task, and the copy that is to take it over."""

    lag: float = 0.0
    processed: float = 0.0
    worker: int = 0
    moves_to: int | None = None
    restored: float = 0.0


@dataclass
class World:
    """Workers and their tasks.

    Attributes:
        tasks: by number.
        workers: numbers of those that run, with the second at which they have started.
        wanted: how many there are to be.
        busy: the share of the last step in which each worker had something to process.
    """

    tasks: list[Task] = field(default_factory=lambda: [Task() for _ in range(TASKS)])
    workers: dict[int, float] = field(default_factory=lambda: {0: 0.0})
    wanted: int = 1
    now_s: float = 0.0
    busy: dict[int, float] = field(default_factory=dict)

    @property
    def unsettled(self) -> str:
        """Why the assignment is not what it is to be; empty if it is."""
        if any(begin > self.now_s for begin in self.workers.values()):
            return "a worker has yet to join"
        if any(task.moves_to is not None for task in self.tasks):
            return "tasks are to move"
        return ""

    def scale(self, count: int, *, is_asked: bool) -> None:
        """Want another number of workers: new ones start, surplus ones let their tasks go.

        Args:
            count: of workers.
            is_asked: the user's bounds ask for it: that does not wait.
        """
        if self.unsettled and not is_asked:
            raise ViolationError(
                f"from {self.wanted} to {count} workers where no warm-up can follow: "
                f"{self.unsettled}"
            )
        for number in range(self.wanted, count):
            self.workers[number] = self.now_s + START_S
        self.wanted = count
        self._plan()

    def step(self, seconds: float, arrivals: list[float]) -> None:
        """Let time pass: records come in, StreamThreads process, copies warm up."""
        self.now_s += seconds
        for task, rate in zip(self.tasks, arrivals, strict=True):
            task.lag += rate * seconds
        for worker, since in self.workers.items():
            if since <= self.now_s:
                self._process(worker, CAPACITY * seconds)
                self._warm_up(worker, RESTORE_RATE * seconds)
        leaving = [number for number in self.workers if number >= self.wanted]
        for number in leaving:
            if all(task.worker != number for task in self.tasks):
                del self.workers[number]

    def readings(self) -> dict[TaskId, Reading]:
        """What workers tell."""
        return {
            TaskId(0, number): Reading(
                thread=f"w-{task.worker}/{self.workers[task.worker]}",
                processed=int(task.processed),
                lag=int(task.lag),
                busy=self.busy.get(task.worker),
            )
            for number, task in enumerate(self.tasks)
        }

    @property
    def shape(self) -> Shape:
        """What tasks are shared out among."""
        return Shape(tasks=TASKS, threads=1, state=TASKS * STATE)

    def _plan(self) -> None:
        """Say which tasks are to move, so that workers have equally many, as few as can be."""
        counts = dict.fromkeys(range(self.wanted), 0)
        most = -(-TASKS // self.wanted)
        surplus: list[Task] = []
        for task in self.tasks:
            task.moves_to = None
        for task in self.tasks:
            if task.worker in counts and counts[task.worker] < most:
                counts[task.worker] += 1
            else:
                surplus.append(task)
        for task in surplus:
            number = min(counts, key=lambda each: (counts[each], each))
            counts[number] += 1
            task.moves_to, task.restored = number, 0.0
        while max(counts.values()) - min(counts.values()) > 1:
            fullest = max(counts, key=lambda each: counts[each])
            emptiest = min(counts, key=lambda each: counts[each])
            task = next(
                task for task in self.tasks if task.worker == fullest and task.moves_to is None
            )
            task.moves_to, task.restored = emptiest, 0.0
            counts[fullest] -= 1
            counts[emptiest] += 1

    def _process(self, worker: int, can: float) -> None:
        """Process in turns: what one task does not need, the others have."""
        whole = can
        waiting = [task for task in self.tasks if task.worker == worker and task.lag > 0]
        while waiting and can > 1e-6:
            turn = min(can / len(waiting), *(task.lag for task in waiting))
            for task in waiting:
                task.lag -= turn
                task.processed += turn
            can -= turn * len(waiting)
            waiting = [task for task in waiting if task.lag > 1e-6]
        self.busy[worker] = 1 - can / whole

    def _warm_up(self, worker: int, can: float) -> None:
        for task in self.tasks:
            if task.moves_to != worker or can <= 0:
                continue
            read = min(can, STATE - task.restored)
            task.restored += read
            can -= read
            if task.restored >= STATE:
                # It counts anew for the StreamThread that takes it.
                task.worker, task.moves_to, task.processed = worker, None, 0.0
