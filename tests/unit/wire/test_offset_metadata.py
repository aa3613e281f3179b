"""Offset metadata is byte for byte Kafka Streams'."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.kafka.committed import metadata_of
from headwater.wire.offset_metadata import OffsetMetadata, decode, encode, without_remains

LONGS = st.integers(-(2**63), 2**63 - 1)


@pytest.mark.parametrize(
    ("metadata", "data"),
    [
        (OffsetMetadata(partition_time=-1), "02" + "ff" * 8),
        (OffsetMetadata(partition_time=258), "02" + "0000000000000102"),
        (
            OffsetMetadata(partition_time=1, processor={"ab": 3}),
            "02" + "0000000000000001" + "00000001" + "00000002" + "6162" + "0000000000000003",
        ),
    ],
    ids=["unknown time", "a time", "with processor metadata"],
)
def test_the_layout_is_kafkas(metadata: OffsetMetadata, data: str) -> None:
    assert base64.b64decode(encode(metadata)).hex() == data
    assert decode(encode(metadata)) == metadata


def test_the_first_version_is_read() -> None:
    text = base64.b64encode(bytes.fromhex("01" + "0000000000000102")).decode()

    assert decode(text) == OffsetMetadata(partition_time=258)


@pytest.mark.parametrize(
    "text",
    [None, "", "not base64!", "AA==", base64.b64encode(b"\x03" + bytes(8)).decode(), "é"],
    ids=["none", "empty", "no base64", "short", "a newer version", "not ASCII"],
)
def test_what_cannot_be_read_gives_unknown_times(text: str | None) -> None:
    assert decode(text) == OffsetMetadata()


@given(LONGS, st.dictionaries(st.text(), LONGS, max_size=4))
def test_everything_written_is_read_back(time: int, processor: dict[str, int]) -> None:
    metadata = OffsetMetadata(partition_time=time, processor=processor)

    assert decode(encode(metadata)) == metadata


@given(
    LONGS,
    st.dictionaries(st.text(), LONGS, max_size=4),
    st.text(st.characters(max_codepoint=255)),
)
def test_what_a_client_gives_behind_the_end_is_left_out(
    time: int, processor: dict[str, int], remains: str
) -> None:
    text = encode(OffsetMetadata(partition_time=time, processor=processor))
    if not processor:
        remains = "\xc8" + remains  # the head alone may go on, so it ends where base64 does

    assert without_remains(text + remains) == text


class Overread:
    """What the client's answer does if the bytes behind the end are no text."""

    def __init__(self, text: str) -> None:
        self._bytes = text.encode() + b"\xc8\x7f\x01"

    @property
    def metadata(self) -> str:
        return self._bytes.decode()


def test_bytes_behind_the_end_that_are_no_text_are_left_out() -> None:
    text = encode(OffsetMetadata(partition_time=5, processor={"closing": 7}))
    answer: Any = Overread(text)

    assert metadata_of(answer) == text


@pytest.mark.parametrize("text", ["", "not base64!", "AA==", "someone else's"])
def test_what_others_commit_is_left_as_it_is(text: str) -> None:
    assert without_remains(text) == text
