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
from headwater.topology_settings import (
    DSL_STORES,
    IN_MEMORY,
    ROCKS_DB,
    DslStoreFormat,
    dsl_stores_named,
    wants_headers,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

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
        dsl_store_format: what is kept beside values; ``None`` is what ``is_timestamped`` says.
    """

    name: str
    is_timestamped: bool = True
    dsl_store_format: DslStoreFormat | None = None


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
        dsl_store_format: what is kept beside values; ``None`` is what ``is_timestamped`` says.
    """

    name: str
    retention_ms: int
    window_size_ms: int
    retain_duplicates: bool = False
    emit_strategy: EmitStrategy = EmitStrategy.ON_WINDOW_UPDATE
    is_sliding_window: bool = False
    is_timestamped: bool = True
    dsl_store_format: DslStoreFormat | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DslSessionParams:
    """Which store of sessions an operator needs (Kafka's class of this name).

    Attributes:
        name: of the store.
        retention_ms: how long sessions are kept after their end, by stream time.
        emit_strategy: when results are forwarded.
        dsl_store_format: what is kept beside aggregates (Kafka's ``storeFormat``).
    """

    name: str
    retention_ms: int
    emit_strategy: EmitStrategy = EmitStrategy.ON_WINDOW_UPDATE
    dsl_store_format: DslStoreFormat = DslStoreFormat.PLAIN


DslParams: TypeAlias = DslKeyValueParams | DslWindowParams | DslSessionParams


class DslStoreSuppliers:
    """Says how the stores of the DSL are kept; as it is, in RocksDB. Override what differs."""

    def configure(self, configs: Mapping[str, object]) -> None:
        """Take the application's configuration, as it was given, if its option names the class."""

    def key_value_store(self, params: DslKeyValueParams) -> KeyValueBytesStoreSupplier:
        """Return how a key-value store is kept."""
        timestamped = params.is_timestamped
        return KeyValueBytesStoreSupplier(
            name=params.name,
            persistent=True,
            timestamped=timestamped,
            keeps_headers=params.dsl_store_format is DslStoreFormat.HEADERS,
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
        keeps_headers=persistent and params.dsl_store_format is DslStoreFormat.HEADERS,
    )


def _sessions(params: DslSessionParams, *, persistent: bool) -> SessionBytesStoreSupplier:
    return SessionBytesStoreSupplier(
        name=params.name,
        persistent=persistent,
        retention_ms=params.retention_ms,
        keeps_headers=persistent and params.dsl_store_format is DslStoreFormat.HEADERS,
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


def deciding(
    config: Mapping[str, object],
) -> Callable[[Mapping[str, StoreSpec]], dict[str, StoreSpec]] | None:
    """Return what decides how a configuration's stores are kept; ``None`` if it says nothing.

    What an operator has said of how its store is kept counts more.

    Raises:
        ConfigError: an option names no ``DslStoreSuppliers`` or no format.
        TopologyError: when it is called, see :func:`decided`.
    """
    suppliers, headers = dsl_stores_of(config), wants_headers(config)
    if suppliers is None and not headers:
        return None
    otherwise = suppliers or (BuiltInDslStoreSuppliers.ROCKS_DB if headers else None)

    def kept(spec: StoreSpec) -> StoreSpec:
        found = spec.dsl_suppliers or otherwise
        if spec.dsl_params is None or found is None:
            return spec
        if headers:
            params = replace(spec.dsl_params, dsl_store_format=DslStoreFormat.HEADERS)
            spec = replace(spec, dsl_params=params)
        return decided(spec, found)

    return lambda stores: {name: kept(spec) for name, spec in stores.items()}


def kept_as(
    spec: StoreSpec, suppliers: DslStoreSuppliers | None, *, persistent: bool | None
) -> StoreSpec:
    """Return the store as ``suppliers`` keep it, or on disk or not; with neither as it is.

    Raises:
        TopologyError: see :func:`decided`.
    """
    if suppliers is None and persistent is not None:
        built_in = BuiltInDslStoreSuppliers
        suppliers = built_in.ROCKS_DB if persistent else built_in.IN_MEMORY
    if suppliers is None:
        return spec
    # What the application says of formats is not known yet.
    return replace(decided(spec, suppliers), dsl_params=spec.dsl_params, dsl_suppliers=suppliers)


def supplied(spec: StoreSpec, supplier: StoreSupplier) -> StoreSpec:
    """Return the store as ``supplier`` keeps it.

    Raises:
        TopologyError: the supplier is one of another kind of store.
    """
    kind = spec.kind
    if getattr(supplier, "keeps_headers", False):
        # The stores of joins keep none: nobody reads them.
        kind = kind.with_headers or kind
    match spec.kind.key_layout, supplier:
        case KeyLayout.PLAIN, KeyValueBytesStoreSupplier():
            check_timestamps(supplier, kind, "key_value_store")
            return replace(spec, kind=kind, entries_max=supplier.entries_max, **_kept(supplier))
        case KeyLayout.WINDOW, WindowBytesStoreSupplier():
            check_timestamps(supplier, kind, "window_store")
            return replace(
                spec,
                kind=kind,
                retention_ms=supplier.retention_ms,
                window_size_ms=supplier.window_size_ms,
                retain_duplicates=supplier.retain_duplicates,
                time_ordered=supplier.time_ordered,
                **_kept(supplier),
            )
        case KeyLayout.SESSION, SessionBytesStoreSupplier():
            return replace(spec, kind=kind, retention_ms=supplier.retention_ms, **_kept(supplier))
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
        "dsl_suppliers": None,
    }
