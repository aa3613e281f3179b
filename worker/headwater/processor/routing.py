"""From a node to its children: one is called directly, several in the order of their addition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headwater.ports import Forward, Headers


def _nowhere(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
    """A node without children forwards to nobody."""


class Children:
    """The compiled children of one node, in order of addition."""

    __slots__ = ("_by_name", "_parent", "forward")

    def __init__(self, parent: str, by_name: Mapping[str, Forward]) -> None:
        self._parent = parent
        self._by_name = dict(by_name)
        self.forward: Forward = _combine(tuple(by_name.values()))
        """Hands a record to every child."""

    @property
    def names(self) -> tuple[str, ...]:
        """Their names, in order of addition."""
        return tuple(self._by_name)

    def named(self, name: str) -> Forward:
        """Return the child ``name``.

        Raises:
            ValueError: there is none; the message lists those there are. The processing handler
                decides about the record, as in Kafka Streams.
        """
        if name not in self._by_name:
            there = ", ".join(self._by_name) or "none"
            raise ValueError(f"node {self._parent} has no child {name!r}; its children: {there}")
        return self._by_name[name]


def _combine(children: tuple[Forward, ...]) -> Forward:
    if not children:
        return _nowhere
    if len(children) == 1:
        return children[0]
    first, second, *_ = children

    def forward_to_two(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        first(key, value, timestamp, headers)
        second(key, value, timestamp, headers)

    def forward_to_each(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        for child in children:
            child(key, value, timestamp, headers)

    return forward_to_two if len(children) == 2 else forward_to_each
