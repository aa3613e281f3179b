"""A topology without state for tests of whole drivers, in the topics of one test."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from headwater import Serdes
from tests.support.counting import PREFIX_VARIABLE

if TYPE_CHECKING:
    from headwater import StreamsBuilder


def build(builder: StreamsBuilder) -> None:
    """Copy the records of ``<prefix>-in`` into ``<prefix>-out``."""
    prefix = os.environ[PREFIX_VARIABLE]
    builder.stream(f"{prefix}-in", key_serde=Serdes.string, value_serde=Serdes.string).to(
        f"{prefix}-out", key_serde=Serdes.string, value_serde=Serdes.string
    )
