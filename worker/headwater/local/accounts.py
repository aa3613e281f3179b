"""Accounts of the private broker for SCRAM, as Kafka's own format command takes them.

PLAIN knows its users from the configuration. Those of SCRAM live in the metadata, and are written
there before the first start: no client can come too early for them.
"""

from __future__ import annotations

import base64
import hashlib
import os
import secrets
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

PLAIN: Final = "PLAIN"
SCRAM: Final[Mapping[str, str]] = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
"""The hash function by mechanism."""
MECHANISMS: Final = (PLAIN, *SCRAM)

_ITERATIONS: Final = 4_096


def write_options(users: Mapping[str, str], path: Path) -> list[str]:
    """Write the options that give these users an account of each kind into a file of ours.

    They hold no password, but what one can be guessed from, and others may read a command line.

    Args:
        users: passwords by user name.
        path: of the file, which only we can read.

    Returns:
        the options that have the format command read the file.
    """
    if not users:
        return []
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.writelines(f"{option}\n" for option in _options(users))
    return [f"@{path}"]


def _options(users: Mapping[str, str]) -> Iterator[str]:
    for name, password in users.items():
        for mechanism, function in SCRAM.items():
            salt = secrets.token_bytes(16)
            salted = hashlib.pbkdf2_hmac(function, password.encode(), salt, _ITERATIONS)
            account = (
                f'name="{name}",iterations={_ITERATIONS},'
                f'salt="{_text(salt)}",saltedpassword="{_text(salted)}"'
            )
            yield f"--add-scram={mechanism}=[{account}]"


def _text(value: bytes) -> str:
    return base64.b64encode(value).decode()
