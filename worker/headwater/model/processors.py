"""What a user writes for the Processor API: processors, and what makes them.

A supplier makes a new processor for every task. It is a class without arguments or a function; it
may bring stores along (``stores()``, Kafka's ``ConnectedStoreProvider``, KIP-401).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Generic, Protocol, TypeAlias, TypeVar, runtime_checkable

from headwater.model.processor_api import FixedKeyRecord, Record

if TYPE_CHECKING:
    from headwater.model.processor_api import FixedKeyProcessorContext, ProcessorContext
    from headwater.model.stores import StoreSpec

KIn = TypeVar("KIn")
VIn = TypeVar("VIn")
KOut = TypeVar("KOut")
VOut = TypeVar("VOut")
K = TypeVar("K")
V = TypeVar("V")
VR = TypeVar("VR")


class Processor(ABC, Generic[KIn, VIn, KOut, VOut]):
    """One step of a topology in user code; every task has its own instance.

    ``context`` is there from ``init`` on.
    """

    context: ProcessorContext[KOut, VOut]

    def init(self, context: ProcessorContext[KOut, VOut]) -> None:
        """Keep the context.

        An override calls ``super().init(context)`` first, then schedules and fetches stores.
        """
        self.context = context

    @abstractmethod
    def process(self, record: Record[KIn, VIn]) -> None:
        """Handle one record; results go to ``self.context.forward``."""

    def close(self) -> None:
        """Release what ``init`` took; stores are closed by the task."""


class FixedKeyProcessor(ABC, Generic[KIn, VIn, VOut]):
    """A processor that keeps keys, for ``KStream.process_values`` (KIP-820).

    What it forwards comes of the record it is given, so the stream stays partitioned by key.
    ``context`` is there from ``init`` on.
    """

    context: FixedKeyProcessorContext[KIn, VOut]

    def init(self, context: FixedKeyProcessorContext[KIn, VOut]) -> None:
        """Keep the context; see :meth:`Processor.init`."""
        self.context = context

    @abstractmethod
    def process(self, record: FixedKeyRecord[KIn, VIn]) -> None:
        """Handle one record; results go to ``self.context.forward``."""

    def close(self) -> None:
        """Release what ``init`` took; stores are closed by the task."""


class ValueTransformerWithKey(ABC, Generic[K, V, VR]):
    """Makes values of values (Kafka's ``ValueTransformerWithKey``); every task has its own.

    ``context`` is there from ``init`` on. It forwards nothing: what ``transform`` returns does.
    """

    context: ProcessorContext[K, VR]

    def init(self, context: ProcessorContext[K, VR]) -> None:
        """Keep the context.

        An override calls ``super().init(context)`` first, then schedules.
        """
        self.context = context

    @abstractmethod
    def transform(self, key: K, value: V | None) -> VR | None:
        """Return the new value of ``key``; ``None`` deletes it.

        A deletion comes here, too, as ``None``. Where somebody below needs old values and there is
        no store to read them from, the old value is transformed after the new one.
        """

    def close(self) -> None:
        """Release what ``init`` took."""


ContextualProcessor = Processor
"""Kafka's name for a processor that keeps its context: here every one does."""
ContextualFixedKeyProcessor = FixedKeyProcessor
"""Kafka's name for a processor that keeps its context: here every one does."""

ProcessorSupplier: TypeAlias = Callable[[], Processor[KIn, VIn, KOut, VOut]]
"""Makes a new processor at each call; a ``Processor`` class that needs no arguments is one."""
FixedKeyProcessorSupplier: TypeAlias = Callable[[], FixedKeyProcessor[KIn, VIn, VOut]]
"""Makes a new processor at each call; a ``FixedKeyProcessor`` class without arguments is one."""

ValueTransformerWithKeySupplier: TypeAlias = Callable[[], ValueTransformerWithKey[K, V, VR]]
"""Makes a new transformer at each call; a class that needs no arguments is one."""

Records: TypeAlias = Record[KOut, VOut] | Iterable[Record[KOut, VOut]] | None
"""What a function for ``process`` gives: a record, several, or none."""
ProcessorFunction: TypeAlias = (
    "Callable[[Record[KIn, VIn]], Records[KOut, VOut]]"
    " | Callable[[Record[KIn, VIn], ProcessorContext[KOut, VOut]], Records[KOut, VOut]]"
)
"""A function or generator function that stands for a processor: of a record, and the context."""
FixedKeyRecords: TypeAlias = FixedKeyRecord[KIn, VOut] | Iterable[FixedKeyRecord[KIn, VOut]] | None
"""What a function for ``process_values`` gives: a record, several, or none."""
FixedKeyProcessorFunction: TypeAlias = (
    "Callable[[FixedKeyRecord[KIn, VIn]], FixedKeyRecords[KIn, VOut]]"
    " | Callable[[FixedKeyRecord[KIn, VIn], FixedKeyProcessorContext[KIn, VOut]],"
    " FixedKeyRecords[KIn, VOut]]"
)
"""A function or generator function that stands for a processor that keeps keys."""


@runtime_checkable
class ConnectedStoreProvider(Protocol):
    """A supplier that brings stores along (KIP-401); of a class, ``stores`` is a class method."""

    def stores(self) -> Iterable[StoreSpec] | None:
        """Return the stores that are added to the topology and connected to the processor."""
        ...
