"""A heap that takes equal items in the order of Java's ``PriorityQueue``, which ``heapq`` does not.

Java's order of equal ones is arbitrary, but always the same; what is processed or called next
depends on it, and so does what a task sends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

Item = TypeVar("Item")


class PriorityQueue(Generic[Item]):
    """Items by a number of theirs, the lowest first.

    Args:
        key: the number of an item, which does not change while it is here.
    """

    __slots__ = ("_key", "items")

    def __init__(self, key: Callable[[Item], int]) -> None:
        self._key = key
        self.items: list[Item] = []
        """The heap; the first item is the next."""

    def __bool__(self) -> bool:
        return bool(self.items)

    def push(self, item: Item) -> None:
        """Add an item."""
        items, key = self.items, self._key
        at = len(items)
        items.append(item)
        number = key(item)
        while at > 0:
            parent = (at - 1) >> 1
            if number >= key(items[parent]):
                break
            items[at] = items[parent]
            at = parent
        items[at] = item

    def pop(self) -> Item:
        """Remove and return the first item."""
        items, key = self.items, self._key
        first, last = items[0], items.pop()
        size = len(items)
        if size:
            at, number = 0, key(last)
            while at < size >> 1:
                child = 2 * at + 1
                if child + 1 < size and key(items[child]) > key(items[child + 1]):
                    child += 1
                if number <= key(items[child]):
                    break
                items[at] = items[child]
                at = child
            items[at] = last
        return first
