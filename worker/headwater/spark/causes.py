"""Why something has failed, in one line: out of stack traces of two languages. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from headwater.errors import HeadwaterError
from headwater.model.secretnames import is_secret

if TYPE_CHECKING:
    from collections.abc import Mapping

_TRACEBACK: Final = "Traceback (most recent call last):"
_OURS: Final = re.compile(r"headwater\.[\w.]+: ")
_NAMED: Final = re.compile(r"(Caused by: )?[\w.$]+(Exception|Error)(:|$)")
_HIDDEN: Final = "***"


def cause_of(error: BaseException) -> str:
    """Return what an exception says, with its name unless it is one of ours."""
    if isinstance(error, HeadwaterError):
        return str(error)
    lines = str(error).strip().splitlines()
    return ": ".join([type(error).__name__, *lines[:1]])


def last_words(error: Exception) -> str:
    """Return the line that names the cause: of the last Python traceback, else of Java's."""
    lines = [line.rstrip() for line in str(error).splitlines()]
    tracebacks = [number for number, line in enumerate(lines) if line.endswith(_TRACEBACK)]
    for number in reversed(tracebacks):
        for line in lines[number + 1 :]:
            if line and not line[0].isspace():
                return _OURS.sub("", line, count=1)
    found = [line.strip().removeprefix(": ") for line in lines if line.strip()]
    ours = [_OURS.sub("", line, count=1) for line in found if _OURS.match(line)]
    named = [line for line in found if _NAMED.match(line)]
    return (ours or named or found or ["nothing"])[-1]


def without_secrets(text: str, *options: Mapping[str, object]) -> str:
    """Return ``text`` with the values of passwords and the like struck out."""
    values = {str(value) for given in options for name, value in given.items() if is_secret(name)}
    for value in sorted(filter(None, values), key=len, reverse=True):
        text = text.replace(value, _HIDDEN)
    return text
