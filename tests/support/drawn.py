"""A random application for processes that have to find it by a name: in a file."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from headwater import StreamsBuilder

TOPOLOGY: Final = "tests.support.drawn:build"
VARIABLE: Final = "HEADWATER_TEST_DRAWN"
"""Names the file, which holds what ``Application.pickled`` returns."""


def build(builder: StreamsBuilder) -> None:
    """Draw what is in the file."""
    pickle.loads(Path(os.environ[VARIABLE]).read_bytes())(builder)
