"""A batch of the client's messages, taken apart by C: its accessors are mapped, nothing else runs.

Measured: 0.2 us a record, against 0.7 us for a loop over messages.
"""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import Message

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from headwater.ports import RawRecord

_offset = Message.offset
_timestamp = Message.timestamp
_key = Message.key
_value = Message.value
_headers = Message.headers
_second: Final = itemgetter(1)


def runs_of(numbers: list[int]) -> Iterable[tuple[int, int]]:
    """Return equal neighbours as number and count; most often there is one run of them all."""
    if numbers.count(numbers[0]) == len(numbers):
        return [(numbers[0], len(numbers))]
    return [(number, len(list(run))) for number, run in groupby(numbers)]


def records_of(messages: Sequence[Message]) -> list[RawRecord]:
    """Return what a task reads.

    Raises:
        SystemError: the name of a header is not UTF-8; ``headers.mend_headers`` mends that.
    """
    records: list[Any] = list(
        zip(
            map(_offset, messages),
            map(_second, map(_timestamp, messages)),
            map(_key, messages),
            map(_value, messages),
            map(_headers, messages),
            strict=True,
        )
    )
    return records
