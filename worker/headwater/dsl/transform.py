"""Transformers that users write, in a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar, Unpack

from headwater.dsl.origin import Drawn
from headwater.dsl.stored import derive, given
from headwater.model.operators.transform import TableTransformValues
from headwater.model.suppliers import check_supplier, stores_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from headwater.dsl.options import Materialized, MaterializedOptions, Named
    from headwater.dsl.table import KTable
    from headwater.model.processors import ValueTransformerWithKey
    from headwater.model.stores import StoreSpec

K = TypeVar("K")
V = TypeVar("V")
VR = TypeVar("VR")


class TransformOfTable(Drawn[K, V]):
    """``KTable.transform_values``."""

    __slots__ = ()

    def transform_values(
        self,
        supplier: Callable[[], ValueTransformerWithKey[K, V, VR]],
        *stores: str | StoreSpec,
        materialized: Materialized[K, VR] | None = None,
        name: str | Named | None = None,
        **options: Unpack[MaterializedOptions[K, VR]],
    ) -> KTable[K, VR]:
        """Replace every value by what a transformer of ``supplier`` returns.

        Deletions are given to it, too, as ``None``. Its context cannot forward.
        ``stores`` are connected to it: names of stores of the builder, or specs, which are added;
        so are those of the supplier's ``stores()``.

        Keywords are those of :class:`Materialized`.

        Raises:
            TopologyError: the supplier returns the same instance twice.
        """
        check_supplier("transform_values()", supplier, does="transform")
        operator = TableTransformValues(supplier=supplier)
        return derive(
            self.origin,
            "KTABLE-TRANSFORMVALUES-",
            name,
            operator,
            given(materialized, options),
            spends=False,
            connected=(*stores, *stores_of("transform_values()", supplier)),
        ).as_table()
