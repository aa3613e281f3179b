"""A task that waits for more of a partition is left out of the rounds of its thread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.support.tasks import TaskRig, raw

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
    from headwater.ports import RawRecord

_RECORDS = 500
_LEFT, _RIGHT = TopicPartition("left", 0), TopicPartition("right", 0)


class FarReader(MemoryReader):
    """What is appended is still on its way: only what is near has come."""

    def __init__(self) -> None:
        super().__init__()
        self.near: list[tuple[TopicPartition, list[RawRecord]]] = []

    def bring(self, topic: str, *records: RawRecord) -> None:
        """Return these records with the next poll."""
        self.near.append((TopicPartition(topic, 0), list(records)))

    def poll(self, timeout_s: float) -> list[tuple[TopicPartition, list[RawRecord]]]:
        """Return what is near, once."""
        del timeout_s
        found, self.near = self.near, []
        return found


def _draw(builder: Any) -> None:
    for name in ("a", "b"):
        builder.stream(name).to("out")
    builder.stream("left").merge(builder.stream("right")).to("merged")


def _loop(rigs: list[TaskRig]) -> tuple[ProcessingLoop, FarReader]:
    clients = MemoryClients({})
    reader = clients.consumer = FarReader()
    loop = ProcessingLoop(
        config=rigs[0].config,
        clock=rigs[0].clock,
        clients=clients,
        committer=MemoryCommitter(),
        opener=MemoryOffsets(),
    )
    loop.add(
        RunningTask(
            task=rig.task,
            stores=rig.stores,
            changelogs={},
            start=dict.fromkeys(rig.task.partitions, 0),
        )
        for rig in rigs
    )
    loop.run_once()  # the first commit comes before any record
    return loop, reader


def test_a_task_that_waits_for_a_partition_does_not_make_its_thread_poll_more_often() -> None:
    rigs = [
        TaskRig(_draw, subtopology=number, initialize=False, commit_interval_ms=60_000)
        for number in range(3)
    ]
    loop, reader = _loop(rigs)
    for name in ("a", "b"):
        reader.bring(name, *(raw(number, "k", "v") for number in range(_RECORDS)))
    reader.bring("left", raw(0, "k", "early"))
    reader.append(_RIGHT, b"k", b"late", 0, None)

    loop.run_once()

    assert all(rig.sent() for rig in rigs[:2])
    assert not loop._last_round.has_idle
    for _ in range(2 * _RECORDS):
        loop.run_once()
    assert [len(rig.sent()) for rig in rigs[:2]] == [_RECORDS] * 2
    assert rigs[2].sent("merged") == []


def test_a_task_without_records_has_its_thread_poll_soon() -> None:
    rigs = [
        TaskRig(_draw, subtopology=number, initialize=False, commit_interval_ms=60_000)
        for number in range(2)
    ]
    loop, reader = _loop(rigs)
    reader.bring("a", *(raw(number, "k", "v") for number in range(_RECORDS)))

    loop.run_once()

    assert loop._last_round.has_idle
