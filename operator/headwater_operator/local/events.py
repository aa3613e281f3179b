"""The file in which the control loop writes what it did and why, one line each."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from headwater.errors import SpecError
from headwater.model.codec import decode, encode_object
from headwater_operator.local.files import append_line
from headwater_operator.overview.events import Event

if TYPE_CHECKING:
    from pathlib import Path

_KEPT_BYTES: Final = 4_000_000
_TAIL_BYTES: Final = 32_000


def write_event(path: Path, event: Event) -> None:
    """Add an event; the oldest are forgotten in the long run."""
    try:
        if path.stat().st_size > _KEPT_BYTES:
            path.replace(path.with_suffix(".1.jsonl"))
    except FileNotFoundError:
        pass
    append_line(path, encode_object(event))


def read_events(path: Path, *, since: int = 0) -> tuple[list[Event], int]:
    """Read the events behind the position ``since``; return them and the position behind them.

    A ``since`` of -1 begins near the end.
    """
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            start = max(0, size - _TAIL_BYTES) if since < 0 else since if since <= size else 0
            file.seek(start)
            text = file.read()
    except FileNotFoundError:
        return [], 0
    whole, _, part = text.rpartition(b"\n")
    lines = whole.split(b"\n") if whole else []
    if since < 0 and start > 0:
        lines = lines[1:]
    return [event for line in lines if (event := _parse(line)) is not None], start + len(
        text
    ) - len(part)


def _parse(line: bytes) -> Event | None:
    try:
        return decode(Event, json.loads(line), path="event", strict=False)
    except (ValueError, SpecError):
        return None
