"""Aggregations: read, combine, write and forward, all in one store's ``updater``.

The user's functions run inside the store's update, which may also forward at once to the nodes
below. What those raise is not this node's to handle: it is passed on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headwater.ports import Timestamps

if TYPE_CHECKING:
    from collections.abc import Callable

    from headwater.model.operators.aggregate import StreamAggregate, TableAggregate
    from headwater.ports import Forward, Headers, KeyValueStore, Update
    from headwater.processor.code import Code, Emit, Names
    from headwater.processor.failures import Fail
    from headwater.processor.routing import Children


def emit_stream_aggregate(
    operator: StreamAggregate,
    store: KeyValueStore,
    children: Children,
    fail: Fail,
    drop: Callable[[], None],
) -> Emit:
    """Fold each record into the aggregate of its key; a null key or value is dropped.

    The result's time is the larger of the record's and the aggregate's (``KStreamAggregate``).
    """
    forward = children.forward
    store.on_change(forward, send_old=operator.send_old)
    step = operator.aggregator if operator.initializer else _first_or(operator.aggregator)
    update = store.updater(step, Timestamps.MAX, operator.initializer)

    def failed(error: Exception, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        if passed_through(forward, error):
            raise error
        fail(error, key, value, timestamp, headers)

    def emit(code: Code, names: Names) -> None:
        key, value = names
        dropping, updating = code.bind(drop, "drop"), code.bind(update, "update")
        code.line(f"if {key} is None or {value} is None:\n    {dropping}()\n    {code.skip}")
        code.guarded(f"{updating}({key}, {value}, timestamp, headers)", failed, names)

    return emit


def compile_table_aggregate(
    operator: TableAggregate, store: KeyValueStore, children: Children, fail: Fail
) -> Forward:
    """Take a change's old value out of the aggregate of its key, then add the new one.

    Kafka's ``KTableAggregate`` and ``KTableReduce``. A missing key goes to the handler.
    """
    forward = children.forward
    store.on_change(forward, send_old=operator.send_old)
    update = store.updater(_subtract_then_add(operator), Timestamps.MAX)
    missing_key = f"a record for the grouped table of store {store.name} has no key"

    def aggregate(key: Any, change: Any, timestamp: int, headers: Headers) -> None:
        try:
            if key is None:
                raise ValueError(missing_key)  # noqa: TRY301 - as if the adder had refused it
            update(key, change, timestamp, headers)
        except Exception as error:
            if passed_through(forward, error):
                raise
            fail(error, key, change, timestamp, headers)

    return aggregate


def passed_through(forward: Forward, error: Exception) -> bool:
    """Whether ``error`` was raised in or below the compiled child ``forward``."""
    code = getattr(forward, "__code__", None)
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code is code:
            return True
        trace = trace.tb_next
    return False


def _first_or(reducer: Update) -> Update:
    def reduce(key: Any, value: Any, old: Any) -> Any:
        return value if old is None else reducer(key, value, old)

    return reduce


def _subtract_then_add(operator: TableAggregate) -> Update:
    adder = operator.adder
    subtractor = operator.subtractor
    initializer = operator.initializer

    def step(key: Any, change: Any, aggregate: Any) -> Any:
        new, old = change
        if old is not None and aggregate is not None:
            aggregate = subtractor(key, old, aggregate)
        if new is None:
            return aggregate
        if aggregate is None:
            if initializer is None:
                return new
            aggregate = initializer()
        return adder(key, new, aggregate)

    return step
