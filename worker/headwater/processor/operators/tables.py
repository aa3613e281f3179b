"""The operators of KTable as closures over changes: ``(key, (new, old), timestamp, headers)``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from headwater.ports import Timestamps
from headwater.processor.operators.pairs import as_pair

if TYPE_CHECKING:
    from collections.abc import Callable

    from headwater.model.operators.aggregate import TableRepartitionMap
    from headwater.model.operators.table import TableFilter, TableMapValues, TableSource
    from headwater.ports import Forward, Headers, KeyValueStore
    from headwater.processor.code import Code, Emit, Names
    from headwater.processor.failures import Fail
    from headwater.processor.routing import Children


def emit_table_source(
    operator: TableSource,
    store: KeyValueStore | None,
    children: Children,
    drop: Callable[[], None],
    fail: Fail,
) -> Emit:
    """Turn records into changes, remembering the last value per key if there is a store.

    A null key is dropped. An update out of order is applied like any other (``KTableSource``).
    """
    update = None
    if store is not None:
        update = _replacing(store, children.forward, send_old=operator.send_old)

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


def compile_table_filter(
    operator: TableFilter, store: KeyValueStore | None, children: Children, fail: Fail
) -> Forward:
    """Keep new and old values that pass; what does not pass becomes ``None`` (``KTableFilter``)."""
    predicate = operator.predicate
    negate = operator.negate

    def kept(key: Any, value: Any) -> Any:
        return None if value is None or bool(predicate(key, value)) is negate else value

    return _compile_stepwise(
        kept, store, children, fail, send_old=operator.send_old, skip_nothing=True
    )


def compile_table_map_values(
    operator: TableMapValues, store: KeyValueStore | None, children: Children, fail: Fail
) -> Forward:
    """Map new and old values; ``None`` stays ``None`` (``KTableMapValues``)."""
    mapper = operator.mapper

    if operator.with_key:

        def mapped(key: Any, value: Any) -> Any:
            return None if value is None else mapper(key, value)

    else:

        def mapped(key: Any, value: Any) -> Any:  # noqa: ARG001 - the shape of both
            return None if value is None else mapper(value)

    return _compile_stepwise(
        mapped, store, children, fail, send_old=operator.send_old, skip_nothing=False
    )


def _compile_stepwise(
    function: Callable[[Any, Any], Any],
    store: KeyValueStore | None,
    children: Children,
    fail: Fail,
    *,
    send_old: bool,
    skip_nothing: bool,
) -> Forward:
    """Apply ``function(key, value)`` to both halves of a change; a store knows the old one.

    ``skip_nothing``: a change from ``None`` to ``None`` is not forwarded if old values are wanted.
    """
    if store is None:
        forward = children.forward

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

    update = _replacing(store, children.forward, send_old=send_old)

    def stepwise_stored(key: Any, change: Any, timestamp: int, headers: Headers) -> None:
        try:
            new = function(key, change[0])
            if skip_nothing and send_old and new is None and store.get(key) is None:
                return
            update(key, new, timestamp, headers)
        except Exception as error:
            fail(error, key, change, timestamp, headers)

    return stepwise_stored


def _replacing(store: KeyValueStore, forward: Forward, *, send_old: bool) -> Forward:
    """Return the update that replaces a key's value and forwards the change."""
    store.on_change(forward, send_old=send_old)
    return store.updater(None, Timestamps.RECORD)


_NO_KEY: Final = "a table that is grouped has a record without a key"


def compile_table_repartition_map(
    operator: TableRepartitionMap, children: Children, fail: Fail
) -> Forward:
    """Give both halves of a change their new keys (``KTableRepartitionMap``).

    One change when both have the same key, else the old one first. A side whose new key or value
    is null is left out.
    """
    mapper = operator.mapper
    forward = children.forward

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

    return repartition_map
