"""Counts the keys of two topics, as slowly as a function that takes its time lets it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from headwater import Serdes
from tests.support.counting import PREFIX_VARIABLE
from tests.support.waiting import take

if TYPE_CHECKING:
    from headwater import StreamsBuilder

RECORD_S = 0.004


def slowly(value: str) -> str:
    """Take some time for a record."""
    take(RECORD_S)
    return value


def build(builder: StreamsBuilder) -> None:
    """Read ``-in`` and ``-returns`` by one source node."""
    prefix, text = os.environ[PREFIX_VARIABLE], Serdes.string
    topics = [f"{prefix}-in", f"{prefix}-returns"]
    read = builder.stream(topics, key_serde=text, value_serde=text).map_values(slowly)
    counted = read.group_by_key().count(store="counts").to_stream()
    counted.to(f"{prefix}-out", key_serde=text, value_serde=Serdes.long)
