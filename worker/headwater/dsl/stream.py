"""``KStream``: a stream of independent records.

Names, counters and serdes as in Kafka's ``KStreamImpl``. Here stand the operations that go through
a topic; the others come from the families of operators.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar, Unpack

from headwater.dsl.aggregate import AggregateOfStream
from headwater.dsl.asynchronous import AsynchronousOfStream
from headwater.dsl.calls import Repartition, Sink
from headwater.dsl.joining import JoinOfStream
from headwater.dsl.options import (
    Produced,
    ProducedOptions,
    Repartitioned,
    RepartitionedOptions,
    changed,
)
from headwater.dsl.stateless import StatelessOfStream
from headwater.dsl.table import TableOfStream
from headwater.dsl.user import UserOfStream
from headwater.errors import TopologyError
from headwater.model.callables import check_function
from headwater.model.naming import check_name
from headwater.model.topology import SinkNode

if TYPE_CHECKING:
    from collections.abc import Callable

    from headwater.model.processor_api import RecordContext

K = TypeVar("K")
V = TypeVar("V")


class KStream(
    StatelessOfStream[K, V],
    TableOfStream[K, V],
    AggregateOfStream[K, V],
    JoinOfStream[K, V],
    UserOfStream[K, V],
    AsynchronousOfStream[K, V],
):
    """A stream of records with keys of type ``K`` and values of type ``V``; either may be ``None``.

    Operations return new streams and never change this one. ``name`` names the processor node;
    without it the node is called as in Kafka Streams, ``KSTREAM-FILTER-0000000003``.
    """

    __slots__ = ()

    def to(
        self,
        topic: str | Callable[[K, V, RecordContext], str],
        produced: Produced[K, V] | None = None,
        **options: Unpack[ProducedOptions[K, V]],
    ) -> None:
        """Write the stream to ``topic``, which must exist.

        A function ``topic(key, value, record_context)`` names the topic of each record.
        Keywords are those of :class:`Produced`.
        """
        settings = changed(Produced, produced, options)
        origin = self.origin
        if isinstance(topic, str):
            check_name("topic", topic)
        else:
            check_function("to(), topic", topic)
        node = SinkNode(
            name=origin.drawing.named(settings.name, "KSTREAM-SINK-"),
            parents=(),
            topic=topic,
            key_serde=settings.key_serde or origin.key_serde,
            value_serde=settings.value_serde or origin.value_serde,
            partitioner=settings.partitioner,
            by_key_alone=True,
        )
        origin.drawing.draw(Sink(node=node), origin.call)

    def repartition(
        self,
        repartitioned: Repartitioned[K, V] | None = None,
        **options: Unpack[RepartitionedOptions[K, V]],
    ) -> KStream[K, V]:
        """Send the stream through a repartition topic of its own (KIP-221).

        Records without a key are dropped.

        Keywords are those of :class:`Repartitioned`.
        """
        settings: Repartitioned[K, V] = changed(Repartitioned, repartitioned, options)
        origin = self.origin
        base = settings.name
        if base is None:
            base = origin.drawing.processor_name("KSTREAM-REPARTITION-")
        check_name("repartition", base)
        if settings.partitions is not None and settings.partitions < 1:
            raise TopologyError(
                f"repartition() needs at least one partition, not {settings.partitions}"
            )
        # Kafka's KStreamImpl means to inherit the key serde, too, and forgets it; we do inherit it.
        part = Repartition(
            names=origin.drawing.repartition_names(base, is_given=settings.name is not None),
            key_serde=settings.key_serde or origin.key_serde,
            value_serde=settings.value_serde or origin.value_serde,
            partitions=settings.partitions,
            partitioner=settings.partitioner,
        )
        return origin.through(part).as_stream()
