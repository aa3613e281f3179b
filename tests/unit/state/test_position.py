"""A stored position is trusted only while its changelog has everything since."""

from __future__ import annotations

import pytest

from headwater.ports import Position
from headwater.state.position import (
    Rebuild,
    RebuildReason,
    Usable,
    decode_position,
    encode_position,
    judge,
)

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
NOW_MS = 1_700_000_000_000
FACTS = {
    "topic_id": "id-1",
    "log_start": 100,
    "log_end": 200,
    "now_ms": NOW_MS,
    "delete_retention_ms": DAY_MS,
}


def position(**changes: object) -> Position:
    return Position("id-1", 150, NOW_MS - HOUR_MS)._replace(**changes)


@pytest.mark.parametrize("offset", [100, 150, 200])
def test_a_position_within_the_log_is_continued(offset: int) -> None:
    assert judge(position(offset=offset), **FACTS) == Usable(offset)


@pytest.mark.parametrize("age_ms", [0, 23 * HOUR_MS, -HOUR_MS])
def test_a_commit_within_the_retention_of_tombstones_is_young_enough(age_ms: int) -> None:
    assert judge(position(committed_at_ms=NOW_MS - age_ms), **FACTS) == Usable(150)


@pytest.mark.parametrize(
    ("stored", "reason"),
    [
        (None, RebuildReason.NO_POSITION),
        (position(offset=-1001), RebuildReason.NO_POSITION),
        (position(format=2), RebuildReason.UNKNOWN_FORMAT),
        (position(format=0), RebuildReason.UNKNOWN_FORMAT),
        (position(topic_id="id-2"), RebuildReason.OTHER_TOPIC),
        (position(offset=99), RebuildReason.BELOW_LOG_START),
        (position(offset=201), RebuildReason.ABOVE_LOG_END),
        (position(committed_at_ms=NOW_MS - 23 * HOUR_MS - 1), RebuildReason.TOO_OLD),
        (position(committed_at_ms=NOW_MS + HOUR_MS + 1), RebuildReason.FROM_THE_FUTURE),
    ],
    ids=lambda value: value.name if isinstance(value, RebuildReason) else "",
)
def test_every_way_to_be_stale_is_found(stored: Position | None, reason: RebuildReason) -> None:
    assert judge(stored, **FACTS) == Rebuild(reason, 100)


def test_a_retention_within_the_margin_trusts_only_a_commit_of_this_moment() -> None:
    facts = {**FACTS, "delete_retention_ms": HOUR_MS // 2}

    assert judge(position(committed_at_ms=NOW_MS - 1), **facts) == Rebuild(
        RebuildReason.TOO_OLD, 100
    )
    assert judge(position(committed_at_ms=NOW_MS), **facts) == Usable(150)


def test_an_empty_log_continues_a_store_that_is_empty_too() -> None:
    facts = {**FACTS, "log_start": 0, "log_end": 0}

    assert judge(position(offset=0), **facts) == Usable(0)


def test_the_bytes_of_a_position_are_format_offset_time_and_topic() -> None:
    data = encode_position(Position("id", 258, 1))

    assert data == b"\x01" + b"\0\0\0\0\0\0\1\2" + b"\0\0\0\0\0\0\0\1" + b"id"
    assert decode_position(data) == Position("id", 258, 1)


@pytest.mark.parametrize("data", [b"", b"\x01short", b"\x02" + b"x" * 40])
def test_bytes_of_another_format_are_a_position_that_nobody_continues(data: bytes) -> None:
    found = decode_position(data)

    assert isinstance(judge(found, **FACTS), Rebuild)
