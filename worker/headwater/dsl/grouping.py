"""What groups know of themselves: whether a name is theirs, and the repartition they share."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Generic, TypeVar

from headwater.dsl.calls import Repartition

if TYPE_CHECKING:
    from headwater.dsl.calls import CallId, RepartitionNames
    from headwater.dsl.origin import Origin

K = TypeVar("K")
V = TypeVar("V")


class Grouping(Generic[K, V]):
    """By what an aggregation is partitioned.

    Attributes:
        origin: what is grouped.
        name: the user's, after which the repartition topic is called.
    """

    __slots__ = ("_shared", "name", "origin")

    def __init__(self, origin: Origin, name: str | None) -> None:
        self.origin = origin
        self.name = name
        self._shared: CallId | None = None

    def through(self, names: RepartitionNames, *, changes: bool = False) -> Origin:
        """Go through a repartition topic; a group with a name shares one among its aggregations.

        ``changes``: the records hold old and new values of a table.
        """
        origin = self.origin
        if self._shared is not None:
            origin.drawing.draw_again(self._shared)
            return replace(origin, call=self._shared)
        part = Repartition(
            names=names,
            key_serde=origin.key_serde,
            value_serde=origin.value_serde,
            changes=changes,
            mergeable=not changes,
        )
        below = origin.through(part)
        if self.name is not None:
            self._shared = below.call
        return below

    def partitioned(self, store: str, *, is_given: bool) -> Origin:
        """Return the records partitioned by key, for an aggregation whose store is ``store``.

        ``is_given``: the user has named the store.
        """
        origin = self.origin
        if not origin.rekeyed:
            return origin
        is_given = is_given or self.name is not None
        names = origin.drawing.repartition_names(self.name or store, is_given=is_given)
        return self.through(names)
