"""The page's stream of events, as a browser reads it."""

from __future__ import annotations

import json
import urllib.request
from contextlib import closing
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Generator


def events(url: str, app: str) -> Generator[tuple[str, dict[str, Any]], None, None]:
    """Yield what comes of the stream, each with its kind."""
    with urllib.request.urlopen(f"{url}api/apps/{app}/events", timeout=60) as answer:
        kind = ""
        for line in answer:
            name, _, value = line.decode().rstrip("\n").partition(": ")
            if name == "event":
                kind = value
            elif name == "data":
                yield kind, json.loads(value)


def seen(url: str, app: str, looks: int = 60) -> dict[str, Any]:
    """Return the document once there is one; fail if looking fails so many times."""
    troubles = []
    with closing(events(url, app)) as stream:
        for _, news in zip(range(looks), stream, strict=False):
            found: dict[str, Any] = news[1].get("document") or news[1].get("change") or {}
            if "app" in found:
                return found
            troubles.append(news[1].get("trouble"))
    raise AssertionError(f"nothing was seen: {troubles}")
