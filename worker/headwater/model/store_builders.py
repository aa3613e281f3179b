"""``Stores``: what stores are made of, as Java programs spell it (Kafka's ``state.Stores``).

A builder makes a ``StoreSpec`` of a supplier. One can be built directly, too:
``StoreSpec(name="counts", kind=StoreKind.KEY_VALUE, persistent=False)``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from headwater.errors import TopologyError
from headwater.model.durations import millis
from headwater.model.store_suppliers import (
    KeyValueBytesStoreSupplier,
    SessionBytesStoreSupplier,
    VersionedBytesStoreSupplier,
    WindowBytesStoreSupplier,
    check_headers,
    check_supplier,
    check_timestamps,
)
from headwater.model.stores import StoreKind, StoreSpec

if TYPE_CHECKING:
    from headwater.model.durations import Duration
    from headwater.model.stores import SerdeLike

_OWNER: Final = "The supplier of a store"


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
    def persistent_timestamped_key_value_store_with_headers(
        name: str,
    ) -> KeyValueBytesStoreSupplier:
        """Return a supplier of a store in RocksDB, with timestamp and headers beside each value."""
        return KeyValueBytesStoreSupplier(
            name=name, persistent=True, timestamped=True, keeps_headers=True
        )

    @staticmethod
    def in_memory_key_value_store(name: str) -> KeyValueBytesStoreSupplier:
        """Return a supplier of a store in memory; its builder says whether it has timestamps."""
        return KeyValueBytesStoreSupplier(name=name, persistent=False, timestamped=None)

    @staticmethod
    def lru_map(name: str, max_cache_size: int) -> KeyValueBytesStoreSupplier:
        """Return a supplier of a store in memory that keeps the entries used last.

        A get or a put uses an entry; a put beyond ``max_cache_size`` entries evicts the one used
        longest ago. In the changelog of a ``KeyValueStore`` an eviction is a tombstone, in that of
        a ``TimestampedKeyValueStore`` it is not, as in Kafka Streams.

        Raises:
            TopologyError: the size is negative.
        """
        return KeyValueBytesStoreSupplier(
            name=name, persistent=False, timestamped=None, entries_max=max_cache_size
        )

    @staticmethod
    def key_value_store_builder(
        supplier: KeyValueBytesStoreSupplier,
        key_serde: SerdeLike | None = None,
        value_serde: SerdeLike | None = None,
    ) -> StoreSpec:
        """Return a ``KeyValueStore``; serdes of ``None`` are the configured defaults.

        Raises:
            TopologyError: the supplier's store has timestamps, or is of another kind.
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
            TopologyError: the supplier's store has no timestamps, or is of another kind.
        """
        return _built(supplier, StoreKind.TIMESTAMPED_KEY_VALUE, key_serde, value_serde)

    @staticmethod
    def timestamped_key_value_store_with_headers_builder(
        supplier: KeyValueBytesStoreSupplier,
        key_serde: SerdeLike | None = None,
        value_serde: SerdeLike | None = None,
    ) -> StoreSpec:
        """Return a ``TimestampedKeyValueStoreWithHeaders`` (KIP-1271).

        Serdes of ``None`` are the configured defaults.

        Raises:
            TopologyError: the supplier's store is on disk and has no headers, or is of another
                kind.
        """
        kind = StoreKind.TIMESTAMPED_KEY_VALUE_WITH_HEADERS
        return _built(supplier, kind, key_serde, value_serde)

    @staticmethod
    def persistent_window_store(
        name: str, retention: Duration, window_size: Duration, *, retain_duplicates: bool = False
    ) -> WindowBytesStoreSupplier:
        """Return a supplier of a store of windows in RocksDB, without timestamps.

        Args:
            name: of the store.
            retention: how long windows are kept, by stream time; at least their size.
            window_size: how long a window is.
            retain_duplicates: keep several values of a key and start, as joins of streams need.

        Raises:
            TopologyError: the retention is shorter than the windows, or a duration is negative.
        """
        return _windows(
            name,
            retention,
            window_size,
            retain_duplicates=retain_duplicates,
            persistent=True,
            timestamped=False,
        )

    @staticmethod
    def persistent_timestamped_window_store(
        name: str, retention: Duration, window_size: Duration, *, retain_duplicates: bool = False
    ) -> WindowBytesStoreSupplier:
        """Return a supplier of a store of windows in RocksDB, with a timestamp beside each value.

        See :meth:`persistent_window_store`.
        """
        return _windows(
            name,
            retention,
            window_size,
            retain_duplicates=retain_duplicates,
            persistent=True,
            timestamped=True,
        )

    @staticmethod
    def persistent_timestamped_window_store_with_headers(
        name: str, retention: Duration, window_size: Duration, *, retain_duplicates: bool = False
    ) -> WindowBytesStoreSupplier:
        """Return a supplier of windows in RocksDB, with timestamp and headers beside each value.

        See :meth:`persistent_window_store`.
        """
        plain = Stores.persistent_timestamped_window_store(
            name, retention, window_size, retain_duplicates=retain_duplicates
        )
        return replace(plain, keeps_headers=True)

    @staticmethod
    def in_memory_window_store(
        name: str, retention: Duration, window_size: Duration, *, retain_duplicates: bool = False
    ) -> WindowBytesStoreSupplier:
        """Return a supplier of a store of windows in memory; its builder decides on timestamps.

        See :meth:`persistent_window_store`.
        """
        return _windows(
            name,
            retention,
            window_size,
            retain_duplicates=retain_duplicates,
            persistent=False,
            timestamped=None,
        )

    @staticmethod
    def persistent_session_store(name: str, retention: Duration) -> SessionBytesStoreSupplier:
        """Return a supplier of a store of sessions in RocksDB.

        Args:
            name: of the store.
            retention: how long sessions are kept after their end, by stream time.

        Raises:
            TopologyError: the retention is negative.
        """
        kept_ms = millis(f"Store {name!r}: retention", retention)
        return SessionBytesStoreSupplier(name=name, persistent=True, retention_ms=kept_ms)

    @staticmethod
    def persistent_session_store_with_headers(
        name: str, retention: Duration
    ) -> SessionBytesStoreSupplier:
        """Return a supplier of sessions in RocksDB, with headers beside each aggregate.

        See :meth:`persistent_session_store`.
        """
        return replace(Stores.persistent_session_store(name, retention), keeps_headers=True)

    @staticmethod
    def in_memory_session_store(name: str, retention: Duration) -> SessionBytesStoreSupplier:
        """Return a supplier of a store of sessions in memory; see the persistent one."""
        kept_ms = millis(f"Store {name!r}: retention", retention)
        return SessionBytesStoreSupplier(name=name, persistent=False, retention_ms=kept_ms)

    @staticmethod
    def persistent_versioned_key_value_store(
        name: str, history_retention: Duration, *, segment_interval: Duration | None = None
    ) -> VersionedBytesStoreSupplier:
        """Return a supplier of a versioned store in RocksDB (KIP-889).

        Args:
            name: of the store.
            history_retention: for how long values of the past are known, by stream time. A put
                that is older is dropped.
            segment_interval: checked as in Kafka Streams, and of no effect: what is too old is
                deleted version by version.

        Raises:
            TopologyError: the retention is negative, or the interval not positive.
        """
        owner = f"Store {name!r}"
        if segment_interval is not None and millis(f"{owner}: interval", segment_interval) < 1:
            raise TopologyError(f"{owner}: a segment interval below 1 ms: choose a longer one")
        kept_ms = millis(f"{owner}: history retention", history_retention)
        return VersionedBytesStoreSupplier(name=name, history_retention_ms=kept_ms)

    @staticmethod
    def versioned_key_value_store_builder(
        supplier: VersionedBytesStoreSupplier,
        key_serde: SerdeLike | None = None,
        value_serde: SerdeLike | None = None,
    ) -> StoreSpec:
        """Return a ``VersionedKeyValueStore``; serdes of ``None`` are the configured defaults.

        Raises:
            TopologyError: the supplier is one of another kind of store.
        """
        check_supplier(_OWNER, supplier, VersionedBytesStoreSupplier)
        return StoreSpec(
            name=supplier.name,
            kind=StoreKind.VERSIONED,
            key_serde=key_serde,
            value_serde=value_serde,
            persistent=not supplier.makes_stores,
            caching=False,
            retention_ms=supplier.history_retention_ms,
            make_store=supplier.make_store,
            metrics_scope=supplier.metrics_scope,
        )

    @staticmethod
    def window_store_builder(
        supplier: WindowBytesStoreSupplier,
        key_serde: SerdeLike | None = None,
        value_serde: SerdeLike | None = None,
    ) -> StoreSpec:
        """Return a ``WindowStore``; serdes of ``None`` are the configured defaults.

        Raises:
            TopologyError: the supplier's store has timestamps, or is of another kind.
        """
        return _built_windows(supplier, StoreKind.WINDOW, key_serde, value_serde)

    @staticmethod
    def timestamped_window_store_builder(
        supplier: WindowBytesStoreSupplier,
        key_serde: SerdeLike | None = None,
        value_serde: SerdeLike | None = None,
    ) -> StoreSpec:
        """Return a ``TimestampedWindowStore``; serdes of ``None`` are the configured defaults.

        Raises:
            TopologyError: the supplier's store has no timestamps, or is of another kind.
        """
        return _built_windows(supplier, StoreKind.TIMESTAMPED_WINDOW, key_serde, value_serde)

    @staticmethod
    def session_store_builder(
        supplier: SessionBytesStoreSupplier,
        key_serde: SerdeLike | None = None,
        value_serde: SerdeLike | None = None,
    ) -> StoreSpec:
        """Return a ``SessionStore``; serdes of ``None`` are the configured defaults.

        Raises:
            TopologyError: the supplier is one of another kind of store.
        """
        return _built_sessions(supplier, StoreKind.SESSION, key_serde, value_serde)

    @staticmethod
    def timestamped_window_store_with_headers_builder(
        supplier: WindowBytesStoreSupplier,
        key_serde: SerdeLike | None = None,
        value_serde: SerdeLike | None = None,
    ) -> StoreSpec:
        """Return a ``TimestampedWindowStoreWithHeaders`` (KIP-1271).

        Serdes of ``None`` are the configured defaults.

        Raises:
            TopologyError: the supplier's store is on disk and has no headers, or is of another
                kind.
        """
        kind = StoreKind.TIMESTAMPED_WINDOW_WITH_HEADERS
        return _built_windows(supplier, kind, key_serde, value_serde)

    @staticmethod
    def session_store_with_headers_builder(
        supplier: SessionBytesStoreSupplier,
        key_serde: SerdeLike | None = None,
        value_serde: SerdeLike | None = None,
    ) -> StoreSpec:
        """Return a ``SessionStoreWithHeaders`` (KIP-1271); serdes as elsewhere.

        Raises:
            TopologyError: the supplier's store is on disk and has no headers, or is of another
                kind.
        """
        kind = StoreKind.SESSION_WITH_HEADERS
        return _built_sessions(supplier, kind, key_serde, value_serde)


def _windows(
    name: str,
    retention: Duration,
    window_size: Duration,
    *,
    retain_duplicates: bool,
    persistent: bool,
    timestamped: bool | None,
) -> WindowBytesStoreSupplier:
    return WindowBytesStoreSupplier(
        name=name,
        persistent=persistent,
        timestamped=timestamped,
        retention_ms=millis(f"Store {name!r}: retention", retention),
        window_size_ms=millis(f"Store {name!r}: window_size", window_size),
        retain_duplicates=retain_duplicates,
    )


def _built_sessions(
    supplier: SessionBytesStoreSupplier,
    kind: StoreKind,
    key_serde: SerdeLike | None,
    value_serde: SerdeLike | None,
) -> StoreSpec:
    check_supplier(_OWNER, supplier, SessionBytesStoreSupplier)
    check_headers(supplier, kind, "session_store")
    return StoreSpec(
        name=supplier.name,
        kind=kind,
        persistent=supplier.persistent,
        key_serde=key_serde,
        value_serde=value_serde,
        caching=False,
        retention_ms=supplier.retention_ms,
        make_store=supplier.make_store,
        metrics_scope=supplier.metrics_scope,
    )


def _built_windows(
    supplier: WindowBytesStoreSupplier,
    kind: StoreKind,
    key_serde: SerdeLike | None,
    value_serde: SerdeLike | None,
) -> StoreSpec:
    check_supplier(_OWNER, supplier, WindowBytesStoreSupplier)
    check_timestamps(supplier, kind, "window_store")
    check_headers(supplier, kind, "window_store")
    return StoreSpec(
        name=supplier.name,
        kind=kind,
        persistent=supplier.persistent,
        key_serde=key_serde,
        value_serde=value_serde,
        caching=False,
        retention_ms=supplier.retention_ms,
        window_size_ms=supplier.window_size_ms,
        retain_duplicates=supplier.retain_duplicates,
        make_store=supplier.make_store,
        metrics_scope=supplier.metrics_scope,
    )


def _built(
    supplier: KeyValueBytesStoreSupplier,
    kind: StoreKind,
    key_serde: SerdeLike | None,
    value_serde: SerdeLike | None,
) -> StoreSpec:
    check_supplier(_OWNER, supplier, KeyValueBytesStoreSupplier)
    check_timestamps(supplier, kind, "key_value_store")
    check_headers(supplier, kind, "key_value_store")
    return StoreSpec(
        name=supplier.name,
        kind=kind,
        persistent=supplier.persistent,
        key_serde=key_serde,
        value_serde=value_serde,
        caching=False,
        entries_max=supplier.entries_max,
        make_store=supplier.make_store,
        metrics_scope=supplier.metrics_scope,
    )
