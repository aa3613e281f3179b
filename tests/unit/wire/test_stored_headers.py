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


NO_HEADERS = {
    "nothing": "",
    "no end of a number": "80",
    "a number of more than five bytes": "ffffffffff",
    "a size of more than there is": "10",
    "fewer headers than counted": "0602",
    "a size and nothing else": "02",
    "a negative count": "0201",
    "a negative length of a name": "06020101",
    "a negative length of a value": "06020003",
    "a name that is no UTF-8": "080202ff01",
    "a name that ends behind the headers": "06020400" + "6161",
    "bytes behind the last header": "0802000000",
}


@pytest.mark.parametrize("data", NO_HEADERS.values(), ids=NO_HEADERS)
def test_what_is_no_header_is_refused(data: str) -> None:
    with pytest.raises(DeserializationError):
        decode_headers(bytes.fromhex(data))


@pytest.mark.parametrize("data", ["00", "00" + "00" * 7, "0a02026e0207", "", "02"])
def test_a_row_without_room_for_a_timestamp_is_refused(data: str) -> None:
    with pytest.raises(DeserializationError):
        take_timestamp(bytes.fromhex(data))


def encoded(block: bytes) -> bytes:
    """Return bytes behind their size, as headers are."""
    return write_varint(len(block)) + block


@given(st.binary(max_size=40) | st.binary(max_size=30).map(encoded))
def test_bytes_of_anybody_are_read_or_refused(data: bytes) -> None:
    try:
        headers = decode_headers(data)
    except DeserializationError:
        pass
    else:
        assert decode_headers(data[: end_of_headers(data)]) == headers
        assert decode_headers(encode_headers(headers or [])) == (headers or None)
    try:
        rest, timestamp = take_timestamp(data)
    except DeserializationError:
        pass
    else:
        assert insert_timestamp(rest, timestamp) == data
