"""From the path and the options of a request by HTTP to a question in bytes. Pure."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from headwater.errors import QueryError
from headwater.model.durations import LONG_MAX
from headwater.model.positions import Position
from headwater.model.stores import KeyLayout
from headwater.native.queries.shown import BASE64
from headwater.state.asks import AllWindows, AsOf, Get, Prefix, Range, Versions, Windows

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headwater.model.stores import StoreSpec
    from headwater.native.queries.answering import Held
    from headwater.native.queries.shown import Shown
    from headwater.state.asks import Ask


class ShownStore(NamedTuple):
    """A store with the forms of its keys and values."""

    held: Held
    keys: Shown
    values: Shown

    @property
    def spec(self) -> StoreSpec:
        """What it is."""
        return self.held.spec

    @property
    def subtopology(self) -> int:
        """Whose tasks have it."""
        return self.held.subtopology


def ask_of_key(spec: StoreSpec, what: str, key: bytes, query: Mapping[str, str]) -> Ask:
    """Return the question for one key.

    Args:
        spec: the store.
        what: ``keys``, ``windows``, ``sessions`` or ``versions``.
        key: serialized.
        query: the options.

    Raises:
        QueryError: an option is wrong, or the store has windows or sessions.
    """
    match what:
        case "keys" if spec.kind.versioned:
            as_of = number(query, "asOf", LONG_MAX) if "asOf" in query else None
            return AsOf(key, as_of)
        case "keys":
            if spec.kind.expires:
                raise _other_kind(spec)
            return Get(key)
        case "versions":
            return Versions(key, number(query, "from", 0), number(query, "to", LONG_MAX))
        case _:
            is_session = spec.kind.key_layout is KeyLayout.SESSION
            if spec.kind.expires and is_session != (what == "sessions"):
                raise _other_kind(spec)
            return Windows(key, number(query, "from", 0), number(query, "to", LONG_MAX))


def _other_kind(spec: StoreSpec) -> QueryError:
    what = "sessions" if spec.kind.key_layout is KeyLayout.SESSION else "windows"
    return QueryError(f"store {spec.name} has {what}: GET /state/{spec.name}/{what}/KEY")


def ask_of_all(
    store: ShownStore, what: str, query: Mapping[str, str]
) -> Range | Prefix | AllWindows:
    """Return the question for many keys, or for the windows of all.

    Raises:
        QueryError: an option is wrong.
    """
    form, reverse = query.get("keyFormat", ""), query.get("order", "") == "descending"
    if what == "windows":
        return AllWindows(number(query, "from", 0), number(query, "to", LONG_MAX), reverse=reverse)
    if "prefix" in query:
        # A beginning is no whole key, so no serde takes it.
        prefix = query["prefix"]
        return Prefix(store.keys.bytes_of(prefix, form) if form == BASE64 else prefix.encode())
    low, high = (
        store.keys.bytes_of(query[name], form) if name in query else None for name in ("from", "to")
    )
    return Range(low, high, reverse)


def behind(ask: Range | Prefix | AllWindows, after: bytes | None) -> Ask:
    """Return the question that goes on behind a row; the same one if that is ``None``."""
    if after is None:
        return ask
    match ask:
        case Range(low=low, high=high, reverse=reverse):
            return Range(low, high, reverse, after)
        case Prefix(prefix=prefix):
            return Prefix(prefix, after)
        case AllWindows():
            return AllWindows(ask.first, ask.last, ask.low, ask.high, ask.reverse, after)


def bound_of(text: str) -> Position:
    """Return a position bound, as JSON writes it.

    Raises:
        QueryError: it is none.
    """
    if not text:
        return Position()
    try:
        found = json.loads(text)
        return Position(
            {
                str(topic): {int(partition): int(offset) for partition, offset in offsets.items()}
                for topic, offsets in found.items()
            }
        )
    except (ValueError, TypeError, AttributeError) as error:
        raise QueryError(
            f"bound={text!r:.80} is no position; give the position of an earlier answer, "
            '{"topic": {"0": 41}}'
        ) from error


def number(
    query: Mapping[str, str], name: str, default: int, *, least: int = 0, most: int = LONG_MAX
) -> int:
    """Return an option that is a number.

    Raises:
        QueryError: it is none, or not between ``least`` and ``most``.
    """
    text = query.get(name)
    if text is None:
        return default
    if not text.isascii() or not text.isdigit() or not least <= int(text) <= most:
        raise QueryError(f"{name}={text!r:.40} is not allowed; expected {least} to {most}")
    return int(text)
