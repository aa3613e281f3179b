"""Small files that are replaced as a whole: a reader finds the old one or the new one.

Neither a killed process nor a full disk leaves half a file behind, nor does a machine that loses
power: the text is on the disk before the name is.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def replace_file(path: Path, text: str, *, mode: int = 0o666, sync: bool = True) -> None:
    """Put ``text`` in the place of what the file held, in UTF-8.

    Args:
        path: the file; its directory must exist.
        text: all that it is to hold.
        mode: who may read it at most; the process' umask says what is taken off.
        sync: wait for the disk. Without it a machine that loses power may leave an empty file,
            which is right for what means nothing after that.

    Raises:
        OSError: the file is as it was.
    """
    fresh = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_native_id()}")
    try:
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            if sync:
                os.fsync(descriptor)
        fresh.replace(path)
    except BaseException:
        with suppress(OSError):
            fresh.unlink()
        raise
    if sync:
        sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Wait until the disk has the names in a directory: what was renamed stays so."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
