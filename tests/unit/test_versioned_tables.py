"""Tables that know the values of the past: joins as of a time, and what updates of the past do."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from headwater import (
    BufferConfig,
    Materialized,
    Serdes,
    StoreKind,
    StreamsBuilder,
    Suppressed,
    TopologyError,
    VersionedKeyValueStore,
)
from headwater.model.metrics import DROPPED_RECORDS
from headwater.testing import TopologyTestDriver

STRINGS: dict[str, Any] = {"key_serde": Serdes.string, "value_serde": Serdes.string}
CONFIG = {
    "default.key.serde": "string",
    "default.value.serde": "string",
    "statestore.cache.max.bytes": 0,
}


def _pipe(driver: TopologyTestDriver, topic: str, *records: tuple[str, str | None, int]) -> None:
    for key, value, time in records:
        data = None if value is None else value.encode()
        driver.pipe_raw(topic, key.encode(), data, time)


def _out(driver: TopologyTestDriver) -> list[tuple[Any, int]]:
    return [
        (None if record.value is None else record.value.decode(), record.timestamp)
        for record in driver.history
        if record.topic == "out"
    ]


@pytest.mark.parametrize("derived", [False, True])
def test_a_stream_finds_what_was_valid_at_its_record_s_time(derived: bool) -> None:
    builder = StreamsBuilder()
    history = timedelta(seconds=1)
    table = builder.table("tab", store="prices", history_retention=history, **STRINGS)
    if derived:
        table = table.filter(lambda _, value: value != "none").map_values(str.upper)
    builder.stream("in", **STRINGS).left_join(table, lambda v, found: f"{v}{found}").to("out")
    driver = TopologyTestDriver(builder.build(), CONFIG)

    _pipe(driver, "tab", ("a", "x", 10), ("a", "z", 30), ("a", "y", 20), ("a", "none", 40))
    _pipe(driver, "in", ("a", "9 ", 9), ("a", "10 ", 10), ("a", "29 ", 29), ("a", "50 ", 50))

    x, y = ("X", "Y") if derived else ("x", "y")
    last = "None" if derived else "none"
    assert _out(driver) == [("9 None", 9), (f"10 {x}", 10), (f"29 {y}", 29), (f"50 {last}", 50)]
    store = driver.get_state_store("prices")
    assert isinstance(store, VersionedKeyValueStore)
    assert store.get("a", 25) == ("y", 20)


def test_what_comes_late_is_streamed_and_neither_joined_nor_grouped() -> None:
    """A join counts it as dropped, a grouping does not."""
    builder = StreamsBuilder()
    table = builder.table("tab", store="v", history_retention=1_000, **STRINGS)
    other = builder.table("other", **STRINGS)
    table.map_values(str.upper).join(other, lambda a, b: a + b).to_stream().to("out")
    table.group_by(lambda k, v: (k, v)).count(store="n")
    table.to_stream().to("all")
    driver = TopologyTestDriver(builder.build(), CONFIG)

    _pipe(driver, "other", ("a", "!", 1))
    _pipe(driver, "tab", ("a", "new", 20), ("a", "old", 10), ("a", None, 15), ("a", "last", 30))

    assert _out(driver) == [("NEW!", 20), ("LAST!", 30)]
    assert len([record for record in driver.history if record.topic == "all"]) == 4
    dropped = [warning for warning in driver.warnings if "out-of-order" in warning]
    assert len(dropped) == 2
    assert driver.task.statistics().total(DROPPED_RECORDS) == 2
    assert driver.get_key_value_store("n").get("a") == 1  # type: ignore[union-attr]


def test_what_is_too_old_for_the_store_is_not_passed_on() -> None:
    builder = StreamsBuilder()
    table = builder.table("tab", store="v", history_retention=10, **STRINGS)
    table.to_stream().to("out")
    driver = TopologyTestDriver(builder.build(), CONFIG)

    _pipe(driver, "tab", ("a", "x", 100), ("b", "y", 90), ("b", "z", 89))

    assert _out(driver) == [("x", 100), ("y", 90)]
    assert driver.warnings == [
        "task 0_0, store v: Skipping record for expired put. topic=[tab] partition=[0] offset=[2]"
    ]


def test_a_join_of_tables_and_an_aggregate_may_be_versioned() -> None:
    builder = StreamsBuilder()
    left, right = builder.table("tab", **STRINGS), builder.table("other", **STRINGS)
    kept: Materialized[str, str] = Materialized(store="both", history_retention=50, **STRINGS)
    left.join(right, lambda a, b: a + b, kept).to_stream().to("out")
    builder.stream("in", **STRINGS).group_by_key().count(store="n", history_retention=50)
    topology = builder.build()
    driver = TopologyTestDriver(topology, CONFIG)

    _pipe(driver, "tab", ("a", "1", 10))
    _pipe(driver, "other", ("a", "x", 100), ("a", "y", 20))
    _pipe(driver, "in", ("a", "x", 100), ("a", "y", 20))

    assert _out(driver) == [("1x", 100)]
    assert driver.get_state_store("both").get("a", 99) is None
    assert driver.get_state_store("n").get("a") == (2, 100)
    assert topology.stores["both"].kind is StoreKind.VERSIONED
    assert not topology.stores["both"].caching
    changelogs = topology.report("app").subtopologies[1].changelogs
    assert {log.retention_ms for log in changelogs if log.kind == "Versioned"} == {50}


def _suppressed() -> None:
    builder = StreamsBuilder()
    table = builder.table("tab", store="v", history_retention=10)
    table.map_values(str.upper).suppress(
        Suppressed.until_time_limit(1, BufferConfig.unbounded())
    ).to_stream().to("out")
    builder.build()


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (lambda: Materialized(history_retention=10), "needs a name"),
        (lambda: Materialized(store="v", history_retention=10, persistent=False), "a disk"),
        (lambda: Materialized(store="v", history_retention=-1), "history_retention is negative"),
        (_suppressed, "the table is versioned"),
    ],
)
def test_what_cannot_be_is_refused(wrong: Any, told: str) -> None:
    with pytest.raises(TopologyError, match=told):
        wrong()
