"""Joins: a look-up and the user's joiner, as lines of the chain.

A record of a stream is joined with what a table holds. A change of a table is joined with what the
other table holds: its new value, and its old value if that is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from headwater.model.operators.join import Join, StreamTableJoin, TableJoin, TableJoinSide
from headwater.model.reporting import changelog_topic
from headwater.ports import LATEST, NOT_PUT, NotLatest, Timestamps
from headwater.processor.code import call
from headwater.processor.compiling import compile_operator
from headwater.processor.getters import derived_getter
from headwater.processor.latest import latest_only
from headwater.processor.waiting import WaitingRecords

if TYPE_CHECKING:
    from headwater.model.nodes import ProcessorNode
    from headwater.ports import Headers, VersionedStore
    from headwater.processor.code import Code, Emit, Names
    from headwater.processor.compiling import Site
    from headwater.processor.getters import Getter, Tables


@compile_operator.register(StreamTableJoin)
def compile_stream_table_join(operator: StreamTableJoin, site: Site) -> Emit:
    """Look the key up and join; without a key or value a record is dropped.

    In a left join a record without a key finds nothing (``KStreamKTableJoinProcessor``). A
    versioned table is read as it was at the record's time.
    """
    versions = site.tables.as_of() if site.tables.is_versioned(operator.table) else None
    getter = (versions or site.tables).getter(operator.table)
    drop = site.environment.skipping(
        f"node {site.node.name}", "record due to null join key or value"
    )
    left = operator.left
    if operator.buffer is not None:
        return _compile_join_with_grace(operator, operator.buffer, site)

    def emit(code: Code, names: Names) -> Names:
        key, value = names
        dropping, get = code.bind(drop, "drop"), code.bind(getter, "get")
        joiner = code.bind(operator.joiner, "joiner")
        found, joined = code.fresh("found"), code.fresh("joined")
        given = f"{key}, {value}" if operator.with_key else value
        if versions is not None:
            code.line(f"{code.bind(versions, 'versions')}.time = timestamp")
        if left:
            code.line(f"if {value} is None:\n    {dropping}()\n    {code.skip}")
            look = f"{found} = None if {key} is None else {get}({key})"
            other = f"None if {found} is None else {found}[0]"
        else:
            code.line(f"if {key} is None or {value} is None:\n    {dropping}()\n    {code.skip}")
            look = f"{found} = {get}({key})\nif {found} is None:\n    {code.skip}"
            other = f"{found}[0]"
        code.guarded(f"{look}\n{joined} = {joiner}({given}, {other})", site.fail, names)
        return key, joined

    return emit


def _compile_join_with_grace(operator: StreamTableJoin, buffer: str, site: Site) -> Emit:
    """Let records wait for late updates of the table; a record without a key does not wait."""
    environment, tables = site.environment, site.tables.as_of()
    get, joiner, left = tables.getter(operator.table), operator.joiner, operator.left
    forward, fail, with_key = site.children.forward, site.fail, operator.with_key
    place = f"node {site.node.name}"
    drop = environment.skipping(place, "record due to null join key or value")
    topic = changelog_topic(environment.config.application_id, buffer)
    encode = environment.serde("key", operator.key_serde, place).serializer(topic)

    def join(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        tables.time = timestamp
        try:
            found = None if key is None else get(key)
            if found is None and not left:
                return
            other = None if found is None else found[0]
            joined = joiner(key, value, other) if with_key else joiner(value, other)
        except Exception as error:
            fail(error, key, value, timestamp, headers)
            return
        forward(key, joined, timestamp, headers)

    store = site.store(buffer)
    waiting = WaitingRecords(store, operator.grace_ms, environment.current, encode, join)
    site.keep(waiting)

    def take(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        if value is None or (key is None and not left):
            drop()
        elif key is None:
            join(key, value, timestamp, headers)
        else:
            waiting.take(key, value, timestamp, headers)

    return call(take, "take")


@compile_operator.register(TableJoinSide)
def compile_table_join_side(operator: TableJoinSide, site: Site) -> Emit:
    """Join a change of one table with what the other holds; the later time of both is the result's.

    Kafka's ``KTableKTableInnerJoin``, ``LeftJoin``, ``RightJoin`` and ``OuterJoin``. A key is never
    null here: whatever gives a table has dropped it.
    """
    join = operator.join
    getter = site.tables.getter(operator.other)
    needs_other = join.kind is Join.INNER or (join.kind is Join.LEFT and not operator.of_left)
    # Whether a missing value of this table still gives a result, if the other one is there.
    joins_nothing = join.kind is Join.OUTER or (join.kind is Join.LEFT and not operator.of_left)

    def emit(code: Code, names: Names) -> Names:
        key, change = names
        get, joiner = code.bind(getter, "get"), code.bind(join.joiner, "joiner")
        found, other, later = code.fresh("found"), code.fresh("other"), code.fresh("later")
        new, old = code.fresh("new"), code.fresh("old")

        def result(value: str) -> str:
            both = f"{value}, {other}" if operator.of_left else f"{other}, {value}"
            missing = f"{value} is None"
            if joins_nothing:
                missing = "" if needs_other else f"{value} is None and {other} is None"
            return f"None if {missing} else {joiner}({both})" if missing else f"{joiner}({both})"

        nothing = "" if needs_other else f"if {new} is None and {old} is None:\n        "
        absent = "" if needs_other else f"\n    {other}, {later} = None, timestamp"
        then_old = f"{old} = {result(old)}" if join.send_old else f"{old} = None"
        code.guarded(
            f"{found} = {get}({key})\n"
            f"{new}, {old} = {change}\n"
            f"if {found} is None:\n    {nothing}{code.skip}{absent}\n"
            f"else:\n    {other}, {later} = {found}\n"
            f"{new} = {result(new)}\n"
            f"{then_old}",
            site.fail,
            names,
        )
        code.line(f"if {later} > timestamp:\n    timestamp = {later}")
        joined = code.fresh("joined")
        code.line(f"{joined} = {new}, {old}")
        return key, joined

    return latest_only(site, emit)


@compile_operator.register(TableJoin)
def compile_table_join(operator: TableJoin, site: Site) -> Emit:
    """Pass on what the sides have joined; a store keeps it (``KTableKTableJoinMerger``).

    The old value is the sides', but below a record cache it is the one of the last flush.
    """
    if operator.store is None:
        return lambda code, names: names  # noqa: ARG005 - an Emit
    store = site.store(operator.store)
    if site.environment.kinds[operator.store].versioned:
        return _put_version(cast("VersionedStore", store), site)
    if not store.caching:
        more = ", headers" if site.environment.kinds[operator.store].keeps_headers else ""

        def emit_put(code: Code, names: Names) -> Names:
            put = code.bind(store.put, "put")
            code.guarded(f"{put}({names[0]}, {names[1]}[0], timestamp{more})", site.fail, names)
            return names

        return emit_put
    store.on_change(site.children.forward, send_old=operator.send_old)
    updater = store.updater(None, Timestamps.RECORD)

    def emit_update(code: Code, names: Names) -> None:
        update = code.bind(updater, "update")
        code.guarded(f"{update}({names[0]}, {names[1]}[0], timestamp, headers)", site.fail, names)

    return emit_update


def _put_version(store: VersionedStore, site: Site) -> Emit:
    """Put a result; what is too old is not passed on."""

    def emit(code: Code, names: Names) -> Names:
        put, outdated = code.bind(store.put_version, "put"), code.bind(NotLatest, "NotLatest")
        until, change = code.fresh("until"), code.fresh("change")
        putting = f"{until} = {put}({names[0]}, {names[1]}[0], timestamp)"
        code.guarded(putting, site.fail, names)
        code.line(f"if {until} == {NOT_PUT}:\n    {code.skip}")
        code.line(f"{change} = {names[1]} if {until} == {LATEST} else {outdated}({names[1]})")
        return names[0], change

    return emit


@derived_getter.register(TableJoin)
def table_join_getter(operator: TableJoin, tables: Tables, node: ProcessorNode) -> Getter:
    """Join what both tables hold."""
    del node
    left, right = tables.getter(operator.left), tables.getter(operator.right)
    joiner, kind = operator.joiner, operator.kind
    needs_left, needs_right = kind is not Join.OUTER, kind is Join.INNER

    def get(key: Any) -> tuple[Any, int] | None:
        mine = left(key)
        if mine is None and needs_left:
            return None
        theirs = right(key)
        if theirs is None and (needs_right or mine is None):
            return None
        value, at = mine or (None, -1)
        other, other_at = theirs or (None, -1)
        joined = joiner(value, other)
        return None if joined is None else (joined, max(at, other_at))

    return get
