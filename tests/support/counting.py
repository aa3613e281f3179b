"""A topology for tests of whole clusters: counts records by key, in the topics of one test."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from headwater import Serdes

if TYPE_CHECKING:
    from headwater import StreamsBuilder

PREFIX_VARIABLE = "HEADWATER_TEST_TOPICS"


def build(builder: StreamsBuilder) -> None:
    """Count the records of every key of ``<prefix>-in`` into ``<prefix>-out``."""
    prefix = os.environ[PREFIX_VARIABLE]
    (
        builder.stream(f"{prefix}-in", key_serde=Serdes.string, value_serde=Serdes.string)
        .group_by_key()
        .count(store="counts")
        .to_stream()
        .to(f"{prefix}-out", key_serde=Serdes.string, value_serde=Serdes.long)
    )
