"""Which of the tests marked ``sampled`` a run has: one in so many, chosen by the run's seed base.

They start many real processes and take minutes on a slow machine. Each submission runs another
part of them, and ``make test-all`` runs all (``docs/adr/0095``).
"""

from __future__ import annotations

import hashlib
import math
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Sequence

MARKER = "sampled"
LEFT_OUT = pytest.StashKey[int]()
"""How many sampled tests of the session are left to other commits."""


def chosen(tests: Sequence[str], base: str, one_in: int) -> set[str]:
    """Return one in so many of the tests, and never none.

    Args:
        tests: their node ids.
        base: what decides which; the same base chooses the same.
        one_in: 1 chooses all.
    """
    order = sorted(tests, key=lambda test: hashlib.sha256(f"{base} {test}".encode()).digest())
    return set(order[: math.ceil(len(order) / one_in)])


def deselect(config: pytest.Config, items: list[pytest.Item], base: str, one_in: int) -> None:
    """Take the sampled tests that are not chosen out of ``items``, and tell pytest."""
    sampled = [item for item in items if item.get_closest_marker(MARKER)]
    runs = chosen([item.nodeid for item in sampled], base, one_in)
    left = {item for item in sampled if item.nodeid not in runs}
    config.stash[LEFT_OUT] = len(left)
    if left:
        config.hook.pytest_deselected(items=list(left))
        items[:] = [item for item in items if item not in left]
