"""A topology that can be DataFrames as a whole, on the topics of one test."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import cloudpickle

from headwater import Serdes
from headwater import functions as f
from tests.support.counting import PREFIX_VARIABLE

if TYPE_CHECKING:
    from headwater import StreamsBuilder

STORES = ("positive", "by-letter", "names")


def build(builder: StreamsBuilder) -> None:
    """The topology on the topics that the environment names."""
    _build(builder, os.environ[PREFIX_VARIABLE])


def build_on(prefix: str) -> bytes:
    """The same on topics that are named: processes of a Spark that runs have its environment."""
    pickled: bytes = cloudpickle.dumps(lambda builder: _build(builder, prefix))
    return pickled


def _build(builder: StreamsBuilder, prefix: str) -> None:
    """Count, sum by the first letter, and keep a table."""
    numbers = builder.stream(f"{prefix}-in", key_serde=Serdes.string, value_serde=Serdes.long)
    (
        numbers.filter(f.value > 0)
        .group_by_key(key_serde=Serdes.string, value_serde=Serdes.long)
        .count(store="positive", key_serde=Serdes.string)
    )
    (
        numbers.group_by(f.key[:1], key_serde=Serdes.string, value_serde=Serdes.long)
        .reduce(f.add, store="by-letter", key_serde=Serdes.string, value_serde=Serdes.long)
        .to_stream()
        .to(f"{prefix}-out", key_serde=Serdes.string, value_serde=Serdes.long)
    )
    builder.table(
        f"{prefix}-names", key_serde=Serdes.string, value_serde=Serdes.string, store="names"
    )
