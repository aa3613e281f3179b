"""Runs of a changelog, made of records without a broker: of messages, and in C."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import Message

from headwater.kafka.newest import Run

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from headwater.kafka.newest import ChangelogRun
    from headwater.ports import RawRecord


def of_messages(records: Sequence[RawRecord]) -> ChangelogRun:
    return Run([_message(*record) for record in records])


def _message(
    offset: int, timestamp: int, key: bytes | None, value: bytes | None, headers: Any
) -> Message[Any, Any]:
    return Message(
        topic="t",
        partition=0,
        offset=offset,
        key=key,
        value=value,
        headers=headers,
        timestamp=(1, timestamp),
    )


def in_c(records: Sequence[RawRecord]) -> ChangelogRun:
    made: Any = import_module("headwater_native").RecordRun
    run: ChangelogRun = made(list(records))
    return run


RUNS: Final[Mapping[str, Callable[[Sequence[RawRecord]], ChangelogRun]]] = {
    "of messages": of_messages,
    "in C": in_c,
}
