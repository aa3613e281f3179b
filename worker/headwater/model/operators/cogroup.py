"""Several grouped streams that share one aggregate (KIP-150)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from headwater.model.operators.base import OldValues, TableOperator


@dataclass(frozen=True, slots=True, kw_only=True)
class CogroupMerge(TableOperator):
    """The table of a cogroup: the changes that its streams make of one store.

    Kafka's ``KTablePassThrough``. ``store`` is that of the aggregations above, which have it.
    """

    old_values: ClassVar = OldValues.FROM_PARENTS

    store: str
