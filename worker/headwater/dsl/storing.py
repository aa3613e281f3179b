"""How a store is kept, as ``Materialized`` and ``StreamJoined`` say it in Java's way.

Each method returns the same settings with one of them changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from headwater.dsl.factories import with_changed
from headwater.errors import TopologyError
from headwater.model.dsl_stores import DslStoreSuppliers, StoreSupplier
from headwater.model.store_suppliers import VersionedBytesStoreSupplier, check_supplier

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self

    from headwater.model.durations import Duration
    from headwater.model.store_suppliers import WindowBytesStoreSupplier
    from headwater.serde.base import Serde

TableStoreSupplier: TypeAlias = StoreSupplier | VersionedBytesStoreSupplier
"""A supplier of a store that a table can have."""


class Storing:
    """Settings of stores that have a changelog."""

    def with_key_serde(self, key_serde: Serde[Any] | None) -> Self:
        """Return the same with this serde for keys."""
        return with_changed(self, key_serde=key_serde)

    def with_value_serde(self, value_serde: Serde[Any] | None) -> Self:
        """Return the same with this serde for values."""
        return with_changed(self, value_serde=value_serde)

    def with_logging_enabled(self, topic_config: Mapping[str, str] | None = None) -> Self:
        """Return the same with a changelog, whose topic has these configs."""
        return with_changed(self, logging=True, topic_config=dict(topic_config or {}))

    def with_logging_disabled(self) -> Self:
        """Return the same without a changelog: what is held is lost with its task."""
        return with_changed(self, logging=False, topic_config={})


class StoringTable(Storing):
    """Settings of the store of a table."""

    @classmethod
    def with_(
        cls, key_serde: Serde[Any] | None = None, value_serde: Serde[Any] | None = None
    ) -> Self:
        """Begin with serdes; the store's name is generated."""
        return cls(key_serde=key_serde, value_serde=value_serde)  # type: ignore[call-arg]

    @classmethod
    def as_(cls, stored: str | TableStoreSupplier | DslStoreSuppliers) -> Self:
        """Begin with a name, with a supplier, or with what says how all kinds are kept."""
        if isinstance(stored, str):
            return cls(store=stored)  # type: ignore[call-arg]  # a dataclass below has it
        if isinstance(stored, DslStoreSuppliers):
            return cls(store_type=stored)  # type: ignore[call-arg]  # likewise
        return cls(store_supplier=stored)  # type: ignore[call-arg]  # likewise

    def with_caching_enabled(self) -> Self:
        """Return the same with a record cache: repeated updates of a key become one."""
        return with_changed(self, caching=True)

    def with_caching_disabled(self) -> Self:
        """Return the same without a record cache."""
        return with_changed(self, caching=False)

    def with_retention(self, retention: Duration) -> Self:
        """Return the same, but windows or sessions are kept for so long, by stream time."""
        return with_changed(self, retention=retention)

    def with_store_type(self, store_type: DslStoreSuppliers) -> Self:
        """Return the same, kept as ``store_type`` says, such as ``BuiltInDslStoreSuppliers``'."""
        return with_changed(self, store_type=store_type)


class StoringStreams(Storing):
    """Settings of the stores of a join of streams."""

    @classmethod
    def as_(cls, store: str) -> Self:
        """Begin with a name for the stores."""
        return cls(store=store)  # type: ignore[call-arg]  # a dataclass below has it

    @classmethod
    def with_(
        cls,
        key_serde: Serde[Any] | None = None,
        value_serde: Serde[Any] | None = None,
        other_value_serde: Serde[Any] | None = None,
    ) -> Self:
        """Begin with serdes of the keys and of both streams' values."""
        return cls(  # type: ignore[call-arg]  # likewise
            key_serde=key_serde, value_serde=value_serde, other_value_serde=other_value_serde
        )

    def with_name(self, name: str) -> Self:
        """Return the same with a name for its nodes and repartition topics."""
        return with_changed(self, name=name)

    def with_store_name(self, store: str) -> Self:
        """Return the same with a name for its stores."""
        return with_changed(self, store=store)

    def with_other_value_serde(self, other_value_serde: Serde[Any] | None) -> Self:
        """Return the same with this serde for the other stream's values."""
        return with_changed(self, other_value_serde=other_value_serde)

    def with_this_store_supplier(self, supplier: WindowBytesStoreSupplier) -> Self:
        """Return the same with this supplier for the store of this stream's records."""
        return with_changed(self, this_store_supplier=supplier)

    def with_other_store_supplier(self, supplier: WindowBytesStoreSupplier) -> Self:
        """Return the same with this supplier for the store of the other stream's records."""
        return with_changed(self, other_store_supplier=supplier)

    def with_dsl_store_suppliers(self, store_type: DslStoreSuppliers) -> Self:
        """Return the same, kept as ``store_type`` says."""
        return with_changed(self, store_type=store_type)


def check_kept(owner: str, **said: object) -> None:
    """Check that at most one setting says how a store is kept.

    Raises:
        TopologyError: several do, or what stands for a type of stores or a supplier is none.
    """
    given = [name for name, value in said.items() if value is not None]
    if len(given) > 1:
        raise TopologyError(f"{owner}: {' and '.join(given)} say the same; pass one of them")
    store_type = said.get("store_type")
    if store_type is not None and not isinstance(store_type, DslStoreSuppliers):
        raise TopologyError(
            f"{owner}: store_type is {store_type!r}; pass a DslStoreSuppliers, such as "
            "BuiltInDslStoreSuppliers.IN_MEMORY"
        )
    if said.get("store_supplier") is not None:
        check_supplier(f"{owner}: store_supplier", said["store_supplier"])
