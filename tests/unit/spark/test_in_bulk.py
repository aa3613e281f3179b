"""What is done to whole columns is what is done to single values."""

from __future__ import annotations

import random
import struct

import pyarrow as pa
import pytest

from headwater.serde import Serdes
from headwater.spark.frames.kinds import Kind
from headwater.spark.frames.murmur import partitions_of
from headwater.spark.frames.rows import bulk_decode
from headwater.wire.partitioner import partition_for_key

SERDES = {
    Kind.BYTES: Serdes.bytes,
    Kind.STRING: Serdes.string,
    Kind.INTEGER: Serdes.integer,
    Kind.LONG: Serdes.long,
}


@pytest.mark.seeded(20)
def test_partitions_are_those_of_a_producer(seed: str) -> None:
    rng = random.Random(seed)
    keys = [rng.randbytes(rng.choice([0, 1, 2, 3, 4, 5, 8, 17, 100])) for _ in range(200)]
    partitions = rng.choice([1, 2, 7, 100])
    array = pa.array([*keys, None], pa.binary())

    found = partitions_of(array, partitions).tolist()
    of_a_part = partitions_of(array.slice(50, 100), partitions).tolist()

    assert found[:-1] == [partition_for_key(key, partitions) for key in keys]
    assert of_a_part == found[50:150]
    # Spark's option useLargeVarTypes.
    assert partitions_of(array.cast(pa.large_binary()), partitions).tolist() == found


def test_no_keys_have_no_partitions() -> None:
    assert partitions_of(pa.array([], pa.binary()), 3).tolist() == []
    assert len(partitions_of(pa.array([None, None], pa.binary()), 3)) == 2


def _bytes(rng: random.Random, kind: Kind) -> bytes:
    if rng.random() < 0.2:
        return rng.randbytes(rng.randint(0, 9))
    if kind is Kind.STRING:
        # Surrogates and overlong forms are no UTF-8.
        known = [b"\xed\xa0\x80", b"\xc0\x80", b"\xf4\x90\x80\x80", "ü\U0010ffff".encode(), b""]
        return rng.choice(known)
    return rng.randbytes({Kind.INTEGER: 4, Kind.LONG: 8}.get(kind, 3))


@pytest.mark.parametrize("kind", SERDES)
@pytest.mark.seeded(30)
def test_what_a_serde_decodes_is_decoded_in_bulk(kind: Kind, seed: str) -> None:
    rng = random.Random(f"{seed}-{kind}")
    decode = SERDES[kind].deserializer("topic")
    for _ in range(40):
        data = _bytes(rng, kind)
        try:
            expected = decode(data)
        except (ValueError, struct.error):
            with pytest.raises(ValueError, match=r".*"):
                bulk_decode(pa, kind, [None, data])
        else:
            assert bulk_decode(pa, kind, [None, data]).to_pylist() == [None, expected]
