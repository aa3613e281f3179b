"""``KTable.suppress``: updates of a table are kept back in a buffer, in the order of time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from headwater.model.operators.base import OldValues, TableOperator, Wanted

if TYPE_CHECKING:
    from headwater.model.suppression import BufferConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSuppress(TableOperator):
    """KTable.suppress (Kafka's ``KTableSuppressProcessorSupplier``).

    Attributes:
        buffer: the store where updates wait; the table has no other.
        duration_ms: for how long, in stream time.
        of_window: counted from the end of the key's window, else from the first update of the key;
            and deletions are not passed on, since nobody has seen what they delete.
        bounds: of the buffer.
    """

    old_values: ClassVar = OldValues.FROM_PARENTS
    wants_old_values: ClassVar = Wanted.ALWAYS

    buffer: str
    duration_ms: int
    of_window: bool = False
    bounds: BufferConfig
