"""Joins of two streams within windows: each side keeps its records and looks for the other's.

    this stream ──► JoinWindow (keeps it) ──► StreamJoinSide (looks in the other's store) ──┐
    other stream ─► JoinWindow (keeps it) ──► StreamJoinSide (looks in this one's store) ───┴► merge

A left or outer join has a third store, of records that have found no partner yet.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headwater.model.operators.base import Operator
from headwater.model.operators.join import Join

if TYPE_CHECKING:
    from collections.abc import Callable

    from headwater.model.windows import JoinWindows


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamJoin:
    """KStream.join / left_join / outer_join with a stream: ``joiner(value, other)``.

    ``with_key`` calls ``joiner(key, value, other)``.

    Attributes:
        kind: which side may be missing.
        windows: how far apart two records may be.
        joiner: makes the result's value.
        with_key: whether it gets the key.
        left: the store of the left stream's records.
        right: the store of the right stream's records.
        unmatched: the store of those without a partner, of a left or outer join.
    """

    kind: Join
    windows: JoinWindows
    joiner: Callable[..., Any]
    with_key: bool
    left: str
    right: str
    unmatched: str | None

    @property
    def takes_null_keys(self) -> bool:
        """A left or outer join gives a record without a key its result, too (KIP-962)."""
        return self.kind is not Join.INNER


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinWindow(Operator):
    """Keeps the records of one side in ``store`` (Kafka's ``KStreamJoinWindow``).

    With ``is_put_last`` a record is kept after it was joined: below is the join with itself.
    """

    store: str
    is_put_last: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamJoinSide(Operator):
    """The records of one stream, joined with those of the other (``KStreamKStreamJoin``)."""

    join: StreamJoin
    of_left: bool

    @property
    def other(self) -> str:
        """The store in which partners are looked up."""
        return self.join.right if self.of_left else self.join.left

    @property
    def needs_no_partner(self) -> bool:
        """Whether a record that finds none has a result, too."""
        kind = self.join.kind
        return kind is Join.OUTER or (kind is Join.LEFT and self.of_left)

    @property
    def span_ms(self) -> tuple[int, int]:
        """How much earlier and how much later than a record its partner may be."""
        windows = self.join.windows
        if self.of_left:
            return windows.before_ms, windows.after_ms
        return windows.after_ms, windows.before_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSelfJoin(Operator):
    """A stream joined with itself over one store (Kafka's ``KStreamKStreamSelfJoin``, KIP-862)."""

    join: StreamJoin

    @property
    def takes_null_keys(self) -> bool:
        """As the join would; it drops what has no key, but what is above lets that through."""
        return self.join.takes_null_keys
