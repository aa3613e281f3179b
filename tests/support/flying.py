"""Calls that are in flight in each process: written where a test can look while it is frozen.

Each process has a file that it maps into memory: for each kind, how many calls have begun and how
many have ended. The calls of a kind begin and end in one thread.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

VARIABLE: Final = "HEADWATER_TEST_CALLS"
"""Names the directory."""
CALL, BATCH = "call", "batch"
KINDS: Final = (CALL, BATCH)
_FORMAT: Final = struct.Struct(f"{2 * len(KINDS)}q")


class Ledger:
    """What one process writes."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        with (directory / str(os.getpid())).open("w+b") as file:
            file.truncate(_FORMAT.size)
            self._numbers = memoryview(mmap.mmap(file.fileno(), _FORMAT.size)).cast("q")

    @contextmanager
    def flying(self, kind: str) -> Iterator[None]:
        """Have a call be in flight for the length of a block."""
        begun = 2 * KINDS.index(kind)
        self._numbers[begun] += 1
        try:
            yield
        finally:
            self._numbers[begun + 1] += 1


def own_ledger() -> Ledger | None:
    """Return the ledger of this process, if a directory is named."""
    directory = os.environ.get(VARIABLE)
    return None if directory is None else Ledger(Path(directory))


def in_flight(directory: Path, pids: Iterable[int]) -> Counter[str]:
    """Count the calls of each kind that are in flight in these processes, which are frozen."""
    found: Counter[str] = Counter()
    for path in (directory / str(pid) for pid in pids):
        if path.exists():
            numbers = _FORMAT.unpack(path.read_bytes())
            found += Counter(
                {kind: numbers[2 * n] - numbers[2 * n + 1] for n, kind in enumerate(KINDS)}
            )
    return found
