"""Each operation of an expression is the same as a function of a record and as a column."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any, Final

import pytest

from headwater import functions as f
from headwater.spark.frames import columns
from headwater.spark.frames.kinds import Kind
from tests.support.planted import planted_operation

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

pytestmark = [pytest.mark.spark, pytest.mark.slow]

TOO_LARGE: Final = "a number that does not fit"
_KEYS: Final = [
    None,
    "",
    "a",
    "b",
    "B",
    "ab",
    "ba",
    "abcd",
    "100%",
    "ü\U0001f600x",
    "\uffff",
    "\U0001f600",
]
_NUMBERS: Final = [None, 0, 1, 3, 5, 7, -1, -7, -8, 2**31, 2**62, 2**63 - 1, -(2**63)]

OF_NUMBERS: Final[dict[str, tuple[Any, Callable[[Any, Any, Any], Any]]]] = {
    "+": (f.value + 3, lambda s, left, right: s.try_subtract(left, right)),
    "-": (3 - f.value, lambda s, left, right: s.try_subtract(right, left)),
    "*": (f.value * -2, lambda s, left, right: s.try_add(left, right)),
    "%": (f.value % 5, lambda _s, left, right: left % right),  # SQL's is negative
    "==": (f.value == 7, lambda _s, left, right: left.eqNullSafe(right)),
    "!=": (f.value != 7, lambda _s, left, right: ~left.eqNullSafe(right)),
    "<": (f.value < 3, lambda _s, left, right: left <= right),
    "<=": (f.value <= 3, lambda _s, left, right: left < right),
    ">": (f.value > 3, lambda _s, left, right: left >= right),
    ">=": (f.value >= 3, lambda _s, left, right: left > right),
    "and": (
        (f.value > 3) & (f.key != "b"),
        lambda s, left, right: s.coalesce(left, s.lit(False)) & right,
    ),
    "or": (
        (f.value > 3) | (f.key == "b"),
        lambda s, left, right: s.coalesce(left, s.lit(False)) | right,
    ),
    "not": (~(f.value > 3), lambda s, left, _right: s.coalesce(~left, s.lit(True))),
    "is_null": (f.value.is_null(), lambda s, _left, _right: s.lit(False)),
    "or_else": (f.value.or_else(5), lambda _s, left, _right: left),
}
"""By operation: an expression, and how it may be wrong."""
OF_TEXTS: Final[dict[str, tuple[Any, Callable[[Any, Any, Any], Any]]]] = {
    "+": (f.key + f.value, lambda s, left, right: s.concat_ws("", left, right)),
    "<": (
        f.key < f.value,
        # As Java and JavaScript would: by halves of a character.
        lambda s, left, right: s.encode(left, "UTF-16BE") < s.encode(right, "UTF-16BE"),
    ),
    "==": (f.key == f.value, lambda s, left, right: s.lower(left) == right),
    "length": (f.key.length(), lambda s, left, _right: s.octet_length(left).cast("bigint")),
    "slice": (f.key[1:3], lambda s, left, _right: s.substring(left, 1, 2)),
    "starts_with": (
        f.key.starts_with("a"),
        lambda s, left, right: s.contains(left, right),
    ),
    "ends_with": (f.key.ends_with("b"), lambda s, left, right: s.contains(left, right)),
    "contains": (
        f.key.contains("_"),
        lambda s, left, right: s.like(left, s.concat(s.lit("%"), right, s.lit("%"))),
    ),
    "or_else": (f.key.or_else("none"), lambda _s, left, _right: left),
}


def by_function(expression: Any, rows: Sequence[tuple[Any, Any]]) -> list[Any]:
    def one(key: Any, value: Any) -> Any:
        try:
            return expression(key, value)
        except OverflowError:
            return TOO_LARGE

    return [one(*row) for row in rows]


def by_columns(
    session: Any, value: Kind, rows: Sequence[tuple[Any, Any]], cases: dict[str, Any]
) -> dict[str, tuple[list[Any], list[Any]]]:
    """By operation what comes out, and what comes out if it is wrong; all in one query."""
    kinds = {Kind.LONG: "bigint", Kind.STRING: "string"}
    frame = session.createDataFrame(rows, f"key string, value {kinds[value]}").coalesce(1)
    chosen = []
    for operation, (expression, wrong) in cases.items():
        chosen.append(columns.computed(expression, Kind.STRING, value))
        with planted_operation(operation, wrong):
            chosen.append(columns.computed(expression, Kind.STRING, value))
    s = columns.functions()
    both = [(one.column, s.lit(None) if one.overflow is None else one.overflow) for one in chosen]
    found = [
        [TOO_LARGE if is_too_large else result for result, is_too_large in row]
        for row in frame.select(*(s.struct(*one) for one in both)).collect()
    ]
    results = [list(column) for column in zip(*found, strict=True)]
    pairs = zip(results[::2], results[1::2], strict=True)
    return dict(zip(cases, pairs, strict=True))


@pytest.mark.parametrize(
    ("value", "values", "cases"),
    [(Kind.LONG, _NUMBERS, OF_NUMBERS), (Kind.STRING, _KEYS, OF_TEXTS)],
    ids=["of numbers", "of texts"],
)
def test_an_operation_is_the_same_as_a_function_and_as_a_column(
    session: Any, value: Kind, values: Sequence[Any], cases: dict[str, Any]
) -> None:
    rows = list(product(_KEYS, values))

    found = by_columns(session, value, rows, cases)

    expected = {name: by_function(expression, rows) for name, (expression, _) in cases.items()}
    assert {name: right for name, (right, _) in found.items()} == expected
    assert [name for name, (_, wrong) in found.items() if wrong == expected[name]] == []


def test_no_operation_is_left_out() -> None:
    assert OF_NUMBERS.keys() | OF_TEXTS.keys() == {*f._OF_VALUES, *f._OF_NULLS}
