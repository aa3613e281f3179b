"""A topology for the query storm: what is known of a topic's records, in stores of four kinds."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from headwater import Materialized, Serdes, SessionWindows, Stores, TimeWindows
from tests.support.counting import PREFIX_VARIABLE

if TYPE_CHECKING:
    from headwater import StreamsBuilder

WINDOW_MS: Final = 10_000
GAP_MS: Final = 1_000
"""About the time between two records of a key: some are of one session, some are not."""
KEPT_MS: Final = 12 * 3_600_000
"""Longer than any run."""


def build(builder: StreamsBuilder) -> None:
    """Count the records of ``<prefix>-in`` by key, window and session; keep their versions."""
    prefix = os.environ[PREFIX_VARIABLE]
    records = builder.stream(f"{prefix}-in", key_serde=Serdes.string, value_serde=Serdes.string)
    grouped = records.group_by_key()
    grouped.count(store="counts")
    windows = TimeWindows.of_size_and_grace(WINDOW_MS, KEPT_MS)
    grouped.windowed_by(windows).count(store="windows")
    sessions = SessionWindows.of_inactivity_gap_and_grace(GAP_MS, KEPT_MS)
    grouped.windowed_by(sessions).count(store="sessions")
    kept = Stores.persistent_versioned_key_value_store("versions", KEPT_MS)
    records.to_table(
        Materialized.as_(kept).with_key_serde(Serdes.string).with_value_serde(Serdes.string)
    )
