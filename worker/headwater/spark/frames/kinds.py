"""What is known of keys and values without looking at them: their kind, from serde to expression.

Of each kind it is known which bytes can be decoded, and that equal values have equal bytes.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from headwater.serde.primitives import (
    BytesSerde,
    DoubleSerde,
    IntegerSerde,
    LongSerde,
    StringSerde,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headwater.functions import Expression
    from headwater.serde import Serde


class Refused(Exception):  # noqa: N818 - a verdict, not an error
    """Why a node cannot be computed as a DataFrame: one sentence."""


class Kind(StrEnum):
    """What keys, values and results of expressions are."""

    BYTES = "bytes"
    STRING = "string"
    INTEGER = "integer"
    """A whole number of 32 bits."""
    LONG = "long"
    """A whole number of 64 bits."""
    DOUBLE = "double"
    """A number with a fraction; it is only looked at whether there is one."""
    BOOLEAN = "boolean"
    """Of expressions only."""

    @property
    def is_whole(self) -> bool:
        """Whether it is a whole number."""
        return self in {Kind.INTEGER, Kind.LONG}


_KINDS: Final[dict[type, Kind]] = {
    BytesSerde: Kind.BYTES,
    StringSerde: Kind.STRING,
    IntegerSerde: Kind.INTEGER,
    LongSerde: Kind.LONG,
    DoubleSerde: Kind.DOUBLE,
}
_ARITHMETIC: Final = frozenset("+-*")
_ORDER: Final = frozenset({"<", "<=", ">", ">="})
_TEXT: Final = frozenset({"starts_with", "ends_with", "contains"})
_LONG_MIN: Final = -(2**63)
_LONG_MAX: Final = 2**63 - 1


def kind_of(serde: Serde[Any], half: str) -> Kind:
    """Return what a serde reads and writes.

    Raises:
        Refused: it is not known which bytes it can decode.
    """
    found = _KINDS.get(type(serde))
    if found is None:
        raise Refused(
            f"whether {type(serde).__name__} can decode a {half} shows only when Python decodes it"
        )
    return found


def written_as(kind: Kind, serde: Serde[Any], half: str) -> Kind:
    """Return as what ``serde`` writes values of a kind.

    Raises:
        Refused: it may not take them.
    """
    target = kind_of(serde, half)
    if target is kind or (kind is Kind.INTEGER and target is Kind.LONG):
        return target
    raise Refused(f"its {half} serde, {type(serde).__name__}, may not take a {kind.value}")


def result_of(expression: Expression, key: Kind, value: Kind) -> Kind:
    """Return the kind of an expression's result.

    Raises:
        Refused: its operands do not fit; Python and SQL would not agree.
    """
    if expression.operation == "literal":
        return _of_literal(expression)
    if not expression.operands:
        return key if expression.operation == "key" else value
    given = [result_of(one, key, value) for one in expression.operands]
    found = _of_operation(expression.operation, given)
    if found is None:
        kinds = ", ".join(kind.value for kind in given)
        raise Refused(f"{expression!r} does not fit operands of the kinds {kinds}")
    return found


def _of_literal(expression: Expression) -> Kind:
    constant = expression.constant
    if isinstance(constant, bool):
        return Kind.BOOLEAN
    if isinstance(constant, str):
        try:
            constant.encode()
        except UnicodeEncodeError:
            raise Refused("a text in an expression cannot be written as UTF-8") from None
        return Kind.STRING
    if not _LONG_MIN <= constant <= _LONG_MAX:
        raise Refused(f"{constant} does not fit in 64 bits")
    return Kind.LONG


def _of_operation(operation: str, given: list[Kind]) -> Kind | None:
    first = given[0]
    wholes = all(kind.is_whole for kind in given)
    texts = set(given) == {Kind.STRING}
    alike = wholes or len(set(given)) == 1
    comparable = alike and first not in {Kind.DOUBLE, Kind.BYTES}
    found: Kind | None = None
    if operation in _ARITHMETIC or operation == "%":
        found = Kind.LONG if wholes else Kind.STRING if texts and operation == "+" else None
    elif operation in {"==", "!="} or operation in _ORDER:
        fits = comparable and (operation not in _ORDER or first is not Kind.BOOLEAN)
        found = Kind.BOOLEAN if fits else None
    elif operation in {"and", "or", "not"}:
        found = Kind.BOOLEAN if set(given) == {Kind.BOOLEAN} else None
    elif operation in _TEXT:
        found = Kind.BOOLEAN if texts else None
    elif operation in {"slice", "length"} and first is Kind.STRING:
        found = Kind.STRING if operation == "slice" else Kind.LONG
    elif operation == "is_null":
        found = Kind.BOOLEAN
    elif operation == "or_else" and comparable:
        found = Kind.LONG if wholes else first
    return found


def may_overflow(expression: Expression) -> bool:
    """Whether computing it may raise."""
    return any(one.operation in _ARITHMETIC for one in _all(expression))


def _all(expression: Expression) -> Iterator[Expression]:
    yield expression
    for one in expression.operands:
        yield from _all(one)
