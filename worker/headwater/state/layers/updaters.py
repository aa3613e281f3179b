"""Read-modify-write-forward, compiled into one function per DSL node: the hot path of state.

``compile_cached`` serves a store whose record cache is on: the change waits in the cache.
``compile_direct`` serves a store without: the change goes downstream at once. In both, the next
record of a key that was updated lately costs one dict look-up. A value of an immutable serde is
handed on as it is; any other is kept as bytes and decoded afresh for each record, because the
user's function may change it in place.

What a record with timestamp ``t`` does to a key whose stored timestamp is ``s``, as in Kafka
Streams:

    ============================  ==================  ==========================
                                  timestamp stored    timestamp forwarded
    ============================  ==================  ==========================
    aggregate, key absent         t                   t
    aggregate, key present        max(s, t)           max(s, t)
    aggregate to null (deletion)  t (the tombstone)   max(s, t); with a cache: t
    table                         t                   t
    ============================  ==================  ==========================

The old value in the change of an absent key is what the initializer gave; with a cache it is none,
and the deletion of an absent key is no change at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from headwater.state.layers.cache import headers_size
from headwater.state.layers.writeback import DIRTY, UNSENT, Entry

if TYPE_CHECKING:
    from collections.abc import Callable

    from headwater.ports import Forward, Headers, UnderWay, Update
    from headwater.state.layers.cache import RecordCache
    from headwater.state.layers.writeback import WriteBack


class _NeverAClass:
    """No value has this class: every value takes the general path."""


_UNSTEPPED: Any = _NeverAClass()


class Updating(NamedTuple):
    """What one DSL node does with a record.

    Attributes:
        step: ``step(key, value, old)`` gives the new value; ``None``: the value replaces the old.
        initializer: gives ``old`` for an absent key.
        take_max: the stored timestamp never goes back.
        send_old: the change carries the old value.
    """

    step: Update | None
    initializer: Callable[[], Any] | None
    take_max: bool
    send_old: bool


def compile_cached(cache: RecordCache, updating: Updating) -> Forward:
    """Return the update function of a store with its record cache on."""
    if updating.step is None:
        return _cached_upsert(cache)
    change = _cached_change(cache, updating, updating.step)
    if not cache.codec.immutable:
        return _general(cache, change)
    if cache.flat_size is not None:
        change = _cached_miss(cache, updating, updating.step, change)
    if cache.budget.updater is not None and cache.codec.fixed_bytes is not None:
        return _in_c(
            cache.budget.updater,
            cache,
            updating.step,
            change,
            updating,
            mark=cache.dirtied,
            moved=cache.moved,
            under_way=cache.under_way,
            flag=DIRTY,
        )
    return _cached_fast(cache, updating, updating.step, change)


def compile_direct(below: WriteBack, updating: Updating, forward: Forward | None) -> Forward:
    """Return the update function of a store that forwards each change at once."""
    hear = forward or _nobody
    if updating.step is None and not updating.send_old:
        return _direct_upsert(below, hear)
    step = updating.step or _replace
    change = _direct_change(below, updating, step, hear)
    if below.updater is not None and below.codec.fixed_bytes is not None:
        return _in_c(
            below.updater, below, step, change, updating, mark=below.mark, forward=hear, flag=UNSENT
        )
    if below.codec.immutable:
        return _direct_fast(below, updating, step, hear, change)
    return _general(below, change)


def _general(layer: RecordCache | WriteBack, change: Callable[..., None]) -> Forward:
    """Let ``change`` handle every record."""
    identity_of, get = layer.codec.keys.identity, layer.entries.get

    def update(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        identity = identity_of(key)
        change(get(identity), identity, key, value, timestamp, headers)

    return update


def _nobody(_key: Any, _change: Any, _timestamp: int, _headers: Headers) -> None:
    """Hear nothing."""


def _nothing() -> None:
    """Begin with no value."""


def _replace(_key: Any, value: Any, _old: Any) -> Any:
    return value


def _cached_fast(
    cache: RecordCache, updating: Updating, step: Update, change: Callable[..., None]
) -> Forward:
    """Handle a known key and immutable values of fixed size; ``change`` does the rest."""
    codec, entries = cache.codec, cache.entries
    pop, dirtied, moved, under_way = entries.pop, cache.dirtied, cache.moved, cache.under_way
    keys = codec.keys
    key_is_identity, identify, key_error = keys.is_identity, keys.identify, keys.error
    fixed: Any = codec.exact if codec.fixed_bytes is not None else _NeverAClass
    low, high = codec.limits
    take_max = updating.take_max

    def update(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        try:
            identity = key if key_is_identity else identify(key)
            entry = pop(identity, None)
        except Exception as error:
            raise key_error(key, error) from error
        if entry is None:
            change(None, identity, key, value, timestamp, headers)
            return
        # Taken out and put back, under the key object that it has: entries are flushed in the
        # order of their last write.
        entries[entry.identity] = entry
        old = entry.stored
        if old is None:
            change(entry, identity, key, value, timestamp, headers)
            return
        new = step(key, value, old)
        if new.__class__ is not fixed or new > high or new < low:
            change(entry, identity, key, value, timestamp, headers, new)
            return
        entry.stored = new
        if not take_max or entry.timestamp < timestamp:
            entry.timestamp = timestamp
        entry.offset = under_way.record[0]
        if not entry.flags & DIRTY:
            dirtied(entry, old)
        if headers is not entry.headers or entry.source is not under_way.source:
            moved(entry, headers)

    return update


def _cached_miss(
    cache: RecordCache, updating: Updating, step: Update, change: Callable[..., None]
) -> Callable[..., None]:
    """Handle a key that is not in the cache and values of fixed size; ``change`` does the rest.

    The entry is counted once, and put into the cache with its new value only.
    """
    codec, budget, kept, read = cache.codec, cache.budget, cache.below.entries, cache.below.read
    entries, under_way = cache.entries, cache.under_way
    fixed: Any = codec.exact
    admit, dirtied, grow, keeps_read = cache.admit, cache.dirtied, cache.grow, cache.keeps_read
    flat_size, key_size, (low, high) = cache.flat_size or 0, codec.keys.size, codec.limits
    initialize, take_max = updating.initializer or _nothing, updating.take_max

    def miss(
        entry: Entry | None,
        identity: Any,
        key: Any,
        value: Any,
        timestamp: int,
        headers: Headers,
        new: Any = _UNSTEPPED,
    ) -> None:
        if entry is not None:
            change(entry, identity, key, value, timestamp, headers, new)
            return
        try:
            known = kept.get(identity)
        except TypeError as error:  # An empty cache has not looked at the key.
            raise codec.keys.error(identity, error) from error
        entry = known or read(identity) or Entry(identity, None, -1)
        old = entry.stored
        size = flat_size + key_size(identity)
        stays = old is not None and keeps_read and not cache.owes_room
        if stays and budget.used + size > budget.limit:
            # As in Kafka Streams, which reads through its cache: room is made for the old value
            # before the new one is there.
            admit(entry)
            change(entry, identity, key, value, timestamp, headers)
            return
        try:
            new = step(key, value, initialize() if old is None else old)
        except BaseException:
            if stays:
                admit(entry)
            raise
        if new.__class__ is not fixed or new > high or new < low:
            if stays:
                admit(entry)
            change(entry, identity, key, value, timestamp, headers, new)
            return
        if known is not None:
            del kept[identity]
        entry.stored = new
        if old is None or not take_max or entry.timestamp < timestamp:
            entry.timestamp = timestamp
        entry.headers = headers
        entry.offset = under_way.record[0]
        entry.source = source = under_way.source
        dirtied(entry, old)
        entries[entry.identity] = entry
        size += len(source.topic)
        if headers:
            size += headers_size(headers)
        entry.counted = size
        grow(size)

    return miss


def _in_c(
    updater: Callable[..., Any],
    layer: RecordCache | WriteBack,
    step: Update,
    change: Callable[..., None],
    updating: Updating,
    *,
    mark: Callable[..., None],
    flag: int,
    under_way: UnderWay | None = None,
    moved: Callable[..., None] | None = None,
    forward: Forward | None = None,
) -> Forward:
    """Return in C what ``_cached_fast`` does, or what ``_direct_fast`` does.

    Args:
        updater: makes it.
        layer: whose entries are updated.
        step: as in ``updating``, or what replaces the value.
        change: does the rest.
        updating: what is done.
        mark: called for an entry without the flag.
        flag: ``DIRTY`` or ``UNSENT``.
        under_way: with a cache.
        moved: with a cache.
        forward: without one.
    """
    from headwater.dsl.aggregate import count_adder  # noqa: PLC0415 - who restores draws nothing

    keys = layer.codec.keys
    key_error = keys.error

    def refuse_key(key: Any, error: Exception) -> None:
        raise key_error(key, error) from error

    made = updater(
        entries=layer.entries,
        entry=Entry(None, None, -1),
        under_way=under_way,
        step=None if step is count_adder else step,
        identify=None if keys.is_identity else keys.identify,
        change=change,
        dirtied=mark,
        moved=moved,
        forward=forward,
        refuse_key=refuse_key,
        fixed=layer.codec.exact,
        dirty=flag,
        take_max=updating.take_max,
        send_old=updating.send_old,
    )
    update: Forward = made.update
    return update


def _cached_change(cache: RecordCache, updating: Updating, step: Update) -> Callable[..., None]:
    codec, below = cache.codec, cache.below
    initializer, take_max = updating.initializer, updating.take_max

    def change(
        entry: Entry | None,
        identity: Any,
        key: Any,
        value: Any,
        timestamp: int,
        headers: Headers,
        new: Any = _UNSTEPPED,
    ) -> None:
        if entry is None:
            # As in Kafka Streams, which reads through its cache: room is made for the old value
            # before the new one is there.
            entry = cache.find(identity) or Entry(identity, None, -1)
        old = entry.stored
        if new is _UNSTEPPED:
            if old is None:
                new = step(key, value, None if initializer is None else initializer())
            else:
                new = step(key, value, codec.to_value(old))
        if new is not None:
            new = codec.to_stored(new)
            if take_max and old is not None and entry.timestamp > timestamp:
                timestamp = entry.timestamp
        below.entries.pop(identity, None)
        cache.replace(entry, new, timestamp, headers)

    return change


def _cached_upsert(cache: RecordCache) -> Forward:
    codec, identity_of = cache.codec, cache.codec.keys.identity

    def upsert(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        stored = None if value is None else codec.to_stored(value)
        cache.put(identity_of(key), stored, timestamp, headers)

    return upsert


def _direct_fast(
    below: WriteBack,
    updating: Updating,
    step: Update,
    forward: Forward,
    change: Callable[..., None],
) -> Forward:
    """Handle a known key and immutable values of fixed size; ``change`` does the rest."""
    codec = below.codec
    get, mark = below.entries.get, below.mark
    keys = codec.keys
    key_is_identity, identify, key_error = keys.is_identity, keys.identify, keys.error
    fixed: Any = codec.exact if codec.fixed_bytes is not None else _NeverAClass
    low, high = codec.limits
    take_max, send_old = updating.take_max, updating.send_old

    def update(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        try:
            identity = key if key_is_identity else identify(key)
            entry = get(identity)
        except Exception as error:
            raise key_error(key, error) from error
        if entry is None or entry.stored is None:
            change(entry, identity, key, value, timestamp, headers)
            return
        old = entry.stored
        new = step(key, value, old)
        if new.__class__ is not fixed or new > high or new < low:
            change(entry, identity, key, value, timestamp, headers, new)
            return
        entry.stored = new
        if take_max and entry.timestamp > timestamp:
            timestamp = entry.timestamp
        else:
            entry.timestamp = timestamp
        if not entry.flags & UNSENT:
            mark(entry)
        forward(key, (new, old if send_old else None), timestamp, headers)

    return update


def _direct_change(
    below: WriteBack, updating: Updating, step: Update, forward: Forward
) -> Callable[..., None]:
    codec = below.codec
    initializer, take_max, send_old = updating.initializer, updating.take_max, updating.send_old
    keeps_headers = codec.keeps_headers
    read, replace = below.read, below.replace
    to_stored, immutable = codec.to_stored, codec.immutable
    fixed: Any = codec.exact if codec.fixed_bytes is not None else _NeverAClass
    low, high = codec.limits

    def change(
        entry: Entry | None,
        identity: Any,
        key: Any,
        value: Any,
        timestamp: int,
        headers: Headers,
        new: Any = _UNSTEPPED,
    ) -> None:
        if entry is None:
            entry = read(identity) or Entry(identity, None, -1)
        held, before, moved = entry.stored, None, timestamp
        if held is None:
            initial = None if initializer is None else initializer()
            new = step(key, value, initial)
            if send_old and initializer is not None:
                before = initial if codec.immutable else initializer()
        else:
            if new is _UNSTEPPED:
                new = step(key, value, codec.to_value(held))
            # Decoded afresh: the step may have changed its copy into the new value.
            before = codec.to_value(held) if send_old else None
            if take_max and entry.timestamp > timestamp:
                moved = entry.timestamp
        if new is None:
            if keeps_headers:
                entry.headers = headers
            replace(entry, None, timestamp)
        elif new.__class__ is fixed and low <= new <= high:
            replace(entry, new, moved)
        else:
            replace(entry, stored := to_stored(new), moved)
            new = stored if immutable else new
        forward(key, (new, before), moved, headers)

    return change


def _direct_upsert(below: WriteBack, forward: Forward) -> Forward:
    codec, identity_of = below.codec, below.codec.keys.identity

    def upsert(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        identity = identity_of(key)
        below.put(identity, None if value is None else codec.to_stored(value), timestamp, headers)
        forward(key, (value, None), timestamp, headers)

    return upsert
