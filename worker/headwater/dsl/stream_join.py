"""Joins of two streams within windows (Kafka's ``KStreamImplJoin``)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from headwater.dsl.calls import JoinedStreams, Processor
from headwater.errors import TopologyError
from headwater.model.dsl_stores import DslKeyValueParams, DslWindowParams, kept_as, supplied
from headwater.model.operators.join import Join
from headwater.model.operators.stateless import PassThrough
from headwater.model.operators.stream_join import JoinWindow, StreamJoin, StreamJoinSide
from headwater.model.stores import StoreKind, StoreSpec
from headwater.model.windows import JoinWindows
from headwater.serde.stream_join import SideKeySerde, SideValueSerde, SideValuesSerde

if TYPE_CHECKING:
    from collections.abc import Callable

    from headwater.dsl.drawing import Drawing
    from headwater.dsl.options import StreamJoined
    from headwater.dsl.origin import Origin
    from headwater.model.store_suppliers import WindowBytesStoreSupplier
    from headwater.model.topology import Topology
    from headwater.serde.base import Serde

_THIS = {
    True: ("KSTREAM-OUTERTHIS-", "-outer-this-join"),
    False: ("KSTREAM-JOINTHIS-", "-this-join"),
}
_OTHER = {
    True: ("KSTREAM-OUTEROTHER-", "-outer-other-join"),
    False: ("KSTREAM-JOINOTHER-", "-other-join"),
}


def join_streams(
    kind: Join,
    left: Origin,
    right: Origin,
    joiner: Callable[..., Any],
    windows: JoinWindows | None,
    settings: StreamJoined[Any, Any, Any],
    *,
    with_key: bool,
) -> Origin:
    """Draw the join of two streams that are partitioned alike, and return where results come from.

    Raises:
        TopologyError: ``windows`` are none, or the suppliers of the stores do not fit.
    """
    if not isinstance(windows, JoinWindows):
        raise TopologyError(
            f"a join of two streams needs JoinWindows, not {windows!r}: pass for example "
            "JoinWindows.of_time_difference_with_no_grace(timedelta(seconds=5))"
        )
    drawing, name = left.drawing, settings.name
    windowed = [
        drawing.named(name, "KSTREAM-WINDOWED-", suffix)
        for suffix in ("-this-windowed", "-other-windowed")
    ]
    this, this_suffix = _THIS[kind is Join.OUTER]
    other, other_suffix = _OTHER[kind is not Join.INNER]
    generated = [drawing.processor_name(prefix) for prefix in (this, other)]
    names = [
        one if name is None else name + suffix
        for one, suffix in zip(generated, (this_suffix, other_suffix), strict=True)
    ]
    bases = [
        one if settings.store is None else settings.store + suffix
        for one, suffix in zip(generated, (this_suffix, other_suffix), strict=True)
    ]
    stores = _stores(bases, windows, settings)
    unmatched = _unmatched(kind, generated[0].removeprefix(this), settings)
    part = JoinedStreams(
        name=drawing.named(name, "KSTREAM-MERGE-", "-merge"),
        this_name=names[0],
        other_name=names[1],
        this_windowed=windowed[0],
        other_windowed=windowed[1],
        operator=StreamJoin(
            kind=kind,
            windows=windows,
            joiner=joiner,
            with_key=with_key,
            left=stores[0].name,
            right=stores[1].name,
            unmatched=None if unmatched is None else unmatched.name,
        ),
        left=stores[0],
        right=stores[1],
        unmatched=unmatched,
    )
    return _drawn(drawing, part, left, right, settings.key_serde)


def _drawn(
    drawing: Drawing,
    part: JoinedStreams,
    left: Origin,
    right: Origin,
    key_serde: Serde[Any] | None,
) -> Origin:
    sides = (left, part.this_windowed, part.left), (right, part.other_windowed, part.right)
    for origin, name, store in sides:
        operator = JoinWindow(store=store.name)
        drawing.draw(Processor(name=name, operator=operator), origin.call)
    both = (left.call, right.call)
    # The serde of keys is inherited from neither: the two might differ.
    return replace(
        left,
        call=drawing.draw(part, *both, copartitioned=both),
        key_serde=key_serde,
        value_serde=None,
        rekeyed=False,
    )


def _stores(
    bases: list[str], windows: JoinWindows, settings: StreamJoined[Any, Any, Any]
) -> tuple[StoreSpec, StoreSpec]:
    """Return the stores of both sides; several records of a key and time are kept."""
    suppliers = settings.this_store_supplier, settings.other_store_supplier
    serdes = settings.value_serde, settings.other_value_serde
    left, right = (
        _store(supplier, f"{base}-store", windows, settings, serde)
        for base, supplier, serde in zip(bases, suppliers, serdes, strict=True)
    )
    for spec in (left, right):
        _check(spec, windows)
    if left.name == right.name:
        raise TopologyError(
            f"Both store suppliers of a join are called {left.name!r}: give each its own name"
        )
    return left, right


def _store(
    supplier: WindowBytesStoreSupplier | None,
    name: str,
    windows: JoinWindows,
    settings: StreamJoined[Any, Any, Any],
    value_serde: Serde[Any] | None,
) -> StoreSpec:
    params = DslWindowParams(
        name=name if supplier is None else supplier.name,
        retention_ms=windows.size_ms + windows.grace_ms,
        window_size_ms=windows.size_ms,
        retain_duplicates=True,
        is_timestamped=False,
    )
    spec = StoreSpec(
        name=params.name,
        kind=StoreKind.JOIN_WINDOW,
        key_serde=settings.key_serde,
        value_serde=value_serde,
        caching=False,
        logging=settings.logging,
        # Every record is another key, so nothing is to be compacted.
        topic_config={**settings.topic_config, "cleanup.policy": "delete"},
        retention_ms=params.retention_ms,
        window_size_ms=params.window_size_ms,
        retain_duplicates=True,
        dsl_params=params,
    )
    if supplier is not None:
        return supplied(spec, supplier)
    return kept_as(spec, settings.store_type, persistent=settings.persistent)


def _check(supplier: StoreSpec, windows: JoinWindows) -> None:
    if not supplier.retain_duplicates:
        raise TopologyError(
            f"Store {supplier.name!r}: a join keeps several records of a key and time; "
            "set retain_duplicates=True"
        )
    wanted = (windows.size_ms + windows.grace_ms, windows.size_ms)
    if (supplier.retention_ms, supplier.window_size_ms) != wanted:
        raise TopologyError(
            f"Store {supplier.name!r} keeps windows of {supplier.window_size_ms} ms for "
            f"{supplier.retention_ms} ms; these JoinWindows need {wanted[1]} ms and {wanted[0]} ms"
        )


def _unmatched(kind: Join, number: str, settings: StreamJoined[Any, Any, Any]) -> StoreSpec | None:
    """Return the store of records without a partner; an inner join has none."""
    if kind is Join.INNER:
        return None
    suffix = "-outer-shared-join" if kind is Join.OUTER else "-left-shared-join"
    supplier = settings.this_store_supplier
    if supplier is not None:
        name = supplier.name + suffix
    elif settings.store is not None:
        name = settings.store + suffix
    else:
        name = f"KSTREAM-OUTERSHARED-{number}"
    name = f"{name}-store"
    owner = f"store {name}"
    values = SideValueSerde(settings.value_serde, settings.other_value_serde, owner)
    spec = StoreSpec(
        name=name,
        kind=StoreKind.KEY_VALUE,
        key_serde=SideKeySerde(settings.key_serde, owner),
        value_serde=SideValuesSerde(values),
        caching=False,
        logging=settings.logging,
        topic_config=dict(settings.topic_config),
        dsl_params=DslKeyValueParams(name=name, is_timestamped=False),
    )
    persistent = settings.persistent if supplier is None else supplier.persistent
    return kept_as(spec, None if supplier else settings.store_type, persistent=persistent)


def write_stream_join(topology: Topology, part: JoinedStreams) -> None:
    """Write what is below the two nodes that keep records, and all stores."""
    join = part.operator
    topology.add_operator(
        part.this_name, StreamJoinSide(join=join, of_left=True), (part.this_windowed,)
    )
    topology.add_operator(
        part.other_name, StreamJoinSide(join=join, of_left=False), (part.other_windowed,)
    )
    topology.add_operator(part.name, PassThrough(), (part.this_name, part.other_name))
    topology.add_state_store(part.left, part.this_windowed, part.other_name)
    topology.add_state_store(part.right, part.other_windowed, part.this_name)
    if part.unmatched is not None:
        topology.add_state_store(part.unmatched, part.this_name, part.other_name)
