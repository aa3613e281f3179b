"""Which timestamp an input record has (Kafka's ``TimestampExtractor``).

An extractor is a function ``(record, partition_time)`` that returns milliseconds since the epoch. A
negative result drops the record. ``partition_time`` is the largest timestamp processed from the
record's partition so far, -1 at first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from headwater.errors import ConfigError, InvalidTimestampError
from headwater.model.callables import objection
from headwater.processor.resolving import resolve

if TYPE_CHECKING:
    from headwater.ports import Clock, Headers


class ConsumedRecord(NamedTuple):
    """A decoded input record, as a timestamp extractor sees it (Kafka's ``ConsumerRecord``)."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    """The record's own; -1 if the producer wrote none."""
    key: Any
    value: Any
    headers: Headers


TimestampExtractor: TypeAlias = Callable[[ConsumedRecord, int], int]


def fail_on_invalid(record: ConsumedRecord, partition_time: int) -> int:
    """Take the record's timestamp; a negative one is an error (the default).

    Raises:
        InvalidTimestampError: the timestamp is negative.
    """
    del partition_time
    if record.timestamp < 0:
        raise InvalidTimestampError(
            f"{record.topic}-{record.partition} offset {record.offset}: the record has no valid "
            f"timestamp ({record.timestamp}), as from a client older than Kafka 0.10. Set "
            "default.timestamp.extractor to log-and-skip-on-invalid, "
            "use-partition-time-on-invalid or wallclock"
        )
    return record.timestamp


def log_and_skip_on_invalid(record: ConsumedRecord, partition_time: int) -> int:
    """Take the record's timestamp; a negative one drops the record."""
    del partition_time
    return record.timestamp


def use_partition_time_on_invalid(record: ConsumedRecord, partition_time: int) -> int:
    """Take the record's timestamp, or the partition time in place of a negative one.

    Raises:
        InvalidTimestampError: there is no partition time yet.
    """
    if record.timestamp >= 0:
        return record.timestamp
    if partition_time < 0:
        raise InvalidTimestampError(
            f"{record.topic}-{record.partition} offset {record.offset}: the first record of the "
            f"partition has no valid timestamp ({record.timestamp}), so there is no partition time "
            "to use in its place"
        )
    return partition_time


def wallclock(clock: Clock) -> TimestampExtractor:
    """Return an extractor that takes the time of processing (``WallclockTimestampExtractor``)."""

    def extract(record: ConsumedRecord, partition_time: int) -> int:
        del record, partition_time
        return clock.now_ms()

    return extract


def extractor_of(reference: object, clock: Clock) -> TimestampExtractor | None:
    """Return the configured extractor; ``None`` is the default, which the loops have built in.

    Raises:
        ConfigError: it cannot be imported or is not callable.
    """
    if reference in {"fail-on-invalid", fail_on_invalid}:
        return None
    if reference == "log-and-skip-on-invalid":
        return log_and_skip_on_invalid
    if reference == "use-partition-time-on-invalid":
        return use_partition_time_on_invalid
    if reference == "wallclock":
        return wallclock(clock)
    found = resolve("default.timestamp.extractor", reference)
    extractor = found() if isinstance(found, type) else found
    if reason := objection(extractor):
        raise ConfigError(
            f"default.timestamp.extractor: {reason}; it takes (record, partition_time)"
        )
    return extractor  # type: ignore[no-any-return]
