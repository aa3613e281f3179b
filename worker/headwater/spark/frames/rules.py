"""The whitelist: what each kind of node becomes, or the sentence that refuses it.

A rule takes what is known of the records that reach a node (``Flow``) and returns what is known
behind it. Why each is right stands in ``docs/adr/0042-what-is-computed-as-dataframes.md``.
"""

from __future__ import annotations

import operator as python
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from headwater.dsl.grouped import count_adder, count_initializer
from headwater.functions import Expression, Reducer
from headwater.model.nodes import ProcessorNode, SinkNode, SourceNode, StoreKind
from headwater.model.operators.aggregate import StreamAggregate, TableAggregate, TableRepartitionMap
from headwater.model.operators.stateless import (
    Branch,
    DropNullKey,
    Filter,
    FlatMap,
    FlatMapValues,
    Map,
    MapValues,
    PassThrough,
    Peek,
    Print,
    SelectKey,
)
from headwater.model.operators.table import TableFilter, TableMapValues, TableSource, TableToStream
from headwater.model.operators.user import UserProcessor
from headwater.processor.resolving import resolve_serde
from headwater.processor.timestamps import (
    fail_on_invalid,
    log_and_skip_on_invalid,
    use_partition_time_on_invalid,
)
from headwater.spark.frames.kinds import (
    Kind,
    Refused,
    kind_of,
    may_overflow,
    result_of,
    written_as,
)
from headwater.spark.frames.plan import (
    Fold,
    HasKey,
    Output,
    Path,
    Read,
    Shuffle,
    Step,
    Where,
    WithKey,
    WithValue,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headwater.config import StreamsConfig
    from headwater.model.nodes import Node, StoreSpec, Subtopology
    from headwater.model.operators.base import Operator
    from headwater.serde import Serde

_OWN_TIMESTAMP: Final = (
    "fail-on-invalid",
    "log-and-skip-on-invalid",
    "use-partition-time-on-invalid",
    fail_on_invalid,
    log_and_skip_on_invalid,
    use_partition_time_on_invalid,
)
"""All take the record's own timestamp unless it is negative, which the guard looks for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """What is known of the records that a node forwards.

    Attributes:
        key: what their keys are.
        value: what their values are.
        paths: how they come here.
        table: the store whose updates they are; how many those are is nobody's promise.
        overflow: an expression on the way may raise, and nothing behind it has looked yet.
    """

    key: Kind
    value: Kind
    paths: tuple[Path, ...]
    table: str = ""
    overflow: bool = False

    def then(self, step: Step, **changes: Any) -> Flow:
        """Return the flow behind one more step."""
        paths = tuple(Path(path.read, (*path.steps, step)) for path in self.paths)
        return replace(self, paths=paths, **changes)


@dataclass(kw_only=True)
class Surroundings:
    """What rules look up, and what they find while one topology is translated.

    Attributes:
        config: the application's.
        repartition_topics: undecorated.
        written: by repartition topic: what a sub-topology that is no StreamTask sends there.
        wants_outputs: topics that are not the application's own are written to.
        outputs: stores found.
        shuffled: repartition topics that a sub-topology sends to.
    """

    config: StreamsConfig
    repartition_topics: frozenset[str]
    written: dict[str, Flow] = field(default_factory=dict)
    wants_outputs: bool = False
    outputs: list[Output] = field(default_factory=list)
    shuffled: list[str] = field(default_factory=list)

    def serde(self, half: str, given: Serde[Any] | None) -> Serde[Any]:
        """Return the serde given or the configured one.

        Raises:
            Refused: there is none.
        """
        option = f"default_{half}_serde"
        found = resolve_serde(option, given if given is not None else getattr(self.config, option))
        if found is None:
            raise Refused(f"it has no {half} serde, and default.{half}.serde is not set")
        return found


def behind(
    node: Node, parents: Sequence[Flow], group: Subtopology, around: Surroundings
) -> tuple[Flow | None, str]:
    """Return what a node forwards, if anything, and a sentence about how it is computed.

    Raises:
        Refused: it cannot be computed as a DataFrame.
    """
    match node:
        case SourceNode():
            return _source(node, group, around)
        case SinkNode():
            return None, _sink(node, _merged(parents), around)
        case ProcessorNode():
            return _processor(node, _merged(parents), group, around)


# -- sources and sinks -----------------------------------------------------------------------------


def _source(node: SourceNode, group: Subtopology, around: Surroundings) -> tuple[Flow, str]:
    if node.changes:
        raise Refused("takes back and adds rows in the order in which a table changes")
    extractor = node.timestamp_extractor or around.config.default_timestamp_extractor
    if extractor not in _OWN_TIMESTAMP:
        raise Refused("a timestamp extractor of its own may depend on what was read before")
    key = kind_of(around.serde("key", node.key_serde), "key")
    value = kind_of(around.serde("value", node.value_serde), "value")
    if key is Kind.DOUBLE:
        raise Refused("equal numbers with a fraction may have different bytes, so no keys are made")
    fused = [around.written[topic] for topic in node.topics if topic in around.written]
    if fused:
        found = _merged(fused)
        if len(fused) != len(node.topics) or (found.key, found.value) != (key, value):
            raise Refused("reads with other serdes what was sent, or more than that")
        return found, "comes by a shuffle in place of the repartition topic"
    reads = [Read(topic=t, subtopology=group.id, key=key, value=value) for t in node.topics]
    flow = Flow(key=key, value=value, paths=tuple(Path(read) for read in reads))
    return flow, f"{key.value} keys and {value.value} values, decoded in bulk"


def _sink(node: SinkNode, flow: Flow, around: Surroundings) -> str:
    if node.changes:
        raise Refused("sends every change of a table on")
    if not isinstance(node.topic, str):
        raise Refused("a Python function names the topic of each record")
    if node.partitioner is not None:
        raise Refused("a partitioner of its own is a Python function")
    is_internal = node.topic in around.repartition_topics
    if is_internal and flow.table:
        raise Refused("how many updates of a table flow on depends on commits and caches")
    if is_internal and any(path.shuffle for path in flow.paths):
        raise Refused("sends on what has come by a shuffle, to another one")
    key = written_as(flow.key, around.serde("key", node.key_serde), "key")
    value = written_as(flow.value, around.serde("value", node.value_serde), "value")
    if is_internal:
        if node.topic in around.shuffled:
            raise Refused("is the second one that sends to its repartition topic")
        if not all(path.steps and isinstance(path.steps[-1], HasKey) for path in flow.paths):
            raise Refused("spreads records without a key over the partitions")
        around.written[node.topic] = flow.then(Shuffle(node.topic), key=key, value=value)
        around.shuffled.append(node.topic)
        return "a shuffle by murmur2 of the key"
    if around.wants_outputs:
        raise Refused("its outputs are asked for, every one and in order")
    if flow.overflow:
        raise Refused("a number on the way to it may not fit in 64 bits, and nobody looks")
    return "its outputs are not asked for, and nothing on the way to it can fail"


def _merged(flows: Sequence[Flow]) -> Flow:
    first, *others = flows
    for other in others:
        if (other.key, other.value, bool(other.table)) != (
            first.key,
            first.value,
            bool(first.table),
        ):
            raise Refused("merges records of different kinds")
    return replace(
        first,
        paths=tuple(path for flow in flows for path in flow.paths),
        overflow=any(flow.overflow for flow in flows),
    )


# -- processors ------------------------------------------------------------------------------------


def _processor(
    node: ProcessorNode, flow: Flow, group: Subtopology, around: Surroundings
) -> tuple[Flow, str]:
    match node.operator:
        case StreamAggregate():
            return _aggregate(node, node.operator, flow, group, around)
        case TableSource():
            return _table(node, node.operator, flow, group, around)
        case _:
            pass
    if node.stores:
        raise Refused("Python code uses its store")
    return _stateless(node.operator, flow)


def _stateless(operator: Operator, flow: Flow) -> tuple[Flow, str]:
    match operator:
        case Filter(predicate=Expression() as predicate, negate=negate):
            if _result(predicate, flow) is not Kind.BOOLEAN:
                raise Refused(f"{predicate!r} is neither true nor false")
            overflow = flow.overflow or may_overflow(predicate)
            kept = flow.then(Where(predicate, negate), overflow=overflow)
            return kept, f"the column {predicate!r}"
        case MapValues(mapper=Expression() as mapper, with_key=with_key):
            if mapper.reads("key") and not with_key:
                raise Refused(f"{mapper!r} needs the key: give map_values with_key=True")
            overflow = flow.overflow or may_overflow(mapper)
            value = _stored(mapper, flow)
            changed = flow.then(WithValue(mapper), value=value, overflow=overflow)
            return changed, f"the column {mapper!r}"
        case SelectKey(mapper=Expression() as mapper):
            overflow = flow.overflow or may_overflow(mapper)
            key = _stored(mapper, flow)
            changed = flow.then(WithKey(mapper), key=key, overflow=overflow)
            return changed, f"the column {mapper!r}"
        case PassThrough():
            return flow, "passes records on"
        case DropNullKey():
            return flow.then(HasKey()), "keys that are not null"
        case TableToStream() if flow.table:
            return flow, "passes the updates of a table on"
        case _:
            pass
    raise Refused(_why_not(operator))


def _result(expression: Expression, flow: Flow) -> Kind:
    return result_of(expression, flow.key, flow.value)


def _stored(expression: Expression, flow: Flow) -> Kind:
    found = _result(expression, flow)
    if found is Kind.BOOLEAN:
        raise Refused(f"no serde writes {expression!r}, which is true or false")
    return found


_CALLS_PYTHON: Final[dict[type, str]] = {
    Filter: "filter",
    Map: "map",
    MapValues: "map_values",
    FlatMap: "flat_map",
    FlatMapValues: "flat_map_values",
    SelectKey: "the selection of a key",
    Branch: "split",
}
_OTHERS: Final[dict[type, str]] = {
    Peek: "peek and for_each have effects that nobody sees",
    Print: "print has an effect",
    TableFilter: "a filter on a table looks at old and new values",
    TableMapValues: "map_values on a table looks at old and new values",
    TableRepartitionMap: "a table grouped anew takes back what it has added",
    TableAggregate: "a table grouped anew takes back what it has added",
    TableToStream: "a table that is not stored passes every change on",
    UserProcessor: "a processor is Python code, with state and time of its own",
}


def _why_not(operator: Operator) -> str:
    found = _CALLS_PYTHON.get(type(operator))
    if found:
        return f"{found} calls a Python function; an expression of headwater.functions is known"
    return _OTHERS.get(type(operator), "it is not on the list of what is computed as DataFrames")


# -- state -----------------------------------------------------------------------------------------


def _aggregate(
    node: ProcessorNode,
    operator: StreamAggregate,
    flow: Flow,
    group: Subtopology,
    around: Surroundings,
) -> tuple[Flow, str]:
    if flow.table:
        raise Refused("how many updates of a table there are depends on commits and caches")
    if len({path.shuffle for path in flow.paths}) > 1:
        raise Refused("merges what has come by a shuffle with what has not")
    fold = _fold(operator, flow)
    spec = _own_store(node, operator.store, group)
    key = written_as(flow.key, around.serde("key", spec.key_serde), "key")
    made = Kind.LONG if fold is Fold.COUNT else flow.value
    value = written_as(made, around.serde("value", spec.value_serde), "value")
    if flow.paths[0].shuffle and key is not flow.key:
        raise Refused("writes keys to its changelog in other bytes than it reads")
    around.outputs.append(
        Output(
            subtopology=group.id,
            store=spec.name,
            fold=fold,
            paths=flow.paths,
            key=key,
            value=value,
        )
    )
    updates = replace(flow, value=made, table=spec.name, paths=(), overflow=False)
    return updates, f"{fold.value} does not depend on the order; its time is the latest"


def _fold(operator: StreamAggregate, flow: Flow) -> Fold:
    if operator.initializer is count_initializer and operator.aggregator is count_adder:
        return Fold.COUNT
    if operator.reducer is None:
        raise Refused("aggregate calls a Python function, which may depend on the order")
    fold = _known(operator.reducer)
    if fold is None:
        raise Refused(
            "reduce calls a Python function, which may depend on the order; functions.add, "
            "smallest and largest are known"
        )
    if fold is Fold.SUM and not flow.value.is_whole:
        raise Refused("sums depend on the order unless they are of whole numbers")
    if fold is not Fold.SUM and not (flow.value.is_whole or flow.value is Kind.STRING):
        raise Refused(f"of {flow.value.value} values it is not known which one is the smallest")
    return fold


def _known(reducer: Callable[[Any, Any], Any]) -> Fold | None:
    if isinstance(reducer, Reducer):
        return {"add": Fold.SUM, "smallest": Fold.SMALLEST, "largest": Fold.LARGEST}[reducer.name]
    folds = ((python.add, Fold.SUM), (min, Fold.SMALLEST), (max, Fold.LARGEST))
    return next((fold for function, fold in folds if reducer is function), None)


def _table(
    node: ProcessorNode,
    operator: TableSource,
    flow: Flow,
    group: Subtopology,
    around: Surroundings,
) -> tuple[Flow, str]:
    if operator.store is None:
        raise Refused("a table that is not stored passes every change on")
    if len(flow.paths) != 1 or flow.paths[0].shuffle or flow.table:
        raise Refused(
            "which value is the last one depends on the order in which several inputs are taken"
        )
    spec = _own_store(node, operator.store, group)
    key = written_as(flow.key, around.serde("key", spec.key_serde), "key")
    if flow.value is Kind.DOUBLE:
        raise Refused("a number with a fraction may come back with other bytes")
    value = written_as(flow.value, around.serde("value", spec.value_serde), "value")
    around.outputs.append(
        Output(
            subtopology=group.id,
            store=spec.name,
            fold=Fold.LAST,
            paths=flow.paths,
            key=key,
            value=value,
        )
    )
    updates = replace(flow, table=spec.name, paths=(), overflow=False)
    return updates, "the value with the highest offset is the last"


def _own_store(node: ProcessorNode, name: str, group: Subtopology) -> StoreSpec:
    users = [
        one.name for one in group.nodes if isinstance(one, ProcessorNode) and name in one.stores
    ]
    if users != [node.name] or node.stores != (name,):
        raise Refused(f"shares the store {name} with other nodes")
    spec = next(store for store in group.stores if store.name == name)
    if not spec.logging:
        raise Refused(f"store {name} has no changelog that could be written")
    if spec.kind is not StoreKind.TIMESTAMPED_KEY_VALUE:
        raise Refused(f"store {name} keeps no timestamps")
    return spec
