"""Counts the words of a text: ``headwater describe examples.word_count.app:build``."""

import re

from headwater import Serdes, StreamsBuilder

NOT_A_WORD = re.compile(r"\W+", re.ASCII)


def words(line: str) -> list[str]:
    r"""Split as Java's ``line.toLowerCase().split("\\W+")`` does.

    An empty string may come first, never last.
    """
    parts = NOT_A_WORD.split(line.lower())
    if len(parts) == 1:
        return parts
    while parts and not parts[-1]:
        parts.pop()
    return parts


def build(builder: StreamsBuilder) -> None:
    """Draw the topology: lines in, the running count of each word out."""
    (
        builder.stream("TextLinesTopic", key_serde=Serdes.string, value_serde=Serdes.string)
        .flat_map_values(words)
        .group_by(lambda _key, word: word, key_serde=Serdes.string, value_serde=Serdes.string)
        .count(store="counts-store")
        .to_stream()
        .to("WordsWithCountsTopic", key_serde=Serdes.string, value_serde=Serdes.long)
    )
