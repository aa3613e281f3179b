"""As ``counting``, with functions that wait before each record is counted.

A call makes a key's name of a value, and a batch marks it: a result that came to another record's
key ends the application.
"""

from __future__ import annotations

import asyncio
import os
import threading
from contextlib import nullcontext
from functools import cache
from typing import TYPE_CHECKING

from headwater import Serdes
from tests.support.counting import PREFIX_VARIABLE
from tests.support.flying import BATCH, CALL, own_ledger

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from headwater import StreamsBuilder

CALL_S = 0.05
BATCH_S = 0.02

_ledger = cache(own_ledger)


def _flying(kind: str) -> AbstractContextManager[None]:
    ledger = _ledger()
    return nullcontext() if ledger is None else ledger.flying(kind)


async def ask(key: str, _value: str) -> str:
    """Wait as for a web service."""
    with _flying(CALL):
        await asyncio.sleep(CALL_S)
    return key


def mark(values: list[str]) -> list[str]:
    """Take as long as a model."""
    with _flying(BATCH):
        threading.Event().wait(BATCH_S)
    return [f"{value}!" for value in values]


def checked(key: str, value: str) -> str:
    """Let no value pass that is another key's."""
    if value != f"{key}!":
        raise AssertionError(f"the record of {key} got {value}")
    return value


def build(builder: StreamsBuilder) -> None:
    """Count the records of every key of ``<prefix>-in`` into ``<prefix>-out``."""
    prefix = os.environ[PREFIX_VARIABLE]
    (
        builder.stream(f"{prefix}-in", key_serde=Serdes.string, value_serde=Serdes.string)
        .map_values_async(ask, with_key=True, max_in_flight=200, timeout=2_000)
        .map_batch(mark, max_size=20, max_wait=50)
        .map_values(checked, with_key=True)
        .group_by_key()
        .count(store="counts")
        .to_stream()
        .to(f"{prefix}-out", key_serde=Serdes.string, value_serde=Serdes.long)
    )
