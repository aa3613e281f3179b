"""What a user's function returned where a pair ``(key, value)`` is wanted, or several.

Python takes apart whatever has two parts: a text of two letters, a dict of two keys. Here only what
is meant as a pair is one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Final

_TEXTS: Final = (str, bytes, bytearray)
_NO_PAIR: Final = (*_TEXTS, Mapping, AbstractSet)


def as_pair(given: Any) -> Any:
    """Return ``given`` if it may be taken apart.

    Raises:
        TypeError: it is no pair.
    """
    if isinstance(given, tuple):
        return given
    if isinstance(given, _NO_PAIR) or not isinstance(given, Iterable):
        raise TypeError(f"{_shown(given)} is no pair: return (key, value)")
    return given


def as_pairs(given: Any) -> Any:
    """Return ``given`` if it holds pairs to be read one after the other.

    Raises:
        TypeError: it is a dict, a text, or nothing that can be read so.
    """
    if isinstance(given, Mapping):
        raise TypeError(f"{_shown(given)} is no list of pairs: return its items()")
    if isinstance(given, _TEXTS) or not isinstance(given, Iterable):
        raise TypeError(f"{_shown(given)} is no list of pairs: return [(key, value), ...]")
    return given


def _shown(given: object) -> str:
    return f"a {type(given).__name__}, {given!r:.100},"
