"""Headers in front of a stored value have Kafka's bytes (``HeadersSerializer``)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import DeserializationError
from headwater.wire.headers import (
    decode_headers,
    encode_headers,
    end_of_headers,
    insert_timestamp,
    take_timestamp,
)
from headwater.wire.varint import read_varint, write_varint

HEADERS = st.lists(st.tuples(st.text(max_size=90), st.none() | st.binary(max_size=200)))
OF_JAVA = [
    ([], "00"),
    ([("n", b"\x07")], "0a02026e0207"),
    ([("h", b"\x00\xff"), ("none", None)], "18040268" + "0400ff" + "086e6f6e6501"),
    ([("", b"")], "06020000"),
]
"""As rows of Java's stores begin."""


@pytest.mark.parametrize(("headers", "data"), OF_JAVA)
def test_headers_have_javas_bytes(headers: list[tuple[str, bytes | None]], data: str) -> None:
    assert encode_headers(headers).hex() == data


@given(HEADERS, st.binary(max_size=20))
def test_what_was_encoded_is_decoded(headers: list[tuple[str, bytes | None]], value: bytes) -> None:
    data = encode_headers(headers) + value

    assert decode_headers(data) == (headers or None)
    assert data[end_of_headers(data) :] == value


@given(HEADERS, st.binary(max_size=20), st.integers(-(2**63), 2**63 - 1))
def test_a_timestamp_goes_in_and_comes_out(
    headers: list[tuple[str, bytes | None]], value: bytes, timestamp: int
) -> None:
    data = encode_headers(headers) + value

    row = insert_timestamp(data, timestamp)

    assert take_timestamp(row) == (data, timestamp)
    assert row.startswith(encode_headers(headers) + timestamp.to_bytes(8, signed=True))


@given(st.integers(-(2**31), 2**31 - 1))
def test_a_number_of_varying_length_comes_back(number: int) -> None:
    data = write_varint(number)

    assert read_varint(b"before" + data, 6) == (number, 6 + len(data))
    assert len(data) <= 5


@pytest.mark.parametrize("data", ["", "80", "ffffffffff", "10", "0602", "02"])
def test_what_is_no_header_is_refused(data: str) -> None:
    with pytest.raises(DeserializationError):
        decode_headers(bytes.fromhex(data))
