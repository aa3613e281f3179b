"""Serdes with a counterpart in Kafka: values and bytes, recorded from Java and asked of it."""

from __future__ import annotations

import contextlib
import json
import math
import struct
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.golden.serdes import FILE, cases
from tests.java.tool import Answering
from tests.support.serde_cases import (
    PLAIN,
    decoded,
    encoded,
    java_cannot_read,
    kind,
    names,
    serde,
    told,
    value,
    values,
)

from headwater.processor.failures import has_wrong_type

if TYPE_CHECKING:
    from collections.abc import Iterator

RECORDED: list[tuple[dict[str, Any], dict[str, Any]]] = [
    (case, answer) for case, answer in json.loads(FILE.read_text())
]


def alike(one: Any, other: Any) -> bool:
    if isinstance(one, float) and math.isnan(one):
        return isinstance(other, float) and math.isnan(other)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(alike, one, other))
    return bool(one == other)


def check(case: dict[str, Any], answer: dict[str, Any]) -> None:
    name = case["serde"]
    if "value" in case:
        data = encoded(name, value(name, case["value"]))
        assert (None if data is None else data.hex()) == answer["bytes"]
        assert alike(decoded(name, data), value(name, case["value"])) or kind(name) == "float"
        return
    data = None if case["bytes"] is None else bytes.fromhex(case["bytes"])
    if "error" in answer:
        with pytest.raises(Exception, match=r".") as caught:
            decoded(name, data)
        assert not isinstance(caught.value, AttributeError | IndexError)
    else:
        assert alike(decoded(name, data), value(name, answer["value"]))


@pytest.mark.parametrize(
    ("case", "answer"), [pytest.param(*both, id=json.dumps(both[0])) for both in RECORDED]
)
def test_values_and_bytes_are_java_s(case: dict[str, Any], answer: dict[str, Any]) -> None:
    check(case, answer)


def test_what_is_recorded_is_what_is_asked() -> None:
    assert [case for case, _ in RECORDED] == cases()


@given(st.data())
def test_what_is_written_is_read(data: st.DataObject) -> None:
    name = data.draw(names())
    given_value = data.draw(values(name))

    assert alike(decoded(name, encoded(name, given_value)), given_value)


@given(names(), st.binary(max_size=60))
def test_whatever_bytes_come_an_error_is_one_of_the_value(name: Any, data: bytes) -> None:
    """Never an endless loop, and none of Python's errors of a program that is wrong."""
    with contextlib.suppress(ValueError, struct.error):
        decoded(name, data)


WRONG = {
    "bytes": ["x", 5], "string": [b"x", 5], "short": ["1", 1.0], "integer": ["1", 1.0],
    "long": ["1", 1.0], "float": ["1"], "double": ["1"], "boolean": [1, 0, "true"],
    "uuid": ["0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9", 5], "void": [1, ""],
}  # fmt: skip
WRONG_INSIDE = [
    ({"list": "long"}, "12"),
    ({"list": "long"}, {1: 2}),
    ({"list": "long"}, ["1"]),
    ({"list": "string"}, [1]),
    ({"string": "UTF-16"}, b"x"),
    ({"string": "ISO-8859-1"}, 5),
    ({"time_windowed": "string", "size": 5}, "k"),
    ({"time_windowed": "string", "size": 5}, ("k", (0, 5))),
    ({"session_windowed": "string"}, "k"),
]


@pytest.mark.parametrize(
    ("name", "wrong"),
    [*((name, wrong) for name, some in WRONG.items() for wrong in some), *WRONG_INSIDE],
)
def test_values_of_another_type_are_errors_of_the_program(name: Any, wrong: Any) -> None:
    assert set(WRONG) == set(PLAIN)

    with pytest.raises(Exception, match=r".") as caught:
        encoded(name, wrong)

    assert has_wrong_type(caught.value), caught.value


@pytest.mark.parametrize(
    ("name", "too_much"),
    [
        ("short", 2**15),
        ("float", 1e300),
        ({"string": "US-ASCII"}, "ä"),
        ({"list": "short"}, [2**15]),
    ],
)
def test_values_that_do_not_fit_are_not(name: Any, too_much: Any) -> None:
    with pytest.raises(Exception, match=r".") as caught:
        encoded(name, too_much)

    assert not has_wrong_type(caught.value), caught.value


def test_numbers_that_are_none_have_java_s_bytes_whatever_their_own() -> None:
    assert encoded("double", -math.nan) == encoded("double", math.inf - math.inf)
    assert encoded("float", -math.nan) == encoded("float", math.nan) == bytes.fromhex("7fc00000")
    assert encoded("double", math.inf - math.inf) == bytes.fromhex("7ff8000000000000")


@pytest.mark.parametrize("name", ["float", {"list": "long"}, {"string": "UTF-32"}])
def test_values_that_a_restart_would_read_otherwise_are_kept_as_bytes(name: Any) -> None:
    assert not serde(name).immutable


@pytest.mark.parametrize("name", ["boolean", "short", "uuid"])
def test_values_that_nobody_can_change_may_be_handed_on(name: Any) -> None:
    assert serde(name).immutable


def test_utf_8_by_any_name_is_the_serde_of_every_day() -> None:
    assert serde({"string": "utf8"}) is serde("string")
    with pytest.raises(LookupError):
        serde({"string": "no such encoding"})


@pytest.fixture(scope="module")
def java() -> Iterator[Answering]:
    running = Answering("serdes", "SerdeBytes")
    yield running
    running.close()


@pytest.mark.java
def test_the_recording_is_up_to_date(java: Answering) -> None:
    assert [java.ask(case) for case in cases()] == [answer for _, answer in RECORDED]


@pytest.mark.java
@settings(max_examples=500)
@given(st.data())
def test_java_writes_and_reads_the_same(java: Answering, data: st.DataObject) -> None:
    name = data.draw(names())
    given_value = data.draw(values(name))

    ours = encoded(name, given_value)
    theirs = java.ask({"serde": name, "value": told(name, given_value)})

    assert ours is not None
    assert theirs == {"bytes": ours.hex()}
    read = java.ask({"serde": name, "bytes": ours.hex()})
    if java_cannot_read(name, given_value):
        assert set(read) == {"error"}
    else:
        assert alike(value(name, read["value"]), given_value)
