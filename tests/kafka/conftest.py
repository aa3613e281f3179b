"""The broker with accounts that several files of this folder use."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headwater.local.broker import KafkaBroker

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def secure() -> Iterator[KafkaBroker]:
    """A broker that asks who we are."""
    with KafkaBroker(sasl_users={"app": "right"}, heap_mb=256) as running:
        yield running
