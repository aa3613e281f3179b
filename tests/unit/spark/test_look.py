"""What a look at a topic reads, and how bytes become columns: without Kafka and without Spark."""

from __future__ import annotations

import struct
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater import Serdes
from headwater.errors import DeserializationError
from headwater.ids import TopicPartition
from headwater.serde.primitives import StringSerde
from headwater.spark.tables.columns import KeyLayout, Shape, batch_of, shaped, simple_name
from headwater.spark.tables.spans import Span, pieces

P = TopicPartition("t", 3)


@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 5_000)), max_size=5), st.data())
def test_pieces_are_every_offset_once_and_none_too_large(
    ranges: list[tuple[int, int]], data: st.DataObject
) -> None:
    at_most = data.draw(st.integers(100, 6_000))
    wanted = {
        TopicPartition("t", number): (start, start + size)
        for number, (start, size) in enumerate(ranges)
    }

    found = pieces(wanted, at_most)

    assert all(0 < piece.end - piece.start <= at_most for piece in found)
    for partition, (start, end) in wanted.items():
        mine = [piece for piece in found if piece.partition == partition]
        at = start
        for piece in mine:
            assert piece.start == at
            at = piece.end
        assert at == (end if mine else start)
        assert bool(mine) == (end > start)
        sizes = [piece.end - piece.start for piece in mine] or [0]
        assert max(sizes) - min(sizes) <= 1


def test_a_partition_without_records_is_no_piece() -> None:
    assert pieces({P: (7, 7)}, 10) == ()
    assert pieces({P: (7, 8)}, 10) == (Span(P, 7, 8),)


def rows(batch: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = batch.to_pylist()
    return found


def one(key: bytes | None, value: bytes | None, offset: int = 5) -> Any:
    return batch_of(P, [(offset, 1_500, key, value, None)])


def test_records_are_columns_as_they_are() -> None:
    headers: list[tuple[str, bytes | None]] = [("a", b"1"), ("a", None)]
    batch = batch_of(P, [(5, 1_500, b"k", None, headers), (9, -1, None, b"\xff", None)])

    first, second = rows(batch)

    assert first == {
        "key": b"k",
        "value": None,
        "headers": [{"key": "a", "value": b"1"}, {"key": "a", "value": None}],
        "topic": "t",
        "partition": 3,
        "offset": 5,
        "timestamp": datetime(1970, 1, 1, 0, 0, 1, 500_000, tzinfo=UTC),
    }
    assert (second["key"], second["value"], second["headers"]) == (None, b"\xff", None)
    assert shaped(batch, Shape()) is batch


@given(
    st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), min_size=1),
    st.sampled_from(["long", "integer", "double", "string", "json"]),
)
def test_a_column_holds_what_the_serde_has_encoded(values: list[int | None], name: str) -> None:
    serde = Serdes.by_name(name)
    made: list[Any] = [
        None if n is None else {"integer": n >> 32, "double": n / 3, "string": str(n)}.get(name, n)
        for n in values
    ]
    encode = serde.serializer("t")
    data = [None if one is None else encode(one) for one in made]
    batch = batch_of(P, [(at, 0, None, value, None) for at, value in enumerate(data)])

    found = [row["value"] for row in rows(shaped(batch, Shape(value=name)))]

    assert found == ([None if n is None else str(n) for n in made] if name == "json" else made)


@pytest.mark.parametrize(
    ("name", "data"),
    [("long", b"1234567"), ("integer", b""), ("double", b"9"), ("string", b"\xff")],
)
def test_bytes_of_another_type_are_named(name: str, data: bytes) -> None:
    good = {"long": bytes(8), "integer": bytes(4), "double": bytes(8), "string": b"x"}[name]
    batch = batch_of(
        P, [(1, 0, None, None, None), (2, 0, None, good, None), (9, 0, None, data, None)]
    )

    with pytest.raises(DeserializationError, match=f"t-3 offset 9: the value is no {name}"):
        shaped(batch, Shape(value=name))


def test_keys_of_windows_and_sessions_are_taken_apart() -> None:
    window = one(b"k" + struct.pack(">qi", 60_000, 2), b"v")
    session = one(b"key" + struct.pack(">qq", 9_000, 4_000), b"v")

    (in_window,) = rows(shaped(window, Shape(key="string", layout=KeyLayout.WINDOW)))
    (in_session,) = rows(shaped(session, Shape(key="string", layout=KeyLayout.SESSION)))

    assert (in_window["key"], in_window["window_sequence"]) == ("k", 2)
    assert in_window["window_start"] == datetime.fromtimestamp(60, UTC)
    assert in_session["key"] == "key"
    assert in_session["session_start"] == datetime.fromtimestamp(4, UTC)
    assert in_session["session_end"] == datetime.fromtimestamp(9, UTC)
    with pytest.raises(DeserializationError, match=r"offset 5: the key is no session key of 9"):
        shaped(one(b"too short", b"v"), Shape(layout=KeyLayout.SESSION))


def test_only_the_built_in_serdes_are_columns_of_their_own_type() -> None:
    class Own(StringSerde):
        """May decode anything."""

    assert simple_name(Serdes.string) == "string"
    assert simple_name("long") == "long"
    assert simple_name(Own()) == simple_name(Serdes.bytes) == simple_name(None) == "bytes"
