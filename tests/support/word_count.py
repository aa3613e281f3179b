"""The word count of the examples on the topics of one test; Java can run the very same."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from examples.word_count.app import words

from headwater import Serdes
from tests.support.counting import PREFIX_VARIABLE

if TYPE_CHECKING:
    from headwater import StreamsBuilder


def build(builder: StreamsBuilder) -> None:
    """Count the words of the topics that the environment names."""
    build_on(builder, os.environ[PREFIX_VARIABLE])


def build_on(builder: StreamsBuilder, prefix: str) -> None:
    """Count the words of ``<prefix>-in`` into ``<prefix>-out``."""
    (
        builder.stream(f"{prefix}-in", key_serde=Serdes.string, value_serde=Serdes.string)
        .flat_map_values(words)
        .group_by(lambda _key, word: word, key_serde=Serdes.string, value_serde=Serdes.string)
        .count(store="counts-store")
        .to_stream()
        .to(f"{prefix}-out", key_serde=Serdes.string, value_serde=Serdes.long)
    )
