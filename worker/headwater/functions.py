"""Functions whose meaning is known: ordinary callables, and on Spark columns.

    from headwater import functions as f

    (
        builder.stream("payments", key_serde=Serdes.string, value_serde=Serdes.long)
        .filter(f.value > 0)
        .select_key(f.key[:2])
        .group_by_key(key_serde=Serdes.string, value_serde=Serdes.long)
        .reduce(f.add, store="total")
    )

Workers call them as they call any function. A backfill knows what they do, so it may compute the
same with DataFrames. A null operand makes the result null (of ``&`` and ``|`` only if the other one
does not decide); ``is_null`` and ``or_else`` see nulls. A filter keeps what is true.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, Final

from headwater.errors import TopologyError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Expression", "Reducer", "add", "key", "largest", "literal", "smallest", "value"]

_LONG_MIN: Final = -(2**63)
_LONG_MAX: Final = 2**63 - 1


def _whole(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Let whole numbers of 64 bits come out of ``function``, or an OverflowError."""

    def checked(left: Any, right: Any) -> Any:
        result = function(left, right)
        if result.__class__ is int and not _LONG_MIN <= result <= _LONG_MAX:
            raise OverflowError(f"{result} does not fit in 64 bits")
        return result

    return checked


def _slice(text: str, start: int, stop: int) -> str:
    return text[start:stop]


_OF_VALUES: Final[dict[str, Callable[..., Any]]] = {
    "+": _whole(operator.add),
    "-": _whole(operator.sub),
    "*": _whole(operator.mul),
    "%": operator.mod,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "not": operator.not_,
    "length": len,
    "starts_with": str.startswith,
    "ends_with": str.endswith,
    "contains": operator.contains,
    "slice": _slice,
}
"""What is done to operands of which none is null."""


def _and(left: Any, right: Any) -> bool | None:
    if left is False or right is False:
        return False
    return None if left is None or right is None else True


def _or(left: Any, right: Any) -> bool | None:
    if left is True or right is True:
        return True
    return None if left is None or right is None else False


_OF_NULLS: Final[dict[str, Callable[..., Any]]] = {
    "and": _and,
    "or": _or,
    "is_null": lambda given: given is None,
    "or_else": lambda given, default: default if given is None else given,
}
"""What sees nulls; truth has three values, as in SQL."""


class Expression:
    """Something computed from a record's key and value.

    Called with ``(value)`` or ``(key, value)`` it gives the result, so it can stand wherever a
    function of a record is wanted.

    Attributes:
        operation: what is done; ``key``, ``value`` and ``literal`` have no operands.
        operands: expressions.
        constant: of a literal.
    """

    __slots__ = ("constant", "operands", "operation")
    __hash__ = object.__hash__

    def __init__(self, operation: str, *operands: Expression, constant: Any = None) -> None:
        self.operation = operation
        self.operands = operands
        self.constant = constant

    def __call__(self, *record: Any) -> Any:
        """Return the result for ``(value)`` or ``(key, value)``."""
        if len(record) == 1:
            if self.reads("key"):
                raise TypeError(f"{self} needs the key: give the operation with_key=True")
            return self._of(None, record[0])
        return self._of(*record)

    def reads(self, half: str) -> bool:
        """Whether the result depends on ``half``: ``key`` or ``value``."""
        return self.operation == half or any(one.reads(half) for one in self.operands)

    def _of(self, of_key: Any, of_value: Any) -> Any:
        if not self.operands:
            return {"key": of_key, "value": of_value}.get(self.operation, self.constant)
        given = [one._of(of_key, of_value) for one in self.operands]  # noqa: SLF001 - our own kind
        special = _OF_NULLS.get(self.operation)
        if special is not None:
            return special(*given)
        return None if None in given else _OF_VALUES[self.operation](*given)

    # -- numbers and texts -----------------------------------------------------------------------

    def __add__(self, other: Any) -> Expression:
        return Expression("+", self, literal(other))

    def __radd__(self, other: Any) -> Expression:
        return Expression("+", literal(other), self)

    def __sub__(self, other: Any) -> Expression:
        return Expression("-", self, literal(other))

    def __rsub__(self, other: Any) -> Expression:
        return Expression("-", literal(other), self)

    def __mul__(self, other: Any) -> Expression:
        return Expression("*", self, literal(other))

    def __rmul__(self, other: Any) -> Expression:
        return Expression("*", literal(other), self)

    def __mod__(self, divisor: Any) -> Expression:
        if divisor.__class__ is not int or divisor < 1:
            raise TopologyError(f"{self} % {divisor!r}: divide by a whole number greater than 0")
        return Expression("%", self, literal(divisor))

    def length(self) -> Expression:
        """How many characters a text has."""
        return Expression("length", self)

    def starts_with(self, text: Any) -> Expression:
        """Whether a text begins with ``text``."""
        return Expression("starts_with", self, literal(text))

    def ends_with(self, text: Any) -> Expression:
        """Whether a text ends with ``text``."""
        return Expression("ends_with", self, literal(text))

    def contains(self, text: Any) -> Expression:
        """Whether ``text`` is in a text."""
        return Expression("contains", self, literal(text))

    def __getitem__(self, part: Any) -> Expression:
        """Characters of a text, from the front: ``f.value[2:5]``."""
        if part.__class__ is not slice or part.step is not None or part.stop is None:
            raise TopologyError(f"{self}[...]: give the characters as [start:stop]")
        start = 0 if part.start is None else part.start
        if not 0 <= start <= part.stop:
            raise TopologyError(f"{self}[{start}:{part.stop}]: count from the front, in order")
        return Expression("slice", self, literal(start), literal(part.stop))

    # -- truth -----------------------------------------------------------------------------------

    def __eq__(self, other: object) -> Expression:  # type: ignore[override]
        return Expression("==", self, literal(other))

    def __ne__(self, other: object) -> Expression:  # type: ignore[override]
        return Expression("!=", self, literal(other))

    def __lt__(self, other: Any) -> Expression:
        return Expression("<", self, literal(other))

    def __le__(self, other: Any) -> Expression:
        return Expression("<=", self, literal(other))

    def __gt__(self, other: Any) -> Expression:
        return Expression(">", self, literal(other))

    def __ge__(self, other: Any) -> Expression:
        return Expression(">=", self, literal(other))

    def __and__(self, other: Any) -> Expression:
        return Expression("and", self, literal(other))

    def __or__(self, other: Any) -> Expression:
        return Expression("or", self, literal(other))

    def __invert__(self) -> Expression:
        return Expression("not", self)

    def __bool__(self) -> bool:
        raise TypeError(f"{self} has no truth before it sees a record: combine with &, | and ~")

    def is_null(self) -> Expression:
        """Whether it is null."""
        return Expression("is_null", self)

    def or_else(self, default: Any) -> Expression:
        """It, or ``default`` where it is null."""
        return Expression("or_else", self, literal(default))

    def __repr__(self) -> str:
        if self.operation == "literal":
            return repr(self.constant)
        if not self.operands:
            return self.operation
        shown = [repr(one) for one in self.operands]
        if self.operation.isidentifier() or len(shown) != 2:
            return f"{self.operation}({', '.join(shown)})"
        return f"({shown[0]} {self.operation} {shown[1]})"


class Reducer:
    """A function for ``reduce`` that gives the same in whatever order values come.

    Attributes:
        name: ``add``, ``smallest`` or ``largest``.
    """

    __slots__ = ("_function", "name")

    def __init__(self, name: str, function: Callable[[Any, Any], Any]) -> None:
        self.name = name
        self._function = function

    def __call__(self, aggregate: Any, value: Any) -> Any:  # noqa: A002, RUF100 - as reduce() calls
        """Return the aggregate with one more value."""
        return self._function(aggregate, value)

    def __repr__(self) -> str:
        return self.name


def literal(constant: Any) -> Expression:
    """Return an expression that is always ``constant``; an expression is returned as it is.

    Raises:
        TopologyError: it is no text, whole number or truth value.
    """
    if isinstance(constant, Expression):
        return constant
    if constant.__class__ not in {str, int, bool}:
        raise TopologyError(
            f"{constant!r} cannot stand in an expression: give a text, a whole number, True or "
            "False; for null there is is_null()"
        )
    return Expression("literal", constant=constant)


key: Final = Expression("key")
"""The record's key."""
value: Final = Expression("value")
"""The record's value."""
add: Final = Reducer("add", operator.add)
"""The sum of whole numbers."""
smallest: Final = Reducer("smallest", min)
"""The smallest value."""
largest: Final = Reducer("largest", max)
"""The largest value."""
