"""The operators of KTable as closures over changes: ``(key, (new, old), timestamp, headers)``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headwater.model.operators.table import (
    TableFilter,
    TableMapValues,
    TableSource,
    TableToStream,
)
from headwater.ports import Timestamps
from headwater.processor.code import call
from headwater.processor.compiling import compile_operator
from headwater.processor.getters import derived_getter

if TYPE_CHECKING:
    from collections.abc import Callable

    from headwater.model.nodes import ProcessorNode
    from headwater.model.operators.base import TableOperator
    from headwater.ports import Forward, Headers, KeyValueStore
    from headwater.processor.code import Code, Emit, Names
    from headwater.processor.compiling import Site
    from headwater.processor.getters import Getter, Tables


@compile_operator.register(TableSource)
def compile_table_source(operator: TableSource, site: Site) -> Emit:
    """Turn the records of a topic or a stream into changes."""
    return compile_table_upsert(operator, site)


def compile_table_upsert(operator: TableOperator, site: Site) -> Emit:
    """Turn records into changes, remembering the last value per key if there is a store.

    A null key is dropped. An update out of order is applied like any other (``KTableSource``).
    """
    fail, update = site.fail, None
    drop = site.environment.skipping(f"node {site.node.name}", "record due to null key")
    if operator.store is not None:
        store = site.store(operator.store)
        forward, send_old = site.children.forward, operator.send_old
        update = _replacing(store, forward, send_old=send_old, reads_old=True)

    def emit(code: Code, names: Names) -> Names | None:
        key, value = names
        dropping = code.bind(drop, "drop")
        code.line(f"if {key} is None:\n    {dropping}()\n    {code.skip}")
        if update is not None:
            updating = code.bind(update, "update")
            code.guarded(f"{updating}({key}, {value}, timestamp, headers)", fail, names)
            return None
        change = code.fresh("change")
        code.line(f"{change} = {value}, None")
        return key, change

    return emit


@compile_operator.register(TableFilter)
def compile_table_filter(operator: TableFilter, site: Site) -> Emit:
    """Keep new and old values that pass; what does not pass becomes ``None`` (``KTableFilter``)."""
    return call(compile_stepwise(_kept(operator), operator, site, skip_nothing=True), "filter")


@derived_getter.register(TableFilter)
def table_filter_getter(operator: TableFilter, tables: Tables, node: ProcessorNode) -> Getter:
    """Find what the table above holds and the predicate keeps."""
    return _stepwise_getter(_kept(operator), tables.getter(node.parents[0]))


def _kept(operator: TableFilter) -> Callable[[Any, Any], Any]:
    predicate, negate = operator.predicate, operator.negate

    def kept(key: Any, value: Any) -> Any:
        return None if value is None or bool(predicate(key, value)) is negate else value

    return kept


@compile_operator.register(TableMapValues)
def compile_table_map_values(operator: TableMapValues, site: Site) -> Emit:
    """Map new and old values; ``None`` stays ``None`` (``KTableMapValues``)."""
    mapped = _mapped(operator)
    return call(compile_stepwise(mapped, operator, site, skip_nothing=False), "map_values")


@derived_getter.register(TableMapValues)
def table_map_values_getter(
    operator: TableMapValues, tables: Tables, node: ProcessorNode
) -> Getter:
    """Map what the table above holds."""
    return _stepwise_getter(_mapped(operator), tables.getter(node.parents[0]))


def _mapped(operator: TableMapValues) -> Callable[[Any, Any], Any]:
    mapper = operator.mapper
    if operator.with_key:
        return lambda key, value: None if value is None else mapper(key, value)
    return lambda key, value: None if value is None else mapper(value)  # noqa: ARG005 - of both


def _stepwise_getter(function: Callable[[Any, Any], Any], above: Getter) -> Getter:
    def get(key: Any) -> tuple[Any, int] | None:
        found = above(key)
        value = None if found is None else function(key, found[0])
        return None if found is None or value is None else (value, found[1])

    return get


@compile_operator.register(TableToStream)
def compile_table_to_stream(operator: TableToStream, site: Site) -> Emit:
    """Replace a change by its new value; ``None`` for a deletion."""
    del operator, site

    def emit(code: Code, names: Names) -> Names:
        value = code.fresh("value")
        code.line(f"{value} = {names[1]}[0]")
        return names[0], value

    return emit


def compile_stepwise(
    function: Callable[[Any, Any], Any],
    operator: TableOperator,
    site: Site,
    *,
    skip_nothing: bool,
) -> Forward:
    """Apply ``function(key, value)`` to both halves of a change; a store knows the old one.

    ``skip_nothing``: a change from ``None`` to ``None`` is not forwarded if old values are wanted,
    unless the table above is versioned.
    """
    forward, fail, send_old = site.children.forward, site.fail, operator.send_old
    is_versioned = site.tables.is_versioned(site.node.parents[0])
    skip_nothing = skip_nothing and not is_versioned
    if operator.store is None and is_versioned:

        def stepwise_version(key: Any, change: Any, timestamp: int, headers: Headers) -> None:
            new, old = change
            try:
                new = function(key, new)
                old = function(key, old) if send_old else None
            except Exception as error:
                fail(error, key, change, timestamp, headers)
                return
            forward(key, change.__class__((new, old)), timestamp, headers)

        return stepwise_version
    if operator.store is None:

        def stepwise(key: Any, change: Any, timestamp: int, headers: Headers) -> None:
            new, old = change
            try:
                new = function(key, new)
                old = function(key, old) if send_old else None
            except Exception as error:
                fail(error, key, change, timestamp, headers)
                return
            if skip_nothing and send_old and new is None and old is None:
                return
            forward(key, (new, old), timestamp, headers)

        return stepwise

    store = site.store(operator.store)
    update = _replacing(store, forward, send_old=send_old, reads_old=send_old)

    def stepwise_stored(key: Any, change: Any, timestamp: int, headers: Headers) -> None:
        try:
            new = function(key, change[0])
            if skip_nothing and send_old and new is None and store.get(key) is None:
                return
            update(key, new, timestamp, headers)
        except Exception as error:
            fail(error, key, change, timestamp, headers)

    return stepwise_stored


def _replacing(
    store: KeyValueStore, forward: Forward, *, send_old: bool, reads_old: bool
) -> Forward:
    """Return the update that replaces a key's value and forwards the change.

    ``reads_old``: the node of Kafka Streams reads the old value first. That is done only where it
    shows, because it decides which entry is used last.
    """
    store.on_change(forward, send_old=send_old)
    update = store.updater(None, Timestamps.RECORD)
    if not (store.evicts and store.caching and reads_old):
        return update

    def update_used(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        store.get(key)
        update(key, value, timestamp, headers)

    return update_used
