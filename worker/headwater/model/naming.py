"""Which names Kafka Streams accepts for nodes, stores and topics (``Named.validate``)."""

from __future__ import annotations

import re
from typing import Final

from headwater.errors import TopologyError

NAME_LENGTH_MAX: Final = 249
_ALLOWED: Final = re.compile(r"[a-zA-Z0-9._-]+")


def check_name(what: str, name: str) -> str:
    """Return ``name`` if it is a legal name; ``what`` says in the message what was to be named.

    Raises:
        TopologyError: it is empty, ``.`` or ``..``, longer than 249 characters, or has another
            character than ASCII letters, digits, ``.``, ``_`` and ``-``.
    """
    given: object = name
    if not isinstance(given, str) or not given:
        raise TopologyError(
            f"The name of a {what} must be a text that is not empty, not {name!r:.100}"
        )
    if name in {".", ".."}:
        raise TopologyError(f"A {what} cannot be called {name!r}: give it another name")
    if len(name) > NAME_LENGTH_MAX:
        raise TopologyError(
            f"The {what} name {name[:20]!r}... exceeds {NAME_LENGTH_MAX} characters: shorten it"
        )
    if _ALLOWED.fullmatch(name) is None:
        raise TopologyError(
            f"The {what} name {name!r} may only hold ASCII letters, digits, '.', '_' and '-': "
            "replace the others"
        )
    return name
