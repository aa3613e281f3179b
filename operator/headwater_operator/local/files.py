"""Resources as JSON files: replaced by rename, hence always whole; changed under a lock."""

from __future__ import annotations

import json
import os
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from headwater.errors import SpecError
from headwater.files import replace_file
from headwater.privatefiles import open_lock, wait_for_lock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from typing import BinaryIO

TAIL_LINES = 12
_LOCK_NAME = ".lock"
_LOCK_WAIT_S = 30.0


def read(path: Path) -> dict[str, object] | None:
    """Return what the file holds; ``None`` if there is no such file.

    Raises:
        SpecError: the file is damaged.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        data = json.loads(text)
    except ValueError as error:
        raise SpecError(
            f"{path}: not JSON ({error}); remove it or restore it from a copy"
        ) from error
    if not isinstance(data, dict):
        raise SpecError(f"{path}: expected a JSON object; remove it or restore it from a copy")
    return data


def replace(path: Path, data: dict[str, object]) -> None:
    """Put ``data`` in the place of what the file held; a reader never sees a part."""
    _make(path.parent)
    with locked(path.parent):
        _replace(path, data)


def update(
    path: Path, change: Callable[[dict[str, object] | None], dict[str, object] | None]
) -> dict[str, object] | None:
    """Replace what the file holds by ``change`` of it, with nobody in between.

    Args:
        path: the file.
        change: told what it holds; ``None`` leaves it as it is.

    Returns:
        what the file holds now.
    """
    _make(path.parent)
    with locked(path.parent):
        before = read(path)
        after = change(before)
        if after is None or after == before:
            return before
        _replace(path, after)
        return after


def remove(path: Path) -> None:
    """Remove the file if it is there."""
    with suppress(FileNotFoundError):
        path.unlink()


def private_log(path: Path) -> BinaryIO:
    """Open a log that only we can read, to add to it."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    return os.fdopen(os.open(path, flags, 0o600), "ab")


def append_line(path: Path, data: dict[str, object]) -> None:
    """Add one JSON object as a line; for logs that are read while they are written."""
    _make(path.parent)
    line = json.dumps(data, separators=(",", ":")) + "\n"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)


def tail(path: Path, lines: int = TAIL_LINES) -> str:
    """The last lines of a log."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return "(no log)"
    return "\n".join(text.splitlines()[-lines:]) if lines else ""


@contextmanager
def locked(directory: Path, *, timeout_s: float = _LOCK_WAIT_S) -> Iterator[None]:
    """Hold the lock of a directory's resources; the kernel gives it back if we die.

    Args:
        directory: whose.
        timeout_s: how long to wait for whoever else holds it.

    Raises:
        LockWaitError: another process holds it for too long; the message names it.
    """
    path = directory / _LOCK_NAME
    descriptor = open_lock(path)
    try:
        wait_for_lock(descriptor, path, timeout_s=timeout_s)
        yield
    finally:
        os.close(descriptor)


def _make(directory: Path) -> None:
    """Make a directory for us alone; what is above it was made so before, or is the user's."""
    missing = [each for each in (directory, *directory.parents) if not each.exists()]
    for each in reversed(missing):
        each.mkdir(mode=0o700, exist_ok=True)


def _replace(path: Path, data: dict[str, object]) -> None:
    # For the user alone: a StreamApp may hold a password here, where there are no Secrets.
    replace_file(path, json.dumps(data, separators=(",", ":")) + "\n", mode=0o600)
