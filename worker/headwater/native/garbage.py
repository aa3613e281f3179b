"""Garbage collection in processes that handle records: they make no cycles, only many tuples."""

from __future__ import annotations

import gc
from typing import Final

_GENERATIONS: Final = (50_000, 20, 50)
"""A batch alone is thousands of tuples: the defaults would look for cycles several times in it."""


def tune_garbage_collection() -> None:
    """Look for cycles rarely, and never again among what is there now."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_GENERATIONS)
