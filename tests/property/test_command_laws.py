"""``up``, ``reset``, ``scale`` and ``down`` in any order: each ends, and says only what is so."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest
from tests.support.commands import (
    COMMANDS,
    ClaimsWhenOverruled,
    DeletesNothing,
    KeepsResetDone,
    KeepsTopics,
    LawBrokenError,
    Person,
)

if TYPE_CHECKING:
    from collections.abc import Callable

LENGTH = 6
PAUSES = (None, 0, 1, 2, 3, 5, 8, 13)
"""Rounds until the next command is typed; ``None``: until the last one has ended."""


@pytest.mark.parametrize("second", COMMANDS)
def test_any_six_commands_in_order_end_and_a_reset_has_reset(second: str) -> None:
    # Before the first `up` there is nothing to ask for.
    person = Person()
    _type_all(person, ("up", second), [None] * 2)

    assert _type_every(person, ("up", second)) == len(COMMANDS) ** (LENGTH - 2)


def _type_every(person: Person, typed: tuple[str, ...]) -> int:
    """Go on with every command in turn until there are six; return how many ends there were."""
    # The wish at the end asks what the six have left behind.
    more = COMMANDS if len(typed) < LENGTH else ("up",)
    ends = 0
    for command in more:
        other = person.fork()
        try:
            other.types(command)
        except LawBrokenError as broken:
            raise LawBrokenError(f"{broken}\nafter: {' '.join(typed)} {command}") from broken
        ends += _type_every(other, (*typed, command)) if len(typed) < LENGTH else 1
    return ends


@pytest.mark.seeded(40, least=8)
def test_any_six_commands_typed_in_haste_leave_an_application_that_runs_and_resets(
    seed: str,
) -> None:
    draw = Random(seed)
    for _ in range(10):
        commands, pauses = _drawn(draw)
        _type_all(Person(), commands, pauses)


@pytest.mark.parametrize(
    ("planted", "said"),
    [
        (KeepsResetDone, "reset says that it is done"),
        (KeepsTopics, "do not exist"),
        (ClaimsWhenOverruled, "reset says that it is done"),
        (lambda: Person(DeletesNothing()), "reset says that it is done"),
    ],
    ids=["memory of a reset", "memory of topics", "claim for another wish", "claim unchecked"],
)
def test_a_planted_fault_of_commands_is_found(planted: Callable[[], Person], said: str) -> None:
    with pytest.raises(LawBrokenError, match=said):
        _type_much(planted)


def _type_much(person: Callable[[], Person]) -> None:
    draw = Random(7)
    for _ in range(200):
        _type_all(person(), *_drawn(draw))


def _drawn(draw: Random) -> tuple[list[str], list[int | None]]:
    commands = [draw.choice(COMMANDS) for _ in range(LENGTH)]
    pauses = [draw.choice(PAUSES) for _ in commands]
    return [*commands, "up", "reset", "up"], [*pauses, None, None, None]


def _type_all(
    person: Person, commands: list[str] | tuple[str, ...], pauses: list[int | None]
) -> None:
    try:
        for command, pause in zip(commands, pauses, strict=True):
            person.types(command, rounds=pause)
    except LawBrokenError as broken:
        steps = " ".join(f"{one}({pause})" for one, pause in zip(commands, pauses, strict=True))
        raise LawBrokenError(f"{broken}\nafter: {steps}") from broken
