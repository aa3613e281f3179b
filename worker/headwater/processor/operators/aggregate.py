"""Aggregations: read, combine, write and forward, all in one store's ``updater``.

The user's functions run inside the store's update, which may also forward at once to the nodes
below. What those raise is not this node's to handle: it is passed on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from headwater.model.operators.aggregate import (
    StreamAggregate,
    TableAggregate,
    TableRepartitionMap,
)
from headwater.ports import Timestamps
from headwater.processor.code import call
from headwater.processor.compiling import compile_operator
from headwater.processor.latest import latest_only
from headwater.processor.operators.pairs import as_pair

if TYPE_CHECKING:
    from headwater.ports import Forward, Headers, Update
    from headwater.processor.code import Code, Emit, Names
    from headwater.processor.compiling import Site

_NO_KEY: Final = "a table that is grouped has a record without a key"


@compile_operator.register(StreamAggregate)
def compile_stream_aggregate(operator: StreamAggregate, site: Site) -> Emit:
    """Fold each record into the aggregate of its key; a null key or value is dropped.

    The result's time is the larger of the record's and the aggregate's (``KStreamAggregate``).
    """
    store, fail, forward = site.store(operator.store), site.fail, site.children.forward
    drop = site.environment.skipping(f"node {site.node.name}", "record due to null key or value")
    store.on_change(forward, send_old=operator.send_old)
    step = operator.aggregator if operator.initializer else first_or(operator.aggregator)
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


@compile_operator.register(TableAggregate)
def compile_table_aggregate(operator: TableAggregate, site: Site) -> Emit:
    """Take a change's old value out of the aggregate of its key, then add the new one.

    Kafka's ``KTableAggregate`` and ``KTableReduce``. A missing key goes to the handler.
    """
    store, forward, fail = site.store(operator.store), site.children.forward, site.fail
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

    return call(aggregate, "aggregate")


@compile_operator.register(TableRepartitionMap)
def compile_table_repartition_map(operator: TableRepartitionMap, site: Site) -> Emit:
    """Give both halves of a change their new keys (``KTableRepartitionMap``).

    One change when both have the same key, else the old one first. A side whose new key or value
    is null is left out.
    """
    mapper, forward, fail = operator.mapper, site.children.forward, site.fail

    def repartition_map(key: Any, change: Any, timestamp: int, headers: Headers) -> None:
        new, old = change
        try:
            if key is None:
                raise ValueError(_NO_KEY)  # noqa: TRY301 - as if the mapper had refused it
            new_key, new_value = (None, None) if new is None else as_pair(mapper(key, new))
            old_key, old_value = (None, None) if old is None else as_pair(mapper(key, old))
        except Exception as error:
            fail(error, key, change, timestamp, headers)
            return
        has_new = new_key is not None and new_value is not None
        has_old = old_key is not None and old_value is not None
        if has_new and has_old and new_key == old_key:
            forward(old_key, (new_value, old_value), timestamp, headers)
            return
        if has_old:
            forward(old_key, (None, old_value), timestamp, headers)
        if has_new:
            forward(new_key, (new_value, None), timestamp, headers)

    return latest_only(site, call(repartition_map, "map"), is_counted=False)


def passed_through(forward: Forward, error: Exception) -> bool:
    """Whether ``error`` was raised in or below the compiled child ``forward``."""
    code = getattr(forward, "__code__", None)
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code is code:
            return True
        trace = trace.tb_next
    return False


def first_or(reducer: Update) -> Update:
    """Return a step whose first value is the first aggregate."""

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
