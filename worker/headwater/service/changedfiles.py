"""Whether mounted Secrets and ConfigMaps hold something else than when the process began.

A process reads variables and credentials once. The kubelet brings mounted files up to date about a
minute after the object has changed; this compares them with what they were. Digests are keyed with
random bytes that live in this process alone, and nothing but names is told.
"""

from __future__ import annotations

import hashlib
import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headwater.model import podcontract
from headwater.model.rollon import compared
from headwater.service.decide.observations import FilesSeen

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headwater.model.rollon import RollOn, RollOnStatus

log = logging.getLogger(__name__)

LOOK_MS: Final = 5_000
"""Between two looks."""
_OF_THE_KUBELET: Final = ".."
"""Links and directories of the kubelet beside the files; no key of an object begins with it."""


class ChangedFiles:
    """Looks at directories now and then; what they hold now is what they are compared with.

    Args:
        directories: where the files of each object are, by the name that is told.
        revision: that the process was started as.
    """

    def __init__(self, directories: Mapping[str, Path], revision: str) -> None:
        self._directories = dict(directories)
        self._revision = revision
        self._key = os.urandom(32)
        self._known: dict[Path, tuple[object, bytes]] = {}
        self._first = {name: self._digest(path) for name, path in self._directories.items()}
        self._due_ms = 0
        self._told: RollOnStatus | None = None

    @classmethod
    def of(
        cls, roll_on: Sequence[RollOn], environment: Mapping[str, str], revision: str
    ) -> ChangedFiles:
        """Return one for what a StreamApp names, as far as the pod has it mounted."""
        mounted = {
            str(each): Path(directory)
            for number, each in enumerate(roll_on)
            if (directory := environment.get(f"{podcontract.ENV_ROLL_ON}{number}"))
        }
        return cls(mounted, revision)

    def look(self, now_ms: int) -> tuple[FilesSeen, ...]:
        """Return what is new since it was told last, if a look is due."""
        if not self._directories or now_ms < self._due_ms:
            return ()
        self._due_ms = now_ms + LOOK_MS
        digests = {name: self._digest(path) for name, path in self._directories.items()}
        found = compared(self._revision, self._first, digests)
        if found == self._told:
            return ()
        self._told = found
        log.info("of spec.upgrade.rollOn: %s", found or "all is as when the worker began")
        return (FilesSeen(roll_on=found),)

    def _digest(self, directory: Path) -> bytes:
        """Return a digest of a directory's files; empty if there is none that can be read."""
        try:
            files = [
                (entry.name, entry.stat(), Path(entry.path))
                for entry in sorted(os.scandir(directory), key=lambda entry: entry.name)
                if not entry.name.startswith(_OF_THE_KUBELET) and entry.is_file()
            ]
            state = [(name, at.st_ino, at.st_size, at.st_mtime_ns) for name, at, _ in files]
            before = self._known.get(directory)
            if before is not None and before[0] == state:
                return before[1]
            digest = hashlib.blake2b(key=self._key)
            for name, _, path in files:
                content = path.read_bytes()
                digest.update(f"{len(name)} {name} {len(content)} ".encode())
                digest.update(content)
        except OSError:
            return b""  # The kubelet puts other files there: the next look tells.
        found = digest.digest() if files else b""
        self._known[directory] = state, found
        return found
