"""The orders in which Java walks its hash and tree sets.

``describe()`` prints nodes in those orders.

Kafka Streams keeps node names in ``HashMap`` and a node's neighbours in ``TreeSet`` with a
comparator over sub-tree sizes that still grow while the set is filled. The printed order is
therefore an accident of both structures, and equal text needs both accidents: bucket order, and the
shape of the red-black tree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

T = TypeVar("T")

_DEFAULT_CAPACITY: Final = 16


def string_hash(text: str) -> int:
    """Return Java's ``String.hashCode`` as an unsigned 32-bit number (over UTF-16 code units)."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for index in range(0, len(units), 2):
        value = (31 * value + (units[index] << 8 | units[index + 1])) & 0xFFFF_FFFF
    return value


def hash_set_order(names: Iterable[str]) -> list[str]:
    """Return ``names`` as a ``HashSet`` filled one by one walks them."""
    return _bucket_order(dict.fromkeys(names), _DEFAULT_CAPACITY)


def hash_set_copy_order(names: Iterable[str]) -> list[str]:
    """Return ``names`` as ``new HashSet<>(collection)`` walks them.

    It sizes its table beforehand.
    """
    given = list(names)
    capacity = _DEFAULT_CAPACITY
    while capacity < int(len(given) / 0.75) + 1:
        capacity *= 2
    return _bucket_order(dict.fromkeys(given), capacity)


def _bucket_order(names: dict[str, None], capacity: int) -> list[str]:
    while len(names) > capacity * 3 // 4:
        capacity *= 2

    def bucket(name: str) -> int:
        value = string_hash(name)
        return (value ^ value >> 16) & (capacity - 1)

    # Splitting a bucket keeps the order of its entries, so entries of one bucket stay in insertion
    # order.
    return sorted(names, key=bucket)


class _Branch(Generic[T]):
    __slots__ = ("item", "left", "parent", "red", "right")

    def __init__(self, item: T, parent: _Branch[T] | None) -> None:
        self.item = item
        self.parent = parent
        self.left: _Branch[T] | None = None
        self.right: _Branch[T] | None = None
        self.red = False


class TreeSet(Generic[T]):
    """A red-black tree that only grows, balanced as ``java.util.TreeMap`` balances.

    The comparator may change its mind between insertions; then the walk is not sorted, exactly as
    in Java.
    """

    __slots__ = ("_compare", "_root")

    def __init__(self, compare: Callable[[T, T], int]) -> None:
        self._compare = compare
        self._root: _Branch[T] | None = None

    def add(self, item: T) -> None:
        """Insert ``item`` unless the search meets one that compares equal."""
        if self._root is None:
            self._root = _Branch(item, None)
            return
        branch = self._root
        while True:
            order = self._compare(item, branch.item)
            if order == 0:
                return
            following = branch.left if order < 0 else branch.right
            if following is None:
                break
            branch = following
        added = _Branch(item, branch)
        if order < 0:
            branch.left = added
        else:
            branch.right = added
        self._balance(added)

    def __iter__(self) -> Iterator[T]:
        pending: list[_Branch[T]] = []
        branch = self._root
        while pending or branch is not None:
            while branch is not None:
                pending.append(branch)
                branch = branch.left
            branch = pending.pop()
            yield branch.item
            branch = branch.right

    def _balance(self, branch: _Branch[T]) -> None:
        branch.red = True
        while (parent := branch.parent) is not None and parent.red:
            grandparent = parent.parent
            assert grandparent is not None
            on_left = parent is grandparent.left
            uncle = grandparent.right if on_left else grandparent.left
            if uncle is not None and uncle.red:
                parent.red = uncle.red = False
                grandparent.red = True
                branch = grandparent
                continue
            if branch is (parent.right if on_left else parent.left):
                self._rotate(parent, to_left=on_left)
                parent = branch
            parent.red = False
            grandparent.red = True
            self._rotate(grandparent, to_left=not on_left)
            break
        assert self._root is not None
        self._root.red = False

    def _rotate(self, branch: _Branch[T], *, to_left: bool) -> None:
        child = branch.right if to_left else branch.left
        assert child is not None
        inner = child.left if to_left else child.right
        if to_left:
            branch.right, child.left = inner, branch
        else:
            branch.left, child.right = inner, branch
        if inner is not None:
            inner.parent = branch
        child.parent = branch.parent
        if branch.parent is None:
            self._root = child
        elif branch.parent.left is branch:
            branch.parent.left = child
        else:
            branch.parent.right = child
        branch.parent = child
