"""How a store is kept, as ``Materialized`` and ``StreamJoined`` say it in Java's way.

Each method returns the same settings with one of them changed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from headwater.errors import TopologyError
from headwater.model.dsl_stores import DslStoreSuppliers, StoreSupplier
from headwater.model.store_suppliers import VersionedBytesStoreSupplier, check_supplier

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self

    from headwater.model.durations import Duration
    from headwater.model.store_suppliers import WindowBytesStoreSupplier
    from headwater.serde.base import Serde

Settings = TypeVar("Settings")
TableStoreSupplier: TypeAlias = StoreSupplier | VersionedBytesStoreSupplier
"""A supplier of a store that a table can have."""


class Storing:
    """Settings of stores that have a changelog."""

    def with_key_serde(self, key_serde: Serde[Any] | None) -> Self:
        """Return the same with this serde for keys."""
        return _with(self, key_serde=key_serde)

    def with_value_serde(self, value_serde: Serde[Any] | None) -> Self:
        """Return the same with this serde for values."""
        return _with(self, value_serde=value_serde)

    def with_logging_enabled(self, topic_config: Mapping[str, str] | None = None) -> Self:
        """Return the same with a changelog, whose topic has these configs."""
        return _with(self, logging=True, topic_config=dict(topic_config or {}))

    def with_logging_disabled(self) -> Self:
        """Return the same without a changelog: what is held is lost with its task."""
        return _with(self, logging=False, topic_config={})


class StoringTable(Storing):
    """Settings of the store of a table."""

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
        return _with(self, caching=True)

    def with_caching_disabled(self) -> Self:
        """Return the same without a record cache."""
        return _with(self, caching=False)

    def with_retention(self, retention: Duration) -> Self:
        """Return the same, but windows or sessions are kept for so long, by stream time."""
        return _with(self, retention=retention)

    def with_store_type(self, store_type: DslStoreSuppliers) -> Self:
        """Return the same, kept as ``store_type`` says, such as ``BuiltInDslStoreSuppliers``'."""
        return _with(self, store_type=store_type)


class StoringStreams(Storing):
    """Settings of the stores of a join of streams."""

    def with_name(self, name: str) -> Self:
        """Return the same with a name for its nodes and repartition topics."""
        return _with(self, name=name)

    def with_store_name(self, store: str) -> Self:
        """Return the same with a name for its stores."""
        return _with(self, store=store)

    def with_other_value_serde(self, other_value_serde: Serde[Any] | None) -> Self:
        """Return the same with this serde for the other stream's values."""
        return _with(self, other_value_serde=other_value_serde)

    def with_this_store_supplier(self, supplier: WindowBytesStoreSupplier) -> Self:
        """Return the same with this supplier for the store of this stream's records."""
        return _with(self, this_store_supplier=supplier)

    def with_other_store_supplier(self, supplier: WindowBytesStoreSupplier) -> Self:
        """Return the same with this supplier for the store of the other stream's records."""
        return _with(self, other_store_supplier=supplier)

    def with_dsl_store_suppliers(self, store_type: DslStoreSuppliers) -> Self:
        """Return the same, kept as ``store_type`` says."""
        return _with(self, store_type=store_type)


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


def _with(options: Settings, **keywords: Any) -> Settings:
    result: Settings = replace(options, **keywords)  # type: ignore[type-var]
    return result
