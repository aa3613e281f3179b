"""Accounts of the private broker for SCRAM, as Kafka's own format command takes them.

PLAIN knows its users from the configuration. Those of SCRAM live in the metadata, and are written
there before the first start: no client can come too early for them.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PLAIN: Final = "PLAIN"
SCRAM: Final[Mapping[str, str]] = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
"""The hash function by mechanism."""
MECHANISMS: Final = (PLAIN, *SCRAM)

_ITERATIONS: Final = 4_096


def format_options(users: Mapping[str, str]) -> Iterator[str]:
    """Yield the options that give these users an account of each kind.

    No option holds a password: others may read the command line.

    Args:
        users: passwords by user name.
    """
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
