"""Joins of a stream with a global table, which every task holds as a whole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headwater.model.operators.base import Operator

if TYPE_CHECKING:
    from collections.abc import Callable

    from headwater.model.operators.base import KeyValueMapper


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamGlobalTableJoin(Operator):
    """KStream.join / left_join with a global table: ``joiner(value, found)``.

    ``store`` names the table's; ``key_selector(key, value)`` gives the key that is looked up there.
    ``with_key`` calls ``joiner(key, value, found)`` with the record's own key.
    """

    store: str
    key_selector: KeyValueMapper
    joiner: Callable[..., Any]
    left: bool = False
    with_key: bool = False

    @property
    def takes_null_keys(self) -> bool:
        """A left join gives a record without a key its result, too (KIP-962)."""
        return self.left
