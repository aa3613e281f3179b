"""One Java oracle for all tests of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.java.tool import Oracle

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def oracle() -> Iterator[Oracle]:
    """The running oracle: ``oracle.ask(request)``."""
    running = Oracle()
    yield running
    running.close()
