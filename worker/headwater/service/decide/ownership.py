"""Who owns an application id, from its owner topic. Every reader comes to the same answer.

    claim   "I want to be the owner": granted if there is none, or if the one there is has been
            silent for too long, is proven dead by the claimant, or is to be taken over
    own     "I am": the sign of life of a claimant that has read the topic up to its own claim
    (null)  "I have left"

The key is the instance, so compaction keeps the last word of each. It may drop an old claim that
somebody else's sign of life had answered; therefore an ``own`` outranks a claim that was never
followed by one, and among owners the later claim wins. Times are the broker's (LogAppendTime):
clocks of two machines are never compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

OWNER_TIMEOUT_MS: Final = 30_000
"""An owner without a sign of life for so long is taken for dead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """One record of the owner topic.

    Attributes:
        offset: in the one partition.
        at_ms: the broker's time.
        instance: who says it.
        kind: ``claim``, ``own`` or ``left``.
        claim: of an ``own``: the offset of the claim that was granted.
        takes_over: of a claim: an owner there is has to go.
        proven_dead: of a claim: the instance whose end the claimant has proof of.
        address: where the instance runs, for people and for the proof.
        transactional_ids: what has to be fenced when the instance is gone.
    """

    offset: int
    at_ms: int
    instance: str
    kind: str
    claim: int = -1
    takes_over: bool = False
    proven_dead: str = ""
    address: str = ""
    transactional_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The owner after some record.

    Attributes:
        instance: who.
        claim: offset of its claim.
        is_confirmed: it has said ``own`` since.
        heard_ms: the broker's time of its last record.
        address: where it runs.
        transactional_ids: see ``Said``.
    """

    instance: str
    claim: int
    is_confirmed: bool
    heard_ms: int
    address: str = ""
    transactional_ids: tuple[str, ...] = ()


def owner_after(said: Iterable[Said], owner: Owner | None = None) -> Owner | None:
    """Return the owner after some records, in the order of their offsets.

    Args:
        said: the records.
        owner: the owner before them.
    """
    for record in said:
        match record.kind:
            case "left":
                if owner is not None and owner.instance == record.instance:
                    owner = None
            case "own":
                owner = _owned(owner, record)
            case "claim":
                if is_granted(record, owner):
                    owner = _owner(record, claim=record.offset, is_confirmed=False)
            case _:
                pass  # A later version may say more.
    return owner


def is_granted(claim: Said, owner: Owner | None) -> bool:
    """Whether a claim succeeds against the owner that there was before it."""
    if owner is None or owner.instance == claim.instance or claim.takes_over:
        return True
    return claim.at_ms - owner.heard_ms > OWNER_TIMEOUT_MS or claim.proven_dead == owner.instance


def _owned(owner: Owner | None, record: Said) -> Owner:
    if owner is None or owner.instance == record.instance:
        return _owner(record, claim=record.claim, is_confirmed=True)
    if owner.is_confirmed and owner.claim > record.claim:
        return owner  # The sign of life of one that was replaced.
    return _owner(record, claim=record.claim, is_confirmed=True)


def _owner(record: Said, *, claim: int, is_confirmed: bool) -> Owner:
    return Owner(
        instance=record.instance,
        claim=claim,
        is_confirmed=is_confirmed,
        heard_ms=record.at_ms,
        address=record.address,
        transactional_ids=record.transactional_ids,
    )
