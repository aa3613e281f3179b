"""Who owns an application id: claims and signs of life, replayed."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from headwater.service.decide.ownership import OWNER_TIMEOUT_MS, Said, owner_after
from headwater.service.owner import Address


def claim(offset: int, instance: str, at_ms: int = 0, **fields: object) -> Said:
    return Said(offset=offset, at_ms=at_ms, instance=instance, kind="claim", **fields)  # type: ignore[arg-type]


def own(offset: int, instance: str, of: int, at_ms: int = 0) -> Said:
    return Said(offset=offset, at_ms=at_ms, instance=instance, kind="own", claim=of)


def left(offset: int, instance: str) -> Said:
    return Said(offset=offset, at_ms=0, instance=instance, kind="left")


LATE = OWNER_TIMEOUT_MS + 1


@pytest.mark.parametrize(
    ("said", "owner"),
    [
        ([], None),
        ([claim(0, "a")], "a"),
        ([claim(0, "a"), own(1, "a", 0), claim(2, "b")], "a"),
        ([claim(0, "a"), claim(1, "b")], "a"),
        ([claim(0, "a"), own(1, "a", 0), left(2, "a"), claim(3, "b")], "b"),
        ([claim(0, "a"), own(1, "a", 0), claim(2, "b"), left(3, "b")], "a"),
        ([claim(0, "a"), own(1, "a", 0), claim(2, "b", LATE)], "b"),
        ([claim(0, "a"), own(1, "a", 0, LATE), claim(2, "b", LATE)], "a"),
        ([claim(0, "a"), own(1, "a", 0), claim(2, "b", takes_over=True)], "b"),
        ([claim(0, "a"), own(1, "a", 0), claim(2, "b", proven_dead="a")], "b"),
        ([claim(0, "a"), own(1, "a", 0), claim(2, "b", proven_dead="c")], "a"),
        (
            [
                claim(0, "a"),
                own(1, "a", 0),
                claim(2, "b", takes_over=True),
                own(3, "b", 2),
                own(4, "a", 0),
            ],
            "b",
        ),
        # Compaction has dropped a's claim and its early signs of life; b's claim was refused.
        ([claim(5, "b"), own(90, "a", 0)], "a"),
        # Compaction has dropped b's claim.
        ([own(7, "a", 0), own(90, "b", 5)], "b"),
        ([own(90, "b", 5), own(91, "a", 0)], "b"),
        ([Said(offset=0, at_ms=0, instance="a", kind="sings")], None),
    ],
    ids=[
        "nobody",
        "the first claim",
        "a second claim is refused",
        "the earlier of two claims",
        "after the owner left",
        "a refused claimant leaves",
        "a silent owner is replaced",
        "a sign of life holds",
        "a takeover",
        "a proven death",
        "the proof is about another one",
        "a zombie's sign of life",
        "compaction dropped what answered a claim",
        "compaction dropped the newer claim",
        "the later claim wins among owners",
        "words of a later version",
    ],
)
def test_the_owner_follows_from_what_was_said(said: list[Said], owner: str | None) -> None:
    found = owner_after(said)

    assert (found.instance if found is not None else None) == owner


def test_a_living_process_is_not_proven_dead() -> None:
    address = Address.of(os.getpid())

    assert address is not None
    assert not address.is_proven_dead()
    assert Address.parse(str(address)) == address


def test_a_process_that_has_ended_is_proven_dead_here_and_unknown_elsewhere() -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    address = Address.of(process.pid)
    assert address is not None
    process.communicate()

    assert address.is_proven_dead()
    assert not Address("another-boot", *list(_rest(address))).is_proven_dead()


def _rest(address: Address) -> tuple[str, int, str]:
    return address.namespace, address.pid, address.started


@pytest.mark.parametrize("text", ["", "a/b/c", "a/b/c/d", "a/b/1/2/3"])
def test_an_address_that_cannot_be_read_proves_nothing(text: str) -> None:
    assert Address.parse(text) is None
