"""Where a range that was read in part goes on: a cursor, as text. Pure.

It names the question that it belongs to, the partition, and the row that came last. It holds no
state anywhere, so it outlives a worker, but not for ever: what it would go on from is gone by then.
"""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import dataclass
from typing import Final

from headwater.errors import CursorExpiredError, InvalidCursorError

VALID_S: Final = 3_600
"""How long a cursor may be used."""
_VERSION: Final = 1
_DIGEST_CHARS: Final = 16


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where to go on.

    Attributes:
        partition: in which partition.
        after: behind which row; ``None`` to begin with the partition.
    """

    partition: int
    after: bytes | None


def digest_of(*question: object) -> str:
    """Return what tells one question from another."""
    text = json.dumps(question, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGEST_CHARS]


def encode(cursor: Cursor, digest: str, now_s: float) -> str:
    """Return a cursor as text.

    Args:
        cursor: where to go on.
        digest: of the question.
        now_s: seconds since the epoch.
    """
    after = None if cursor.after is None else base64.b64encode(cursor.after).decode()
    document = [_VERSION, int(now_s), digest, cursor.partition, after]
    text = json.dumps(document, separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def decode(text: str, digest: str, now_s: float) -> Cursor:
    """Return the cursor of a text.

    Args:
        text: as ``encode`` has made it.
        digest: of the question that it is used with.
        now_s: seconds since the epoch.

    Raises:
        InvalidCursorError: it is none, or belongs to another question.
        CursorExpiredError: it was made too long ago.
    """
    made_s = partition = 0
    of, row = "", None
    try:
        padded = text + "=" * (-len(text) % 4)
        document = json.loads(base64.urlsafe_b64decode(padded.encode("ascii")))
        version, made_s, of, partition, after = document
        row = None if after is None else base64.b64decode(after, validate=True)
        is_ours = (version, type(made_s), type(partition)) == (_VERSION, int, int)
    except (ValueError, TypeError):
        is_ours = False
    if not is_ours:
        raise InvalidCursorError(
            f"{text!r:.80} is no cursor; give the text of the last answer, or none to begin"
        )
    if of != digest:
        raise InvalidCursorError(
            "the cursor belongs to another question; repeat the question as it was, and change "
            "only cursor and limit"
        )
    if now_s - made_s > VALID_S:
        raise CursorExpiredError(
            f"the cursor is {int(now_s - made_s) // 60} minutes old, and valid for "
            f"{VALID_S // 60}; begin the range again without it"
        )
    return Cursor(partition, row)
