"""A topology with something of every target, to be explained."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater import Serdes
from headwater import functions as f

if TYPE_CHECKING:
    from headwater import StreamsBuilder


def build(builder: StreamsBuilder) -> None:
    """Sum payments by country, count the large ones, keep accounts, sort the rest by Python."""
    payments = builder.stream("payments", key_serde=Serdes.string, value_serde=Serdes.long)
    (
        payments.filter(f.value > 0)
        .group_by(f.key[:2], key_serde=Serdes.string, value_serde=Serdes.long)
        .reduce(f.add, store="by-country", key_serde=Serdes.string, value_serde=Serdes.long)
        .to_stream()
        .to("totals", key_serde=Serdes.string, value_serde=Serdes.long)
    )
    builder.table("accounts", key_serde=Serdes.string, value_serde=Serdes.string, store="accounts")
    (
        builder.stream("notes", key_serde=Serdes.string, value_serde=Serdes.string)
        .map_values(str.upper)
        .group_by_key(key_serde=Serdes.string, value_serde=Serdes.string)
        .count(store="notes")
    )
