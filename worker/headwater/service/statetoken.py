"""What callers of ``/state`` have to show: a secret that only the worker's user can read.

On a machine anybody may connect to a port of 127.0.0.1. A pod has a NetworkPolicy instead, and the
API server's proxy, through which ``headwater query`` comes, passes no ``Authorization`` on.
"""

from __future__ import annotations

import logging
import secrets
from typing import TYPE_CHECKING, Final

from headwater import privatefiles
from headwater.files import replace_file

if TYPE_CHECKING:
    from pathlib import Path

log = logging.getLogger(__name__)

_BYTES: Final = 32


def state_token(directory: Path, worker: str) -> str:
    """Return the worker's token; it is made if there is none. In a pod it is empty.

    If its file cannot be read or written, nobody can know the token.

    Args:
        directory: of the application's state; it is the worker's own.
        worker: the worker's name.
    """
    if privatefiles.is_in_pod():
        return ""
    path = privatefiles.token_file(directory, worker)
    try:
        if found := privatefiles.read_secret(path):
            return found
        made = secrets.token_urlsafe(_BYTES)
        replace_file(path, made, mode=0o600, sync=False)
    except OSError as error:
        log.warning("nobody can ask for /state of %s: %s", worker, error)
        return secrets.token_urlsafe(_BYTES)
    return made
