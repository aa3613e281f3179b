"""Operators without state: one record in, any number out (``KStreamFilter`` and its kin)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from headwater.model.operators.base import Operator

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from headwater.model.operators.base import KeyValueMapper, Predicate


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter(Operator):
    """KStream.filter / filter_not: keep when ``predicate(key, value)`` differs from ``negate``."""

    keeps_keys: ClassVar = True

    predicate: Predicate
    negate: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Map(Operator):
    """KStream.map: ``mapper(key, value)`` gives the new ``(key, value)``."""

    changes_keys: ClassVar = True
    changes_values: ClassVar = True

    mapper: Callable[[Any, Any], tuple[Any, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class MapValues(Operator):
    """KStream.map_values: ``mapper(value)``, or ``mapper(key, value)`` when ``with_key``."""

    keeps_keys: ClassVar = True
    changes_values: ClassVar = True

    mapper: Callable[..., Any]
    with_key: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FlatMap(Operator):
    """KStream.flat_map: ``mapper(key, value)`` gives any number of ``(key, value)``."""

    changes_keys: ClassVar = True
    changes_values: ClassVar = True

    mapper: Callable[[Any, Any], Iterable[tuple[Any, Any]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class FlatMapValues(Operator):
    """KStream.flat_map_values: ``mapper`` gives any number of values."""

    keeps_keys: ClassVar = True
    changes_values: ClassVar = True

    mapper: Callable[..., Iterable[Any]]
    with_key: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectKey(Operator):
    """KStream.select_key and the key half of group_by: ``mapper(key, value)`` gives the new key."""

    changes_keys: ClassVar = True

    mapper: KeyValueMapper


@dataclass(frozen=True, slots=True, kw_only=True)
class Peek(Operator):
    """KStream.peek (forwards) and for_each (``terminal``): call ``action(key, value)``."""

    keeps_keys: ClassVar = True

    action: Callable[[Any, Any], Any]
    terminal: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Print(Operator):
    """KStream.print: a line ``[label]: key, value`` on standard output, or in the file ``path``."""

    label: str
    mapper: Callable[[Any, Any], str] | None = None
    path: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PassThrough(Operator):
    """Forward unchanged: the node below each branch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge(PassThrough):
    """KStream.merge: forward unchanged what comes of either stream."""

    merges: ClassVar = True


@dataclass(frozen=True, slots=True, kw_only=True)
class DropNullKey(Operator):
    """The filter in front of a repartition sink."""

    keeps_keys: ClassVar = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch(Operator):
    """KStream.split: the first predicate that holds names the child; else ``default``, if any."""

    predicates: tuple[tuple[Predicate, str], ...]
    default: str | None = None
