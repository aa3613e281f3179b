"""Functions that do not return: when to ask where they are, what is known then, and until when.

silent ──► Locate, shortly before ``max.poll.interval.ms`` is over ──► killed, its place noted
└─ it speaks again: it was only slow
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from headwater.model.hangs import Hang
from headwater.native.messages import Locate
from headwater.service.decide.actions import TellThread
from headwater.service.decide.values import SlotPhase

if TYPE_CHECKING:
    from headwater.native.messages import Stats
    from headwater.service.decide.actions import Action
    from headwater.service.decide.values import Slot, Table

_ASK_BEFORE_MS: Final = 5_000
"""So long before its time is over a silent thread is asked where it is."""


def ask(table: Table, slot: Slot, now_ms: int) -> list[Action]:
    """Ask a thread that has been silent for almost too long where it is; once."""
    limit_ms = table.hung_ms - min(_ASK_BEFORE_MS, table.hung_ms // 2)
    if slot.phase is not SlotPhase.RUNNING or slot.asked_ms or now_ms - slot.heard_ms < limit_ms:
        return []
    slot.asked_ms = now_ms
    return [TellThread(slot=slot.number, message=Locate())]


def note_hang(table: Table, slot: Slot) -> str:
    """Note that a slot's process hangs, and where; return it as a sentence."""
    silent = f"no sign of life for {table.hung_ms / 1000:g} s (max.poll.interval.ms)"
    place = slot.place
    if place is None:
        return (
            f"{silent}, nor does it say where it is: a native call may hold Python's global lock; "
            "its stacks are in the log"
        )
    if place.task is None:
        return f"{silent}, outside any task:\n{place.stack}".rstrip()
    hang = Hang(task=place.task, node=place.node, partition=place.partition, offset=place.offset)
    before = table.hangs.get(hang.task)
    if before is not None and before.is_at(hang):
        hang = replace(hang, times=before.times + 1)
    table.hangs[hang.task] = hang
    return f"{silent}: {hang.place} does not return:\n{place.stack}".rstrip()


def is_mute(slot: Slot) -> bool:
    """Whether a thread was asked where it is and has not answered."""
    return bool(slot.asked_ms) and slot.place is None


def failures_of(table: Table, slot: Slot) -> int:
    """Return how often in a row the function has hung where a slot's process hangs; 0 if none."""
    if slot.place is None or slot.place.task is None:
        return 0
    hang = table.hangs.get(slot.place.task)
    return 0 if hang is None else hang.times


def note_progress(table: Table, slot: Slot, stats: Stats, now_ms: int) -> None:
    """Forget a hang once its task has committed what comes after it.

    Of a punctuation nothing is committed: it is forgotten once its thread has run for as long.
    """
    for task in table.hangs.keys() & stats.committed.keys():
        hang = table.hangs[task]
        if hang.partition is None:
            is_over = now_ms - slot.began_ms > table.hung_ms
        else:
            is_over = stats.committed[task].get(str(hang.partition), -1) > hang.offset
        if is_over:
            del table.hangs[task]
