"""Questions to the committed contents of one store, in bytes, and what is found.

    Get Prefix Range            stores of keys and values
    Get Windows AllWindows      windows and sessions
    AsOf Versions               versioned stores
    Count Offset                all of them

They travel between processes; serdes are those of whoever asks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

Found: TypeAlias = "tuple[bytes, bytes, int, int, int]"
"""Key, value, timestamp, and two numbers more.

The timestamp is -1 in a store without. Of a window the numbers are its start and its number among
duplicates, of a session its end and start, of a version until when it holds (-1: it is the newest)
and 0, else 0 and 0.
"""


@dataclass(frozen=True, slots=True)
class Get:
    """The value of a key; of a window or session its row's key."""

    key: bytes


@dataclass(frozen=True, slots=True)
class Range:
    """Keys from ``low`` to ``high``, both inclusive; ``None`` leaves a side open.

    Attributes:
        low: the smallest key.
        high: the largest key.
        reverse: the largest key first.
        after: go on behind this key, of which the last answer told.
    """

    low: bytes | None = None
    high: bytes | None = None
    reverse: bool = False
    after: bytes | None = None


@dataclass(frozen=True, slots=True)
class Prefix:
    """Keys that begin with ``prefix``; with ``after`` those behind that key."""

    prefix: bytes
    after: bytes | None = None


@dataclass(frozen=True, slots=True)
class Windows:
    """Windows of a key that start, or sessions that end, from ``first`` to ``last`` inclusive."""

    key: bytes
    first: int
    last: int
    reverse: bool = False


@dataclass(frozen=True, slots=True)
class AllWindows:
    """As ``Windows``, of the keys from ``low`` to ``high``.

    ``after`` is the row's key of the last answer, behind which to go on.
    """

    first: int
    last: int
    low: bytes | None = None
    high: bytes | None = None
    reverse: bool = False
    after: bytes | None = None


@dataclass(frozen=True, slots=True)
class AsOf:
    """The version of a key that was valid at ``time``; the newest if that is ``None``."""

    key: bytes
    time: int | None = None


@dataclass(frozen=True, slots=True)
class Versions:
    """The versions of a key that were valid some time from ``first`` to ``last`` inclusive."""

    key: bytes
    first: int
    last: int
    ascending: bool = False


@dataclass(frozen=True, slots=True)
class Count:
    """About how many entries there are: one row, whose timestamp is the number."""


@dataclass(frozen=True, slots=True)
class Offset:
    """Up to which offset of its changelog a store has come: one row, whose timestamp it is."""


Ask: TypeAlias = "Get | Range | Prefix | Windows | AllWindows | AsOf | Versions | Count | Offset"
