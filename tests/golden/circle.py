"""A topology that a backfill computes in passes, to be explained."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater import Serdes

if TYPE_CHECKING:
    from headwater import StreamsBuilder


def build(builder: StreamsBuilder) -> None:
    """Count what comes directly together with what comes by a repartition topic."""
    lines = builder.stream("lines", key_serde=Serdes.string, value_serde=Serdes.string)
    (
        lines.merge(lines.repartition(name="again"))
        .group_by_key(key_serde=Serdes.string, value_serde=Serdes.string)
        .count(store="lines")
    )
    builder.table("names", key_serde=Serdes.string, value_serde=Serdes.string, store="names")
