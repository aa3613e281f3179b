"""A model GlobalStreamThread: a process of a worker that keeps a table of which all tasks read.

The table is on the worker's disk, rows and position in one batch. Rows are numbered, so a
StreamThread can tell whether what it sees is complete up to the position beside it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headwater.ids import TopicPartition
from headwater.native.messages import GlobalProgress, Stop, Stopped
from headwater.service.decide.observations import GlobalThreadEnded, GlobalThreadSaid
from tests.sim.world import Process, ViolationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tests.sim.broker import Record
    from tests.sim.worker import Worker
    from tests.sim.world import World

PLACES = TopicPartition("places", 0)


@dataclass
class GlobalTable:
    """The table on a worker's disk."""

    rows: dict[str, int] = field(default_factory=dict)
    position: int = 0
    opened_by: Process | None = None
    expected: dict[str, int] = field(default_factory=dict)
    """What the topic says up to ``expected_to``, so that no check reads it from its beginning."""
    expected_to: int = 0


def feed_places(world: World) -> None:
    """Append one row to the topic of the table."""
    place = f"place{world.rng.randrange(5)}"
    world.broker.append(PLACES, place, world.broker.end_offset(PLACES), None)


def rows_of(records: Iterable[Record]) -> dict[str, int]:
    """The last row of each place."""
    return {str(record.key): int(str(record.value)) for record in records}


def is_whole(world: World, table: GlobalTable) -> bool:
    """Whether the table is its topic from beginning to end."""
    records, _ = world.broker.read_committed(PLACES, 0)
    return table.rows == rows_of(records)


def check_table(worker: Worker, reader: str) -> None:
    """Look at the table as a task does: complete up to its position, which is far enough."""
    table = worker.disk.places
    if table.position < table.expected_to:
        table.expected, table.expected_to = {}, 0
    count = table.position - table.expected_to
    records, table.expected_to = worker.world.broker.read_committed(
        PLACES, table.expected_to, count
    )
    table.expected.update(rows_of(records))
    if table.rows != table.expected:
        raise ViolationError(f"{reader} reads a global table that is not its topic up to its end")
    if table.position < worker.places_at_start:
        raise ViolationError(
            f"{reader} has a task, and its global table is at {table.position} of the "
            f"{worker.places_at_start} rows that were there when its worker began"
        )


class GlobalThread(Process):
    """The process."""

    def __init__(self, worker: Worker, number: int) -> None:
        self.worker = worker
        self.inbox: deque[object] = deque()
        self.table = worker.disk.places
        super().__init__(worker.world, f"{worker.name}/global-{number}")

    def on_end(self) -> None:
        if self.worker.alive:
            self.worker.inbox.append(GlobalThreadEnded(exit_code=0))

    def say(self, *, filled: bool) -> None:
        """Tell the main process how far it is."""
        told = GlobalProgress(records=0, remaining=0, filled=filled)
        if self.worker.alive:
            self.worker.inbox.append(GlobalThreadSaid(message=told))

    def run(self) -> Iterator[int]:
        self.at("starting")
        yield self.world.rng.randint(50, 800)
        opened_by = self.table.opened_by
        if opened_by is not None and opened_by.alive:
            raise ViolationError(f"{self.name} opens what {opened_by.name} has open")
        self.table.opened_by = self
        end = self.world.broker.end_offset(PLACES)
        yield from self.begin(end)
        while self.table.position < end:
            self.at("filling")
            yield from self.apply()
            yield 10
        self.say(filled=True)
        while True:
            if self.inbox:
                assert isinstance(self.inbox.popleft(), Stop)
                self.table.opened_by = None
                if self.worker.alive:
                    self.worker.inbox.append(GlobalThreadSaid(message=Stopped()))
                return
            yield from self.apply()
            self.say(filled=True)
            yield 100

    def begin(self, end: int) -> Iterator[int]:
        """Go on where the last process was."""
        del end
        yield 1

    def read(self) -> tuple[list[Record], int]:
        """Read a few rows."""
        return self.world.broker.read_committed(PLACES, self.table.position, 3)

    def apply(self) -> Iterator[int]:
        """Write a few rows and the position, in one batch."""
        records, position = self.read()
        yield 2
        self.table.rows.update(rows_of(records))
        self.table.position = position
