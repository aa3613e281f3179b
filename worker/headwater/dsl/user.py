"""Processors that users write, in a stream (KIP-820)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar, overload

from headwater.dsl.calls import Processor
from headwater.dsl.options import Named, name_of
from headwater.dsl.origin import Drawn, Origin
from headwater.errors import TopologyError
from headwater.model.operators.user import UserFixedKeyProcessor, UserProcessor
from headwater.model.suppliers import stores_of, supplier_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from headwater.dsl.stream import KStream
    from headwater.model.operators.base import Operator
    from headwater.model.processor_api import (
        FixedKeyProcessorContext,
        FixedKeyRecord,
        ProcessorContext,
        Record,
    )
    from headwater.model.processors import (
        FixedKeyProcessorSupplier,
        FixedKeyRecords,
        ProcessorSupplier,
        Records,
    )
    from headwater.model.stores import StoreSpec

K = TypeVar("K")
V = TypeVar("V")
KR = TypeVar("KR")
VR = TypeVar("VR")


class UserOfStream(Drawn[K, V]):
    """``KStream.process`` and ``process_values``."""

    __slots__ = ()

    @overload
    def process(
        self,
        supplier: ProcessorSupplier[K, V, KR, VR],
        *stores: str | StoreSpec,
        name: str | Named | None = None,
    ) -> KStream[KR, VR]: ...
    @overload
    def process(
        self,
        supplier: Callable[[Record[K, V]], Records[KR, VR]],
        *stores: str | StoreSpec,
        name: str | Named | None = None,
    ) -> KStream[KR, VR]: ...
    @overload
    def process(
        self,
        supplier: Callable[[Record[K, V], ProcessorContext[KR, VR]], Records[KR, VR]],
        *stores: str | StoreSpec,
        name: str | Named | None = None,
    ) -> KStream[KR, VR]: ...
    def process(
        self, supplier: Any, *stores: str | StoreSpec, name: str | Named | None = None
    ) -> KStream[Any, Any]:
        """Let a processor of ``supplier`` handle every record (KIP-820).

        What it forwards is the new stream. In place of a supplier a function ``(record)`` or
        ``(record, context)`` may return or yield what is forwarded: records, or none.
        ``stores`` are connected to it: names of stores of the builder, or specs, which are added;
        so are those of the supplier's ``stores()``.
        The key may change, so what groups or joins by key below goes through a repartition topic.

        Raises:
            TopologyError: the supplier makes no processor, or returns the same instance twice.
        """
        chosen = self._name(name, "KSTREAM-PROCESSOR-")
        made = supplier_of(chosen, supplier)
        origin = self._below(chosen, UserProcessor(supplier=made), supplier, stores)
        return replace(origin, key_serde=None, value_serde=None, rekeyed=True).as_stream()

    @overload
    def process_values(
        self,
        supplier: FixedKeyProcessorSupplier[K, V, VR],
        *stores: str | StoreSpec,
        name: str | Named | None = None,
    ) -> KStream[K, VR]: ...
    @overload
    def process_values(
        self,
        supplier: Callable[[FixedKeyRecord[K, V]], FixedKeyRecords[K, VR]],
        *stores: str | StoreSpec,
        name: str | Named | None = None,
    ) -> KStream[K, VR]: ...
    @overload
    def process_values(
        self,
        supplier: Callable[
            [FixedKeyRecord[K, V], FixedKeyProcessorContext[K, VR]], FixedKeyRecords[K, VR]
        ],
        *stores: str | StoreSpec,
        name: str | Named | None = None,
    ) -> KStream[K, VR]: ...
    def process_values(
        self, supplier: Any, *stores: str | StoreSpec, name: str | Named | None = None
    ) -> KStream[K, Any]:
        """Let a processor of ``supplier`` that keeps keys handle every record (KIP-820).

        As :meth:`process`, but nothing below needs a repartition topic for it.

        Raises:
            TopologyError: the supplier makes no processor, or returns the same instance twice.
        """
        chosen = self._name(name, "KSTREAM-PROCESSVALUES-")
        made = supplier_of(chosen, supplier, fixed_key=True)
        origin = self._below(chosen, UserFixedKeyProcessor(supplier=made), supplier, stores)
        return replace(origin, value_serde=None).as_stream()

    def _name(self, name: str | Named | None, prefix: str) -> str:
        # Kafka Streams spends no number on a processor that has a name; every other operation does.
        return name_of(name) or self.origin.drawing.processor_name(prefix)

    def _below(
        self, name: str, operator: Operator, supplier: object, stores: tuple[Any, ...]
    ) -> Origin:
        for store in stores:
            if isinstance(store, Named):
                raise TopologyError(
                    f"process(): {store!r} stands among the stores; the name of the node is a "
                    f"keyword: name={store.name!r}"
                )
        stores_of(name, supplier)  # checked here; the topology adds them
        return self.origin.below(Processor(name=name, operator=operator, stores=stores))
