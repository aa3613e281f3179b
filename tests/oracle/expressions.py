"""The functions of the catalogue that ``headwater.functions`` can say, by types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from headwater import functions as f
from tests.oracle.functions import KEY_MAPPER_TYPES, VALUE_MAPPER_TYPES

if TYPE_CHECKING:
    from collections.abc import Iterable


class Types(NamedTuple):
    """Of the keys and values that reach a step: names of serdes."""

    key: str
    value: str


_WHOLE = ("integer", "long")
_STREAM_OF = {
    "filter": "predicates",
    "filter_not": "predicates",
    "map_values": "value mappers",
    "select_key": "key mappers",
    "group_by": "key mappers",
    "reduce": "reducers",
}


def known_function(operation: str, name: str, types: Types) -> Any:
    """Return what says the same as the function of that name; ``None`` if nothing does."""
    kind = _STREAM_OF.get(operation)
    return None if kind is None else _of_kind(kind, types).get(name)


def known_names(operation: str, types: Types) -> dict[str, str]:
    """Return the functions that can be said, each with the type that comes out."""
    kind = _STREAM_OF.get(operation)
    return (
        {} if kind is None else {name: result_type(name, types) for name in _of_kind(kind, types)}
    )


def result_type(name: str, types: Types) -> str:
    """Return the type that comes out of a function; of one that keeps or folds values, theirs."""
    found = {**VALUE_MAPPER_TYPES, **KEY_MAPPER_TYPES}.get(name, "v")
    return {"k": types.key, "v": types.value}.get(found, found)


def _of_kind(kind: str, types: Types) -> dict[str, Any]:
    found: Iterable[tuple[str, Any]] = {
        "predicates": _predicates,
        "value mappers": _value_mappers,
        "key mappers": _key_mappers,
        "reducers": _reducers,
    }[kind](types)
    return dict(found)


def _predicates(types: Types) -> Iterable[tuple[str, Any]]:
    yield "key_not_null", ~f.key.is_null()
    yield "value_not_null", ~f.value.is_null()
    if types.key == "string":
        yield "key_before_m", f.key < "m"
    if types.value == "string":
        yield "even_length", f.value.or_else("null").length() % 2 == 0
    if types.value in _WHOLE:
        yield "is_odd", f.value % 2 == 1


def _value_mappers(types: Types) -> Iterable[tuple[str, Any]]:
    yield "identity", f.value
    if types.value == "string":
        yield "to_text", f.value
        yield "length", f.value.length()
        if types.key == "string":
            yield "with_key", f.key.or_else("null") + ":" + f.value.or_else("null")


def _key_mappers(types: Types) -> Iterable[tuple[str, Any]]:
    yield "same_key", f.key
    if types.value == "string":
        yield "value_as_key", f.value
        yield "first_letter", f.value[:1]
        yield "length_key", f.value.length()
    if types.key == "string":
        yield "key_text", f.key


def _reducers(types: Types) -> Iterable[tuple[str, Any]]:
    if types.value in _WHOLE:
        yield "add", f.add
    if types.value in ("string", *_WHOLE):
        yield "smallest", f.smallest
        yield "largest", f.largest
