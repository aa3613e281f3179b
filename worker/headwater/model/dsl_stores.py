"""Where the stores of the DSL are kept: ``DslStoreSuppliers`` (KIP-591, KIP-954).

An application says it for all with ``dsl.store.suppliers.class``, an operator for its own with
``Materialized`` or ``StreamJoined``. What is not said when a store is drawn is said by the
configuration with which its topology is run: until then a ``StoreSpec`` carries its parameters.
"""

from __future__ import annotations

import pkgutil
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias

from headwater.errors import ConfigError, TopologyError
from headwater.model.store_suppliers import (
    KeyValueBytesStoreSupplier,
    SessionBytesStoreSupplier,
    WindowBytesStoreSupplier,
    check_timestamps,
)
from headwater.model.stores import KeyLayout
from headwater.model.windows import EmitStrategy
from headwater.topology_settings import DSL_STORES, IN_MEMORY, ROCKS_DB, dsl_stores_named

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headwater.model.stores import StoreSpec

StoreSupplier: TypeAlias = (
    KeyValueBytesStoreSupplier | WindowBytesStoreSupplier | SessionBytesStoreSupplier
)
"""How the store of a table is kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DslKeyValueParams:
    """Which key-value store an operator needs (Kafka's class of this name).

    Attributes:
        name: of the store.
        is_timestamped: values are kept with timestamps.
    """

    name: str
    is_timestamped: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class DslWindowParams:
    """Which store of windows an operator needs (Kafka's class of this name).

    Attributes:
        name: of the store.
        retention_ms: how long windows are kept, by stream time.
        window_size_ms: how long a window is.
        retain_duplicates: several values of a key and start are kept.
        emit_strategy: when results are forwarded.
        is_sliding_window: the windows are sliding ones.
        is_timestamped: values are kept with timestamps.
    """

    name: str
    retention_ms: int
    window_size_ms: int
    retain_duplicates: bool = False
    emit_strategy: EmitStrategy = EmitStrategy.ON_WINDOW_UPDATE
    is_sliding_window: bool = False
    is_timestamped: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class DslSessionParams:
    """Which store of sessions an operator needs (Kafka's class of this name).

    Attributes:
        name: of the store.
        retention_ms: how long sessions are kept after their end, by stream time.
        emit_strategy: when results are forwarded.
    """

    name: str
    retention_ms: int
    emit_strategy: EmitStrategy = EmitStrategy.ON_WINDOW_UPDATE


DslParams: TypeAlias = DslKeyValueParams | DslWindowParams | DslSessionParams


class DslStoreSuppliers:
    """Says how the stores of the DSL are kept; as it is, in RocksDB. Override what differs."""

    def configure(self, configs: Mapping[str, object]) -> None:
        """Take the application's configuration, as it was given, if its option names the class."""

    def key_value_store(self, params: DslKeyValueParams) -> KeyValueBytesStoreSupplier:
        """Return how a key-value store is kept."""
        timestamped = params.is_timestamped
        return KeyValueBytesStoreSupplier(
            name=params.name, persistent=True, timestamped=timestamped
        )

    def window_store(self, params: DslWindowParams) -> WindowBytesStoreSupplier:
        """Return how a store of windows is kept."""
        return _windows(params, persistent=True)

    def session_store(self, params: DslSessionParams) -> SessionBytesStoreSupplier:
        """Return how a store of sessions is kept."""
        return _sessions(params, persistent=True)


class RocksDBDslStoreSuppliers(DslStoreSuppliers):
    """Keeps every store in RocksDB, which is the default."""


class InMemoryDslStoreSuppliers(DslStoreSuppliers):
    """Keeps every store in memory; it is read from its changelog at every start."""

    def key_value_store(self, params: DslKeyValueParams) -> KeyValueBytesStoreSupplier:
        """Return a store in memory."""
        return KeyValueBytesStoreSupplier(name=params.name, persistent=False, timestamped=None)

    def window_store(self, params: DslWindowParams) -> WindowBytesStoreSupplier:
        """Return a store in memory."""
        return _windows(params, persistent=False)

    def session_store(self, params: DslSessionParams) -> SessionBytesStoreSupplier:
        """Return a store in memory."""
        return _sessions(params, persistent=False)


class BuiltInDslStoreSuppliers:
    """The two that come with Kafka Streams."""

    ROCKS_DB: ClassVar[DslStoreSuppliers] = RocksDBDslStoreSuppliers()
    IN_MEMORY: ClassVar[DslStoreSuppliers] = InMemoryDslStoreSuppliers()


_BY_NAME: Final = {
    ROCKS_DB: BuiltInDslStoreSuppliers.ROCKS_DB,
    IN_MEMORY: BuiltInDslStoreSuppliers.IN_MEMORY,
}


def _windows(params: DslWindowParams, *, persistent: bool) -> WindowBytesStoreSupplier:
    return WindowBytesStoreSupplier(
        name=params.name,
        persistent=persistent,
        timestamped=params.is_timestamped if persistent else None,
        retention_ms=params.retention_ms,
        window_size_ms=params.window_size_ms,
        retain_duplicates=params.retain_duplicates,
        time_ordered=params.emit_strategy is EmitStrategy.ON_WINDOW_CLOSE,
    )


def _sessions(params: DslSessionParams, *, persistent: bool) -> SessionBytesStoreSupplier:
    return SessionBytesStoreSupplier(
        name=params.name, persistent=persistent, retention_ms=params.retention_ms
    )


def dsl_stores_of(given: Mapping[str, object]) -> DslStoreSuppliers | None:
    """Return what a configuration says of the stores of the DSL, configured, if it says it.

    Raises:
        ConfigError: it names no ``DslStoreSuppliers``.
    """
    reference = dsl_stores_named(given)
    if reference is None:
        return None
    found: Any = reference
    if isinstance(reference, str):
        try:
            found = _BY_NAME.get(reference) or pkgutil.resolve_name(reference)
        except Exception as error:
            raise ConfigError(f"{DSL_STORES}: cannot import {reference!r}: {error}") from error
    suppliers = found() if isinstance(found, type) else found
    if not isinstance(suppliers, DslStoreSuppliers):
        raise ConfigError(
            f"{DSL_STORES}: {reference!r} is no DslStoreSuppliers; name a subclass, 'module:Class'"
        )
    suppliers.configure(given)
    return suppliers


def decided(spec: StoreSpec, suppliers: DslStoreSuppliers) -> StoreSpec:
    """Return the store as ``suppliers`` keep it, if nothing else has said so yet.

    Raises:
        TopologyError: they return something else than a supplier of such a store, or one that
            drops duplicates which a join needs.
    """
    params = spec.dsl_params
    supplier: Any
    match params:
        case None:
            return spec
        case DslWindowParams():
            supplier = suppliers.window_store(params)
        case DslSessionParams():
            supplier = suppliers.session_store(params)
        case _:
            supplier = suppliers.key_value_store(params)
    named = getattr(supplier, "name", spec.name)
    if named != spec.name:
        raise TopologyError(
            f"{type(suppliers).__name__} calls store {spec.name!r} {named!r}: "
            "let the supplier have the name that the parameters say"
        )
    found = supplied(spec, supplier)
    if spec.retain_duplicates and not found.retain_duplicates:
        raise TopologyError(
            f"{type(suppliers).__name__} keeps one value of a key and time in store {spec.name!r}: "
            "a join needs several, so pass on the retain_duplicates that the parameters say"
        )
    return found


def all_decided(
    stores: Mapping[str, StoreSpec], suppliers: DslStoreSuppliers
) -> dict[str, StoreSpec]:
    """Return all stores, each as :func:`decided`.

    Raises:
        TopologyError: see there.
    """
    return {name: decided(spec, suppliers) for name, spec in stores.items()}


def kept_as(
    spec: StoreSpec, suppliers: DslStoreSuppliers | None, *, persistent: bool | None
) -> StoreSpec:
    """Return the store as ``suppliers`` keep it, or on disk or not; with neither as it is.

    Raises:
        TopologyError: see :func:`decided`.
    """
    if suppliers is not None:
        return decided(spec, suppliers)
    if persistent is not None:
        return replace(spec, persistent=persistent, dsl_params=None)
    return spec


def supplied(spec: StoreSpec, supplier: StoreSupplier) -> StoreSpec:
    """Return the store as ``supplier`` keeps it.

    Raises:
        TopologyError: the supplier is one of another kind of store.
    """
    match spec.kind.key_layout, supplier:
        case KeyLayout.PLAIN, KeyValueBytesStoreSupplier():
            check_timestamps(supplier, spec.kind, "key_value_store")
            return replace(spec, entries_max=supplier.entries_max, **_kept(supplier))
        case KeyLayout.WINDOW, WindowBytesStoreSupplier():
            check_timestamps(supplier, spec.kind, "window_store")
            return replace(
                spec,
                retention_ms=supplier.retention_ms,
                window_size_ms=supplier.window_size_ms,
                retain_duplicates=supplier.retain_duplicates,
                time_ordered=supplier.time_ordered,
                **_kept(supplier),
            )
        case KeyLayout.SESSION, SessionBytesStoreSupplier():
            return replace(spec, retention_ms=supplier.retention_ms, **_kept(supplier))
        case layout, _:
            raise TopologyError(
                f"Store {spec.name!r} has {layout.value} keys, which {supplier!r:.100} does not "
                "keep: pass a supplier of Stores for this kind"
            )


def _kept(supplier: StoreSupplier) -> dict[str, Any]:
    return {
        "persistent": supplier.persistent,
        "make_store": supplier.make_store,
        "metrics_scope": supplier.metrics_scope,
        "dsl_params": None,
    }
