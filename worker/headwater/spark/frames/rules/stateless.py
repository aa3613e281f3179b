"""Operators without state: expressions of ``headwater.functions`` become columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.functions import Expression
from headwater.model.operators.stateless import (
    Branch,
    DropNullKey,
    Filter,
    FlatMap,
    FlatMapValues,
    Map,
    MapValues,
    Merge,
    PassThrough,
    Peek,
    Print,
    SelectKey,
)
from headwater.spark.frames.flow import computed, refuse
from headwater.spark.frames.kinds import Kind, Refused, may_overflow, result_of
from headwater.spark.frames.plan import HasKey, Where, WithKey, WithValue

if TYPE_CHECKING:
    from headwater.spark.frames.flow import Flow, Place


def _calls_python(what: str) -> str:
    return f"{what} calls a Python function; an expression of headwater.functions is known"


refuse(Map, _calls_python("map"))
refuse(FlatMap, _calls_python("flat_map"))
refuse(FlatMapValues, _calls_python("flat_map_values"))
refuse(Branch, _calls_python("split"))
refuse(Peek, "peek and for_each have effects that nobody sees")
refuse(Print, "print has an effect")


@computed.register(Filter)
def _filter(operator: Filter, at: Place) -> tuple[Flow, str]:
    predicate, flow = operator.predicate, at.flow
    if not isinstance(predicate, Expression):
        raise Refused(_calls_python("filter"))
    if result_of(predicate, flow.key, flow.value) is not Kind.BOOLEAN:
        raise Refused(f"{predicate!r} is neither true nor false")
    overflow = flow.overflow or may_overflow(predicate)
    kept = flow.then(Where(predicate, operator.negate), overflow=overflow)
    return kept, f"the column {predicate!r}"


@computed.register(MapValues)
def _map_values(operator: MapValues, at: Place) -> tuple[Flow, str]:
    mapper, flow = operator.mapper, at.flow
    if not isinstance(mapper, Expression):
        raise Refused(_calls_python("map_values"))
    if mapper.reads("key") and not operator.with_key:
        raise Refused(f"{mapper!r} needs the key: give map_values with_key=True")
    overflow = flow.overflow or may_overflow(mapper)
    value = _stored(mapper, flow)
    return flow.then(WithValue(mapper), value=value, overflow=overflow), f"the column {mapper!r}"


@computed.register(SelectKey)
def _select_key(operator: SelectKey, at: Place) -> tuple[Flow, str]:
    mapper, flow = operator.mapper, at.flow
    if not isinstance(mapper, Expression):
        raise Refused(_calls_python("the selection of a key"))
    overflow = flow.overflow or may_overflow(mapper)
    key = _stored(mapper, flow)
    return flow.then(WithKey(mapper), key=key, overflow=overflow), f"the column {mapper!r}"


@computed.register(PassThrough)
@computed.register(Merge)
def _pass_through(_operator: PassThrough, at: Place) -> tuple[Flow, str]:
    return at.flow, "passes records on"


@computed.register(DropNullKey)
def _drop_null_key(_operator: DropNullKey, at: Place) -> tuple[Flow, str]:
    return at.flow.then(HasKey()), "keys that are not null"


def _stored(expression: Expression, flow: Flow) -> Kind:
    found = result_of(expression, flow.key, flow.value)
    if found is Kind.BOOLEAN:
        raise Refused(f"no serde writes {expression!r}, which is true or false")
    return found
