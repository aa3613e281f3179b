"""The join of two tables by a foreign key (Kafka's ``doJoinOnForeignKey``)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from headwater.dsl.calls import ForeignJoinedTable, ForeignJoinNames
from headwater.dsl.options import Materialized, TableJoined, changed, name_of
from headwater.dsl.stored import store_spec
from headwater.errors import TopologyError
from headwater.model.callables import check_functions
from headwater.model.dsl_stores import DslKeyValueParams
from headwater.model.nodes import SinkNode, SourceNode
from headwater.model.operators.foreign import (
    ForeignKeyJoin,
    ForeignTableJoin,
    ResponseJoin,
    SubscriptionJoin,
    SubscriptionReceive,
    SubscriptionSend,
)
from headwater.model.stores import StoreKind, StoreSpec
from headwater.serde.builtin import Serdes
from headwater.serde.foreign import SubscriptionResponseSerde, SubscriptionSerde

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from headwater.dsl.drawing import Drawing
    from headwater.dsl.origin import Origin
    from headwater.model.topology import Topology
    from headwater.serde.foreign import SubscriptionResponse

_REGISTRATION = "KTABLE-FK-JOIN-SUBSCRIPTION-REGISTRATION-"
_RESPONSE = "KTABLE-FK-JOIN-SUBSCRIPTION-RESPONSE-"
_PROCESSOR = "KTABLE-FK-JOIN-SUBSCRIPTION-PROCESSOR-"
_RESOLVER = "KTABLE-FK-JOIN-SUBSCRIPTION-RESPONSE-RESOLVER-PROCESSOR-"
_OUTPUT = "KTABLE-FK-JOIN-OUTPUT-"
_TOPIC_SUFFIX = "-topic"
_JOINED = ("name", "partitioner", "other_partitioner")


def join_by_foreign_key(
    left: Origin,
    other: Origin,
    extractor: Callable[..., Any],
    joiner: Callable[[Any, Any], Any],
    *settings: TableJoined[Any, Any] | Materialized[Any, Any] | None,
    of_left: bool,
    with_key: bool = False,
    **options: Any,
) -> Origin:
    """Draw the join of the tables ``left`` and ``other``; return the table of its results.

    ``settings`` are a :class:`TableJoined`, a :class:`Materialized`, or both, ``options`` the
    keywords of either.
    """
    verb = "left_join()" if of_left else "join()"
    check_functions(verb, foreign_key=extractor, joiner=joiner)
    joined, stored = _sorted(verb, settings, options)
    drawing, names, store = left.drawing, *_named(left.drawing, joined.name)
    result = drawing.named(joined.name, _OUTPUT, "-result")
    # Unlike what a filter makes, the result has a store in reserve, as a source table has.
    kept = stored.store or drawing.store_name(_OUTPUT)
    operator = ForeignKeyJoin(
        left=of_left,
        table=left.name,
        other=other.name,
        extractor=extractor,
        with_key=with_key,
        joiner=joiner,
        topic=names.subscription_topic,
        subscriptions=store,
        key_serde=left.key_serde,
        value_serde=left.value_serde,
        other_key_serde=other.key_serde,
        store=stored.store,
    )
    part = ForeignJoinedTable(
        name=result,
        operator=operator,
        store=store_spec(kept, replace(stored, key_serde=stored.key_serde or left.key_serde)),
        names=names,
        subscriptions=StoreSpec(
            name=store,
            kind=StoreKind.SUBSCRIPTIONS,
            key_serde=Serdes.bytes,
            value_serde=SubscriptionSerde(names.subscription_topic, left.key_serde),
            caching=False,
            dsl_params=DslKeyValueParams(name=store),
        ),
        other_value_serde=other.value_serde,
        subscription_partitioner=_ByKey.of(joined.other_partitioner),
        response_partitioner=_ByKey.of(joined.partitioner) or by_subscription,
    )
    tables = (left.call, other.call)
    call = drawing.draw(part, *tables, reads=tables)
    return replace(left, call=call, value_serde=stored.value_serde)


def _named(drawing: Drawing, name: str | None) -> tuple[ForeignJoinNames, str]:
    """Return the names of topics and nodes, and that of the store, in Java's order of numbers."""

    def named(prefix: str, suffix: str) -> str:
        return drawing.named(name, prefix, suffix)

    topic = named(_REGISTRATION, "-subscription-registration") + _TOPIC_SUFFIX
    send = named(_REGISTRATION, "-subscription-registration-processor")
    sink = named("KTABLE-SINK-", "-subscription-registration-sink")
    source = named("KTABLE-SOURCE-", "-subscription-registration-source")
    store = named("KTABLE-FK-JOIN-SUBSCRIPTION-STATE-STORE-", "-subscription-store")
    names = ForeignJoinNames(
        subscription_topic=topic,
        send=send,
        subscription_sink=sink,
        subscription_source=source,
        receive=named(_PROCESSOR, "-subscription-receive"),
        join=named(_PROCESSOR, "-subscription-join-foreign"),
        foreign=named(_PROCESSOR, "-foreign-join-subscription"),
        response_topic=named(_RESPONSE, "-subscription-response") + _TOPIC_SUFFIX,
        response_sink=named("KTABLE-SINK-", "-subscription-response-sink"),
        response_source=named("KTABLE-SOURCE-", "-subscription-response-source"),
        resolve=named(_RESOLVER, "-subscription-response-resolver"),
    )
    return names, store


def _sorted(
    verb: str, settings: Sequence[object], options: Mapping[str, Any]
) -> tuple[TableJoined[Any, Any], Materialized[Any, Any]]:
    joined: TableJoined[Any, Any] = TableJoined()
    stored: Materialized[Any, Any] = Materialized()
    for given in settings:
        if isinstance(given, TableJoined):
            joined = given
        elif isinstance(given, Materialized):
            stored = given
        elif given is not None:
            raise TopologyError(
                f"{verb}: after the joiner comes a TableJoined or a Materialized, "
                f"not {given!r:.100}"
            )
    of_join = {key: value for key, value in options.items() if key in _JOINED}
    if "name" in of_join:
        of_join["name"] = name_of(of_join["name"])
    of_store = {key: value for key, value in options.items() if key not in _JOINED}
    return changed(TableJoined, joined, of_join), changed(Materialized, stored, of_store)


def by_subscription(
    _topic: str, _key: Any, response: SubscriptionResponse, _partitions: int
) -> int | None:
    """Send a response to the partition from which the subscription came."""
    return response.partition


@dataclass(frozen=True, slots=True)
class _ByKey:
    """A partitioner of ``TableJoined``: it sees no value, and gives one partition."""

    partitioner: Callable[..., Any]

    @classmethod
    def of(cls, partitioner: Callable[..., Any] | None) -> _ByKey | None:
        """Return one around ``partitioner``, if there is one."""
        return None if partitioner is None else cls(partitioner)

    def __call__(self, topic: str, key: Any, _value: Any, partitions: int) -> Any:
        """Ask the user's partitioner.

        Raises:
            ValueError: it gave no partition, or several.
        """
        chosen = self.partitioner(topic, key, None, partitions)
        if isinstance(chosen, Collection) and len(chosen) != 1:
            raise ValueError(f"it gave {len(chosen)} partitions: a join by foreign key needs one")
        return chosen


class Side(NamedTuple):
    """One of the two tables.

    Attributes:
        name: its node.
        stores: where its values are found.
        sources: the nearest ones above it.
    """

    name: str
    stores: tuple[str, ...]
    sources: tuple[str, ...]


def write_foreign_join(
    topology: Topology, part: ForeignJoinedTable, left: Side, right: Side
) -> None:
    """Write everything but the result's own store, in the order that Kafka Streams numbers by."""
    names, join = part.names, part.operator
    topology.add_repartition_topic(names.subscription_topic)
    topology.add_repartition_topic(names.response_topic)
    topology.add_operator(names.send, SubscriptionSend(join=join), (left.name,))
    _write_subscriptions(topology, part)
    topology.copartition_sources((*right.sources, names.subscription_source))
    topology.add_operator(
        names.receive, SubscriptionReceive(join=join), (names.subscription_source,)
    )
    topology.add_state_store(part.subscriptions, names.receive)
    topology.add_operator(names.join, SubscriptionJoin(join=join), (names.receive,))
    topology.connect_processor_and_state_stores(names.join, *right.stores)
    topology.add_operator(names.foreign, ForeignTableJoin(join=join), (right.name,))
    topology.connect_processor_and_state_stores(names.foreign, part.subscriptions.name)
    _write_responses(topology, part)
    topology.copartition_sources((*left.sources, names.response_source))
    topology.add_operator(names.resolve, ResponseJoin(join=join), (names.response_source,))
    topology.connect_processor_and_state_stores(names.resolve, *left.stores)
    topology.add_operator(part.name, join, (names.resolve,))


def _write_subscriptions(topology: Topology, part: ForeignJoinedTable) -> None:
    names, join = part.names, part.operator
    serdes: dict[str, Any] = {
        "key_serde": join.other_key_serde,
        "value_serde": SubscriptionSerde(names.subscription_topic, join.key_serde),
    }
    topology.add_sink_node(
        SinkNode(
            name=names.subscription_sink,
            parents=(names.send,),
            topic=names.subscription_topic,
            partitioner=part.subscription_partitioner,
            by_key_alone=True,
            **serdes,
        )
    )
    topology.add_source_node(
        SourceNode(name=names.subscription_source, topics=(names.subscription_topic,), **serdes)
    )


def _write_responses(topology: Topology, part: ForeignJoinedTable) -> None:
    names = part.names
    serdes: dict[str, Any] = {
        "key_serde": part.operator.key_serde,
        "value_serde": SubscriptionResponseSerde(part.other_value_serde),
    }
    topology.add_sink_node(
        SinkNode(
            name=names.response_sink,
            parents=(names.join, names.foreign),
            topic=names.response_topic,
            partitioner=part.response_partitioner,
            by_key_alone=True,
            **serdes,
        )
    )
    topology.add_source_node(
        SourceNode(name=names.response_source, topics=(names.response_topic,), **serdes)
    )
