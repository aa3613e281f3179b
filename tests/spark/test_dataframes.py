"""DataFrames make what tasks make of the same records: bytes, times, partitions. No Kafka here."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from headwater import Serdes, StreamsBuilder
from headwater import functions as f
from headwater.spark.frames.rows import Trouble
from tests.support.dataframes import Record, by_dataframes, crossed, latest, natively, translated
from tests.support.planted import planted
from tests.support.random_topologies import random_case
from tests.support.thread_rig import LONG

pytestmark = [pytest.mark.spark, pytest.mark.slow]

TEXTS: dict[str, Any] = {"key_serde": Serdes.string, "value_serde": Serdes.string}
LONGS: dict[str, Any] = {"key_serde": Serdes.string, "value_serde": Serdes.long}


@pytest.mark.seeded(40)
@pytest.mark.sampled
def test_random_topologies_come_to_the_same_state(session: Any, seed: str) -> None:
    case = random_case(Random(seed))
    topology, translation = translated(case.build)
    units = {number for unit in translation.units for number in unit.subtopologies}
    assert units == set(translation.subtopologies), (seed, translation.subtopologies)

    computed = by_dataframes(session, translation, case.log)

    if computed.trouble is not Trouble.NONE:
        return  # numbers at the edge: tasks have to look
    assert computed.state == natively(topology, translation, case.log), seed
    assert computed.times == dict(latest(case.log)) | crossed(topology, case.log), seed


# -- adversaries, and faults that they catch -------------------------------------------------------


def adversarial(builder: StreamsBuilder) -> None:
    """A table, a sum in place, a count behind a shuffle and a filter that may be unknown."""
    builder.table("table", store="table", **TEXTS)
    numbers = builder.stream("numbers", **LONGS)
    numbers.group_by_key(**LONGS).reduce(f.add, store="sum", **LONGS)
    known = numbers.filter((f.value != 7) & (f.key != "q"))
    kept = known.group_by(f.key.or_else("x")[:1], **LONGS)
    kept.count(store="count", key_serde=Serdes.string)


def number(key: str | None, value: int | None, at: int) -> Record:
    return Record(
        None if key is None else key.encode(), None if value is None else LONG.pack(value), at
    )


ADVERSARIES = {
    "table": [
        [
            Record(b"tie", b"first", 5),
            Record(b"tie", b"second", 5),
            Record(b"back", b"late", 9),
            Record(b"back", b"early", 3),
            Record(b"gone", b"here", 1),
            Record(b"gone", None, 2),
            Record(b"again", None, 2),
            Record(b"again", b"here", 1),
            Record(b"never", None, 4),
            Record(None, b"nobody", 50),
        ],
        [Record(b"tie", b"elsewhere", 1)],
    ],
    "numbers": [
        [
            number("a1", 1, 9),
            number("a1", 2, 3),
            number("a1", None, 40),
            number("b1", 7, 12),
            number(None, 5, 60),
            number("b2", None, 30),
            number("c", None, 8),
        ],
        [number("a2", -4, 2), number("a1", 5, 1), number("", 0, 0)],
        [],
    ],
}


def test_adversaries_come_to_the_same_state(session: Any) -> None:
    topology, translation = translated(adversarial)

    computed = by_dataframes(session, translation, ADVERSARIES)

    assert computed.trouble is Trouble.NONE
    assert computed.times == dict(latest(ADVERSARIES)) | crossed(topology, ADVERSARIES)
    assert computed.state == natively(topology, translation, ADVERSARIES)
    assert computed.state["table", 0, b"gone"] == (None, 2)
    # Without a key or, where it is summed up and counted, a value.
    assert computed.dropped == 1 + 4


@pytest.mark.soak(stays="tests/spark/test_rules.py::test_a_fault_planted_in_a_rule_is_seen")
@pytest.mark.parametrize(
    "name",
    [
        "a table by time",
        "the first of two",
        "a deleted key comes back",
        "the time of the last record",
        "the time of a dropped record",
        "unknown is true",
        "a null value is one",
        "another partition",
    ],
)
def test_a_planted_fault_is_caught(quick: Any, name: str) -> None:
    topology, translation = translated(adversarial)

    with planted(name):
        computed = by_dataframes(quick, translation, ADVERSARIES)

    assert computed.state != natively(topology, translation, ADVERSARIES)


# -- what tasks have to look at --------------------------------------------------------------------

_MAX, _MIN = 2**63 - 1, -(2**63)


def _counts_the_doubled(builder: StreamsBuilder) -> None:
    doubled = builder.stream("in", **LONGS).map_values(f.value * 2)
    doubled.group_by_key(**LONGS).count(store="c", key_serde=Serdes.string)


def _filters_first(builder: StreamsBuilder) -> None:
    small = builder.stream("in", **LONGS).filter(f.value < 100).map_values(f.value * 2)
    small.group_by_key(**LONGS).count(store="c", key_serde=Serdes.string)


def _filters_later(builder: StreamsBuilder) -> None:
    doubled = builder.stream("in", **LONGS).map_values(f.value * 2).filter(f.value < 0)
    doubled.group_by(f.key, **LONGS).count(store="c", key_serde=Serdes.string)


def _sums(builder: StreamsBuilder) -> None:
    builder.stream("in", **LONGS).group_by_key(**LONGS).reduce(f.add, store="s", **LONGS)


@pytest.mark.parametrize(
    ("build", "values", "trouble"),
    [
        (_counts_the_doubled, [LONG.pack(_MAX)], Trouble.OVERFLOW),
        (_counts_the_doubled, [LONG.pack(2**62 - 1)], Trouble.NONE),
        (_filters_first, [LONG.pack(_MAX)], Trouble.NONE),
        (_filters_later, [LONG.pack(_MAX)], Trouble.OVERFLOW),
        (_sums, [LONG.pack(_MAX), LONG.pack(1), LONG.pack(-1)], Trouble.SUM),
        (_sums, [LONG.pack(_MAX), LONG.pack(-1), LONG.pack(_MIN)], Trouble.SUM),
        (_sums, [LONG.pack(_MAX), LONG.pack(_MIN)], Trouble.NONE),
        (_sums, [LONG.pack(1), b"short"], Trouble.UNDECODABLE),
    ],
)
def test_what_only_a_task_can_handle_is_seen(
    session: Any, build: Any, values: list[bytes], trouble: Trouble
) -> None:
    topology, translation = translated(build)
    log = {"in": [[Record(b"k", value, 1) for value in values]]}

    computed = by_dataframes(session, translation, log)

    assert computed.trouble is trouble
    if trouble is Trouble.NONE:
        assert computed.state == natively(topology, translation, log)


def test_a_record_without_a_valid_time_is_seen(session: Any) -> None:
    _, translation = translated(_sums)

    computed = by_dataframes(session, translation, {"in": [[number("k", 1, -1)]]})

    assert computed.trouble is Trouble.NO_TIMESTAMP
