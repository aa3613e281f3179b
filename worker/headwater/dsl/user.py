"""Processors that users write, in a stream (KIP-820)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from headwater.dsl.calls import Processor
from headwater.dsl.options import name_of
from headwater.dsl.origin import Drawn
from headwater.model.callables import check_supplier
from headwater.model.operators.user import UserProcessor

if TYPE_CHECKING:
    from headwater.dsl.options import Named
    from headwater.dsl.stream import KStream
    from headwater.model.processor_api import ProcessorSupplier
    from headwater.model.stores import StoreSpec

K = TypeVar("K")
V = TypeVar("V")
KR = TypeVar("KR")
VR = TypeVar("VR")


class UserOfStream(Drawn[K, V]):
    """``KStream.process``."""

    __slots__ = ()

    def process(
        self,
        supplier: ProcessorSupplier[K, V, KR, VR],
        *stores: str | StoreSpec,
        name: str | Named | None = None,
    ) -> KStream[KR, VR]:
        """Let a processor of ``supplier`` handle every record (KIP-820).

        What it forwards is the new stream.
        ``stores`` are connected to it: names of stores of the builder, or specs, which are added.
        The key may change, so what groups or joins by key below goes through a repartition topic.

        Raises:
            TopologyError: the supplier returns the same instance twice.
        """
        # Kafka Streams spends no number on a processor that has a name; every other operation does.
        chosen = name_of(name)
        if chosen is None:
            chosen = self.origin.drawing.processor_name("KSTREAM-PROCESSOR-")
        check_supplier(chosen, supplier)
        operator = UserProcessor(supplier=supplier)
        origin = self.origin.below(Processor(name=chosen, operator=operator, stores=stores))
        return replace(origin, key_serde=None, value_serde=None, rekeyed=True).as_stream()
