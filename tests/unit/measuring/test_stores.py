"""What is measured of stores: operations, iterators, the cache, RocksDB."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.tasks import TaskRig, raw

from headwater import Processor, Record, Serdes, Stores
from headwater.errors import HeadwaterError
from headwater.model import metrics
from headwater.state import BlockCache
from headwater.state.backends.rocks import RocksBackend

if TYPE_CHECKING:
    from pathlib import Path

    from headwater import ProcessorContext, StreamsBuilder

STORE = "in-memory-state", "kept"


class Keeping(Processor[str, str, None, None]):
    """Does what a record says."""

    held: list[Any]

    def init(self, context: ProcessorContext[None, None]) -> None:
        self.store = context.get_state_store("kept")
        Keeping.held = []

    def process(self, record: Record[str, str]) -> None:
        match record.value:
            case "put":
                self.store.put(record.key, "v")
            case "delete":
                self.store.delete(record.key)
            case "get":
                self.store.get(record.key)
            case "put-if-absent":
                self.store.put_if_absent(record.key, "v")
            case "put-all":
                self.store.put_all([(record.key, "v"), ("b", None)])
            case "put-null":
                self.store.put(record.key, None)
            case "all":
                Keeping.held.append(self.store.all())
            case "read":
                list(self.store.range("a", "b"))


def keeping(builder: StreamsBuilder) -> None:
    made = Stores.in_memory_key_value_store("kept")
    builder.add_state_store(Stores.key_value_store_builder(made, Serdes.string, Serdes.string))
    builder.stream("in").process(Keeping, "kept")


def rig_after(level: str, *values: str) -> TaskRig:
    rig = TaskRig(keeping, metrics_recording_level=level)
    rig.add("in", *(raw(i, "a", value) for i, value in enumerate(values)))
    rig.process()
    return rig


def count_of(rig: TaskRig, operation: str) -> float | None:
    return rig.measured(metrics.OPERATION_COUNTS[operation], *STORE)


def test_from_debug_operations_are_counted_and_timed() -> None:
    rig = rig_after("DEBUG", "put", "put", "get", "delete", "all", "read")
    rig.commit()

    assert [count_of(rig, name) for name in ("put", "delete", "all", "range", "commit")] == [
        2,
        1,
        1,
        1,
        1,
    ]
    assert (count_of(rig, "get") or 0) >= 1
    for spread in (metrics.OPERATION_LATENCIES["put"], metrics.ITERATOR_DURATION):
        assert spread.avg is not None
        assert (rig.measured(spread.avg, *STORE) or 0) > 0


def test_an_operation_that_is_made_of_others_counts_alone() -> None:
    rig = rig_after("DEBUG", "put-if-absent", "put-if-absent", "put-all", "delete", "put-null")

    counted = {name: count_of(rig, name) for name in metrics.OPERATIONS}
    found = {name: count for name, count in counted.items() if count}
    assert found == {"put-if-absent": 2, "put-all": 1, "delete": 1, "put": 1}


def test_at_info_operations_are_not_measured() -> None:
    rig = rig_after("INFO", "put", "get")

    assert count_of(rig, "put") is None
    assert rig.measured(metrics.NUM_KEYS, *STORE) == 1


@pytest.mark.parametrize("level", ["INFO", "DEBUG"])
def test_an_iterator_is_open_until_it_is_read_or_let_go(level: str) -> None:
    rig = rig_after(level, "put", "all", "all", "read")

    assert rig.measured(metrics.OPEN_ITERATORS, *STORE) == 2
    assert rig.measured(metrics.OLDEST_ITERATOR, *STORE) == 1_000_000
    list(Keeping.held.pop())
    assert rig.measured(metrics.OPEN_ITERATORS, *STORE) == 1
    Keeping.held.clear()
    assert rig.measured(metrics.OPEN_ITERATORS, *STORE) == 0
    assert rig.measured(metrics.OLDEST_ITERATOR, *STORE) == 0


def test_the_share_of_look_ups_that_the_cache_answers() -> None:
    def counted(builder: StreamsBuilder) -> None:
        builder.stream("in").group_by_key().count(store="counts")

    rig = TaskRig(counted, statestore_cache_max_bytes=10_000, metrics_recording_level="DEBUG")
    rig.add("in", *(raw(i, key, "v") for i, key in enumerate("abaab")))
    rig.process()

    assert metrics.HIT_RATIO.avg is not None
    assert rig.measured(metrics.HIT_RATIO.avg, "counts") == 3 / 5


def test_rocksdb_tells_properties_and_if_asked_statistics(tmp_path: Path) -> None:
    for statistics in (False, True):
        blocks = BlockCache(1_000_000, statistics=statistics)
        backend = RocksBackend(tmp_path / str(statistics), block_cache=blocks)
        try:
            backend.write([(b"%d" % i, b"x" * 100) for i in range(100)], None)
            assert backend.get(b"7") is not None
            told = backend.numbers()
        finally:
            backend.close()

        assert told["stream_state_num_entries_active_mem_table"] == 100
        assert told["stream_state_block_cache_capacity"] == 1_000_000
        assert told.keys() >= {metric.name for metric in metrics.ROCKSDB_PROPERTIES.values()}
        assert all(name in metrics.BY_NAME for name in told)
        assert ("stream_state_bytes_written" in told) == statistics
        if statistics:
            assert told["stream_state_bytes_written"] > 100 * 100
            assert 0 < told["stream_state_memtable_hit_ratio"] <= 1


def test_a_store_that_refuses_a_key_refuses_it_at_debug_too() -> None:
    rig = TaskRig(keeping, metrics_recording_level="DEBUG")
    with pytest.raises(HeadwaterError):
        rig.stores["kept"].get(None)
