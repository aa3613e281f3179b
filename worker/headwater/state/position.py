"""Whether a stored position can still be trusted, and the bytes it is stored as. Pure.

A store resumes from its position only if its changelog still has everything that happened since.
``may_be_last_copy`` says which of the others hold something that the changelog lacks:

    topic id differs                  the topic was deleted and made anew
    offset below the log start        records we never applied are gone
    offset above the log end          the log was truncated or is another one
    older than delete.retention.ms    tombstones may have been compacted away before we saw them
    unknown format                    a version we cannot read wrote it
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from typing import TYPE_CHECKING, Final, TypeAlias

from headwater.ports import Position

if TYPE_CHECKING:
    from collections.abc import Sequence

POSITION_FORMAT: Final = 1
POSITIONS_FORMAT: Final = 2
"""That of a store made of a whole topic."""
CLOCK_MARGIN_MS: Final = 3_600_000
"""Taken off ``delete.retention.ms``: clocks differ between machines, and a restore takes time."""

_HEAD: Final = struct.Struct(">Bqq")
_STREAM_TIME: Final = struct.Struct(">q")
_END: Final = b"\x00"
"""Behind the topic id; what follows is not needed to continue a store, only to query it."""


class RebuildReason(StrEnum):
    """Why a store must be thrown away; the value is the sentence shown to people."""

    NO_POSITION = "the store has no position"
    UNKNOWN_FORMAT = "the position was written in a format this version does not know"
    OTHER_TOPIC = "the changelog topic was deleted and created again"
    BELOW_LOG_START = "the position lies before the start of the changelog"
    ABOVE_LOG_END = "the position lies after the end of the changelog"
    TOO_OLD = "tombstones written since the last commit may already be deleted"
    DAMAGED = "the database is damaged"
    UNREADABLE_FORMAT = "the file that says which format the store has cannot be read"
    FROM_THE_FUTURE = "the last commit lies in the future: the clock was set back"


class Discard(Enum):
    """What becomes of a store that is replaced by one from its changelog."""

    DELETE = auto()
    SET_ASIDE = auto()
    """It stays on the disk under another name; whoever gave it up deletes it."""


@dataclass(frozen=True, slots=True)
class Usable:
    """The store resumes: apply the changelog from ``offset`` on."""

    offset: int


@dataclass(frozen=True, slots=True)
class Rebuild:
    """The store is thrown away; apply the changelog from ``offset``, its start."""

    reason: RebuildReason
    offset: int


Verdict: TypeAlias = Usable | Rebuild


def judge(
    position: Position | None,
    *,
    topic_id: str,
    log_start: int,
    log_end: int,
    now_ms: int,
    delete_retention_ms: int,
) -> Verdict:
    """Say whether the store at ``position`` may be continued from its changelog.

    Args:
        position: what the store says it holds; ``None`` for a store that never committed.
        topic_id: UUID of the changelog topic as the broker knows it now.
        log_start: first offset that the changelog partition still has.
        log_end: the partition's end offset, uncommitted records included.
        now_ms: wall-clock time.
        delete_retention_ms: the topic's ``delete.retention.ms``.
    """
    reason = _reason(position, topic_id, log_start, log_end, now_ms, delete_retention_ms)
    if reason is not None or position is None:
        return Rebuild(reason or RebuildReason.NO_POSITION, log_start)
    return Usable(position.offset)


def _reason(
    position: Position | None,
    topic_id: str,
    log_start: int,
    log_end: int,
    now_ms: int,
    delete_retention_ms: int,
) -> RebuildReason | None:
    if position is None:
        return RebuildReason.NO_POSITION
    if position.format == POSITION_FORMAT and (not position.topic_id or position.offset < 0):
        return RebuildReason.NO_POSITION  # an empty topic id: it had no changelog then
    age_ms = now_ms - position.committed_at_ms
    checks = (
        (position.format != POSITION_FORMAT, RebuildReason.UNKNOWN_FORMAT),
        (position.topic_id != topic_id, RebuildReason.OTHER_TOPIC),
        (position.offset < log_start, RebuildReason.BELOW_LOG_START),
        (position.offset > log_end, RebuildReason.ABOVE_LOG_END),
        (age_ms > max(delete_retention_ms - CLOCK_MARGIN_MS, 0), RebuildReason.TOO_OLD),
        (age_ms < -CLOCK_MARGIN_MS, RebuildReason.FROM_THE_FUTURE),
    )
    return next((reason for failed, reason in checks if failed), None)


def may_be_last_copy(
    reason: RebuildReason, *, log_start: int, log_end: int, is_expiring: bool
) -> bool:
    """Say whether a store that cannot be continued may hold what its changelog does not.

    Args:
        reason: why it cannot be continued.
        log_start: first offset that the changelog partition still has.
        log_end: the partition's end offset.
        is_expiring: the topic's ``cleanup.policy`` deletes old records, and means to.
    """
    match reason:
        case RebuildReason.OTHER_TOPIC | RebuildReason.ABOVE_LOG_END:
            return True
        case RebuildReason.BELOW_LOG_START:
            return not is_expiring
        case _:
            # A log that is only compacted starts at 0, unless somebody has deleted records.
            return (log_start > 0 or log_end <= log_start) and not is_expiring


def fate(
    reason: RebuildReason, *, is_allowed: bool, is_computed: bool, is_read: bool
) -> Discard | None:
    """Say how a store is replaced that may be the last copy of its state; ``None``: it must stay.

    Args:
        reason: why it cannot be continued.
        is_allowed: somebody has accepted the loss of its changelog.
        is_computed: a backfill has made the changelog anew.
        is_read: the application has read what the state was made of.
    """
    if is_computed and reason is RebuildReason.OTHER_TOPIC:
        return Discard.DELETE
    return Discard.SET_ASIDE if is_allowed or not is_read else None


def positions(topic_id: str, offsets: Sequence[int], committed_at_ms: int) -> Position:
    """Return the position of a store made of all partitions of a topic."""
    found = tuple(offsets)
    return Position(topic_id, sum(found), committed_at_ms, POSITIONS_FORMAT, found)


def encode_position(position: Position) -> bytes:
    """Return what a backend stores beside the data.

    Format ‖ offset ‖ time ‖ topic id ‖ 0x00 ‖ stream time ‖ input offsets; without the latter two
    it ends with the topic id. With the offsets of several partitions: format ‖ their number ‖ time
    ‖ offsets ‖ topic id.
    """
    of_all = position.offsets
    number = len(of_all) if position.format == POSITIONS_FORMAT else position.offset
    head = _HEAD.pack(position.format, number, position.committed_at_ms)
    data = head + struct.pack(f">{len(of_all)}q", *of_all) + position.topic_id.encode()
    if not position.read and position.stream_time < 0:
        return data
    return data + _END + _STREAM_TIME.pack(position.stream_time) + position.read


def decode_position(data: bytes) -> Position:
    """Read ``encode_position``'s bytes; of an unknown format only its number is read."""
    if data and data[0] == POSITIONS_FORMAT and len(data) >= _HEAD.size:
        return _decode_positions(data)
    if not data or data[0] != POSITION_FORMAT or len(data) < _HEAD.size:
        return Position(topic_id="", offset=-1, committed_at_ms=-1, format=data[0] if data else 0)
    known, offset, committed_at_ms = _HEAD.unpack_from(data)
    topic_id, _, more = data[_HEAD.size :].partition(_END)
    is_known = len(more) >= _STREAM_TIME.size
    return Position(
        topic_id.decode(errors="replace"),
        offset,
        committed_at_ms,
        known,
        read=more[_STREAM_TIME.size :] if is_known else b"",
        stream_time=_STREAM_TIME.unpack_from(more)[0] if is_known else -1,
    )


def _decode_positions(data: bytes) -> Position:
    _, count, committed_at_ms = _HEAD.unpack_from(data)
    end = _HEAD.size + 8 * count
    if not 0 <= count <= (len(data) - _HEAD.size) // 8:
        return Position(topic_id="", offset=-1, committed_at_ms=-1, format=0)
    offsets = struct.unpack_from(f">{count}q", data, _HEAD.size)
    return positions(data[end:].decode(errors="replace"), offsets, committed_at_ms)


def judge_all(
    position: Position | None,
    *,
    topic_id: str,
    starts: Sequence[int],
    ends: Sequence[int],
    now_ms: int,
    delete_retention_ms: int,
) -> tuple[int, ...] | RebuildReason:
    """Say where a store made of a whole topic goes on in each partition, or why it cannot.

    Args:
        position: what the store says it holds.
        topic_id: UUID of the topic now.
        starts: first offset of each partition there is.
        ends: end offset of each, uncommitted records included.
        now_ms: wall-clock time.
        delete_retention_ms: the topic's ``delete.retention.ms``.

    Returns:
        the next offset of each partition; of those that were added since, the first.
    """
    if position is None:
        return RebuildReason.NO_POSITION
    if position.format != POSITIONS_FORMAT or len(position.offsets) > len(starts):
        is_known = position.format == POSITIONS_FORMAT
        return RebuildReason.OTHER_TOPIC if is_known else RebuildReason.UNKNOWN_FORMAT
    for offset, start, end in zip(position.offsets, starts, ends, strict=False):
        of_one = Position(position.topic_id, offset, position.committed_at_ms)
        reason = _reason(of_one, topic_id, start, end, now_ms, delete_retention_ms)
        if reason is not None:
            return reason
    return (*position.offsets, *starts[len(position.offsets) :])
