"""``Stores``: what stores are made of, as Java programs spell it (Kafka's ``state.Stores``).

A supplier says how a store keeps its bytes. A builder makes a ``StoreSpec`` of it, which can be
built directly, too: ``StoreSpec(name="counts", kind=StoreKind.KEY_VALUE, persistent=False)``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headwater.errors import TopologyError
from headwater.model.naming import check_name
from headwater.model.stores import StoreKind, StoreSpec

if TYPE_CHECKING:
    from headwater.model.stores import SerdeLike


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyValueBytesStoreSupplier:
    """How a key-value store keeps its bytes (Kafka's interface of this name).

    Attributes:
        name: of the store.
        persistent: in RocksDB, otherwise in memory.
        timestamped: values are kept with timestamps; ``None``: the builder decides.
    """

    name: str
    persistent: bool
    timestamped: bool | None

    def __post_init__(self) -> None:
        check_name("store", self.name)


class Stores:
    """Suppliers and builders of stores.

    As in Kafka Streams a store that is built here has a changelog and no record cache;
    ``with_caching_enabled()`` and ``with_logging_disabled()`` of what is built change that.
    """

    @staticmethod
    def persistent_key_value_store(name: str) -> KeyValueBytesStoreSupplier:
        """Return a supplier of a store in RocksDB, without timestamps."""
        return KeyValueBytesStoreSupplier(name=name, persistent=True, timestamped=False)

    @staticmethod
    def persistent_timestamped_key_value_store(name: str) -> KeyValueBytesStoreSupplier:
        """Return a supplier of a store in RocksDB, with a timestamp beside each value."""
        return KeyValueBytesStoreSupplier(name=name, persistent=True, timestamped=True)

    @staticmethod
    def in_memory_key_value_store(name: str) -> KeyValueBytesStoreSupplier:
        """Return a supplier of a store in memory; its builder says whether it has timestamps."""
        return KeyValueBytesStoreSupplier(name=name, persistent=False, timestamped=None)

    @staticmethod
    def key_value_store_builder(
        supplier: KeyValueBytesStoreSupplier,
        key_serde: SerdeLike | None = None,
        value_serde: SerdeLike | None = None,
    ) -> StoreSpec:
        """Return a ``KeyValueStore``; serdes of ``None`` are the configured defaults.

        Raises:
            TopologyError: the supplier's store has timestamps.
        """
        return _built(supplier, StoreKind.KEY_VALUE, key_serde, value_serde)

    @staticmethod
    def timestamped_key_value_store_builder(
        supplier: KeyValueBytesStoreSupplier,
        key_serde: SerdeLike | None = None,
        value_serde: SerdeLike | None = None,
    ) -> StoreSpec:
        """Return a ``TimestampedKeyValueStore``; serdes of ``None`` are the configured defaults.

        Raises:
            TopologyError: the supplier's store has no timestamps.
        """
        return _built(supplier, StoreKind.TIMESTAMPED_KEY_VALUE, key_serde, value_serde)


def _built(
    supplier: KeyValueBytesStoreSupplier,
    kind: StoreKind,
    key_serde: SerdeLike | None,
    value_serde: SerdeLike | None,
) -> StoreSpec:
    if supplier.timestamped not in (None, kind.timestamped):
        wanted = "persistent_timestamped" if kind.timestamped else "persistent"
        raise TopologyError(
            f"Store {supplier.name!r}: what is built and its supplier differ in timestamps; "
            f"pass Stores.{wanted}_key_value_store({supplier.name!r})"
        )
    return StoreSpec(
        name=supplier.name,
        kind=kind,
        persistent=supplier.persistent,
        key_serde=key_serde,
        value_serde=value_serde,
        caching=False,
    )
