"""What a task measures of batches: the last record stands for all, unless each is recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.tasks import TaskRig, raw

from headwater import Serdes
from headwater.ids import TopicPartition
from headwater.measuring.task import RECORD_BYTES
from headwater.model import metrics
from headwater.native.measured import topic_lags

if TYPE_CHECKING:
    from headwater import StreamsBuilder

SOURCE, SINK = "KSTREAM-SOURCE-0000000000", "KSTREAM-SINK-0000000002"
LEVEL = "metrics_recording_level"
NOW_MS = 1_000_000
AVG, MAX, MIN = metrics.E2E_LATENCY.avg, metrics.E2E_LATENCY.max, metrics.E2E_LATENCY.min
assert AVG is not None
assert MAX is not None
assert MIN is not None


def longs(builder: StreamsBuilder) -> None:
    builder.stream("in").filter(lambda _key, value: value != "no").to("out")


def two_sources(builder: StreamsBuilder) -> None:
    builder.stream("a").merge(builder.stream("b")).to("out")


def several_topics(builder: StreamsBuilder) -> None:
    builder.stream(["a", "b"]).merge(builder.stream("c")).to("out")


def counted(builder: StreamsBuilder) -> None:
    table = builder.stream("in").group_by_key().count(store="counts")
    table.to_stream().to("out", value_serde=Serdes.long)


def batch(*times: int, value: str = "v") -> list[tuple[int, int, bytes, bytes, None]]:
    return [raw(i, "key", value, time) for i, time in enumerate(times)]  # type: ignore[misc]


def test_at_info_the_last_record_of_a_batch_stands_for_all() -> None:
    rig = TaskRig(longs)
    rig.add("in", *batch(100, 900, 300), raw(3, "key", "no", 200))
    rig.process()

    assert rig.measured(AVG, SOURCE) == NOW_MS - 200
    assert rig.measured(MIN, SOURCE) == NOW_MS - 200
    assert rig.measured(AVG, SINK) == NOW_MS - 300
    assert rig.measured(metrics.RECORDS_CONSUMED, SOURCE, "in") == 4
    assert rig.measured(metrics.RECORDS_PRODUCED, SINK, "out") == 3
    assert rig.measured(metrics.NODE_PROCESS, SOURCE) == 4


def test_from_debug_each_record_counts() -> None:
    rig = TaskRig(longs, **{LEVEL: "DEBUG"})
    rig.add("in", *batch(100, 900, 300), raw(3, "key", "no", 200))
    rig.process()

    assert rig.measured(AVG, SOURCE) == NOW_MS - 375
    assert (rig.measured(MIN, SINK), rig.measured(MAX, SINK)) == (NOW_MS - 900, NOW_MS - 100)
    lateness = metrics.RECORD_LATENESS
    assert lateness.avg is not None
    assert lateness.max is not None
    assert rig.measured(lateness.avg) == (0 + 0 + 600 + 700) / 4
    assert rig.measured(lateness.max) == 700


@pytest.mark.parametrize("level", ["INFO", "DEBUG"])
def test_bytes_of_records_that_are_alike_are_exact_at_every_level(level: str) -> None:
    rig = TaskRig(longs, **{LEVEL: level})
    rig.add("in", *batch(*range(1_000)))
    rig.process()

    size = RECORD_BYTES + len("key") + len("v")
    assert rig.measured(metrics.BYTES_CONSUMED, SOURCE, "in") == 1_000 * (size + len("in"))
    assert rig.measured(metrics.BYTES_PRODUCED, SINK, "out") == 1_000 * (size + len("out"))


def test_bytes_of_records_that_are_not_alike_are_estimated_at_info_and_exact_at_debug() -> None:
    sizes = {}
    for level in ("INFO", "DEBUG"):
        rig = TaskRig(longs, **{LEVEL: level})
        values = ["short" if i % 2 else "x" * 105 for i in range(1_000)]
        rig.add("in", *(raw(i, "key", value, i) for i, value in enumerate(values)))
        rig.process()
        sizes[level] = rig.measured(metrics.BYTES_CONSUMED, SOURCE, "in")

    assert sizes["DEBUG"] == 1_000 * (RECORD_BYTES + len("key") + len("in")) + 500 * 110
    assert sizes["INFO"] == pytest.approx(sizes["DEBUG"], rel=0.1)


def test_what_was_forgotten_was_not_consumed() -> None:
    rig = TaskRig(longs)
    rig.add("in", *batch(*range(10)))
    rig.process(4)
    rig.task.abort()

    assert rig.measured(metrics.RECORDS_CONSUMED, SOURCE, "in") == 4
    assert rig.measured(metrics.BYTES_CONSUMED, SOURCE, "in") == 4 * (RECORD_BYTES + 6)


@pytest.mark.parametrize("level", ["INFO", "DEBUG"])
def test_sources_of_a_task_that_has_several_are_measured_each(level: str) -> None:
    rig = TaskRig(two_sources, max_task_idle_ms=0, **{LEVEL: level})
    other = "KSTREAM-SOURCE-0000000001"
    rig.add("a", *batch(100))
    rig.add("b", *batch(200, 300))
    rig.process()

    assert rig.measured(metrics.RECORDS_CONSUMED, SOURCE, "a") == 1
    assert rig.measured(metrics.RECORDS_CONSUMED, other, "b") == 2
    assert rig.measured(MAX, SOURCE) == NOW_MS - 100
    assert rig.measured(MIN, other) == NOW_MS - 300
    # "a" was empty when the records of "b" were processed.
    assert (rig.measured(metrics.ENFORCED_PROCESSING) or 0) > 0


def test_what_waits_is_told_by_source_node_and_topic_with_what_is_on_the_broker() -> None:
    rig = TaskRig(several_topics)
    rig.add("a", *batch(100, 200, 300))
    rig.add("b", *batch(100))
    a, b, c = (TopicPartition(topic, 0) for topic in "abc")

    found = topic_lags(rig.task, {a: 10, b: 20, c: 40}.get)

    task, other = str(rig.task.task_id), "KSTREAM-SOURCE-0000000001"
    assert found.rows(metrics.TOPIC_RECORDS_LAG) == {
        (task, SOURCE, "a"): 13,
        (task, SOURCE, "b"): 21,
        (task, other, "c"): 40,
    }


def test_below_a_record_cache_what_a_commit_forwards_is_measured() -> None:
    rig = TaskRig(counted, statestore_cache_max_bytes=1_000_000)
    sink = "KSTREAM-SINK-0000000003"
    rig.add("in", *batch(100, 200))
    rig.process()

    assert rig.measured(metrics.RECORDS_PRODUCED, sink, "out") == 0
    assert (rig.measured(metrics.CACHE_SIZE_BYTES) or 0) > 0
    rig.commit()
    assert rig.measured(metrics.RECORDS_PRODUCED, sink, "out") == 1
    assert rig.measured(AVG, sink) == NOW_MS - 200


def test_off_measures_nothing_and_leaves_no_line() -> None:
    rig = TaskRig(longs, **{LEVEL: "OFF"})
    rig.add("in", *batch(100))
    rig.process()

    assert rig.task.measured(0.0).values == {}
