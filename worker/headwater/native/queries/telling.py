"""How answers are written: rows and failures as JSON, with what was read for them. Pure."""

from __future__ import annotations

import json
from base64 import b64encode
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from headwater.errors import QueryError
from headwater.httpserver import JSON, Answer
from headwater.model.durations import LONG_MAX
from headwater.model.positions import Position
from headwater.model.queries import FailureReason
from headwater.model.stores import KeyLayout
from headwater.wire.headers import decode_headers, end_of_headers

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from headwater.errors import HeadwaterError
    from headwater.native.queries.reading import ShownStore
    from headwater.native.queries.values import PartitionAnswer
    from headwater.state.asks import Found

LIMIT_MAX: Final = 10_000
"""So many rows has an answer at most."""
_RAW: Final = "raw"
_BINARY: Final = "application/octet-stream"

_STATUS: Final = {
    FailureReason.UNKNOWN_QUERY_TYPE: HTTPStatus.BAD_REQUEST,
    FailureReason.NOT_ACTIVE: HTTPStatus.SERVICE_UNAVAILABLE,
    FailureReason.NOT_UP_TO_BOUND: HTTPStatus.PRECONDITION_FAILED,
    FailureReason.NOT_PRESENT: HTTPStatus.MISDIRECTED_REQUEST,
    FailureReason.DOES_NOT_EXIST: HTTPStatus.NOT_FOUND,
    FailureReason.STORE_EXCEPTION: HTTPStatus.INTERNAL_SERVER_ERROR,
}


def row_of(
    store: ShownStore, partition: int, row: Found, query: Mapping[str, str]
) -> dict[str, Any]:
    """Return a row as JSON values.

    Raises:
        NotShownAsJsonError: JSON cannot hold its key or its value.
    """
    key, value, timestamp, first, second = row
    form = query.get("format", "")
    shown: dict[str, Any] = {
        "partition": partition,
        "key": store.keys.json_of(key, query.get("keyFormat", "")),
    }
    if store.spec.kind.key_layout is KeyLayout.SESSION:
        shown["window"] = {"start": second, "end": first}
    elif store.spec.kind.expires:
        end = min(first + store.spec.window_size_ms, LONG_MAX)
        shown["window"] = {"start": first, "end": end}
    shown["value"] = store.values.json_of(_value_of(store, value), form)
    if store.spec.kind.keeps_headers:
        shown["headers"] = [
            [name, None if data is None else b64encode(data).decode()]
            for name, data in decode_headers(value) or ()
        ]
    if timestamp >= 0:
        shown["timestamp"] = timestamp
    if store.spec.kind.versioned:
        shown["validTo"] = None if first < 0 else first
    return shown


def _value_of(store: ShownStore, data: bytes) -> bytes:
    """Return the bytes of a value without the headers that lie in front of it."""
    return data[end_of_headers(data) :] if store.spec.kind.keeps_headers else data


def of_key(
    store: ShownStore,
    what: str,
    answer: PartitionAnswer,
    answers: Sequence[PartitionAnswer],
    query: Mapping[str, str],
) -> Answer:
    """Return what one partition has of a key.

    Args:
        store: the store.
        what: as in the path.
        answer: of that partition.
        answers: of all that were asked.
        query: the options.

    Raises:
        NotShownAsJsonError: JSON cannot hold a key or a value.
        QueryError: there is too much of it, or it is not wanted as one value.
    """
    is_raw = query.get("format", "") == _RAW
    common = {"position": answer.position.to_map(), "read": read_of(answers)}
    if what == "keys":
        row = answer.rows[0]
        if is_raw:
            return Answer(HTTPStatus.OK, _value_of(store, row[1]), _BINARY)
        shown = row_of(store, answer.partition, row, query)
        return as_json({"store": store.spec.name, **shown, **common})
    if is_raw:
        raise QueryError("format=raw is for one value; ask for base64")
    if len(answer.rows) > LIMIT_MAX:
        raise QueryError(
            f"store {store.spec.name} has more than {LIMIT_MAX} {what} of this key at these times; "
            f"narrow the times with from= and to= of GET /state/{store.spec.name}/{what}/KEY"
        )
    rows = [row_of(store, answer.partition, row, query) for row in answer.rows]
    return as_json({"store": store.spec.name, "rows": rows, **common})


def not_found(
    name: str, text: str, place: int, count: int | None, answers: Sequence[PartitionAnswer]
) -> Answer:
    """Say that a store does not have a key, and where that was looked for.

    Args:
        name: the store's.
        text: the key.
        place: the partition that was named, or where Kafka's partitioner places the key.
        count: how many partitions there are; ``None`` if that is not known, or one was named.
        answers: of the partitions that were read.
    """
    read = read_of(answers)
    others = [partition for partition in read if partition != str(place)]
    message = f"store {name} has no {text!r:.80} in partition {place}"
    if count is not None:
        message += ", where Kafka's partitioner places it"
        if others:
            message += f", nor in {', '.join(others)}"
        if len(read) < count:
            message += (
                f"; if other rules place keys, ask one of all {count} partitions with partition=N, "
                "or let `headwater query` ask all of them"
            )
    document = {
        "error": "KEY_NOT_FOUND",
        "message": message,
        "partition": place,
        "of": count,
        "read": read,
        "position": position_of(answers).to_map(),
    }
    return as_json(document, HTTPStatus.NOT_FOUND)


def read_of(answers: Iterable[PartitionAnswer]) -> dict[str, dict[str, Any]]:
    """Return, by partition, who has answered, and up to which offset of the changelog."""
    return {
        str(answer.partition): {
            "standing": str(answer.standing),
            "changelogOffset": answer.changelog_offset,
        }
        for answer in answers
        if answer.failure is None
    }


def position_of(answers: Iterable[PartitionAnswer]) -> Position:
    """Return the position of all that was read."""
    merged = Position()
    for answer in answers:
        if answer.failure is None:
            merged = merged.merge(answer.position)
    return merged


def failure(store: str, answer: PartitionAnswer, answers: Iterable[PartitionAnswer] = ()) -> Answer:
    """Say why a partition does not answer.

    Args:
        store: its name.
        answer: that partition's.
        answers: of all that were asked.
    """
    assert answer.failure is not None
    document = {
        "error": str(answer.failure),
        "message": f"store {store}: {answer.message}",
        "partition": answer.partition,
        "read": read_of(answers),
    }
    return as_json(document, _STATUS[answer.failure])


def refused(error: HeadwaterError, status: HTTPStatus) -> Answer:
    """Say what is wrong with a question."""
    return as_json({"error": type(error).__name__, "message": str(error)}, status)


def as_json(document: dict[str, Any], status: HTTPStatus = HTTPStatus.OK) -> Answer:
    """Return a document as an answer."""
    return Answer(status, json.dumps(document, separators=(",", ":")).encode() + b"\n", JSON)
