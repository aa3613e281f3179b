"""Records that the client cannot unpack, or must not: how much of memory one may take.

librdkafka stops where zstd unpacks to more than ``receive.message.max.bytes``. With gzip, snappy
and lz4 it has no bound, so the same one is held against the values that come.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaError

from headwater.errors import DeserializationError
from headwater.ports import Unreadable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from headwater.ids import TopicPartition
    from headwater.ports import RawRecord

UNREADABLE: Final = frozenset(
    {
        KafkaError._BAD_COMPRESSION,  # noqa: SLF001 - the client's names for its codes
        KafkaError._BAD_MSG,  # noqa: SLF001
        KafkaError._NOT_IMPLEMENTED,  # noqa: SLF001
        KafkaError.MSG_SIZE_TOO_LARGE,
    }
)
"""The client got a batch of records and cannot take it apart."""
_BOUND: Final = "receive.message.max.bytes"
_NAMED: Final = 5
_BOUND_BYTES: Final = 100_000_000
"""librdkafka's default."""


def bound_of(settings: Mapping[str, Any]) -> int:
    """Return how many bytes a record may unpack to."""
    return int(str(settings.get(_BOUND, _BOUND_BYTES)))


def cannot_unpack(error: KafkaError, bound: int) -> str:
    """Say why a batch cannot be read, and what may help."""
    return (
        f"its batch cannot be unpacked ({error.str()}): it is damaged, or unpacks to more than "
        f"consumer.{_BOUND} ({bound:,} bytes), which may be raised"
    )


def too_large(error: KafkaError, following: Mapping[TopicPartition, int]) -> DeserializationError:
    """Say that an answer with records is larger than the client takes.

    The client cannot tell whose: it has not looked into it.

    Args:
        error: what it said.
        following: which offset of each partition is to be read next.
    """
    named = sorted(f"{partition} offset {offset}" for partition, offset in following.items())
    return DeserializationError(
        f"a record to be read next is larger than the client takes ({error.str()}): "
        f"{', '.join(named[:_NAMED])}{' and others' if len(named) > _NAMED else ''}. Raise "
        f"consumer.{_BOUND}; to pass the record over, commit an offset behind it while the "
        "application is down"
    )


def within_bound(records: Iterable[RawRecord], bound: int) -> list[list[RawRecord]]:
    """Cut a batch where a value is larger than the bound; that record is put aside."""
    parts: list[list[RawRecord]] = []
    for is_large, run in groupby(records, lambda record: len(record[3] or b"") > bound):
        if not is_large:
            parts.append(list(run))
            continue
        for offset, _, _, value, _ in run:
            reason = (
                f"its value has {len(value or b''):,} bytes, more than consumer.{_BOUND} "
                f"({bound:,} bytes); raise that if it is to be read"
            )
            parts.append(Unreadable(offset, reason))
    return parts
