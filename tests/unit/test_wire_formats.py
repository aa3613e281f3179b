"""Bytes shared with Kafka and Kafka Streams, recorded from Java."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support import murmur3

from headwater.errors import DeserializationError, SerializationError
from headwater.wire.change import (
    change_deserializer,
    change_serializer,
    decode_change,
    encode_change,
)
from headwater.wire.foreign import combined_key, key_prefix, murmur3_128, primary_key
from headwater.wire.partitioner import murmur2, partition_for_key


@pytest.mark.parametrize(
    ("key", "hashed", "partition_of_10"),
    [
        ("", 275646681, 1),
        ("99", 1288378381, 1),
        ("1834", -1042682160, 8),
        ("5a94c9", -313141582, 6),
        ("390b7702", 612225306, 6),
        ("09d32a595d", 99467382, 2),
        ("41f4b3e59247", -1134459280, 8),
        ("05194bb55dcab3", -1772457477, 1),
        ("0016175aa147e1f3", 1440785583, 3),
        ("e98ee81edf7fae40bf", 731806385, 5),
        ("fced52b202e34d15e5c4", 1378837873, 3),
        ("166fc2edcea4fb1b65e240", -435219086, 2),
    ],
)
def test_a_key_goes_to_the_partition_that_java_chooses(
    key: str, hashed: int, partition_of_10: int
) -> None:
    data = bytes.fromhex(key)

    assert murmur2(data) == hashed & 0xFFFF_FFFF
    assert partition_for_key(data, 10) == partition_of_10


@pytest.mark.parametrize(
    ("new", "old", "encoded"),
    [
        (b"new", b"old", "066e65776f6c6402"),
        (b"new", None, "6e657701"),
        (None, b"old", "6f6c6400"),
        (b"", b"old", "006f6c6402"),
        (b"new", b"", "066e657702"),
        (b"", b"", "0002"),
        (b"x" * 63, b"o", "7e" + "78" * 63 + "6f02"),
        (b"x" * 64, b"o", "8001" + "78" * 64 + "6f02"),
        (b"x" * 8192, b"o", "808001" + "78" * 8192 + "6f02"),
    ],
)
def test_a_change_has_java_s_bytes(new: bytes | None, old: bytes | None, encoded: str) -> None:
    assert encode_change(new, old).hex() == encoded
    assert decode_change(bytes.fromhex(encoded)) == (new, old)


@pytest.mark.parametrize(
    ("data", "change"),
    [
        (b"old\x01\x03", (None, b"old")),
        (b"new\x00\x04", (b"new", None)),
        (b"\x06newold\x01\x05", (b"new", b"old")),
    ],
)
def test_changes_of_the_releases_with_a_latest_flag_are_read(
    data: bytes, change: tuple[bytes | None, bytes | None]
) -> None:
    assert decode_change(data) == change


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"abc\x06",
        b"abc\xff",
        b"\x03",
        b"\x02",
        b"\x80\x80\x80\x80\x80\x80\x02",
        b"\x03a\x02",
        b"\x08a\x02",
    ],
    ids=lambda data: data.hex() or "empty",
)
def test_bytes_that_are_no_change_are_refused(data: bytes) -> None:
    with pytest.raises(DeserializationError):
        decode_change(data)


def test_a_change_needs_a_value() -> None:
    with pytest.raises(SerializationError, match="without new and old value"):
        encode_change(None, None)


def test_a_serde_of_values_makes_one_of_changes() -> None:
    serialize = change_serializer(str.encode)
    deserialize = change_deserializer(bytes.decode)

    for change in (("a", "b"), ("a", None), (None, "b")):
        assert deserialize(serialize(change)) == change


@pytest.mark.parametrize(
    ("data", "hashed"),
    [
        ("", "9d2764a018e329428c3cf3b035938518"),
        ("99", "9b95363c0237f3080bced6ca800ff584"),
        ("05194bb55dcab3", "521eb2e61edaed9faad87c4486d73005"),
        ("0016175aa147e1f3", "68a5eaa5697c92ca633cfdfff6c501ae"),
        ("e98ee81edf7fae40bf", "e36e95b01d6ab96c5d908bc5a81bc140"),
        ("ee614cc5a74b029f8f814e38d93995", "65fd12f1474769bf8ec520056d641110"),
        ("94aa2150847891d75da8ddddc46434af", "b1b99e4222a0a52d52899b945692643d"),
        ("eb50781ae04364f9b3a3f3707eab79470b", "9ddcdffef8746ddfcad3923d6d097f43"),
        ("9ebc20efacd4d95a6166595aac5e505cd63fcdf74452a17e", "e87babe4ee849278c4030b8248d42275"),
    ],
)
def test_a_value_has_java_s_hash(data: str, hashed: str) -> None:
    assert murmur3_128(bytes.fromhex(data)).hex() == hashed


@given(st.binary(max_size=200))
def test_the_hash_of_any_value_is_that_of_the_algorithm_step_by_step(data: bytes) -> None:
    assert murmur3_128(data) == murmur3.murmur3_128(data)


def test_subscriptions_of_a_foreign_key_lie_together_and_apart_from_those_of_longer_ones() -> None:
    combined = combined_key(b"fk", b"pk")

    assert combined.hex() == "00000002" + b"fkpk".hex()
    assert primary_key(combined) == b"pk"
    assert combined.startswith(key_prefix(b"fk"))
    assert not combined_key(b"fkp", b"k").startswith(key_prefix(b"fk"))
