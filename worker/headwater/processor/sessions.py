"""Session windows: a record begins a session, continues one, or makes one of several.

Kafka's ``KStreamSessionWindowAggregate``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from headwater.model.durations import LONG_MAX
from headwater.model.windows import EmitStrategy
from headwater.processor.emission import Emission
from headwater.processor.windowed import (
    ObservedTime,
    forward_sessions,
    late_record,
    shared_by_store,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from headwater.model.operators.window import SessionWindowAggregate
    from headwater.ports import Forward, Headers, TimedStore
    from headwater.processor.compiling import Site
    from headwater.processor.environment import Late
    from headwater.processor.failures import Fail


def sessions_of(operator: SessionWindowAggregate, site: Site, failed: Fail) -> Forward:
    """Return what a record of sessions does.

    A null key is dropped; so is a record whose session, once merged, has closed.

    Args:
        operator: the aggregation.
        site: of its node.
        failed: asked about what user code raises.
    """
    store = cast("TimedStore", site.store(operator.store))
    is_final = operator.emit is EmitStrategy.ON_WINDOW_CLOSE
    # A record cache forwards the headers that its store keeps, if it keeps some: those of a session
    # that was aggregated are none (Kafka's ``SessionCacheFlushListenerWithHeader``).
    keeps_headers = site.environment.kinds[operator.store].keeps_headers
    with_headers = is_final or (store.caching and not keeps_headers)
    to = forward_sessions(site.children.forward, with_headers=with_headers)
    to = shared_by_store(site, store.name, to)
    store.on_change(None if is_final else to, send_old=operator.send_old)
    away = operator.windows.grace_ms + operator.windows.inactivity_gap_ms
    late = late_record(site, away)
    fold = _folding(operator, store, None if is_final or store.caching else to, late)
    seen = site.keep_resident(ObservedTime())
    drop = site.environment.skipping(f"node {site.node.name}", "record due to null key")
    final = None
    if is_final:
        emission = Emission.of_sessions(operator.windows, store, to, site)
        final = site.keep_resident(emission).after

    def merge(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        if key is None:
            drop()
            return
        seen.time = max(seen.time, timestamp)
        closed = seen.time - away
        try:
            fold(key, value, timestamp, headers, closed)
        except Exception as error:
            failed(error, key, value, timestamp, headers)
            return
        if final is not None:
            final(closed, headers)

    return merge


def _folding(
    operator: SessionWindowAggregate,
    store: TimedStore,
    forward: Forward | None,
    late: Late,
) -> Callable[[Any, Any, int, Headers, int], None]:
    """Return what folds a record into its session.

    Sessions that are merged are removed, with a tombstone each before the result.
    """
    gap, send_old = operator.windows.inactivity_gap_ms, operator.send_old
    initializer, aggregator, merger = operator.initializer, operator.aggregator, operator.merger
    fetch, put = store.fetch, store.put

    def fold(key: Any, value: Any, timestamp: int, headers: Headers, closed: int) -> None:
        start = end = timestamp
        aggregate = None if initializer is None else initializer()
        merged = []
        for held_end, held_start, held, _ in fetch(key, timestamp - gap, LONG_MAX):
            if held_start <= timestamp + gap:
                merged.append(((key, held_end, held_start), held))
                aggregate = merger(key, aggregate, held)
                start, end = min(start, held_start), max(end, held_end)
        if end < closed:
            late(timestamp, f"[{start},{end}]", closed)
            return
        if start != timestamp or end != timestamp:
            for session, held in merged:
                put(session, None, timestamp, headers)
                if forward is not None:
                    forward(session, (None, held if send_old else None), timestamp, headers)
        aggregate = aggregator(key, value, aggregate)
        put((key, end, start), aggregate, timestamp, headers)
        if forward is not None:
            forward((key, end, start), (aggregate, None), timestamp, headers)

    return fold
