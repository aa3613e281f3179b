"""``KTable``: the last value of each key.

Names, counters, serdes and stores as in Kafka's ``KTableImpl``. Here stand the operations on
tables, and ``KStream.to_table``; others come from other families of operators.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeVar, Unpack, overload

from headwater.dsl.aggregate import AggregateOfTable
from headwater.dsl.calls import Repartition, Table
from headwater.dsl.join import JoinOfTable
from headwater.dsl.options import Materialized, MaterializedOptions, Named, changed, name_of
from headwater.dsl.origin import Drawn
from headwater.dsl.stored import derive, given, store_spec
from headwater.dsl.suppress import SuppressOfTable
from headwater.dsl.transform import TransformOfTable
from headwater.model.callables import check_function, check_functions
from headwater.model.operators.table import TableFilter, TableMapValues, TableSource, TableToStream

if TYPE_CHECKING:
    from collections.abc import Callable

    from headwater.dsl.stream import KStream

K = TypeVar("K")
V = TypeVar("V")
KR = TypeVar("KR")
VR = TypeVar("VR")


class KTable(
    TransformOfTable[K, V], AggregateOfTable[K, V], JoinOfTable[K, V], SuppressOfTable[K, V]
):
    """A table of keys of type ``K`` and values of type ``V``; updates flow, ``None`` deletes.

    Operations return new tables. A derived table is stored only if it is given a store name.
    """

    __slots__ = ()

    def queryable_store_name(self) -> str | None:
        """Return the name that the table's store was given; ``None`` if it was given none.

        As in Kafka Streams, a joined table that may have a store tells a generated name, too.
        """
        return self.origin.drawing.store_of(self.origin.call)

    def filter(
        self,
        predicate: Callable[[K, V], bool],
        materialized: Materialized[K, V] | None = None,
        *,
        name: str | Named | None = None,
        **options: Unpack[MaterializedOptions[K, V]],
    ) -> KTable[K, V]:
        """Keep the rows for which ``predicate(key, value)`` is true; the others are deleted below.

        Keywords are those of :class:`Materialized`. As in Kafka Streams the new store does not
        inherit serdes.
        """
        return self._filter(predicate, materialized, name, options, negate=False)

    def filter_not(
        self,
        predicate: Callable[[K, V], bool],
        materialized: Materialized[K, V] | None = None,
        *,
        name: str | Named | None = None,
        **options: Unpack[MaterializedOptions[K, V]],
    ) -> KTable[K, V]:
        """Keep the rows for which ``predicate(key, value)`` is false; see :meth:`filter`."""
        return self._filter(predicate, materialized, name, options, negate=True)

    @overload
    def map_values(
        self,
        mapper: Callable[[V], VR],
        materialized: Materialized[K, VR] | None = None,
        *,
        name: str | Named | None = None,
        **options: Unpack[MaterializedOptions[K, VR]],
    ) -> KTable[K, VR]: ...
    @overload
    def map_values(
        self,
        mapper: Callable[[K, V], VR],
        materialized: Materialized[K, VR] | None = None,
        *,
        with_key: Literal[True],
        name: str | Named | None = None,
        **options: Unpack[MaterializedOptions[K, VR]],
    ) -> KTable[K, VR]: ...
    def map_values(
        self,
        mapper: Callable[..., Any],
        materialized: Materialized[K, Any] | None = None,
        *,
        with_key: bool = False,
        name: str | Named | None = None,
        **options: Unpack[MaterializedOptions[K, Any]],
    ) -> KTable[K, Any]:
        """Replace every value by ``mapper(value)``; a deletion stays one.

        ``with_key`` calls ``mapper(key, value)``.

        Keywords are those of :class:`Materialized`.
        """
        check_function("map_values()", mapper)
        operator = TableMapValues(mapper=mapper, with_key=with_key)
        stored = given(materialized, options)
        return derive(self.origin, "KTABLE-MAPVALUES-", name, operator, stored).as_table()

    @overload
    def to_stream(self, *, name: str | Named | None = None) -> KStream[K, V]: ...
    @overload
    def to_stream(
        self, mapper: Callable[[K, V], KR], *, name: str | Named | None = None
    ) -> KStream[KR, V]: ...
    def to_stream(
        self, mapper: Callable[[K, V], Any] | None = None, *, name: str | Named | None = None
    ) -> KStream[Any, V]:
        """Return the table's updates as a stream; a deletion is a record without a value.

        With ``mapper`` the stream's keys are ``mapper(key, value)``, as after ``select_key``.
        """
        check_functions("to_stream()", optional=True, mapper=mapper)
        origin = self.origin.processor("KTABLE-TOSTREAM-", name, TableToStream())
        updates: KStream[K, V] = origin.as_stream()
        return updates if mapper is None else updates.select_key(mapper)

    def _filter(
        self,
        predicate: Callable[[K, V], bool],
        materialized: Materialized[K, V] | None,
        name: str | Named | None,
        options: MaterializedOptions[K, V],
        *,
        negate: bool,
    ) -> KTable[K, V]:
        check_function("filter_not()" if negate else "filter()", predicate)
        operator = TableFilter(predicate=predicate, negate=negate)
        stored = given(materialized, options)
        inherited = self.origin.value_serde
        return derive(
            self.origin, "KTABLE-FILTER-", name, operator, stored, value_serde=inherited
        ).as_table()


class TableOfStream(Drawn[K, V]):
    """``KStream.to_table``."""

    __slots__ = ()

    @overload
    def to_table(
        self: TableOfStream[K, VR | None],
        materialized: Materialized[K, VR] | None = None,
        *,
        name: str | Named | None = None,
        **options: Unpack[MaterializedOptions[K, VR]],
    ) -> KTable[K, VR]: ...
    @overload
    def to_table(
        self,
        materialized: Materialized[K, V] | None = None,
        *,
        name: str | Named | None = None,
        **options: Unpack[MaterializedOptions[K, V]],
    ) -> KTable[K, V]: ...
    def to_table(
        self,
        materialized: Materialized[K, Any] | None = None,
        *,
        name: str | Named | None = None,
        **options: Unpack[MaterializedOptions[K, Any]],
    ) -> KTable[K, Any]:
        """Read the stream as a table.

        Each record is the new value of its key, ``None`` deletes it (KIP-523).

        Keywords are those of :class:`Materialized`. As in Kafka Streams the store inherits the
        stream's serdes only if no :class:`Materialized` is given.
        """
        origin, drawing = self.origin, self.origin.drawing
        chosen = drawing.named(name_of(name), "KSTREAM-TOTABLE-")
        inherited: Materialized[K, Any] = Materialized(
            key_serde=origin.key_serde, value_serde=origin.value_serde
        )
        settings = changed(Materialized, materialized or inherited, options)
        store = settings.store or drawing.store_name("KSTREAM-TOTABLE-")
        key_serde = settings.key_serde or origin.key_serde
        value_serde = settings.value_serde or origin.value_serde
        if origin.rekeyed:
            names = drawing.repartition_names(chosen, is_given=name is not None)
            origin = origin.through(
                Repartition(
                    names=names, key_serde=key_serde, value_serde=value_serde, mergeable=True
                )
            )
        part = Table(
            name=chosen,
            operator=TableSource(store=settings.store),
            store=store_spec(store, settings),
        )
        return origin.keep(part, key_serde, value_serde).as_table()
