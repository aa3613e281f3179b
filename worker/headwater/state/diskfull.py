"""How a full disk shows itself: as an ``OSError``, or as RocksDB's text. Pure."""

from __future__ import annotations

import errno
import re
from typing import Final

_TEXT: Final = re.compile(
    r"no space left|disk quota exceeded|file too large|max allowed space", re.IGNORECASE
)
_NUMBERS: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def is_disk_full(error: Exception) -> bool:
    """Say whether ``error`` means that no more can be written where the state lies."""
    if isinstance(error, OSError) and error.errno in _NUMBERS:
        return True
    return _TEXT.search(str(error)) is not None
