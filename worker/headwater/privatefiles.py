"""Files and directories that nobody else may read, change or lead astray: modes, owners, locks.

On a machine with several users everything of an application is for its user alone: directories
have the mode 0700, files 0600, and what belongs to somebody else is refused. In a pod of
Kubernetes the volume is the pod's own, and its group (``fsGroup``) has to reach what an earlier
pod wrote under another user: modes are 0770 and 0660, and owners are not looked at. A link below
such a directory is never followed.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headwater.errors import EnvironmentProblemError

if TYPE_CHECKING:
    from collections.abc import Mapping

_POLL_S: Final = 0.01
_LOCK_WAIT_S: Final = 30.0
_POD_VARIABLE: Final = "KUBERNETES_SERVICE_HOST"
"""Every container of a pod has it."""


class NotOursError(EnvironmentProblemError):
    """A directory belongs to somebody else, or is a link."""


class LockWaitError(EnvironmentProblemError):
    """Another process has held a lock for too long."""


def keep_private() -> None:
    """Have this process and those it starts make files that no other user can read."""
    os.umask(0o007 if is_in_pod() else 0o077)


def is_in_pod() -> bool:
    """Whether this process runs in a pod of Kubernetes."""
    return _POD_VARIABLE in os.environ


def token_file(directory: Path, worker: str) -> Path:
    """Return where the token of a worker lies that callers of ``/state`` have to show.

    Args:
        directory: of the application's state.
        worker: the worker's name.
    """
    return directory / f"{worker}.token"


def read_secret(path: Path) -> str:
    """Return what a file holds that only this user can read, else an empty text.

    Raises:
        OSError: it is there and cannot be read, or is a link.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return ""
    with os.fdopen(descriptor, encoding="ascii", errors="replace") as file:
        found = os.fstat(descriptor)
        is_ours = found.st_uid == os.geteuid() and not found.st_mode & 0o077
        return file.read().strip() if is_ours else ""


def default_state_dir(environment: Mapping[str, str] = os.environ) -> Path:
    """Return where stores lie unless ``state.dir`` says otherwise.

    It is ``$XDG_STATE_HOME/headwater``, else ``~/.local/state/headwater``.
    """
    home = environment.get("XDG_STATE_HOME")
    return (Path(home) if home else Path.home() / ".local" / "state") / "headwater"


def own_root(root: Path) -> Path:
    """Make a directory that somebody chose for our files, if need be, and return it.

    It may be root's, as a mount point is, and it may be a link that we or root have made.

    Raises:
        NotOursError: it belongs to another user.
        OSError: it cannot be made.
    """
    with suppress(FileExistsError):  # a file, too: what is below it cannot be made
        root.parent.mkdir(parents=True)
    with suppress(FileExistsError):
        root.mkdir(mode=_directory_mode())
    for found in (root.lstat(), root.stat()):
        if not _is_trusted(found.st_uid):
            raise _theirs(root, found.st_uid)
    _check_directory(root, root.stat())
    return root


def own(root: Path, *parts: str) -> Path:
    """Make the directories ``root/part/part...`` if need be; return the last one.

    Args:
        root: as for :func:`own_root`; it is left as open as it is.
        parts: each is made one of our own, as by :func:`own_directory`.

    Raises:
        NotOursError: one of them belongs to another user, or is a link.
        OSError: one of them cannot be made.
    """
    path = own_root(root)
    for part in parts:
        path = own_directory(path / part)
    return path


def own_directory(path: Path, *, is_strict: bool = False) -> Path:
    """Make a directory if need be, and close it to other users; return it.

    Args:
        path: the directory; what is above it is made if need be, and not looked at.
        is_strict: make it for this user alone, in a pod, too, and refuse one that was open to
            others before.

    Raises:
        NotOursError: it belongs to another user, or is a link.
        OSError: it cannot be made.
    """
    with suppress(FileExistsError):
        path.parent.mkdir(parents=True)
    with suppress(FileExistsError):
        path.mkdir(mode=0o700 if is_strict else _directory_mode())
    check_no_link(path)
    found = path.lstat()
    _check_directory(path, found)
    if not _is_trusted(found.st_uid):
        raise _theirs(path, found.st_uid)
    if is_strict and found.st_mode & 0o077:
        raise NotOursError(f"{path} is open to others; delete it, or take another place")
    _close(path, found)
    return path


def check_no_link(path: Path) -> None:
    """Make sure that what would be written or deleted below ``path`` is not elsewhere.

    Raises:
        NotOursError: it is a link.
    """
    if path.is_symlink():
        raise NotOursError(
            f"{path} is a link, which is never followed here: delete it, and find out who made it"
        )


def open_lock(path: Path) -> int:
    """Open a file for its lock, which nobody else can open; return the descriptor.

    Raises:
        OSError: it cannot be opened, or is a link.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(path, flags, _directory_mode() & 0o666)
    found = os.fstat(descriptor)
    if found.st_uid == os.geteuid() and found.st_mode & 0o077 & ~_directory_mode():
        os.fchmod(descriptor, found.st_mode & _directory_mode() & 0o666)
    return descriptor


def wait_for_lock(descriptor: int, path: Path, *, timeout_s: float = _LOCK_WAIT_S) -> None:
    """Take the exclusive lock of an open file.

    Args:
        descriptor: of the file.
        path: names it.
        timeout_s: how long to wait.

    Raises:
        LockWaitError: another process holds it still; the message names it.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise LockWaitError(
                    f"{path} has been locked for {timeout_s:g} s by {holder_of(descriptor)}; "
                    "end that process, then try again"
                ) from None
            time.sleep(_POLL_S)
        else:
            return


def holder_of(descriptor: int) -> str:
    """Return who holds the lock of an open file, as ``process 17 (its command)``."""
    inode = str(os.fstat(descriptor).st_ino)
    with suppress(OSError, ValueError):
        for line in Path("/proc/locks").read_text(encoding="ascii").splitlines():
            _, kind, _, _, pid, file, *_ = line.split()
            if kind == "FLOCK" and file.rpartition(":")[2] == inode and int(pid) > 0:
                return f"process {pid}{_command_of(pid)}"
    return "another process"


def _command_of(pid: str) -> str:
    with suppress(OSError):
        words = Path("/proc", pid, "cmdline").read_bytes().split(b"\0")
        return f" ({b' '.join(words).decode(errors='replace').strip():.100})"
    return ""


def _directory_mode() -> int:
    return 0o770 if is_in_pod() else 0o700


def _is_trusted(owner: int) -> bool:
    return owner in (os.geteuid(), 0) or is_in_pod()


def _close(path: Path, found: os.stat_result) -> None:
    """Close a directory of ours to others; a volume's special bits stay as they are."""
    too_open = found.st_mode & 0o077 & ~_directory_mode()
    if too_open and found.st_uid == os.geteuid():
        with suppress(PermissionError):
            path.chmod(stat.S_IMODE(found.st_mode) & ~too_open)


def _check_directory(path: Path, found: os.stat_result) -> None:
    if not stat.S_ISDIR(found.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))


def _theirs(path: Path, owner: int) -> NotOursError:
    return NotOursError(
        f"{path} belongs to user {owner}, and this process runs as user {os.geteuid()}: what lies "
        "there could be changed under its hands; choose a directory of your own, or have its owner "
        "changed (chown)"
    )
