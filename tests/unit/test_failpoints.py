"""A fail point acts at the hit that was asked for, once, and is silent otherwise."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest

from headwater import failpoints

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def _disarmed() -> Iterator[None]:
    yield
    failpoints.disarm()


def test_a_point_that_is_not_armed_does_nothing() -> None:
    failpoints.arm("other=error")

    failpoints.hit("commit.after_transaction")


def test_a_point_acts_at_the_hit_asked_for_and_never_again() -> None:
    failpoints.arm("a=error@2; b=disk_full")

    failpoints.hit("a")
    with pytest.raises(failpoints.FailpointError, match="a"):
        failpoints.hit("a")
    failpoints.hit("a")
    with pytest.raises(OSError, match="No space left") as full:
        failpoints.hit("b")
    assert full.value.errno == errno.ENOSPC


def test_a_point_with_a_file_acts_when_there_is_none_and_leaves_it_behind(tmp_path: Path) -> None:
    claim = tmp_path / "claim"
    failpoints.arm(f"a=error@2!{claim}")

    failpoints.hit("a")
    assert not claim.exists()
    with pytest.raises(failpoints.FailpointError):
        failpoints.hit("a")
    failpoints.hit("a")
    assert claim.read_text() == f"{os.getpid()}\n"

    claim.unlink()
    with pytest.raises(failpoints.FailpointError):
        failpoints.hit("a")


def test_arming_anew_forgets_what_was_armed() -> None:
    failpoints.arm("a=error")
    failpoints.arm("")

    failpoints.hit("a")


@pytest.mark.parametrize("text", ["a", "a=", "=kill", "a=explode", "a=kill@x"])
def test_a_mistake_in_the_variable_is_named(text: str) -> None:
    with pytest.raises(ValueError, match="HEADWATER_FAILPOINTS"):
        failpoints.arm(text)
