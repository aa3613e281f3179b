"""What is measured of a store: its operations and iterators, and what its backend tells.

A store is measured by putting functions in front of its methods, once, before anything is compiled
against it. What a level does not record is left as it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from headwater.model import metrics
from headwater.model.metrics import RecordingLevel, Snapshot
from headwater.model.stores import KeyLayout

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

    from headwater.measuring.task import Measures
    from headwater.measuring.windows import Window, Windows
    from headwater.model.stores import StoreSpec

_METHODS: Final[Mapping[str, str]] = {
    "get": "get",
    "get_as_of": "get",
    "put": "put",
    "put_if_absent": "put-if-absent",
    "put_all": "put-all",
    "delete": "delete",
    "put_version": "put",
    "append": "put",
    "buffer": "put",
    "fetch": "fetch",
    "fetch_all": "fetch",
    "range": "range",
    "prefix_scan": "prefix-scan",
    "flush_changelog": "flush",
    "commit": "commit",
}
"""Which operation a method of a store is."""
_COMPOSED: Final = frozenset({"put-if-absent", "put-all", "delete"})
"""Operations that look up and put themselves, which is not counted beside them, as in Java."""
_SCANS: Final = ("range", "prefix_scan")
_SCOPES: Final = {KeyLayout.WINDOW: "window-", KeyLayout.SESSION: "session-"}


class StoreMeasures:
    """What is measured of one store of a task."""

    def __init__(self, spec: StoreSpec, store: Any, measures: Measures, windows: Windows) -> None:
        self.name = spec.name
        self.scope = scope_of(spec)
        self._store = store
        self._now_ms, self._now_ns = measures.now_ms, measures.now_ns
        self._is_debug = measures.level.records(RecordingLevel.DEBUG)
        self._is_trace = measures.level.records(RecordingLevel.TRACE)
        self._e2e = windows.new()
        self._windows = windows
        self._open: WeakKeyDictionary[Any, int] = WeakKeyDictionary()
        self._latencies: dict[str, Window] = {}
        self._counts: dict[str, int] = {}
        self._durations = windows.new()
        self._sizes = (windows.new(), windows.new()) if spec.kind.is_buffer else None
        self._hit_ratio = windows.new()
        self._hits = self._looks = 0
        self._is_inside = False
        """An operation is under way that is made of others."""
        self._deletes_by_put = spec.kind.versioned
        self._is_session = spec.kind.key_layout is KeyLayout.SESSION
        self._watch(spec, store)
        if spec.kind.keeps_headers:
            with_headers = store.with_headers
            store.with_headers = lambda: self._watch(spec, with_headers())

    def _watch(self, spec: StoreSpec, store: Any) -> Any:
        for method in _SCANS:
            if hasattr(store, method) and not spec.kind.versioned:
                setattr(store, method, self._tracked(getattr(store, method)))
        if self._is_debug:
            self._time_all(store)
        return store

    @property
    def cached_bytes(self) -> int:
        """What the store's record cache holds."""
        return int(self._store.cached_bytes())

    # ---- in front of methods -------------------------------------------------------------------

    def _tracked(self, scan: Callable[..., Any]) -> Callable[..., Any]:
        opened, now_ms = self._open, self._now_ms

        def tracked(*args: Any, **options: Any) -> Any:
            iterator = scan(*args, **options)
            if self._is_debug:
                iterator = self._until_closed(iterator, self._now_ns())
            opened[iterator] = now_ms()
            return iterator

        return tracked

    def _until_closed(self, iterator: Any, since_ns: int) -> Generator[Any, None, None]:
        try:
            yield from iterator
        finally:
            self._durations.record(self._now_ns() - since_ns)

    def _time_all(self, store: Any) -> None:
        for method, operation in _METHODS.items():
            if hasattr(store, method):
                setattr(store, method, self._timed(getattr(store, method), operation))
        compile_updater = store.updater

        def updater(*args: Any, **options: Any) -> Any:
            return self._timed_update(compile_updater(*args, **options))

        store.updater = updater

    def _timed(self, function: Callable[..., Any], operation: str) -> Callable[..., Any]:
        now_ns, record = self._now_ns, self._record
        is_composed = operation in _COMPOSED

        def timed(*args: Any, **options: Any) -> Any:
            if operation == "get":
                self._look(args[0])
            if self._is_inside:
                return function(*args, **options)
            self._is_inside = is_composed
            started = now_ns()
            try:
                return function(*args, **options)
            finally:
                self._is_inside = False
                record(self._named(operation, args), now_ns() - started)

        return timed

    def _timed_update(self, update: Callable[..., Any]) -> Callable[..., Any]:
        now_ns, record = self._now_ns, self._record
        now_ms, is_trace, arrived = self._now_ms, self._is_trace, self._e2e.record

        def timed(key: Any, value: Any, timestamp: int, headers: Any) -> None:
            self._look(key)
            if is_trace:
                arrived(now_ms() - timestamp)
            started = now_ns()
            update(key, value, timestamp, headers)
            record("put", now_ns() - started)

        return timed

    def _named(self, operation: str, args: tuple[Any, ...]) -> str:
        if operation == "put" and len(args) > 1 and args[1] is None:
            return "remove" if self._is_session else "delete" if self._deletes_by_put else operation
        if operation == "range" and args[:2] == (None, None):
            return "all"
        return operation

    def _record(self, operation: str, took_ns: int) -> None:
        window = self._latencies.get(operation)
        if window is None:
            window = self._latencies[operation] = self._windows.new()
        window.record(took_ns)
        self._counts[operation] = self._counts.get(operation, 0) + 1

    def _look(self, key: Any) -> None:
        """Note whether the record cache has a key that is looked up."""
        found = self._store.is_cached(key)
        if found is not None:
            self._looks += 1
            self._hits += found

    # ---- when somebody looks -------------------------------------------------------------------

    def numbers(self, task: str) -> Snapshot:
        """Return what there is to see."""
        opened = [at for iterator, at in self._open.items() if _is_open(iterator)]
        shown: dict[metrics.Metric, float | None] = {
            metrics.OPEN_ITERATORS: len(opened),
            metrics.OLDEST_ITERATOR: min(opened, default=0),
            **self._of_backend(),
        }
        parts = []
        if self._is_debug:
            for operation, window in self._latencies.items():
                shown[metrics.OPERATION_COUNTS[operation]] = self._counts[operation]
                shown |= window.values(metrics.OPERATION_LATENCIES[operation])
            shown |= self._durations.values(metrics.ITERATOR_DURATION)
            shown |= self._e2e.values(metrics.STORE_E2E_LATENCY)
            shown |= self._of_buffer()
            parts.append(Snapshot.of(self._of_cache(), task, self.name))
        parts.append(Snapshot.of(shown, task, self.scope, self.name))
        return Snapshot.merged(parts)

    def _of_backend(self) -> dict[metrics.Metric, float | None]:
        if not self.scope.startswith("rocksdb"):
            return {metrics.NUM_KEYS: self._store.approximate_num_entries()}
        told: Mapping[str, float] = self._store.backend_numbers()
        return {metrics.BY_NAME[name]: value for name, value in told.items()}

    def _of_buffer(self) -> dict[metrics.Metric, float | None]:
        if self._sizes is None:
            return {}
        count, size = self._sizes
        count.record(self._store.count)
        size.record(self._store.size_bytes)
        return {**count.values(metrics.BUFFER_COUNT), **size.values(metrics.BUFFER_SIZE)}

    def _of_cache(self) -> dict[metrics.Metric, float | None]:
        if self._looks:
            self._hit_ratio.record(self._hits / self._looks)
            self._hits = self._looks = 0
        return self._hit_ratio.values(metrics.HIT_RATIO)


def scope_of(spec: StoreSpec) -> str:
    """Return Kafka's scope of a store: what its label is called there, without ``-id``."""
    if spec.kind.is_buffer:
        return "in-memory-suppression"
    if spec.metrics_scope:
        return spec.metrics_scope
    if spec.entries_max is not None:
        return "in-memory-lru-state"
    kept = "rocksdb" if spec.persistent else "in-memory"
    return f"{kept}-{_SCOPES.get(spec.kind.key_layout, '')}state"


def _is_open(iterator: Any) -> bool:
    return getattr(iterator, "gi_frame", None) is not None
