"""What each processor node does, as data: one frozen class per operator.

The DSL writes these into a ``Topology``; an engine compiles them (``processor/operators``) into
closures. Between table nodes a record's value is a *change*: the plain tuple ``(new, old)``, where
``old`` is ``None`` unless the node was told to send old values (Kafka Streams' ``Change``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

Predicate: TypeAlias = Callable[[Any, Any], bool]
KeyValueMapper: TypeAlias = Callable[[Any, Any], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """KStream.filter / filter_not: keep when ``predicate(key, value)`` differs from ``negate``."""

    predicate: Predicate
    negate: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Map:
    """KStream.map: ``mapper(key, value)`` gives the new ``(key, value)``."""

    mapper: Callable[[Any, Any], tuple[Any, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class MapValues:
    """KStream.map_values: ``mapper(value)``, or ``mapper(key, value)`` when ``with_key``."""

    mapper: Callable[..., Any]
    with_key: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FlatMap:
    """KStream.flat_map: ``mapper(key, value)`` gives any number of ``(key, value)``."""

    mapper: Callable[[Any, Any], Iterable[tuple[Any, Any]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class FlatMapValues:
    """KStream.flat_map_values: ``mapper`` gives any number of values."""

    mapper: Callable[..., Iterable[Any]]
    with_key: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectKey:
    """KStream.select_key and the key half of group_by: ``mapper(key, value)`` gives the new key."""

    mapper: KeyValueMapper


@dataclass(frozen=True, slots=True, kw_only=True)
class Peek:
    """KStream.peek (forwards) and for_each (``terminal``): call ``action(key, value)``."""

    action: Callable[[Any, Any], Any]
    terminal: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Print:
    """KStream.print: a line ``[label]: key, value`` on standard output, or in the file ``path``."""

    label: str
    mapper: Callable[[Any, Any], str] | None = None
    path: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PassThrough:
    """Forward unchanged: merge, and the node below each branch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DropNullKey:
    """The filter in front of a repartition sink."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """KStream.split: the first predicate that holds names the child; else ``default``, if any."""

    predicates: tuple[tuple[Predicate, str], ...]
    default: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSource:
    """A table source, and KStream.to_table: upsert ``store``, if any; forward the change."""

    store: str | None
    send_old: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFilter:
    """KTable.filter / filter_not on changes; forwards a tombstone when the predicate fails."""

    predicate: Predicate
    negate: bool = False
    store: str | None = None
    send_old: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TableMapValues:
    """KTable.map_values on changes."""

    mapper: Callable[..., Any]
    with_key: bool = False
    store: str | None = None
    send_old: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TableToStream:
    """KTable.to_stream: a change becomes its new value; ``None`` for a deletion."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamAggregate:
    """KGroupedStream.count / reduce / aggregate over ``store``.

    ``initializer`` is ``None`` for reduce: the first value is the aggregate. ``reducer`` is the
    function that reduce was given, which ``aggregator`` calls.
    """

    store: str
    aggregator: Callable[[Any, Any, Any], Any]
    initializer: Callable[[], Any] | None
    reducer: Callable[[Any, Any], Any] | None = None
    send_old: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRepartitionMap:
    """KTable.group_by: a change becomes a change per new key (Kafka's ``KTableRepartitionMap``)."""

    mapper: Callable[[Any, Any], tuple[Any, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableAggregate:
    """KGroupedTable.count / reduce / aggregate: subtract the old value, then add the new one.

    ``initializer`` is ``None`` for reduce.
    """

    store: str
    adder: Callable[[Any, Any, Any], Any]
    subtractor: Callable[[Any, Any, Any], Any]
    initializer: Callable[[], Any] | None
    send_old: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class UserProcessor:
    """A user's processor; ``supplier()`` makes one per task. Its node names its stores."""

    supplier: Callable[[], Any]


Operator: TypeAlias = (
    Filter
    | Map
    | MapValues
    | FlatMap
    | FlatMapValues
    | SelectKey
    | Peek
    | Print
    | PassThrough
    | DropNullKey
    | Branch
    | TableSource
    | TableFilter
    | TableMapValues
    | TableToStream
    | StreamAggregate
    | TableRepartitionMap
    | TableAggregate
    | UserProcessor
)
