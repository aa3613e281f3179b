"""As ``counting``, with a function that waits before each record is counted."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from headwater import Serdes
from tests.support.counting import PREFIX_VARIABLE

if TYPE_CHECKING:
    from headwater import StreamsBuilder

CALL_S = 0.05


async def ask(value: str) -> str:
    """Wait as for a web service."""
    await asyncio.sleep(CALL_S)
    return value


def build(builder: StreamsBuilder) -> None:
    """Count the records of every key of ``<prefix>-in`` into ``<prefix>-out``."""
    prefix = os.environ[PREFIX_VARIABLE]
    (
        builder.stream(f"{prefix}-in", key_serde=Serdes.string, value_serde=Serdes.string)
        .map_values_async(ask, max_in_flight=200, timeout=2_000)
        .group_by_key()
        .count(store="counts")
        .to_stream()
        .to(f"{prefix}-out", key_serde=Serdes.string, value_serde=Serdes.long)
    )
