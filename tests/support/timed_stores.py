"""Stores of windows and sessions for tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headwater.model.stores import StoreKind, StoreSpec
from headwater.serde import Serdes
from headwater.state import CacheBudget, TimedStore, memory_backend, open_store
from headwater.state.backends.segments import SegmentedRocksBackend
from headwater.state.expiry import Expiry
from headwater.state.keys import suffix_bytes_of
from tests.support.custom_stores import in_own_store
from tests.support.stores import TASK, TOPIC, Recorder

if TYPE_CHECKING:
    from pathlib import Path

    from headwater.ports import Backend

RETENTION_MS = 120_000
"""Two segments."""


def spec_of(
    kind: StoreKind = StoreKind.TIMESTAMPED_WINDOW,
    *,
    persistent: bool = True,
    caching: bool = True,
    retention_ms: int = RETENTION_MS,
    retain_duplicates: bool = False,
    time_ordered: bool = False,
    custom: bool = False,
) -> StoreSpec:
    """Return what a store of windows of ten seconds, or of sessions, is.

    ``custom``: it is one of the user's own, over dictionaries.
    """
    spec = StoreSpec(
        name="counts",
        kind=kind,
        persistent=persistent,
        caching=caching,
        retention_ms=retention_ms,
        window_size_ms=10_000,
        retain_duplicates=retain_duplicates,
        time_ordered=time_ordered,
    )
    return in_own_store(spec) if custom else spec


def backend_of(spec: StoreSpec, path: Path) -> Backend:
    """Open the backend of a store."""
    if not spec.persistent:
        return memory_backend(spec)
    return SegmentedRocksBackend(
        path, Expiry.of(spec), suffix_bytes_of(spec), by_time=spec.time_ordered
    )


def build_timed_store(
    recorder: Recorder,
    spec: StoreSpec,
    backend: Backend,
    *,
    cache: int | CacheBudget | None = 0,
    key: Any = Serdes.string,
    value: Any = Serdes.long,
) -> TimedStore:
    """Build a store over an open backend; the recorder hears its changes, with old values."""
    recorder.keeps_headers = spec.kind.keeps_headers
    store = open_store(
        spec,
        task=TASK,
        changelog_topic=TOPIC,
        backend=backend,
        cache=CacheBudget(cache) if isinstance(cache, int) else cache,
        changelog_send=recorder.send,
        key_serde=key,
        value_serde=value,
    )
    assert isinstance(store, TimedStore)
    store.on_change(recorder.forward, send_old=True)
    return store
