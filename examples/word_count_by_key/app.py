"""Counts words but "the", and writes the counts as text.

``headwater describe examples.word_count_by_key.app:build``
"""

import re

from headwater import Serdes, StreamsBuilder

INPUT = "wordcount-input"
OUTPUT = "wordcount-output"
NOT_A_WORD = re.compile(r"\W+", re.ASCII)


def words(line: str) -> list[str]:
    """Return the words of a line, in lower case."""
    return [word for word in NOT_A_WORD.split(line.lower()) if word]


def build(builder: StreamsBuilder) -> None:
    """Draw the topology: each word becomes its own key, so that grouping needs no other one."""
    (
        builder.stream(INPUT, key_serde=Serdes.string, value_serde=Serdes.string)
        .flat_map_values(words)
        .map(lambda _key, word: (word, word))
        .filter(lambda word, _: word != "the")
        .group_by_key(key_serde=Serdes.string, value_serde=Serdes.string)
        .count(store="CountStore")
        .map_values(str)
        .to_stream()
        .to(OUTPUT, key_serde=Serdes.string, value_serde=Serdes.string)
    )
