"""Values to and from JSON: names, durations, unions, and what is said when it does not fit."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import pytest

from headwater.errors import SpecError
from headwater.ids import TaskId, TopicPartition
from headwater.model.codec import (
    decode,
    encode_object,
    format_duration,
    nearest,
    parse_duration_ms,
)
from headwater.model.fields import camel_case


@dataclass(frozen=True, slots=True, kw_only=True)
class Cat:
    KIND: ClassVar[str] = "Cat"
    lives_left: int = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class Dog:
    KIND: ClassVar[str] = "Dog"
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class House:
    pets: tuple[Cat | Dog, ...] = ()
    at: TopicPartition | None = None
    task: TaskId | None = None
    wait_ms: int = field(default=0, metadata={"json": "wait", "duration": True})
    label: str | int = ""


def test_a_union_is_told_apart_by_its_kind():
    house = House(pets=(Cat(lives_left=7), Dog(name="Rex")), at=TopicPartition("t", 3))

    encoded = encode_object(house)

    assert encoded == {
        "pets": [{"kind": "Cat", "livesLeft": 7}, {"kind": "Dog", "name": "Rex"}],
        "at": ["t", 3],
    }
    assert decode(House, encoded, path="", strict=True) == house


def test_durations_are_written_with_a_unit():
    house = House(wait_ms=90_000, task=TaskId(1, 2))

    assert encode_object(house) == {"task": "1_2", "wait": "90s"}
    assert decode(House, {"wait": "2m"}, path="", strict=True).wait_ms == 120_000


@pytest.mark.parametrize(
    ("text", "milliseconds"), [("0ms", 0), ("1500ms", 1_500), ("30s", 30_000), ("1h", 3_600_000)]
)
def test_durations_survive(text: str, milliseconds: int):
    assert parse_duration_ms(text, path="p") == milliseconds
    assert format_duration(milliseconds) == text


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"pets": [{"kind": "Fish"}]}, r"h\.pets\[0\]\.kind: expected one of Cat, Dog, got 'Fish'"),
        ({"pets": [{"kind": "Dog"}]}, r"h\.pets\[0\]\.name: required field is missing"),
        ({"pets": 1}, r"h\.pets: expected a list, got 1"),
        ({"wait": "soon"}, r"h\.wait: expected a duration such as"),
        ({"label": 1.5}, r"h\.label: expected a string or an integer, got 1\.5"),
        ({"task": "x"}, r"h\.task: not a task id: 'x'"),
        ({"pest": []}, r"h\.pest: unknown field; did you mean 'pets'\?"),
    ],
)
def test_what_does_not_fit_is_named_with_its_path(document: object, message: str):
    with pytest.raises(SpecError, match=message):
        decode(House, document, path="h", strict=True)


def test_names_are_in_camel_case():
    assert camel_case("threads_per_worker") == "threadsPerWorker"


def test_a_name_that_differs_by_case_alone_is_near():
    assert nearest("BOOTSTRAPSERVERS", ["bootstrapServers"]) == "; did you mean 'bootstrapServers'?"
    assert nearest("x", []) == ""
