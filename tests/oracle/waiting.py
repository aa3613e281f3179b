"""Functions of the catalogue as functions that wait, which Java has not."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from tests.oracle.functions import text
from tests.oracle.processors import Behaviour

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from headwater import FixedKeyRecord

_SHORTEST_S: Final = 0.001
"""Longer ones overtake each other."""


def later(mapper: Callable[..., Any]) -> Callable[..., Coroutine[Any, Any, Any]]:
    """Return a coroutine function that returns what a mapper does, after a while."""

    async def wait(*given: Any) -> Any:
        await asyncio.sleep(_SHORTEST_S * (len(text(given[-1])) % 3))
        return mapper(*given)

    return wait


def of_many(mapper: Callable[[Any], Any]) -> Callable[[list[Any]], list[Any]]:
    """Return what a mapper does with each of many values."""
    return lambda values: [mapper(value) for value in values]


def process(fn: str) -> Callable[[FixedKeyRecord[Any, Any]], list[FixedKeyRecord[Any, Any]]]:
    """Return what a processor that keeps keys, and nothing else, forwards for a record."""

    def handle(record: FixedKeyRecord[Any, Any]) -> list[FixedKeyRecord[Any, Any]]:
        sent: list[FixedKeyRecord[Any, Any]] = []

        def send(_key: Any, value: Any, timestamp: int, headers: Any) -> None:
            made = record.with_value(value).with_timestamp(timestamp)
            sent.append(made.with_headers(headers))

        behaviour = Behaviour(fn, ())
        behaviour.begin(None, send)
        behaviour.handle(record.key, record.value, record.timestamp, record.headers)
        return sent

    return handle
