"""How far a shared store is, in memory that its writer and its readers map: two numbers.

A reader looks at them between two records, which costs next to nothing; only if they have changed
it asks the database. The numbers are hints: what they say was written before.
"""

from __future__ import annotations

import mmap
import os
from typing import TYPE_CHECKING, Final, NamedTuple

from headwater.errors import StateError

if TYPE_CHECKING:
    from pathlib import Path

_BYTES: Final = 16


class Mark(NamedTuple):
    """What a store's readers may see."""

    generation: int
    """Odd once the database is complete. It becomes even when the database is to be made anew:
    readers then keep what they see, until there is the next one."""
    batch: int
    """The last batch that was written."""

    @property
    def is_complete(self) -> bool:
        """Whether the database may be opened."""
        return self.generation % 2 == 1


class Published:
    """The two numbers of one store; a new file has zeroes.

    Args:
        path: the file, in the store's directory.
        create: make it if it is missing.

    Raises:
        StateError: it cannot be opened.
    """

    def __init__(self, path: Path, *, create: bool = False) -> None:
        flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | (os.O_CREAT if create else 0)
        try:
            descriptor = os.open(path, flags, 0o600)
            try:
                if os.fstat(descriptor).st_size < _BYTES:
                    os.ftruncate(descriptor, _BYTES)
                self._map = mmap.mmap(descriptor, _BYTES)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise StateError(
                f"{path} cannot be used: {error.strerror}; it belongs to a global store, which is "
                "filled anew if its directory is deleted"
            ) from error
        self.numbers = memoryview(self._map).cast("Q")
        """Generation and batch, to be read without a call."""

    def read(self) -> Mark:
        """Return both numbers, of one moment or, rarely, of two that follow each other."""
        batch = self.numbers[1]
        return Mark(self.numbers[0], batch)

    def write(self, mark: Mark) -> None:
        """Tell readers; what is told must be written."""
        self.numbers[0] = mark.generation
        self.numbers[1] = mark.batch

    def close(self) -> None:
        """Unmap the file."""
        self.numbers.release()
        self._map.close()
