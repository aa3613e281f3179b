"""A new database is a copy of an empty one, for as long as that saves waits for the disk.

RocksDB waits for the disk five times to make a database. It opens it then, as one that was there,
and waits five times more. Opening writes anew what a copy has and waits for that, so the copy
itself need not be on the disk: whatever happens before, nothing was stored yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headwater.files import replace_file

if TYPE_CHECKING:
    from pathlib import Path

_CURRENT: Final = "CURRENT"
_IDENTITY: Final = "IDENTITY"


class EmptyDatabase:
    """The files of the first database that a process has made, while it was empty."""

    __slots__ = ("_files",)

    def __init__(self) -> None:
        self._files: dict[str, bytes] = {}

    def lay(self, path: Path) -> bool:
        """Put a copy into a directory that is empty; another one stays as it is.

        Returns:
            Whether RocksDB is to make a database there of which ``learn`` is to hear.
        """
        if any(path.iterdir()):
            return False
        if not self._files:
            return True
        for name, data in self._files.items():
            if name != _CURRENT:
                (path / name).write_bytes(data)
        # It makes a database of the others, so it comes last, and as a whole.
        replace_file(path / _CURRENT, self._files[_CURRENT].decode(), sync=False)
        return False

    def learn(self, path: Path) -> None:
        """Remember a database that was made just now, and holds nothing."""
        current = (path / _CURRENT).read_bytes()
        names = (current.decode().strip(), _IDENTITY)
        self._files = {name: (path / name).read_bytes() for name in names}
        self._files[_CURRENT] = current
