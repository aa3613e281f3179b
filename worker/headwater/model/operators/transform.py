"""Transformers: users' objects that make a value of each value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from headwater.model.operators.base import OldValues, TableOperator

if TYPE_CHECKING:
    from headwater.model.processors import ValueTransformerWithKeySupplier


@dataclass(frozen=True, slots=True, kw_only=True)
class TableTransformValues(TableOperator):
    """KTable.transform_values on changes; ``supplier()`` makes a transformer per task."""

    old_values: ClassVar = OldValues.FROM_STORE_OR_PARENT

    supplier: ValueTransformerWithKeySupplier[Any, Any, Any]
