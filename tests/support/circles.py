"""Two sub-topologies that feed each other by repartition topics, on the topics of one test."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from examples.word_count.app import words

from headwater import Serdes
from tests.support.counting import PREFIX_VARIABLE

if TYPE_CHECKING:
    from headwater import StreamsBuilder

TEXTS: Any = {"key_serde": Serdes.string, "value_serde": Serdes.string}


def build(builder: StreamsBuilder) -> None:
    """Build it on the topics that the environment names."""
    build_on(builder, os.environ[PREFIX_VARIABLE])


def build_on(builder: StreamsBuilder, prefix: str) -> None:
    """Count the lines of ``<prefix>-in`` by key, and beside them their words by first letters.

    Words go to another sub-topology and come back, so that both wait for each other.
    """
    lines = builder.stream(f"{prefix}-in", **TEXTS)
    letters = (
        lines.flat_map_values(words)
        .select_key(lambda _key, word: word)
        .repartition(name="words", **TEXTS)
        .select_key(lambda word, _value: word[:1])
        .repartition(name="letters", **TEXTS)
    )
    (
        lines.merge(letters)
        .group_by_key(**TEXTS)
        .count(store="counts-store")
        .to_stream()
        .to(f"{prefix}-out", key_serde=Serdes.string, value_serde=Serdes.long)
    )
