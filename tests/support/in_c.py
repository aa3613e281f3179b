"""Runs a module's tests twice: with updates of the record cache in Python, and in C.

from tests.support.in_c import updates_in_both  # noqa: F401 - a fixture for every test here
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.support.stores import Updates

if TYPE_CHECKING:
    from collections.abc import Iterator

EXTENSION: Final[Any] = import_module("headwater_native")
"""`make native` installs it, which every command of the tests does."""


@pytest.fixture(autouse=True, params=["in Python", "in C"])
def updates_in_both(request: pytest.FixtureRequest) -> Iterator[None]:
    """Whoever makes a store, or a budget by ``budget_of``."""
    Updates.updater = EXTENSION.RecordUpdater if request.param == "in C" else None
    yield
    Updates.updater = None
