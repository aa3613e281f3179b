"""A table tells the name of its store where Java's ``KTable.queryableStoreName`` tells it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from headwater import (
    BufferConfig,
    Materialized,
    Serdes,
    SessionWindows,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
)

TEXTS: Any = {"key_serde": Serdes.string, "value_serde": Serdes.string}
UNNAMED: Any = Materialized(**TEXTS)
NAMED: Any = Materialized(store="named", **TEXTS)
SECOND = timedelta(seconds=1)
WAITING = Suppressed.until_time_limit(SECOND, BufferConfig.unbounded())


def _first(value: str, _other: str) -> str:
    return value


def _grouped(builder: StreamsBuilder) -> Any:
    return builder.stream("s", **TEXTS).group_by_key()


def _table(builder: StreamsBuilder) -> Any:
    return builder.table("t", **TEXTS)


def _other(builder: StreamsBuilder) -> Any:
    return builder.table("u", **TEXTS, store="other")


@pytest.mark.parametrize(
    ("draw", "name"),
    [
        (_table, None),
        (_other, "other"),
        (lambda b: _table(b).filter(_first, UNNAMED), None),
        (lambda b: _table(b).filter(_first, NAMED), "named"),
        (lambda b: _other(b).filter(_first), None),
        (lambda b: _table(b).map_values(str, UNNAMED), None),
        (lambda b: _table(b).map_values(str, NAMED), "named"),
        (lambda b: _table(b).join(_other(b), _first), None),
        (lambda b: _table(b).join(_other(b), _first, NAMED), "named"),
        (lambda b: _table(b).join(_other(b), str, _first, NAMED), "named"),
        (lambda b: b.stream("s", **TEXTS).to_table(UNNAMED), None),
        (lambda b: b.stream("s", **TEXTS).to_table(NAMED), "named"),
        (lambda b: _grouped(b).count(), None),
        (lambda b: _grouped(b).reduce(_first, NAMED), "named"),
        (lambda b: _grouped(b).windowed_by(TimeWindows.of(size=SECOND, grace=0)).count(), None),
        (
            lambda b: (
                _grouped(b).windowed_by(TimeWindows.of(size=SECOND, grace=0)).count(store="w")
            ),
            "w",
        ),
        (
            lambda b: (
                _grouped(b)
                .windowed_by(SessionWindows.of(inactivity_gap=SECOND, grace=0))
                .count(store="w")
            ),
            "w",
        ),
        (lambda b: _grouped(b).cogroup(lambda _k, v, _a: v).aggregate(str, NAMED), "named"),
        (lambda b: _table(b).group_by(lambda k, v: (k, v), **TEXTS).count(), None),
        (lambda b: _table(b).group_by(lambda k, v: (k, v), **TEXTS).count(store="g"), "g"),
        (lambda b: _other(b).suppress(WAITING), None),
        (lambda b: _other(b).suppress(WAITING.with_name("waiting")), None),
    ],
)
def test_a_name_that_was_given_is_told(draw: Any, name: str | None) -> None:
    assert draw(StreamsBuilder()).queryable_store_name() == name


@pytest.mark.parametrize(
    ("draw", "prefix"),
    [
        (lambda b: _table(b).join(_other(b), _first, UNNAMED), "KTABLE-MERGE-"),
        (lambda b: _table(b).join(_other(b), str, _first), "KTABLE-FK-JOIN-OUTPUT-"),
    ],
)
def test_a_joined_table_tells_a_generated_name_too(draw: Any, prefix: str) -> None:
    assert draw(StreamsBuilder()).queryable_store_name().startswith(f"{prefix}STATE-STORE-")
