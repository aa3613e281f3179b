"""Answers questions from the committed contents of a store, whatever its kind and backend.

What waits in a record cache or for a commit is not seen. Nothing older than the retention is read,
as by the store itself.
"""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from headwater.model.stores import KeyLayout
from headwater.state.asks import (
    AllWindows,
    AsOf,
    Count,
    Get,
    Offset,
    Prefix,
    Range,
    Versions,
    Windows,
)
from headwater.state.expiry import Expiry, time_at, upper_bound
from headwater.state.headers import from_row
from headwater.state.keys import SESSION_SUFFIX, WINDOW_SUFFIX
from headwater.state.versions import TIME_MAX, row_key, time_of, value_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headwater.model.stores import StoreSpec
    from headwater.ports import Backend
    from headwater.state.asks import Ask, Found

_TIMESTAMP: Final = struct.Struct(">q")


def may_ask(spec: StoreSpec, ask: Ask) -> bool:
    """Whether a store of this kind knows such a question.

    Args:
        spec: the store.
        ask: the question.
    """
    kind = spec.kind
    if kind.is_buffer or kind.holds_records:
        return False
    match ask:
        case AsOf() | Versions():
            return kind.versioned
        case Range() | Prefix():
            return kind.key_layout is KeyLayout.PLAIN
        case Windows() | AllWindows():
            return kind.expires
        case Get():
            return not kind.versioned
        case Count() | Offset():
            return True


def row_key_of(spec: StoreSpec, found: Found) -> bytes:
    """Return the key of the row in which something was found, behind which one may go on."""
    return found[0] + _suffix(spec).pack(*found[3:]) if spec.kind.expires else found[0]


def without_code(spec: StoreSpec) -> StoreSpec:
    """Return what must be known to read a store, without serdes and functions of the user."""
    return replace(
        spec,
        key_serde=None,
        value_serde=None,
        make_store=None,
        dsl_params=None,
        dsl_suppliers=None,
    )


def answer(  # noqa: PLR0911 - one case per question
    spec: StoreSpec, backend: Backend, ask: Ask
) -> Iterator[Found]:
    """Iterate what a store holds of what is asked for.

    Args:
        spec: the store; ``may_ask`` has allowed the question.
        backend: its committed contents.
        ask: the question.

    Raises:
        StoreCorruptedError: a block is damaged.
    """
    match ask:
        case Get(key=key):
            return _get(spec, backend, key)
        case Range():
            return _range(spec, backend, ask)
        case Prefix():
            return _prefix(spec, backend, ask)
        case Windows():
            return _windows(spec, backend, ask)
        case AllWindows():
            return _all_windows(spec, backend, ask)
        case AsOf(key=key, time=time):
            return _as_of(spec, backend, key, time)
        case Versions():
            return _versions(spec, backend, ask)
        case Count():
            return iter([(b"", b"", backend.approximate_num_entries(), 0, 0)])
        case Offset():
            position = backend.position()
            return iter([(b"", b"", 0 if position is None else position.offset, 0, 0)])


# ---- keys and values -----------------------------------------------------------------------------


def _value(spec: StoreSpec, row: bytes) -> tuple[bytes, int]:
    """Return value, with its headers in front if the store has some, and timestamp of a row."""
    if spec.kind.keeps_headers:
        return from_row(spec.kind, row)
    if not spec.kind.timestamped:
        return row, -1
    return row[_TIMESTAMP.size :], _TIMESTAMP.unpack_from(row)[0]


def _get(spec: StoreSpec, backend: Backend, key: bytes) -> Iterator[Found]:
    if spec.kind.expires:
        suffix = _suffix(spec)
        if time_at(key, suffix.size) < _oldest(spec, backend):
            return
        row = backend.get(key)
        if row is not None:
            yield (key[: -suffix.size], *_value(spec, row), *suffix.unpack(key[-suffix.size :]))
        return
    row = backend.get(key)
    if row is not None:
        yield (key, *_value(spec, row), 0, 0)


def _range(spec: StoreSpec, backend: Backend, ask: Range) -> Iterator[Found]:
    low, high = ask.low, ask.high
    if ask.after is not None:
        low, high = (low, ask.after) if ask.reverse else (ask.after, high)
    # At once, so that it is all of one commit.
    rows = backend.range(low, high, reverse=ask.reverse)
    return ((key, *_value(spec, row), 0, 0) for key, row in rows if key != ask.after)


def _prefix(spec: StoreSpec, backend: Backend, ask: Prefix) -> Iterator[Found]:
    rows = backend.range(ask.prefix if ask.after is None else ask.after, None)

    def found() -> Iterator[Found]:
        for key, row in rows:
            if not key.startswith(ask.prefix):
                return
            if key == ask.after:
                continue
            yield (key, *_value(spec, row), 0, 0)

    return found()


# ---- windows and sessions ------------------------------------------------------------------------


def _suffix(spec: StoreSpec) -> struct.Struct:
    return SESSION_SUFFIX if spec.kind.key_layout is KeyLayout.SESSION else WINDOW_SUFFIX


def _oldest(spec: StoreSpec, backend: Any) -> int:
    return Expiry.of(spec).oldest_read(backend.stream_time)


def _windows(spec: StoreSpec, backend: Any, ask: Windows) -> Iterator[Found]:
    suffix = _suffix(spec)
    first = max(ask.first, 0, _oldest(spec, backend))
    if first > ask.last:
        return iter(())
    rows = backend.fetch(ask.key, first, ask.last)
    unpack, length = suffix.unpack_from, suffix.size
    found = [
        (ask.key, *_value(spec, row), *unpack(row_key, len(row_key) - length))
        for row_key, row in rows
    ]
    return reversed(found) if ask.reverse else iter(found)


def _all_windows(spec: StoreSpec, backend: Any, ask: AllWindows) -> Iterator[Found]:
    suffix, expiry = _suffix(spec), Expiry.of(spec)
    first, last = max(ask.first, 0, _oldest(spec, backend)), min(ask.last, TIME_MAX)
    after = None
    if ask.after is not None:
        after = expiry.order(ask.after, suffix.size)
        edge = after[0] * (expiry.segment_ms if expiry.persistent else 1)
        if ask.reverse:
            last = min(last, edge + (expiry.segment_ms - 1 if expiry.persistent else 0))
        else:
            first = max(first, edge)
    if first > last:
        return
    high = None if ask.high is None else upper_bound(ask.high, last, suffix.size)
    for place, row in backend.fetch_all(first, last, ask.low, high, reverse=ask.reverse):
        key = place[: -suffix.size]
        if (ask.low is not None and key < ask.low) or (ask.high is not None and key > ask.high):
            continue
        if after is not None:
            order = expiry.order(place, suffix.size)
            if order >= after if ask.reverse else order <= after:
                continue
            after = None
        yield (key, *_value(spec, row), *suffix.unpack(place[-suffix.size :]))


# ---- versions ------------------------------------------------------------------------------------


def _as_of(spec: StoreSpec, backend: Backend, key: bytes, time: int | None) -> Iterator[Found]:
    if time is not None and time < 0:
        return
    until = TIME_MAX if time is None else time
    versions = Versions(key, until, until)
    yield from _versions(spec, backend, versions)


def _versions(spec: StoreSpec, backend: Backend, ask: Versions) -> Iterator[Found]:
    """Iterate versions, the newest first unless they are wanted the other way round.

    A time before the history retention finds nothing but a newest version that is as old.
    """
    position = backend.position()
    stream_time = -1 if position is None else position.stream_time
    is_expired = ask.last < stream_time - spec.retention_ms
    found: list[Found] = []
    valid_to = -1
    rows = backend.range(row_key(ask.key, 0), row_key(ask.key, TIME_MAX), reverse=True)
    for row, held in rows:
        time, value = time_of(row), value_of(held)
        if time <= ask.last and (valid_to < 0 or valid_to > ask.first) and value is not None:
            found.append((ask.key, value, time, valid_to, 0))
        if time <= ask.first or is_expired:
            break
        valid_to = time
    return iter(found[::-1] if ask.ascending else found)
