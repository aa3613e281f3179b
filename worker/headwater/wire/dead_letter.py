"""What a dead-letter record carries (KIP-1034): its own headers, then six about the error."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from headwater.ports import Headers

EXCEPTION: Final = "__streams.errors.exception"
MESSAGE: Final = "__streams.errors.message"
STACKTRACE: Final = "__streams.errors.stacktrace"
TOPIC: Final = "__streams.errors.topic"
PARTITION: Final = "__streams.errors.partition"
OFFSET: Final = "__streams.errors.offset"


class DeadLetterRecord(NamedTuple):
    """A record for a dead-letter topic, in bytes; the partition is the producer's choice."""

    topic: str
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: list[tuple[str, bytes | None]]


def error_headers(
    exception: BaseException, *, topic: str | None, partition: int, offset: int, original: Headers
) -> list[tuple[str, bytes | None]]:
    """Return the headers of a dead-letter record.

    Args:
        exception: what went wrong; its class name, message and traceback are written.
        topic: where the record came from; ``None`` inside a punctuation.
        partition: -1 inside a punctuation.
        offset: -1 inside a punctuation.
        original: headers of the record itself, kept in front.
    """
    kind = type(exception)
    trace = "".join(traceback.format_exception(exception))
    return [
        *(original or ()),
        (EXCEPTION, f"{kind.__module__}.{kind.__qualname__}".encode()),
        (MESSAGE, str(exception).encode(errors="backslashreplace")),
        (STACKTRACE, trace.encode(errors="backslashreplace")),
        (TOPIC, None if topic is None else topic.encode()),
        (PARTITION, str(partition).encode()),
        (OFFSET, str(offset).encode()),
    ]
