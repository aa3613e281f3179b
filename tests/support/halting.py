"""The word count, whose process stops itself in a transaction that the broker knows to be open."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from examples.word_count.app import words

from headwater import Serdes, failpoints
from headwater.ids import TopicPartition
from tests.support.backfills import PARTITIONS, STORE
from tests.support.counting import PREFIX_VARIABLE
from tests.support.thread_rig import Topics
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from headwater import StreamsBuilder

TOPOLOGY: Final = "tests.support.halting:build"
POINT: Final = "test.in_transaction"
"""The fail point at which it stops."""
WORD: Final = "halt"
"""It stops between this word's first output and its second, if both are of one transaction."""
SERVERS_VARIABLE: Final = "HEADWATER_TEST_SERVERS"
LOG_VARIABLE: Final = "HEADWATER_TEST_LOG"
"""A file for what a process says that was stopped: by then nobody reads its standard error."""


def is_transaction_open(topics: Topics, topic: str) -> bool:
    """Whether something stands in a topic that no transaction has committed or aborted."""
    partitions = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    return topics.ends(partitions) != topics.ends(partitions, isolation="read_uncommitted")


def build(builder: StreamsBuilder) -> None:
    """Count the words of ``<prefix>-in`` into ``<prefix>-out``."""
    prefix = os.environ[PREFIX_VARIABLE]
    (
        builder.stream(f"{prefix}-in", key_serde=Serdes.string, value_serde=Serdes.string)
        .flat_map_values(words)
        .group_by(lambda _key, word: word, key_serde=Serdes.string, value_serde=Serdes.string)
        .count(store=STORE)
        .to_stream()
        .peek(_halt)
        .to(f"{prefix}-out", key_serde=Serdes.string, value_serde=Serdes.long)
    )


def _halt(word: str, count: int) -> None:
    if (word, count) != (WORD, 2):
        return
    topics, sink = Topics(os.environ[SERVERS_VARIABLE]), f"{os.environ[PREFIX_VARIABLE]}-out"
    wait_for(lambda: is_transaction_open(topics, sink), what="the output before to be sent")
    logging.getLogger().addHandler(logging.FileHandler(Path(os.environ[LOG_VARIABLE])))
    failpoints.hit(POINT)
