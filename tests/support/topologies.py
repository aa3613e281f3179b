"""Topologies for tests that run children: by import path, or as functions to be pickled."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from headwater import Serdes

if TYPE_CHECKING:
    from collections.abc import Callable

    from headwater import StreamsBuilder

TOPIC_VARIABLE = "HEADWATER_TEST_TOPIC"
REPEAT_VARIABLE = "HEADWATER_TEST_REPEAT"


def counts_of(topic: str) -> Callable[[StreamsBuilder], None]:
    """Count the records of ``topic`` by key in the store ``counts``; emit to ``<topic>-counts``."""

    def build(builder: StreamsBuilder) -> None:
        (
            builder.stream(topic, key_serde=Serdes.string, value_serde=Serdes.string)
            .group_by_key(key_serde=Serdes.string, value_serde=Serdes.string)
            .count(store="counts", key_serde=Serdes.string)
            .to_stream()
            .to(f"{topic}-counts", key_serde=Serdes.string, value_serde=Serdes.long)
        )

    return build


def counts(builder: StreamsBuilder) -> None:
    """As ``counts_of``, for the topic that the environment names."""
    counts_of(os.environ[TOPIC_VARIABLE])(builder)


def doubled(builder: StreamsBuilder) -> None:
    """Break a rule: two tables of one topic."""
    builder.table("lines", key_serde=Serdes.string, value_serde=Serdes.string)
    builder.table("lines", key_serde=Serdes.string, value_serde=Serdes.string)


def repeats(builder: StreamsBuilder) -> None:
    """Copy the topic to ``<topic>-copies``, every value as often as the environment says."""
    topic, times = os.environ[TOPIC_VARIABLE], int(os.environ[REPEAT_VARIABLE])
    (
        builder.stream(topic, key_serde=Serdes.string, value_serde=Serdes.string)
        .map_values(lambda value: value * times)
        .to(f"{topic}-copies", key_serde=Serdes.string, value_serde=Serdes.string)
    )
