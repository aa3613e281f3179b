"""How a table came about, as far as it decides on stores and old values.

Both decisions are made from below: ``KTable.group_by`` needs old values, so it asks its table,
which asks its parent, up to a node that has a store to read them from. A source table that had none
gets one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod


class Lineage(ABC):
    """The changeable half of a table node; read when the topology is written."""

    __slots__ = ("send_old",)

    def __init__(self) -> None:
        self.send_old = False

    @abstractmethod
    def enable_sending_old_values(self, *, force: bool) -> bool:
        """Make the node send old values along; return whether it does.

        ``force`` gives a source table a store if it has none.
        """


class SourceLineage(Lineage):
    """A table read from a topic, or made from a stream: materialised only if somebody needs it."""

    __slots__ = ("_materialized", "_store")

    def __init__(self, store: str, *, materialized: bool) -> None:
        super().__init__()
        self._store = store
        self._materialized = materialized

    @property
    def store(self) -> str | None:
        """The store's name, if the table has one."""
        return self._store if self._materialized else None

    def enable_sending_old_values(self, *, force: bool) -> bool:
        """Materialise if need be."""
        if not self._materialized and not force:
            return False
        self._materialized = True
        self.send_old = True
        return True


class AggregateLineage(Lineage):
    """A table made by an aggregation; it always has a store."""

    __slots__ = ()

    def enable_sending_old_values(self, *, force: bool) -> bool:
        """Send the aggregate before the update; no force is needed, the store is there."""
        del force
        self.send_old = True
        return True


class MappedLineage(Lineage):
    """A table mapped from another; old values come from its own store or from above."""

    __slots__ = ("_parent", "_store")

    def __init__(self, parent: Lineage, store: str | None) -> None:
        super().__init__()
        self._parent = parent
        self._store = store

    def enable_sending_old_values(self, *, force: bool) -> bool:
        """Ask the parent unless there is a store to read the old value from."""
        if self._store is not None or self._parent.enable_sending_old_values(force=force):
            self.send_old = True
        return self.send_old


class FilteredLineage(MappedLineage):
    """A table filtered from another.

    With the old value a filter can tell that a row it refuses was refused before, and says
    nothing. So it asks for old values wherever a store is there already (KAFKA-10077).
    """

    __slots__ = ()

    def __init__(self, parent: Lineage, store: str | None) -> None:
        super().__init__(parent, store)
        self.send_old = parent.enable_sending_old_values(force=False)
