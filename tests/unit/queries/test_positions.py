"""Positions merge to larger offsets, are reached by partition, and have Java's bytes."""

from __future__ import annotations

import pickle
import random

import pytest

from headwater.ids import TopicPartition
from headwater.model.positions import Position, PositionBound
from headwater.wire import positions


def drawn(chance: random.Random) -> Position:
    return Position(
        {
            topic: {p: chance.randrange(9) for p in range(3) if chance.random() < 0.6}
            for topic in ("a", "b")
            if chance.random() < 0.8
        }
    )


def test_merging_is_a_join_of_a_lattice() -> None:
    chance = random.Random(3)
    for _ in range(300):
        one, two, three = drawn(chance), drawn(chance), drawn(chance)
        merged = one.merge(two)
        assert merged == two.merge(one)
        assert merged.merge(three) == one.merge(two.merge(three))
        assert merged.merge(one) == merged
        for partition in range(3):
            assert merged.reaches(one, partition)
            assert merged.reaches(two, partition)
            both = one.reaches(two, partition) and two.reaches(one, partition)
            for topic in one.topics & two.topics if both else ():
                mine, other = (x.partition_positions(topic).get(partition) for x in (one, two))
                assert mine == other


def test_a_bound_counts_in_its_partition_alone() -> None:
    position = Position({"in": {0: 5, 1: 9}})
    assert position.reaches(Position({"in": {0: 5}}), 0)
    assert not position.reaches(Position({"in": {0: 6}}), 0)
    assert position.reaches(Position({"in": {0: 6}}), 1)
    assert not position.reaches(Position({"other": {0: 0}}), 0)
    assert Position().reaches(PositionBound.unbounded().position, 0)
    assert position.with_component("in", 0, 3) == position
    assert position.with_component("in", 0, 6) == Position({"in": {0: 6, 1: 9}})


def test_a_position_is_a_value() -> None:
    offsets = {"in": {0: 1}}
    position = Position.from_map(offsets)
    offsets["in"][0] = 2
    position.to_map()["in"][0] = 3
    assert position == Position.of([("in", 0, 1)])
    assert hash(position) == hash(Position({"in": {0: 1}}))
    assert pickle.loads(pickle.dumps(position)) == position
    assert PositionBound.at(position) == PositionBound.at(Position({"in": {0: 1}}))
    assert repr(PositionBound.unbounded()) == "PositionBound.unbounded()"
    with pytest.raises(TypeError):
        position.partition_positions("in")[0] = 5  # type: ignore[index]


def test_the_bytes_are_those_of_kafka_streams() -> None:
    position = Position({"in": {0: 5, 1: 2**40}})
    data = positions.encode(position)
    # PositionSerde: version, number of topics, length and name, number of pairs, the pairs.
    assert data.hex() == (
        "00" + "00000001" + "00000002" + b"in".hex() + "00000002"
        "00000000" + "0000000000000005" + "00000001" + "0000010000000000"
    )
    assert positions.decode(data) == position
    assert positions.decode(b"") == Position()
    assert positions.decode(b"\x01" + data[1:]) == Position()


def test_what_was_not_read_is_left_out() -> None:
    read = [(TopicPartition("in", 0), 6), (TopicPartition("in", 1), 0)]
    assert positions.decode(positions.encode_read(read)) == Position({"in": {0: 5}})
