"""The loops over raw records: decode, stamp, run. What every record costs is here.

The same few lines stand twice because a call per record would cost more than they do. The loop of a
task with one partition has the nodes below its source written into it, see ``code``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from headwater.errors import HeadwaterError, InvalidTimestampError, ProcessingError
from headwater.processor.code import Code
from headwater.processor.timestamps import ConsumedRecord, fail_on_invalid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from headwater.ports import RawRecord
    from headwater.processor.environment import Environment
    from headwater.processor.lane import Lane
    from headwater.processor.operators.endpoints import Input

Head: TypeAlias = "tuple[RawRecord, Any, Any, int]"
"""The next record of a partition: raw, decoded key, decoded value, timestamp."""


class Loops(NamedTuple):
    """The compiled loops of one lane. Both set ``Current.record`` to the record under way."""

    run: Callable[[Iterable[RawRecord]], None]
    """Run every record."""
    decode: Callable[[Iterable[RawRecord]], Iterator[Head]]
    """Give one decoded record after the other; one counts as taken when the next is asked for."""


def compile_loops(lane: Lane, source: Input, environment: Environment) -> Loops:
    """Compile the loops of ``lane`` for what ``source`` says about its topic."""
    stamp = _compile_stamp(lane, source, environment)
    reject = _compile_reject(lane, source, environment)
    undecodable = _compile_undecodable(source, environment)
    return Loops(
        _compile_run(lane, source, environment, stamp, reject, undecodable),
        _compile_decode(lane, source, environment, stamp, reject, undecodable),
    )


Stamp: TypeAlias = "Callable[[RawRecord, Any, Any], int] | None"
Reject: TypeAlias = "Callable[[RawRecord, Any, Any, int], None]"
Undecodable: TypeAlias = "Callable[[RawRecord, Exception], None]"


_RUN: Final = """\
def run(records):
    partition_time = lane.partition_time
    for record in records:
        current.record = record
        _, timestamp, key, value, headers = record
        try:
            if key is not None:
                key = decode_key(key)
            if value is not None:
                value = decode_value(value)
        except Exception as error:
            undecodable(record, error)
            continue{stamp}
        if timestamp < 0:
            reject(record, key, value, timestamp)
            continue
        if timestamp > partition_time:
            lane.partition_time = partition_time = timestamp{late}
"""
_LATE: Final = "\n        late(timestamp)"
_STAMP: Final = "\n        timestamp = stamp(record, key, value)"


def _compile_run(
    lane: Lane,
    source: Input,
    environment: Environment,
    stamp: Stamp,
    reject: Reject,
    undecodable: Undecodable,
) -> Callable[[Iterable[RawRecord]], None]:
    code = Code(skip="continue", indent=2)
    for name, value in {
        "lane": lane,
        "current": environment.current,
        "decode_key": source.decode_key,
        "decode_value": source.decode_value,
        "undecodable": undecodable,
        "stamp": stamp,
        "reject": reject,
        "late": environment.measures.lateness,
    }.items():
        code.bind(value, name)
    if source.arrival is not None:
        code.reached(source.arrival)
    source.emit(code, ("key", "value"))
    late = "" if environment.measures.lateness is None else _LATE
    head = _RUN.format(stamp="" if stamp is None else _STAMP, late=late).rstrip()
    return code.build(head, f"task {environment.task_id} {lane.partition}")


def _compile_decode(
    lane: Lane,
    source: Input,
    environment: Environment,
    stamp: Stamp,
    reject: Reject,
    undecodable: Undecodable,
) -> Callable[[Iterable[RawRecord]], Iterator[Head]]:
    decode_key, decode_value = source.decode_key, source.decode_value
    current = environment.current

    def decode(records: Iterable[RawRecord]) -> Iterator[Head]:
        for record in records:
            current.record = record
            _, timestamp, key, value, _ = record
            try:
                if key is not None:
                    key = decode_key(key)
                if value is not None:
                    value = decode_value(value)
            except Exception as error:
                undecodable(record, error)
                lane.size -= 1
                continue
            if stamp is not None:
                timestamp = stamp(record, key, value)
            if timestamp >= 0:
                yield record, key, value, timestamp
            else:
                reject(record, key, value, timestamp)
            lane.size -= 1

    return decode


def _consumed(lane: Lane, record: RawRecord, key: Any, value: Any) -> ConsumedRecord:
    topic, partition = lane.partition
    return ConsumedRecord(topic, partition, record[0], record[1], key, value, record[4])


def _compile_stamp(lane: Lane, source: Input, environment: Environment) -> Stamp:
    extract = source.extract
    if extract is None:
        return None

    def stamp(record: RawRecord, key: Any, value: Any) -> int:
        try:
            return _whole(extract(_consumed(lane, record, key, value), lane.partition_time))
        except HeadwaterError:
            raise
        except Exception as error:
            raise ProcessingError(
                f"task {environment.task_id}: the timestamp extractor raised for {lane.partition} "
                f"offset {record[0]}: {type(error).__name__}: {error}"
            ) from error

    return stamp


def _whole(timestamp: object) -> int:
    if not isinstance(timestamp, int):
        raise TypeError(f"it returned {timestamp!r}: return whole milliseconds")
    return timestamp


def _compile_reject(lane: Lane, source: Input, environment: Environment) -> Reject:
    def reject(record: RawRecord, key: Any, value: Any, timestamp: int) -> None:
        if source.extract is None:
            fail_on_invalid(_consumed(lane, record, key, value), lane.partition_time)
            raise InvalidTimestampError(f"{lane.partition} offset {record[0]}: {timestamp}")
        environment.counters.dropped += 1
        topic, partition = lane.partition
        environment.warn(
            f"task {environment.task_id}: Skipping record due to negative extracted timestamp. "
            f"topic=[{topic}] partition=[{partition}] offset=[{record[0]}] "
            f"extractedTimestamp=[{timestamp}] extractor=[{_named(source.extract)}]"
        )

    return reject


def _named(extractor: object) -> str:
    """Return the name of a function, or else of a class."""
    kind = type(extractor)
    return str(getattr(extractor, "__qualname__", f"{kind.__module__}.{kind.__qualname__}"))


def _compile_undecodable(source: Input, environment: Environment) -> Undecodable:
    failed = environment.failures.undecodable

    def undecodable(record: RawRecord, error: Exception) -> None:
        try:
            if record[2] is not None:
                source.decode_key(record[2])
        except Exception:
            failed(record, "key", error)
        else:
            failed(record, "value", error)

    return undecodable
