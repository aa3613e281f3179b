"""A thread with many tasks pays for those that have records, not for all of them."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.tasks import TaskRig, raw

from headwater import Processor, PunctuationType
from headwater.ids import TaskId, TopicPartition
from headwater.native.loop import ProcessingLoop
from headwater.native.messages import AddTasks, Pause, RevokeTasks
from headwater.native.opening import RunningTask
from headwater.native.thread import report_interval_s, together
from headwater.testing.memory import (
    MemoryClients,
    MemoryCommitter,
    MemoryOffsets,
    MemoryReader,
)

if TYPE_CHECKING:
    from headwater import ProcessorContext, Record
    from headwater.ports import RawRecord

_TASKS = 12


class Reader(MemoryReader):
    """Returns whole batches, as a consumer does."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[tuple[TopicPartition, list[RawRecord]]] = []

    def bring(self, number: int, *records: RawRecord) -> None:
        """Return these records of a task's partition with the next poll."""
        self.batches.append((_input(number), list(records)))

    def poll(self, timeout_s: float) -> list[tuple[TopicPartition, list[RawRecord]]]:
        """Return what was brought, once."""
        del timeout_s
        found, self.batches = self.batches, []
        return found


class Ticking(Processor[str, str, str, str]):
    """Says each minute of the wall clock that it is there, and hands every record on."""

    def init(self, context: ProcessorContext[str, str]) -> None:
        super().init(context)
        context.schedule(timedelta(minutes=1), PunctuationType.WALL_CLOCK_TIME, self._tick)

    def _tick(self, now_ms: int) -> None:
        del now_ms
        self.context.forward(self.ticked)

    ticked: Any = None

    def process(self, record: Record[str, str]) -> None:
        self.ticked = record
        self.context.forward(record)


class Rig:
    """A loop with a task per topic of ``in-0``, ``in-1`` and so on."""

    def __init__(self, draw: Any, **options: object) -> None:
        def build(builder: Any) -> None:
            for number in range(_TASKS):
                draw(builder.stream(f"in-{number}"), number)

        self.tasks = [
            TaskRig(
                build,
                subtopology=number,
                initialize=False,
                **{"commit_interval_ms": 60_000, **options},
            )
            for number in range(_TASKS)
        ]
        clients = MemoryClients({})
        self.reader = clients.consumer = Reader()
        self.committer = MemoryCommitter()
        self.clock = self.tasks[0].clock
        self.loop = ProcessingLoop(
            config=self.tasks[0].config,
            clock=self.clock,
            clients=clients,
            committer=self.committer,
            opener=MemoryOffsets(),
        )
        self.running = [
            RunningTask(
                task=rig.task,
                stores=rig.stores,
                changelogs={},
                start=dict.fromkeys(rig.task.partitions, 0),
            )
            for rig in self.tasks
        ]
        self.loop.add(self.running)
        self.loop.run_once()  # the first commit comes before any record

    def a_minute_later(self) -> None:
        """Do a turn when a minute has passed, for the loop and for each task."""
        for one in self.tasks:
            one.clock.advance(60_000)
        self.loop.run_once()

    def sent(self, number: int) -> list[bytes | None]:
        """The values that a task has sent."""
        return [value for _, value, _ in self.tasks[number].sent(f"out-{number}")]


def _input(number: int) -> TopicPartition:
    return TopicPartition(f"in-{number}", 0)


def _passed_on(stream: Any, number: int) -> None:
    stream.to(f"out-{number}")


def _counted(stream: Any, number: int) -> None:
    stream.group_by_key().count(store=f"counts-{number}").to_stream().to(f"out-{number}")


def _looked_at(rig: Rig) -> list[int]:
    """The tasks that had a part in a round: it takes time, however little."""
    return [number for number, one in enumerate(rig.running) if one.pace.busy_s]


def test_only_tasks_with_records_are_looked_at() -> None:
    rig = Rig(_passed_on)
    rig.reader.bring(3, *(raw(number, "k", str(number)) for number in range(9)))
    rig.reader.bring(7, raw(0, "k", "x"))

    for _ in range(20):
        rig.loop.run_once()

    assert rig.sent(3) == [str(number).encode() for number in range(9)]
    assert rig.sent(7) == [b"x"]
    assert _looked_at(rig) == [3, 7]
    busy_s = [one.pace.busy_s for one in rig.running]
    rig.loop.run_once()
    assert [one.pace.busy_s for one in rig.running] == busy_s


def test_a_task_that_was_empty_is_looked_at_when_it_gets_records_again() -> None:
    rig = Rig(_passed_on)
    for offset in range(3):
        for number in range(_TASKS):
            rig.reader.bring(number, raw(offset, "k", str(offset)))
        for _ in range(3):
            rig.loop.run_once()

    assert [rig.sent(number) for number in range(_TASKS)] == [[b"0", b"1", b"2"]] * _TASKS


def test_a_task_that_is_taken_away_with_records_is_not_looked_at() -> None:
    rig = Rig(_passed_on)
    rig.reader.bring(0, raw(0, "k", "x"))
    rig.loop._poll(0.0)

    rig.loop.remove([rig.running[0].task_id])
    for _ in range(3):
        rig.loop.run_once()

    assert _looked_at(rig) == []
    assert rig.sent(0) == []


def test_punctuators_are_called_in_tasks_without_records() -> None:
    rig = Rig(lambda stream, number: stream.process(Ticking).to(f"out-{number}"))
    for number in range(_TASKS):
        rig.reader.bring(number, raw(0, "k", str(number)))
    rig.loop.run_once()

    for _ in range(2):
        rig.clock.advance(60_000)
        rig.loop.run_once()

    wanted = [[str(number).encode()] * 3 for number in range(_TASKS)]
    assert [rig.sent(number) for number in range(_TASKS)] == wanted


class Late(Ticking):
    """Begins to tick with its first record."""

    def init(self, context: ProcessorContext[str, str]) -> None:
        Processor.init(self, context)

    def process(self, record: Record[str, str]) -> None:
        if self.ticked is None:
            Ticking.init(self, self.context)
        super().process(record)


def test_a_round_asks_the_tasks_that_have_schedules_and_no_others() -> None:
    def draw(stream: Any, number: int) -> None:
        made = {2: Ticking, 5: Late}.get(number)
        (stream if made is None else stream.process(made)).to(f"out-{number}")

    rig = Rig(draw)
    assert list(rig.loop._scheduled) == [rig.running[2].task_id]
    for number in (2, 5, 7):
        rig.reader.bring(number, raw(0, "k", str(number)))
    rig.loop.run_once()
    assert list(rig.loop._scheduled) == [rig.running[2].task_id, rig.running[5].task_id]

    rig.a_minute_later()
    assert [rig.sent(number) for number in (2, 5, 7)] == [[b"2"] * 2, [b"5"] * 2, [b"7"]]

    rig.loop.commit_now()
    rig.loop.remove([rig.running[2].task_id])
    rig.running[5].task.abort()
    rig.a_minute_later()
    assert list(rig.loop._scheduled) == []
    rig.reader.bring(5, raw(1, "k", "again"))
    rig.loop.run_once()
    rig.a_minute_later()
    assert [rig.sent(number) for number in (2, 5)] == [[b"2"] * 2, [b"5"] * 2 + [b"again"] * 2]


class Asking(Ticking):
    """Asks for a commit with each record, and with each tick."""

    def process(self, record: Record[str, str]) -> None:
        super().process(record)
        self.context.commit()

    def _tick(self, now_ms: int) -> None:
        super()._tick(now_ms)
        self.context.commit()


def test_a_task_that_asks_for_a_commit_gets_one() -> None:
    def draw(stream: Any, number: int) -> None:
        (stream.process(Asking) if number == 4 else stream).to(f"out-{number}")

    rig = Rig(draw)

    def brings(number: int, offset: int) -> bool:
        """Whether something is uncommitted once a task has a record."""
        rig.reader.bring(number, raw(offset, "k", "v"))
        rig.loop.run_once()
        return any(running.task.commit_needed for running in rig.running)

    assert brings(0, 0)  # the interval is a minute
    assert not brings(4, 0)
    assert brings(0, 1)
    rig.clock.advance(60_000)
    assert not brings(0, 2)
    assert [len(rig.sent(number)) for number in (0, 4)] == [3, 2]


class Watched(dict[TaskId, RunningTask]):
    """Tasks that count how often somebody looks at all of them."""

    looks = 0

    def values(self) -> Any:
        self.looks += 1
        return super().values()


def test_no_part_of_a_round_looks_at_every_task() -> None:
    rig = Rig(_counted, statestore_cache_max_bytes=1_000_000)
    loop, commits = rig.loop, rig.loop._commits
    commits.holds_too_much()
    watched = Watched(loop.tasks)
    loop.tasks = commits._tasks = watched
    rig.reader.bring(3, *(raw(offset, f"key-{offset}", "v") for offset in range(500)))
    loop._poll(0.0)

    rounds = 0
    while loop._intake.filled:
        loop._round()
        loop.punctuate()
        assert not commits.start_if_due(0.0)
        rounds += 1

    assert rounds > 5
    assert watched.looks == 0
    assert rig.running[3].held_bytes == rig.running[3].task.uncommitted_bytes() > 0


def test_what_is_uncommitted_is_known_without_a_look_at_every_task() -> None:
    rig = Rig(_counted, statestore_cache_max_bytes=1_000_000)
    commits = rig.loop._commits
    commits.holds_too_much()
    held = 0
    for offset in range(40):
        for number in range(offset % _TASKS):
            rig.reader.bring(number, raw(offset, f"key-{offset}", "v"))
        rig.loop.run_once()
        assert not commits.holds_too_much()
        held = sum(running.task.uncommitted_bytes() for running in rig.running)
        assert commits._held_bytes == held
    assert held > 0

    rig.loop.commit_now()
    assert not commits.holds_too_much()
    assert commits._held_bytes == sum(one.task.uncommitted_bytes() for one in rig.running) == 0


def test_what_many_tasks_hold_together_is_committed_early() -> None:
    rig = Rig(_counted, max_uncommitted_bytes=20_000)
    for offset in range(50):
        for number in range(_TASKS):
            rig.reader.bring(number, raw(offset, f"key-{offset}", "v"))
        rig.loop.run_once()

    assert all(rig.running[number].task.uncommitted_bytes() < 20_000 for number in range(_TASKS))
    assert sum(one.task.uncommitted_bytes() for one in rig.running) < 40_000
    stored = [rig.tasks[number].stores[f"counts-{number}"] for number in range(_TASKS)]
    assert all(any(True for _ in store.committed.range(None, None)) for store in stored)


@pytest.mark.parametrize(
    ("took_s", "patience_s", "wanted_s"),
    [
        (0.0, 300.0, 1.0),
        (0.02, 300.0, 1.0),
        (0.1, 300.0, 2.0),
        (0.2, 300.0, 4.0),
        (3.0, 300.0, 5.0),
        (3.0, 12.0, 3.0),
        (3.0, 2.0, 1.0),
    ],
)
def test_reports_that_take_long_are_made_less_often(
    took_s: float, patience_s: float, wanted_s: float
) -> None:
    assert report_interval_s(took_s, patience_s) == pytest.approx(wanted_s)


def test_tasks_that_come_one_after_the_other_are_opened_together() -> None:
    one, two, three = (TaskId(0, number) for number in range(3))
    revoke = RevokeTasks(tasks=(one,), epoch=3)

    found = together(
        [
            AddTasks(tasks=(one,), epoch=1),
            AddTasks(tasks=(one, two), epoch=2),
            revoke,
            AddTasks(tasks=(one,), epoch=4),
            AddTasks(tasks=(three,), epoch=5),
            Pause(),
        ]
    )

    assert found == [
        AddTasks(tasks=(one, two), epoch=2),
        revoke,
        AddTasks(tasks=(one, three), epoch=5),
        Pause(),
    ]
    assert together([]) == []
