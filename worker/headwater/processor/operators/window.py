"""Aggregations within windows: which windows a record belongs to, and when they close.

A record of time windows is one update of its store for each of its windows, as in ``aggregate``.
Sliding and session windows read their neighbours first (``processor/sliding.py``,
``processor/sessions.py``). Time is the largest timestamp that the node has seen in this task; it
begins anew with the task (Kafka's ``observedStreamTime``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from headwater.model.operators.window import (
    SessionWindowAggregate,
    SlidingWindowAggregate,
    TimeWindowAggregate,
)
from headwater.model.windows import EmitStrategy, TimeWindows
from headwater.ports import Timestamps
from headwater.processor.code import call
from headwater.processor.compiling import compile_operator
from headwater.processor.emission import Emission
from headwater.processor.operators.aggregate import first_or, passed_through
from headwater.processor.sessions import sessions_of
from headwater.processor.sliding import sliding_windows_of
from headwater.processor.windowed import ObservedTime, forward_windows, late_record, shared_by_store

if TYPE_CHECKING:
    from headwater.ports import Forward, Headers, TimedStore, Update
    from headwater.processor.code import Code, Emit, Names
    from headwater.processor.compiling import Site
    from headwater.processor.environment import Late
    from headwater.processor.failures import Fail


@compile_operator.register(TimeWindowAggregate)
def compile_time_window_aggregate(operator: TimeWindowAggregate, site: Site) -> Emit:
    """Fold each record into the aggregates of its windows that are open; a null key is dropped.

    A window is closed once stream time has reached its end and grace (``KStreamWindowAggregate``).
    """
    windows = operator.windows
    store = cast("TimedStore", site.store(operator.store))
    size = windows.size_ms
    forward = site.children.forward
    is_final = operator.emit is EmitStrategy.ON_WINDOW_CLOSE
    to = shared_by_store(site, store.name, forward_windows(forward, size))
    store.on_change(None if is_final else to, send_old=operator.send_old)
    step = operator.aggregator if operator.initializer else first_or(operator.aggregator)
    if operator.needs_key:
        step = _of_key_alone(step)
    update = store.updater(step, Timestamps.MAX, operator.initializer)
    seen = site.keep_resident(ObservedTime())
    drop = site.environment.skipping(f"node {site.node.name}", "record due to null key")
    late = late_record(site, windows.grace_ms)
    failed = _failing(forward, site.fail)
    emission = None
    if is_final and isinstance(windows, TimeWindows):
        emission = site.keep_resident(Emission.of_time_windows(windows, store, to, site))
    if isinstance(windows, TimeWindows) and windows.advance_ms == size:
        return _tumbling(windows, update, seen, drop, late, failed, emission)

    grace, starts_for = windows.grace_ms, windows.starts_for
    final = None if emission is None else emission.after

    def aggregate(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        if key is None:
            drop()
            return
        observed = seen.time
        if timestamp > observed:
            seen.time = observed = timestamp
        closed = observed - grace
        try:
            for start in starts_for(timestamp):
                if start + size > closed:
                    update((key, start, 0), value, timestamp, headers)
                else:
                    late(timestamp, f"[{start},{start + size})", closed)
        except Exception as error:
            failed(error, key, value, timestamp, headers)
            return
        if final is not None:
            final(closed, headers)

    return call(aggregate, "aggregate")


def _tumbling(
    windows: TimeWindows,
    update: Forward,
    seen: ObservedTime,
    drop: Any,
    late: Late,
    failed: Fail,
    emission: Emission | None,
) -> Emit:
    """Write the lines for windows that do not overlap: a record has one of them."""
    size, grace = windows.size_ms, windows.grace_ms

    def drop_late(start: int, timestamp: int) -> None:
        late(timestamp, f"[{start},{start + size})", seen.time - grace)

    def emit(code: Code, names: Names) -> None:
        key, value = names
        dropping, updating = code.bind(drop, "drop"), code.bind(update, "update")
        time, dropping_late = code.bind(seen, "seen"), code.bind(drop_late, "late")
        start = code.fresh("start")
        code.line(f"if {key} is None:\n    {dropping}()\n    {code.skip}")
        code.line(f"{start} = timestamp - timestamp % {size}")
        code.line(f"if timestamp > {time}.time:\n    {time}.time = timestamp")
        is_late = f"elif {start} + {size} <= {time}.time - {grace}:"
        if emission is None:
            code.line(f"{is_late}\n    {dropping_late}({start}, timestamp)\n    {code.skip}")
            code.guarded(
                f"{updating}(({key}, {start}, 0), {value}, timestamp, headers)", failed, names
            )
            return
        final, open_ = code.bind(emission.after, "final"), code.fresh("is_open")
        code.line(f"{open_} = {start} + {size} > {time}.time - {grace}")
        code.line(f"if not {open_}:\n    {dropping_late}({start}, timestamp)")
        code.guarded(
            f"if {open_}:\n    {updating}(({key}, {start}, 0), {value}, timestamp, headers)",
            failed,
            names,
        )
        code.line(f"{final}({time}.time - {grace}, headers)")

    return emit


@compile_operator.register(SlidingWindowAggregate)
def compile_sliding_window_aggregate(operator: SlidingWindowAggregate, site: Site) -> Emit:
    """Fold each record into the windows that end or begin with it, and those that hold it."""
    return call(
        sliding_windows_of(operator, site, _failing(site.children.forward, site.fail)), "slide"
    )


@compile_operator.register(SessionWindowAggregate)
def compile_session_window_aggregate(operator: SessionWindowAggregate, site: Site) -> Emit:
    """Fold each record into the session that it begins, continues, or makes of several."""
    return call(sessions_of(operator, site, _failing(site.children.forward, site.fail)), "merge")


def _of_key_alone(step: Update) -> Update:
    def of_key(window_key: Any, value: Any, aggregate: Any) -> Any:
        return step(window_key[0], value, aggregate)

    return of_key


def _failing(forward: Forward, fail: Fail) -> Fail:
    def failed(error: Exception, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        if passed_through(forward, error):
            raise error
        fail(error, key, value, timestamp, headers)

    return failed
