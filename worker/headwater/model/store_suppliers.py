"""Suppliers of stores: how a store keeps its bytes, and for how long (Kafka's ``StoreSupplier``).

A subclass whose ``get`` makes stores supplies stores of the user's own; what they do is said in
``model/custom_stores.py``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from headwater.errors import TopologyError
from headwater.model.custom_stores import (
    KeyValueBytesStore,
    SessionBytesStore,
    VersionedBytesStore,
    WindowBytesStore,
)
from headwater.model.naming import check_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from headwater.model.stores import StoreKind

Store = TypeVar("Store")


class _StoreSupplier(Generic[Store]):
    """What suppliers of all kinds have in common."""

    __slots__ = ()
    name: str

    @property
    def makes_stores(self) -> bool:
        """Whether the stores are the user's own."""
        return type(self).get is not _StoreSupplier.get

    @property
    def make_store(self) -> Callable[[], Store] | None:
        """What makes a store of the user's own; ``None``: the engine has one."""
        return self.get if self.makes_stores else None

    @property
    def metrics_scope(self) -> str:
        """How metrics call the store, without ``-id`` (``StoreSupplier.metricsScope``).

        To be overridden for stores of the user's own; as it is, they are called as one in memory.
        """
        return ""

    def get(self) -> Store:
        """Make the store of a task; as it is, the engine does that.

        Raises:
            TopologyError: it is not overridden.
        """
        raise TopologyError(f"Store {self.name!r} is made by the engine")

    def _check(self, *, persistent: bool) -> None:
        check_name("store", self.name)
        if persistent and self.makes_stores:
            raise TopologyError(
                f"Store {self.name!r}: a store that get() makes is filled from its changelog at "
                "every start: leave out persistent"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyValueBytesStoreSupplier(_StoreSupplier[KeyValueBytesStore]):
    """How a key-value store keeps its bytes (Kafka's interface of this name).

    Attributes:
        name: of the store.
        persistent: in RocksDB, otherwise in memory.
        timestamped: values are kept with timestamps; ``None``: the builder decides.
        entries_max: in memory, so many entries are kept, those used last; ``None``: all.
        keeps_headers: on disk, headers lie beside values (Kafka's ``HeadersBytesStoreSupplier``);
            in memory the builder decides.
    """

    name: str
    persistent: bool = False
    timestamped: bool | None = None
    keeps_headers: bool = False
    entries_max: int | None = None

    def __post_init__(self) -> None:
        self._check(persistent=self.persistent)
        if self.entries_max is not None and (self.entries_max < 0 or self.persistent):
            raise TopologyError(
                f"Store {self.name!r}: a bound of {self.entries_max} entries needs a store in "
                "memory, and 0 or more"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowBytesStoreSupplier(_StoreSupplier[WindowBytesStore]):
    """How a store of windows keeps its bytes (Kafka's interface of this name).

    Attributes:
        name: of the store.
        persistent: in RocksDB, otherwise in memory.
        timestamped: values are kept with timestamps; ``None``: the builder decides.
        retention_ms: how long windows are kept, by stream time; at least their size.
        window_size_ms: how long a window is.
        retain_duplicates: several values of a key and start are kept.
        time_ordered: windows are read by time when they close.
        keeps_headers: as in ``KeyValueBytesStoreSupplier``.
    """

    name: str
    persistent: bool = False
    timestamped: bool | None = None
    keeps_headers: bool = False
    retention_ms: int
    window_size_ms: int
    retain_duplicates: bool = False
    time_ordered: bool = False

    def __post_init__(self) -> None:
        self._check(persistent=self.persistent)
        _check_retention(self.name, self.retention_ms)
        if self.window_size_ms < 0:
            raise TopologyError(
                f"Store {self.name!r}: a window size of {self.window_size_ms} ms is negative: "
                "choose 0 ms or more"
            )
        if self.window_size_ms > self.retention_ms:
            raise TopologyError(
                f"Store {self.name!r}: a retention of {self.retention_ms} ms is shorter than the "
                f"windows, {self.window_size_ms} ms: choose at least that"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionBytesStoreSupplier(_StoreSupplier[SessionBytesStore]):
    """How a store of sessions keeps its bytes (Kafka's interface of this name).

    Attributes:
        name: of the store.
        persistent: in RocksDB, otherwise in memory.
        retention_ms: how long sessions are kept after their end, by stream time.
        keeps_headers: as in ``KeyValueBytesStoreSupplier``.
    """

    name: str
    persistent: bool = False
    keeps_headers: bool = False
    retention_ms: int

    def __post_init__(self) -> None:
        self._check(persistent=self.persistent)
        _check_retention(self.name, self.retention_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionedBytesStoreSupplier(_StoreSupplier[VersionedBytesStore]):
    """How a versioned store keeps its bytes (Kafka's interface of this name).

    Attributes:
        name: of the store.
        history_retention_ms: for how long values of the past are known, by stream time. A put that
            is older is dropped.
    """

    name: str
    history_retention_ms: int

    def __post_init__(self) -> None:
        self._check(persistent=False)
        _check_retention(self.name, self.history_retention_ms)


def _check_retention(name: str, retention_ms: int) -> None:
    if retention_ms < 0:
        raise TopologyError(
            f"Store {name!r}: a retention of {retention_ms} ms is negative: choose 0 ms or more"
        )


def check_supplier(
    owner: str, given: object, kind: type[_StoreSupplier[Any]] = _StoreSupplier
) -> None:
    """Check that what is given is a supplier, of this kind.

    Raises:
        TopologyError: it is not.
    """
    if not isinstance(given, kind):
        wanted = "supplier of Stores" if kind is _StoreSupplier else kind.__name__
        raise TopologyError(f"{owner} is {given!r:.100}; pass a {wanted}, or of a subclass")


def check_timestamps(
    supplier: KeyValueBytesStoreSupplier | WindowBytesStoreSupplier, kind: StoreKind, method: str
) -> None:
    """Check that what keeps a store and what it is agree on timestamps.

    Raises:
        TopologyError: they do not; it says which of the ``method`` of ``Stores`` to call.
    """
    if supplier.timestamped not in (None, kind.timestamped):
        wanted = "persistent_timestamped" if kind.timestamped else "persistent"
        raise TopologyError(
            f"Store {supplier.name!r}: what is built and its supplier differ in timestamps; "
            f"pass Stores.{wanted}_{method}({supplier.name!r})"
        )


def check_headers(
    supplier: KeyValueBytesStoreSupplier | WindowBytesStoreSupplier | SessionBytesStoreSupplier,
    kind: StoreKind,
    method: str,
) -> None:
    """Check that what keeps a store on disk and what it is agree on headers.

    Raises:
        TopologyError: they do not; it says which of the ``method`` of ``Stores`` to call.
    """
    if supplier.persistent and supplier.keeps_headers is not kind.keeps_headers:
        timestamped = "timestamped_" if kind.timestamped else ""
        suffix = "_with_headers" if kind.keeps_headers else ""
        raise TopologyError(
            f"Store {supplier.name!r}: what is built and its supplier differ in headers; pass "
            f"Stores.persistent_{timestamped}{method}{suffix}({supplier.name!r})"
        )
