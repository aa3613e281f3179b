"""A task's commits, its memory of time, its aborts and its end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.tasks import TaskRig, raw

from headwater import Processor, Record, Serdes, StreamsBuilder
from headwater.errors import ConfigError, TopologyError
from headwater.ids import TopicPartition
from headwater.model import metrics
from headwater.model.metrics import Snapshot
from headwater.ports import Position
from headwater.wire.offset_metadata import decode

if TYPE_CHECKING:
    from headwater import ProcessorContext

IN = TopicPartition("in", 0)


def counted(builder: StreamsBuilder) -> None:
    table = builder.stream("in").group_by_key().count(store="counts")
    table.to_stream().to("out", value_serde=Serdes.long)


class Remembering(Processor[Any, Any, Any, Any]):
    """Counts records in itself and forwards the count."""

    closed = 0

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        self.seen = 0

    def process(self, record: Record[Any, Any]) -> None:
        self.seen += 1
        self.context.forward(record.with_value(str(self.seen)))

    def close(self) -> None:
        type(self).closed += 1


def remembering(builder: StreamsBuilder) -> None:
    builder.stream("in").process(Remembering).to("out")


def test_nothing_is_to_be_committed_before_something_happened() -> None:
    rig = TaskRig(counted)

    assert not rig.task.commit_needed
    rig.add("in", raw(0, "a", "x"))
    assert not rig.task.commit_needed
    rig.process()
    assert rig.task.commit_needed
    rig.commit()
    assert not rig.task.commit_needed


def test_a_commit_sends_changelogs_and_gives_offsets_with_partition_times() -> None:
    rig = TaskRig(counted)
    rig.add("in", raw(0, "a", "x", 7), raw(1, "a", "x", 4))
    rig.process()

    [offsets] = rig.task.prepare_commit()

    assert (offsets.partition, offsets.offset) == (IN, 2)
    assert decode(offsets.metadata).partition_time == 7
    assert rig.sent("app-counts-changelog") == [(b"a", (2).to_bytes(8), 7)]


def test_the_stores_remember_the_position_of_the_commit() -> None:
    rig = TaskRig(counted)
    rig.add("in", raw(0, "a", "x"))
    rig.process()
    rig.task.prepare_commit()
    position = Position("id", 5, 1)

    rig.task.post_commit({"counts": position})

    assert rig.stores["counts"].position() == position
    assert rig.task.uncommitted_bytes() == 0


def test_partition_times_survive_a_restart() -> None:
    rig = TaskRig(counted)
    rig.add("in", raw(0, "a", "x", 7))
    rig.process()
    [offsets] = rig.task.prepare_commit()

    restarted = TaskRig(counted)
    restarted.task.restore_metadata({IN: (offsets.offset, offsets.metadata)})

    assert restarted.task.stream_time == 7
    assert [again.offset for again in restarted.task.offsets()] == [1]
    assert restarted.commit() == {}


def test_an_abort_forgets_everything_since_the_last_commit() -> None:
    rig = TaskRig(counted)
    rig.add("in", raw(0, "a", "x", 1))
    rig.process()
    rig.commit()
    rig.add("in", raw(1, "a", "x", 9), raw(2, "a", "x", 9))
    rig.process(1)

    rig.task.abort()

    assert rig.stores["counts"].get("a") == (1, 1)
    assert rig.task.stream_time == 1
    assert rig.task.buffered(IN) == 0
    assert [again.offset for again in rig.task.offsets()] == [1]
    rig.add("in", raw(1, "a", "x", 9), raw(2, "a", "x", 9))
    rig.process()
    assert rig.stores["counts"].get("a") == (3, 9)


def test_an_abort_renews_the_users_processors() -> None:
    rig = TaskRig(remembering)
    rig.add("in", raw(0, "a", "x"), raw(1, "a", "x"))
    rig.process()

    rig.task.abort()
    rig.add("in", raw(0, "a", "x"))
    rig.process()

    assert [value for _, value, _ in rig.sent()] == [b"1", b"2", b"1"]


def test_closing_closes_the_users_processors_once() -> None:
    rig = TaskRig(remembering)
    before = Remembering.closed

    rig.task.suspend()
    rig.task.close()

    assert Remembering.closed == before + 1
    assert rig.process() == 0


def test_a_task_does_nothing_before_it_is_initialised() -> None:
    rig = TaskRig(remembering, initialize=False)
    rig.add("in", raw(0, "a", "x"))

    assert rig.process() == 0
    assert not rig.task.is_ready(0)


def test_too_many_uncommitted_bytes_ask_for_a_commit() -> None:
    rig = TaskRig(counted, max_uncommitted_bytes=1000)
    rig.add("in", *(raw(i, f"key {i}", "x") for i in range(100)))

    rig.process(2)
    assert not rig.task.commit_requested
    rig.process()
    assert rig.task.commit_requested
    rig.commit()
    assert not rig.task.commit_requested


def test_what_a_flush_forwards_into_another_cache_is_flushed_too() -> None:
    def draw(builder: StreamsBuilder) -> None:
        first = builder.stream("in").group_by_key().count(store="first")
        first.to_stream().to_table(store="second", value_serde=Serdes.long)

    rig = TaskRig(draw, statestore_cache_max_bytes=1_000_000)
    rig.add("in", raw(0, "a", "x"))
    rig.process()

    rig.commit()

    assert len(rig.sent("app-first-changelog")) == 1
    assert len(rig.sent("app-second-changelog")) == 1


def test_statistics_tell_what_happened() -> None:
    rig = TaskRig(counted)
    rig.add("in", raw(0, "a", "x", 3), raw(1, None, "x", 5), raw(2, "b", "x", 4))
    rig.process(2)

    statistics = rig.task.statistics()

    assert statistics == Snapshot.of(
        {
            metrics.TASK_PROCESS: 2,
            metrics.DROPPED_RECORDS: 1,
            metrics.DEAD_LETTERS: 0,
            metrics.ACTIVE_BUFFER_COUNT: 1,
            metrics.STREAM_TIME: 5,
        },
        str(rig.task.task_id),
    )


def test_a_missing_serde_is_named_with_its_node() -> None:
    def draw(builder: StreamsBuilder) -> None:
        builder.stream("in", value_serde=Serdes.string).map_values(len).to("out")

    with pytest.raises(ConfigError, match=r"node KSTREAM-SINK-0000000002 has no value serde"):
        TaskRig(draw, default_value_serde=None)


def test_a_partition_that_no_source_reads_is_refused() -> None:
    rig = TaskRig(counted)

    with pytest.raises(KeyError):
        rig.add("elsewhere", raw(0, "a", "x"))


def test_a_processor_gets_only_the_stores_it_is_connected_to() -> None:
    class Asking(Processor[Any, Any, Any, Any]):
        def init(self, context: ProcessorContext) -> None:
            context.get_state_store("counts")

        def process(self, record: Record[Any, Any]) -> None: ...

    def draw(builder: StreamsBuilder) -> None:
        counted(builder)
        builder.stream("also").process(Asking)

    with pytest.raises(TopologyError, match="not connected to store 'counts'"):
        TaskRig(draw, subtopology=1)
