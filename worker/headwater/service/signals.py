"""Signals that end a program: an embedded application is closed in order first.

Left alone, Python dies of SIGTERM, which every container stop sends, without a word to anybody.
Java closes in a shutdown hook that the program adds. Here SIGTERM and SIGHUP raise ``SystemExit``
in the main thread, as Ctrl-C raises ``KeyboardInterrupt``: blocks are left, and what is left at the
exit is closed there.

Nothing is done for a program that has a handler of its own, nor outside the main thread, where
Python lets nobody set one.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from typing import TYPE_CHECKING, Final, NoReturn

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

ENDING: Final = (signal.SIGTERM, signal.SIGHUP)
_EXIT_BASE: Final = 128
_open: set[int] = set()


def watch(application: object) -> None:
    """Have signals end this program in order while ``application`` is open, if nobody else does."""
    if not _is_main_thread():
        return
    _open.add(id(application))
    for number in ENDING:
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _end)


def forget(application: object) -> None:
    """Leave signals as they were, once no application is open; from the main thread only."""
    _open.discard(id(application))
    if _open or not _is_main_thread():
        return
    for number in ENDING:
        if signal.getsignal(number) is _end:
            signal.signal(number, signal.SIG_DFL)


@contextlib.contextmanager
def held_back() -> Iterator[None]:
    """Hold ending signals, Ctrl-C among them, back until the block has ended.

    What closes in the block is not to be broken off. The signals count afterwards, unless the
    program is being ended already.
    """
    heard: list[int] = []
    before = {}
    if _is_main_thread():
        for number, ours in (*((number, _end) for number in ENDING), _CTRL_C):
            if signal.getsignal(number) is ours:
                before[number] = signal.signal(number, lambda number, _frame: heard.append(number))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    is_ending = isinstance(sys.exception(), SystemExit | KeyboardInterrupt)
    if heard and not is_ending:
        signal.raise_signal(heard[0])


def _end(number: int, _frame: FrameType | None) -> NoReturn:
    """Leave the main thread's blocks and end, with what a shell calls a death of this signal."""
    raise SystemExit(_EXIT_BASE + number)


_CTRL_C: Final = (signal.SIGINT, signal.default_int_handler)


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
