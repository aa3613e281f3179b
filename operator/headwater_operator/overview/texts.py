"""Numbers, sizes, times and states as people read them."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

_KIB: Final = 1024
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")


class Tone(StrEnum):
    """What a state means for whoever looks: the colour is up to what draws it."""

    GOOD = "good"
    BUSY = "busy"
    """On its way."""
    BAD = "bad"
    QUIET = "quiet"
    """Of no account."""


MARKS: Final = {Tone.GOOD: "●", Tone.BUSY: "◐", Tone.BAD: "✖", Tone.QUIET: "○"}
"""Tell tones apart without colours."""
_TONES: Final = {
    "RUNNING": Tone.GOOD,
    "running": Tone.GOOD,
    "caught up": Tone.GOOD,
    "ended": Tone.BAD,
    "silent": Tone.BAD,
    "fenced": Tone.BAD,
    "ERROR": Tone.BAD,
    "PENDING_ERROR": Tone.BAD,
    "UNASSIGNED": Tone.BAD,
    "NOT_RUNNING": Tone.QUIET,
    "DOWN": Tone.QUIET,
    "stopped": Tone.QUIET,
}


def tone_of(state: str) -> Tone:
    """Return the tone of a state: what is neither good nor bad is on its way."""
    return _TONES.get(state, Tone.BUSY)


def number(value: float) -> str:
    """Return a count or rate for people: ``41,203``."""
    return f"{value:,.0f}"


def size(count: float) -> str:
    """Return a number of bytes for people: ``1.5 GiB``."""
    for unit in _UNITS[:-1]:
        if count < _KIB:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= _KIB
    return f"{count:.1f} {_UNITS[-1]}"


def duration(seconds: float) -> str:
    """Return ``1:05`` or ``2:03:04``."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
