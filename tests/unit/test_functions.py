"""Expressions are ordinary functions of a record, with the nulls of SQL."""

from __future__ import annotations

from typing import Any

import cloudpickle
import pytest

from headwater import functions as f
from headwater.errors import TopologyError


@pytest.mark.parametrize(
    ("expression", "record", "expected"),
    [
        (f.value + 1, (None, 2), 3),
        (1 - f.value, (None, 2), -1),
        (f.value % 3, ("k", -1), 2),
        (f.value > 3, ("k", None), None),
        (f.value.is_null(), ("k", None), True),
        (f.value.or_else(7), ("k", None), 7),
        ((f.value > 3) & (f.key == "k"), ("k", 4), True),
        ((f.value > 3) & (f.key == "x"), ("k", None), False),
        ((f.value > 3) & (f.key == "k"), ("k", None), None),
        ((f.value > 3) | (f.key == "k"), ("k", None), True),
        (~(f.value > 3), ("k", None), None),
        (f.value[1:3], ("k", "h\U0001f600llo"), "\U0001f600l"),
        (f.value.length(), ("k", "\U0001f600"), 1),
        (f.key + "-" + f.value, ("a", "b"), "a-b"),
        (
            f.value.starts_with("a") | f.value.ends_with("z") | f.value.contains("m"),
            ("k", "m"),
            True,
        ),
        (f.value != 1, ("k", 2), True),
        (2 * f.value <= 4, ("k", 2), True),
    ],
    ids=repr,
)
def test_an_expression_is_a_function_of_a_record(
    expression: f.Expression, record: tuple[Any, Any], expected: Any
) -> None:
    assert expression(*record) is expected or expression(*record) == expected
    again = cloudpickle.loads(cloudpickle.dumps(expression))
    assert again(*record) == expected
    assert repr(again) == repr(expression)


def test_a_value_alone_is_enough_unless_the_key_is_read() -> None:
    assert (f.value + 1)(2) == 3
    with pytest.raises(TypeError, match="with_key=True"):
        (f.key + f.value)("x")


def test_numbers_have_64_bits() -> None:
    assert (f.value + 1)(2**63 - 2) == 2**63 - 1
    with pytest.raises(OverflowError, match="64 bits"):
        (f.value + 1)(2**63 - 1)


def test_reducers_are_functions() -> None:
    assert [one(3, 2) for one in (f.add, f.smallest, f.largest)] == [5, 2, 3]
    assert repr(f.add) == "add"


def test_truth_before_a_record_is_refused() -> None:
    with pytest.raises(TypeError, match="combine with &"):
        bool(f.value > 3 and f.key)


@pytest.mark.parametrize(
    "make",
    [
        lambda: f.value > None,
        lambda: f.value + 1.5,
        lambda: f.value % 0,
        lambda: f.value % f.key,
        lambda: f.value[0],
        lambda: f.value[3:1],
        lambda: f.value[-2:3],
        lambda: f.value[1:],
    ],
)
def test_what_cannot_be_an_expression_is_refused(make: Any) -> None:
    with pytest.raises(TopologyError):
        make()
