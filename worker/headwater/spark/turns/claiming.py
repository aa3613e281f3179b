"""Whose a state directory is, on which Spark runs an application: one application's alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headwater.errors import ConfigError
from headwater.files import replace_file
from headwater.privatefiles import own_root

if TYPE_CHECKING:
    from pathlib import Path

TASKS: Final = "tasks"
"""Below it lie the stores: ``<task>/<number>/<application id>``."""
_IDENTITY: Final = "application"


def claim(state_dir: Path, application_id: str) -> None:
    """Make the directory this application's.

    Raises:
        ConfigError: it is another one's.
        NotOursError: it belongs to another user.
    """
    own_root(state_dir)
    identity = state_dir / _IDENTITY
    found = _claimed(identity) or _stored(state_dir, application_id)
    if not found:
        replace_file(identity, f"{application_id}\n")
    elif found != application_id:
        raise ConfigError(
            f"{state_dir} holds checkpoint and stores of {found}, not of {application_id}; give "
            "each application a --state-dir of its own"
        )


def _claimed(identity: Path) -> str:
    """Return whose the directory is; nothing if nobody has said so, or the file is empty."""
    try:
        return identity.read_bytes().decode(errors="replace").strip("\0 \n")
    except FileNotFoundError:
        return ""


def _stored(state_dir: Path, application_id: str) -> str:
    """Return another application whose stores lie in the directory, if there is one."""
    names = sorted(path.name for path in (state_dir / TASKS).glob("*/*/*/"))
    return next((name for name in names if name != application_id), "")
