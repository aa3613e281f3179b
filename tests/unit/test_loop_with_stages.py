"""While calls are in flight or a batch fills, a loop waits for records if it has room for them."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.tasks import TaskRig

from headwater.ids import TopicPartition
from headwater.native.loop import ProcessingLoop
from headwater.native.opening import RunningTask
from headwater.testing.memory import (
    MemoryClients,
    MemoryCommitter,
    MemoryOffsets,
    MemoryReader,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from headwater.ports import RawRecord

IN = TopicPartition("in", 0)
TURNS = 1_000


class SlowReader(MemoryReader):
    """Records arrive only while they are waited for, as they do from a broker that is far away."""

    def poll(self, timeout_s: float) -> list[tuple[TopicPartition, list[RawRecord]]]:
        """Return the next record if it may take a moment."""
        if timeout_s == 0:
            return []
        threading.Event().wait(min(timeout_s, 0.002))
        return super().poll(timeout_s)


def sent_by(draw: Callable[[Any], Any], count: int) -> list[bytes | None]:
    """What a loop sends that has one task, whose topic holds ``count`` records: their numbers."""
    rig = TaskRig(
        lambda builder: draw(builder.stream("in")).to("out"),
        initialize=False,
        commit_interval_ms=60_000,
    )
    clients = MemoryClients({})
    reader = clients.consumer = SlowReader()
    loop = ProcessingLoop(
        config=rig.config,
        clock=rig.clock,
        clients=clients,
        committer=MemoryCommitter(),
        opener=MemoryOffsets(),
    )
    loop.add([RunningTask(task=rig.task, stores=rig.stores, changelogs={}, start={IN: 0})])
    loop.run_once()  # the first commit comes before any record
    for number in range(count):
        reader.append(IN, b"k", str(number).encode(), number, None)
    for _ in range(TURNS):
        loop.run_once()
        if len(rig.sent()) == count:
            break
    return [value for _, value, _ in rig.sent()]


def test_records_are_waited_for_while_a_batch_has_room() -> None:
    def draw(stream: Any) -> Any:
        return stream.map_batch(sorted, max_size=5, max_wait=timedelta(minutes=1))

    assert sent_by(draw, 5) == [b"0", b"1", b"2", b"3", b"4"]


@pytest.mark.parametrize("max_in_flight", [1, 2])
def test_results_are_waited_for_while_the_calls_leave_no_room(max_in_flight: int) -> None:
    def draw(stream: Any) -> Any:
        return stream.map_values_async(lambda value: value + "!", max_in_flight=max_in_flight)

    assert sent_by(draw, 3) == [b"0!", b"1!", b"2!"]


def test_a_task_that_settles_for_a_commit_has_no_room() -> None:
    rig = TaskRig(lambda builder: builder.stream("in").map_batch(sorted, max_size=2).to("out"))

    assert rig.task.has_room
    assert rig.task.settle()
    assert not rig.task.has_room
    rig.task.resume()
    assert rig.task.has_room


def test_a_task_without_functions_that_wait_has_room() -> None:
    assert TaskRig(lambda builder: builder.stream("in").to("out")).task.has_room
