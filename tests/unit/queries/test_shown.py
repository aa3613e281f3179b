"""Keys are read from text, and values shown as JSON, as their serdes have them."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

import pytest

from headwater import Serdes
from headwater.errors import NotShownAsJsonError, QueryError
from headwater.model.stores import StoreKind, StoreSpec
from headwater.native.queries.answering import Held
from headwater.native.queries.reading import ShownStore
from headwater.native.queries.shown import BASE64, Shown
from headwater.native.queries.telling import row_of
from headwater.wire.headers import encode_headers

ID = uuid.UUID("12345678-1234-5678-1234-567812345678")


@dataclass(frozen=True)
class Place:
    row: int
    seat: str


@pytest.mark.parametrize(
    ("serde", "text", "value", "json"),
    [
        (Serdes.string, "a b", "a b", "a b"),
        (Serdes.long, "-7", -7, -7),
        (Serdes.integer, "7", 7, 7),
        (Serdes.short, "7", 7, 7),
        (Serdes.double, "1.5", 1.5, 1.5),
        (Serdes.boolean, "true", True, True),
        (Serdes.uuid, str(ID), ID, str(ID)),
        (Serdes.json, '{"b": 1, "a": 2}', {"a": 2, "b": 1}, {"a": 2, "b": 1}),
        (Serdes.json(Place), '{"seat": "a", "row": 1}', Place(1, "a"), {"row": 1, "seat": "a"}),
    ],
)
def test_a_key_is_read_from_text_and_shown_as_json(
    serde: Any, text: str, value: Any, json: Any
) -> None:
    shown = Shown("store", "key", serde, "topic")
    data = serde.serializer("topic")(value)
    assert shown.bytes_of(text) == data
    assert shown.json_of(data) == json
    as_text = shown.json_of(data, BASE64)
    assert shown.bytes_of(as_text, BASE64) == data
    assert shown.bytes_of(as_text.replace("+", "-").replace("/", "_"), BASE64) == data


@pytest.mark.parametrize(
    ("serde", "text"),
    [
        (Serdes.long, "seven"),
        (Serdes.short, "70000"),
        (Serdes.boolean, "yes"),
        (Serdes.uuid, "7"),
        (Serdes.json, "{"),
        (Serdes.json(Place), '{"row": "x"}'),
    ],
)
def test_what_is_no_key_is_named_with_its_serde(serde: Any, text: str) -> None:
    with pytest.raises(QueryError, match=rf"store store: .* is no key for {type(serde).__name__}"):
        Shown("store", "key", serde, "topic").bytes_of(text)
    with pytest.raises(QueryError, match="base64"):
        Shown("store", "key", serde, "topic").bytes_of("%", BASE64)


@pytest.mark.parametrize(
    ("serde", "data"),
    [(Serdes.bytes, b"\xff"), (Serdes.long, b"short"), (Serdes.string, b"\xff")],
)
def test_what_json_cannot_hold_says_how_to_get_its_bytes(serde: Any, data: bytes) -> None:
    with pytest.raises(NotShownAsJsonError, match=r"value cannot be shown as JSON .*format=base64"):
        Shown("store", "value", serde, "topic").json_of(data)


def test_headers_beside_a_value_are_shown_beside_it() -> None:
    spec = StoreSpec(name="kept", kind=StoreKind.TIMESTAMPED_KEY_VALUE_WITH_HEADERS)
    shown = ShownStore(
        Held(0, spec),
        Shown("kept", "key", Serdes.string, "t"),
        Shown("kept", "value", Serdes.long, "t"),
    )
    value = (7).to_bytes(8, "big")
    front = encode_headers([("h", b"\x01"), ("none", None)])

    row = row_of(shown, 1, (b"a", front + value, 5, 0, 0), {})

    assert row == {
        "partition": 1,
        "key": "a",
        "value": 7,
        "headers": [["h", "AQ=="], ["none", None]],
        "timestamp": 5,
    }
