"""A topology for tests of whole clusters: counts records by key, in the topics of one test."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from headwater import Serdes
from tests.support.waiting import take

if TYPE_CHECKING:
    from headwater import StreamsBuilder

PREFIX_VARIABLE = "HEADWATER_TEST_TOPICS"
PAUSE_VARIABLE = "HEADWATER_TEST_PAUSE_MS"
"""How long each record takes besides, so that a StreamThread's capacity is known."""
INPUTS_VARIABLE = "HEADWATER_TEST_INPUTS"
"""Ends of the names of its input topics, which are read by one source node; ``in`` by default."""


def build(builder: StreamsBuilder) -> None:
    """Count the records of every key of the inputs into ``<prefix>-out``."""
    prefix = os.environ[PREFIX_VARIABLE]
    pause_s = float(os.environ.get(PAUSE_VARIABLE, "0")) / 1000
    inputs = [f"{prefix}-{end}" for end in os.environ.get(INPUTS_VARIABLE, "in").split()]
    records = builder.stream(inputs, key_serde=Serdes.string, value_serde=Serdes.string)
    if pause_s:
        records = records.peek(lambda _key, _value: take(pause_s))
    (
        records.group_by_key()
        .count(store="counts")
        .to_stream()
        .to(f"{prefix}-out", key_serde=Serdes.string, value_serde=Serdes.long)
    )
