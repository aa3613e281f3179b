"""The highest epoch a worker has seen, kept on its volume: outdated assignments stay refused."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from headwater import privatefiles
from headwater.errors import DiskFullError, StateError
from headwater.service.carrier import replace_json
from headwater.state.diskfull import is_disk_full

if TYPE_CHECKING:
    from pathlib import Path


class EpochFile:
    """One small file beside the stores.

    Args:
        path: where it is, or will be.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> int:
        """Return the epoch; 0 if none was ever written.

        Raises:
            StateError: the file is damaged.
        """
        try:
            return int(json.loads(self._path.read_text(encoding="utf-8"))["epoch"])
        except FileNotFoundError:
            return 0
        except OSError as error:
            raise self._unusable(error) from error
        except (ValueError, KeyError, TypeError) as error:
            raise StateError(
                f"cannot read {self._path}: {error}; it says which assignments are outdated. "
                "Delete it once no other process of this worker runs, then start again"
            ) from error

    def write(self, epoch: int) -> None:
        """Replace the epoch.

        Raises:
            DiskFullError: there is no room for a few bytes.
            StateError: the directory cannot be written.
        """
        try:
            privatefiles.own(self._path.parent.parent, self._path.parent.name)
            replace_json(self._path, {"epoch": epoch})
        except privatefiles.NotOursError as error:
            raise StateError(f"state.dir: {error}") from error
        except OSError as error:
            if is_disk_full(error):
                raise DiskFullError(
                    f"the disk that holds {self._path.parent} is full; free space or enlarge the "
                    "volume, then start again: nothing committed is lost"
                ) from error
            raise self._unusable(error) from error

    def _unusable(self, error: OSError) -> StateError:
        """Name the directory, the cause and the next step."""
        directory = self._path.parent
        return StateError(
            f"the state directory {directory} cannot be used: {error.strerror} "
            f"({error.filename or self._path}); let state.dir name a directory that this process "
            "may write to"
        )
