"""Compares what two versions of an application have written, key by key. Pure.

The last value of a key counts, and a key whose last value is a tombstone counts as absent. Order
between keys does not matter, and neither does how often a key was written, because that depends on
commits and caches; the numbers are told, and compared if that is wanted. Records without a key are
compared as a bag.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from headwater.errors import DiffError
from headwater.model.tables import aligned

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

Identity: TypeAlias = "tuple[bytes | None, bytes | None]"
"""A key and nothing; or nothing and the value of a record without a key."""


@dataclass(slots=True)
class Contents:
    """What a topic says.

    Attributes:
        last: the last value of each key.
        counts: how many records there were of each.
        records: in all.
    """

    last: dict[Identity, bytes | None] = field(default_factory=dict)
    counts: dict[Identity, int] = field(default_factory=dict)
    records: int = 0

    def add(self, key: bytes | None, value: bytes | None) -> None:
        """Take in the next record of a partition."""
        identity = (key, None) if key is not None else (None, value)
        self.last[identity] = value
        self.counts[identity] = self.counts.get(identity, 0) + 1
        self.records += 1

    @property
    def present(self) -> set[Identity]:
        """The keys whose last value is no tombstone."""
        return {identity for identity, value in self.last.items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One key on which the two do not agree; ``old`` and ``new`` are ``None`` where it lacks."""

    kind: str
    identity: Identity
    old: bytes | None
    new: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """How the outputs of two versions differ.

    Attributes:
        old_topic: of the version before.
        new_topic: of the version that is to replace it.
        old_records: read from the first.
        new_records: read from the second.
        equal: keys with the same last value.
        different: keys with another one.
        missing: keys that only the old one has.
        extra: keys that only the new one has.
        examples: of the last three kinds, a few of each.
    """

    old_topic: str
    new_topic: str
    old_records: int
    new_records: int
    equal: int
    different: int
    missing: int
    extra: int
    examples: tuple[Example, ...] = ()

    @property
    def is_same(self) -> bool:
        """Whether they agree on every key."""
        return not (self.different or self.missing or self.extra)


def compared(
    topics: tuple[str, str],
    old: Contents,
    new: Contents,
    *,
    is_same: Callable[[bytes, bytes], bool],
    counts: bool = False,
    examples: int = 3,
) -> Difference:
    """Compare two outputs.

    Args:
        topics: their names, the old one first.
        old: what the first says.
        new: what the second says.
        is_same: whether two values whose bytes differ mean the same.
        counts: a key that was written another number of times differs, too.
        examples: how many to keep of each kind.
    """
    ours, theirs = old.present, new.present
    shared = ours & theirs
    different = {
        identity
        for identity in shared
        if ((counts or identity[0] is None) and old.counts[identity] != new.counts[identity])
        or not _agree(old.last[identity], new.last[identity], is_same)
    }
    kinds = {"different": different, "missing": ours - theirs, "extra": theirs - ours}
    kept = [
        Example(
            kind=kind,
            identity=identity,
            old=old.last.get(identity),
            new=new.last.get(identity),
        )
        for kind, found in kinds.items()
        for identity in sorted(found, key=_order)[:examples]
    ]
    return Difference(
        old_topic=topics[0],
        new_topic=topics[1],
        old_records=old.records,
        new_records=new.records,
        equal=len(shared) - len(different),
        different=len(different),
        missing=len(kinds["missing"]),
        extra=len(kinds["extra"]),
        examples=tuple(kept),
    )


def paired(old: Sequence[str], new: Sequence[str], given: Iterable[str]) -> list[tuple[str, str]]:
    """Return which outputs are compared with each other.

    Args:
        old: topics that the old version writes to.
        new: topics that the new version writes to.
        given: ``OLD=NEW`` for each pair; else the topics are taken in the order of their sinks.

    Raises:
        DiffError: it is not clear which topics are pairs.
    """
    pairs = []
    for text in given:
        first, equals, second = text.partition("=")
        if not equals or first not in old or second not in new:
            raise DiffError(
                f"--topics {text}: write OLD_TOPIC=NEW_TOPIC; the old version writes to "
                f"{_listed(old)}, the new one to {_listed(new)}"
            )
        pairs.append((first, second))
    if pairs:
        return pairs
    if not old or len(old) != len(new):
        raise DiffError(
            f"the old version writes to {_listed(old)}, the new one to {_listed(new)}: name what "
            "belongs together with --topics OLD_TOPIC=NEW_TOPIC"
        )
    both = sorted(set(old) & set(new))
    if both:
        raise DiffError(
            f"both versions write to {both[0]}, so their outputs cannot be told apart: have the "
            "new version write to a topic of its own"
        )
    return list(zip(old, new, strict=True))


def table(differences: Sequence[Difference]) -> list[str]:
    """Return the differences as lines of text, with a heading."""
    rows: list[tuple[str, ...]] = [
        ("OLD TOPIC", "NEW TOPIC", "EQUAL", "DIFFERENT", "MISSING", "EXTRA", "RECORDS")
    ]
    rows += [
        (
            one.old_topic,
            one.new_topic,
            *(f"{n:,}" for n in (one.equal, one.different, one.missing, one.extra)),
            f"{one.old_records:,} / {one.new_records:,}",
        )
        for one in differences
    ]
    return aligned(rows, right=range(2, 7))


def document(difference: Difference, show: Callable[[Example], dict[str, Any]]) -> dict[str, Any]:
    """Return a difference as JSON values.

    Args:
        difference: what was found.
        show: gives an example's key and values as JSON values.
    """
    return {
        "oldTopic": difference.old_topic,
        "newTopic": difference.new_topic,
        "equal": difference.equal,
        "different": difference.different,
        "missing": difference.missing,
        "extra": difference.extra,
        "oldRecords": difference.old_records,
        "newRecords": difference.new_records,
        "examples": [{"kind": one.kind, **show(one)} for one in difference.examples],
    }


def _agree(old: bytes | None, new: bytes | None, is_same: Callable[[bytes, bytes], bool]) -> bool:
    if old is None or new is None:
        return old == new
    return old == new or is_same(old, new)


def _order(identity: Identity) -> tuple[bytes, bytes]:
    return identity[0] or b"", identity[1] or b""


def _listed(topics: Iterable[str]) -> str:
    return ", ".join(topics) or "no topic"


def check_not_empty(topics: Mapping[str, Contents]) -> None:
    """Refuse topics without a record: nothing would be compared.

    Raises:
        DiffError: a topic is empty.
    """
    for topic, contents in topics.items():
        if not contents.records:
            raise DiffError(
                f"topic {topic} is empty, so there is nothing to compare: run that version first, "
                "or name other topics with --topics OLD_TOPIC=NEW_TOPIC"
            )
