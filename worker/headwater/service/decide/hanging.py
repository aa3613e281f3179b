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
    from headwater.native.messages import Located, Stats
    from headwater.service.decide.actions import Action
    from headwater.service.decide.values import Slot, Table

_ASK_BEFORE_MS: Final = 5_000
"""So long before its time is over a silent thread is asked where it is."""


def is_to_ask(asked_ms: int, heard_ms: int, patience_ms: int, now_ms: int) -> bool:
    """Whether a thread has been silent for almost too long, and was not asked where it is yet."""
    limit_ms = patience_ms - min(_ASK_BEFORE_MS, patience_ms // 2)
    return not asked_ms and now_ms - heard_ms >= limit_ms


def ask(table: Table, slot: Slot, now_ms: int) -> list[Action]:
    """Ask a StreamThread that has been silent for almost too long where it is; once."""
    is_running = slot.phase is SlotPhase.RUNNING
    if not is_running or not is_to_ask(slot.asked_ms, slot.heard_ms, table.hung_ms, now_ms):
        return []
    slot.asked_ms = now_ms
    return [TellThread(slot=slot.number, message=Locate())]


def hang_at(place: Located | None, before: Hang | None) -> Hang | None:
    """Return what hangs, counted on from what hung before; ``None`` if no function is known to."""
    if place is None or place.task is None:
        return None
    hang = Hang(task=place.task, node=place.node, partition=place.partition, offset=place.offset)
    if before is not None and before.is_at(hang):
        hang = replace(hang, times=before.times + 1)
    return hang


def told(place: Located | None, hang: Hang | None, patience_ms: int) -> str:
    """Return as a sentence that a thread hangs, and where."""
    silent = f"no sign of life for {patience_ms / 1000:g} s (max.poll.interval.ms)"
    if place is None:
        return (
            f"{silent}, nor does it say where it is: a native call may hold Python's global lock; "
            "its stacks are in the log"
        )
    if hang is None:
        return f"{silent}, outside any task:\n{place.stack}".rstrip()
    return f"{silent}: {hang.place} does not return:\n{place.stack}".rstrip()


def note_hang(table: Table, slot: Slot) -> str:
    """Note that a slot's process hangs, and where; return it as a sentence."""
    before = None
    if slot.place is not None and slot.place.task is not None:
        before = table.hangs.get(slot.place.task)
    hang = hang_at(slot.place, before)
    if hang is not None:
        table.hangs[hang.task] = hang
    return told(slot.place, hang, table.hung_ms)


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
