"""Named places where a test may end, freeze or fail a process; off unless a variable names them.

    HEADWATER_FAILPOINTS="commit.after_transaction=kill;rocks.write=disk_full@3"

arms ``commit.after_transaction`` at its first hit and ``rocks.write`` at its third. A ``+``
(``watch.heard=error@1+``) has it act at that hit and every later one. Of several
processes with the same environment only one acts if the entry names a file to be made first:

    HEADWATER_FAILPOINTS="thread.before_init=stop!/tmp/frozen"

That file then holds the process id; as long as it exists nobody acts (again), and once it is
deleted the next hit does. A point is hit on control paths only (commit, open, restore batch), never
per record; when nothing is armed, a hit is one test of an empty dict.
"""

from __future__ import annotations

import errno
import os
import signal
import threading
from typing import TYPE_CHECKING, Final, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable

VARIABLE: Final = "HEADWATER_FAILPOINTS"


class FailpointError(RuntimeError):
    """The ``error`` action: an unexpected failure at a named place."""


class _Point:
    __slots__ = ("action", "claim", "for_ever", "left", "name")

    def __init__(
        self,
        name: str,
        action: Callable[[str], None],
        at_hit: int,
        claim: str,
        *,
        for_ever: bool = False,
    ) -> None:
        self.name = name
        self.action = action
        self.left = at_hit
        self.claim = claim
        self.for_ever = for_ever

    def hit(self) -> None:
        """Count down; act on the hit that was asked for, and again only if that was asked for."""
        self.left -= 1
        is_due = self.left == 0 or (self.left < 0 and self.for_ever)
        if self.claim:
            is_due = self.left <= 0 and _is_first(self.claim)
        if is_due:
            self.action(self.name)


def _is_first(claim: str) -> bool:
    try:
        with open(claim, "x", encoding="ascii") as file:  # noqa: PTH123 - no pathlib down here
            file.write(f"{os.getpid()}\n")
    except FileExistsError:
        return False
    return True


def _kill(_name: str) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _stop(_name: str) -> None:
    # To this very thread: on a busy machine it would go on until another one has got the signal.
    signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)


def _disk_full(name: str) -> NoReturn:
    raise OSError(errno.ENOSPC, f"No space left on device (fail point {name})")


def _damage(name: str) -> NoReturn:
    raise OSError(errno.EIO, f"Corruption: block checksum mismatch (fail point {name})")


def _error(name: str) -> NoReturn:
    raise FailpointError(f"fail point {name}")


_ACTIONS: Final[dict[str, Callable[[str], None]]] = {
    "kill": _kill,
    "stop": _stop,
    "disk_full": _disk_full,
    "damage": _damage,
    "error": _error,
}

_armed: dict[str, _Point] = {}


def hit(name: str) -> None:
    """Act if ``name`` is armed and this is the hit it waits for; otherwise do nothing."""
    if _armed and name in _armed:
        _armed[name].hit()


def arm(text: str) -> None:
    """Arm the points that ``text`` lists, and no others.

    Entries are ``name=action[@hit[+]][!file]``, joined by ``;``.

    Actions: ``kill`` (SIGKILL), ``stop`` (SIGSTOP), ``disk_full`` (OSError ENOSPC), ``damage``
    (OSError EIO, as RocksDB words it), ``error`` (FailpointError).

    Raises:
        ValueError: an entry is malformed or names an unknown action.
    """
    points = [_parse(entry.strip()) for entry in text.split(";") if entry.strip()]
    _armed.clear()
    _armed.update({point.name: point for point in points})


def disarm() -> None:
    """Switch every point off."""
    _armed.clear()


def _parse(entry: str) -> _Point:
    name, separator, rest = entry.partition("=")
    rest, _, claim = rest.partition("!")
    action, _, at_hit = rest.partition("@")
    for_ever, at_hit = at_hit.endswith("+"), at_hit.removesuffix("+")
    if not separator or not name or action not in _ACTIONS or not (at_hit or "1").isdigit():
        known = ", ".join(_ACTIONS)
        raise ValueError(
            f"{VARIABLE}: {entry!r} is not <name>=<action>[@<hit>[+]][!<file>] with an action of "
            f"{known}"
        )
    return _Point(name, _ACTIONS[action], int(at_hit or "1"), claim, for_ever=for_ever)


arm(os.environ.get(VARIABLE, ""))
