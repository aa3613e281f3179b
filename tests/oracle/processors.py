"""Processors of the oracle's catalogue, as ``tests/java/oracle/Behaviour.java`` has them."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from headwater import (
    FixedKeyProcessor,
    FixedKeyRecord,
    Processor,
    ProcessorWrapper,
    PunctuationType,
    Record,
    Serdes,
    StoreKind,
    Stores,
    StoreSpec,
    ValueAndTimestamp,
    VersionedRecord,
)
from tests.oracle import timed_scans
from tests.oracle.functions import text
from tests.oracle.holding import hold, timed_store

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

AGO: Final = (-30, 0, 1, 10, 25, 50, 75, 100)
INTERVAL: Final = 10
START: Final = 25
TICKS: Final[dict[str, tuple[PunctuationType, int | None]]] = {
    "stream_ticks": (PunctuationType.STREAM_TIME, None),
    "wall_ticks": (PunctuationType.WALL_CLOCK_TIME, None),
    "anchored_stream_ticks": (PunctuationType.STREAM_TIME, START),
    "anchored_wall_ticks": (PunctuationType.WALL_CLOCK_TIME, START),
}


def stores_of(step: Mapping[str, Any]) -> list[StoreSpec]:
    """Return the stores of a step."""
    return [_store(given) for given in step.get("stores", ())]


def _store(given: Mapping[str, Any]) -> StoreSpec:
    name, stamped = given["store"], given.get("timestamped", True)
    if "history_ms" in given:
        kept = Stores.persistent_versioned_key_value_store(name, given["history_ms"])
        versioned = Stores.versioned_key_value_store_builder(kept, Serdes.string, Serdes.string)
        return versioned if given.get("logging", True) else versioned.with_logging_disabled()
    if "kind" in given:
        return timed_store(given)
    if "lru" in given:
        supplier = Stores.lru_map(name, given["lru"])
    elif not given.get("persistent", True):
        supplier = Stores.in_memory_key_value_store(name)
    elif given.get("headers"):
        supplier = Stores.persistent_timestamped_key_value_store_with_headers(name)
    elif stamped:
        supplier = Stores.persistent_timestamped_key_value_store(name)
    else:
        supplier = Stores.persistent_key_value_store(name)
    build = (
        Stores.timestamped_key_value_store_builder if stamped else Stores.key_value_store_builder
    )
    if given.get("headers"):
        build = Stores.timestamped_key_value_store_with_headers_builder
    store = build(supplier, Serdes.string, Serdes.string)
    if given.get("caching"):
        store = store.with_caching_enabled()
    return store if given.get("logging", True) else store.with_logging_disabled()


def _shown(found: VersionedRecord | None) -> str:
    if found is None:
        return "null"
    return f"{found.value}@{found.timestamp}"


def _row(key: str, value: Any) -> str:
    shown = f"{value.value}@{value.timestamp}" if isinstance(value, ValueAndTimestamp) else value
    return f"{key}{shown} "


class Behaviour:
    """What a processor does, whether it may change keys or not."""

    def __init__(self, fn: str, stores: Sequence[StoreSpec], finds: Sequence[str] = ()) -> None:
        self._fn = fn
        self._stores = stores
        self._finds = finds
        self._context: Any = None

    def begin(self, context: Any, send: Callable[[Any, Any, int, Any], None]) -> None:
        """Take the context, and schedule what ticks."""
        self._context, self._send = context, send
        if self._fn in TICKS:
            kind, start = TICKS[self._fn]
            context.schedule(INTERVAL, kind, self._tick, start_ms=start)
        elif self._fn == "forward_all":
            context.schedule(INTERVAL, PunctuationType.STREAM_TIME, self._forward_all)

    def handle(self, key: Any, value: Any, timestamp: int, headers: Any) -> None:
        """Handle one record."""
        send, said = self._send, text(value)
        match self._fn:
            case "again":
                send(key, said, timestamp, headers)
                send(key, said + "+", timestamp + 1, headers)
            case "turn":
                send(said, text(key), timestamp, headers)
            case "with_header":
                send(key, said, timestamp, [*(headers or ()), ("more", b"\x01")])
            case "place":
                send(key, self._place(), timestamp, headers)
            case "keep" | "hold" | "versions" | "scan" | "scan_forward" | "windows" | "sessions":
                for spec in self._stores:
                    told = self._told(spec, text(key), value, timestamp, headers)
                    send(key, told, timestamp, headers)
            case "forward_all":
                self._replace(self._stores[0], text(key), said, timestamp)
            case "find":
                for name in self._finds:
                    send(key, f"{said}={self._find(name, said)}", timestamp, headers)
            case _:
                assert self._fn in TICKS
                send(key, said, timestamp, headers)

    def _scan(self, spec: StoreSpec, key: str, value: str | None, timestamp: int) -> str:
        """Put or delete a key; return what every scan finds."""
        store = self._context.get_state_store(spec.name)
        if spec.kind.timestamped:
            store.put(key, value, timestamp)
        else:
            store.put(key, value)
        scans = [
            store.all(),
            store.range("b", key),
            store.range(key, None),
            store.prefix_scan(key[:1], Serdes.string),
        ]
        if self._fn == "scan":
            scans += [
                store.reverse_all(),
                store.reverse_range(None, key),
                store.reverse_range("a", "m"),
            ]
        return "".join("".join(_row(*row) for row in scan) + "| " for scan in scans)

    def _tick(self, now_ms: int) -> None:
        self._send("tick", f"{now_ms} {self._place()}", now_ms, None)

    def _forward_all(self, _now_ms: int) -> None:
        for key, found in self._context.get_state_store(self._stores[0].name).all():
            self._send(key, found.value, found.timestamp, None)

    def _place(self) -> str:
        metadata = self._context.record_metadata()
        where = "nowhere" if metadata is None else "-".join(map(str, metadata))
        return f"{where} {self._context.current_stream_time_ms()}"

    def _told(self, spec: StoreSpec, key: str, value: Any, timestamp: int, headers: Any) -> str:
        """Put into a store; return what there is to tell."""
        if self._fn == "versions":
            return self._version(spec.name, key, value, timestamp)
        if self._fn in {"windows", "sessions"}:
            store, told = (
                self._context.get_state_store(spec.name),
                None if value is None else text(value),
            )
            if self._fn == "windows":
                return timed_scans.windows(spec, store, key, told, timestamp)
            return timed_scans.sessions(store, key, told, timestamp)
        if self._fn.startswith("scan"):
            return self._scan(spec, key, None if value is None else text(value), timestamp)
        if self._fn == "keep":
            return f"{self._replace(spec, key, text(value), timestamp)}>{text(value)}"
        store = self._context.get_state_store(spec.name)
        return f"{hold(spec, store, key, value, timestamp, headers)}>{text(value)}"

    def _version(self, name: str, key: str, value: Any, timestamp: int) -> str:
        store = self._context.get_state_store(name)
        if value is None:
            told = [_shown(store.delete(key, timestamp))]
        else:
            told = [str(store.put(key, text(value) or None, timestamp))]
        told.append(_shown(store.get(key)))
        told += [_shown(store.get(key, timestamp - back)) for back in AGO]
        return " ".join(told)

    def _find(self, name: str, key: str) -> str:
        found = self._context.get_state_store(name).get(key)
        if isinstance(found, ValueAndTimestamp):
            return f"{text(found.value)}@{found.timestamp}"
        return text(found)

    def _replace(self, spec: StoreSpec, key: str, value: str, timestamp: int) -> str:
        store = self._context.get_state_store(spec.name)
        old = store.get(key)
        if spec.kind == StoreKind.TIMESTAMPED_KEY_VALUE:
            store.put(key, value, timestamp)
            return "null" if old is None else f"{old.value}@{old.timestamp}"
        store.put(key, value)
        return "null" if old is None else str(old)


class Free(Processor[Any, Any, Any, Any]):
    """Forwards under any key."""

    def __init__(self, behaviour: Behaviour) -> None:
        self._behaviour = behaviour

    def init(self, context: Any) -> None:
        """Begin."""
        self._behaviour.begin(context, lambda *fields: context.forward(Record(*fields)))

    def process(self, record: Record[Any, Any]) -> None:
        """Handle one record."""
        self._behaviour.handle(record.key, record.value, record.timestamp, record.headers)


class FixedKey(FixedKeyProcessor[Any, Any, Any]):
    """Forwards what the last record it was given becomes."""

    def __init__(self, behaviour: Behaviour) -> None:
        self._behaviour = behaviour
        self._last: FixedKeyRecord[Any, Any] | None = None

    def init(self, context: Any) -> None:
        """Begin."""
        super().init(context)
        self._behaviour.begin(context, self._send)

    def process(self, record: FixedKeyRecord[Any, Any]) -> None:
        """Handle one record."""
        self._last = record
        self._behaviour.handle(record.key, record.value, record.timestamp, record.headers)

    def _send(self, _key: Any, value: Any, timestamp: int, headers: Any) -> None:
        if self._last is not None:
            changed = self._last.with_value(value).with_timestamp(timestamp)
            self.context.forward(changed.with_headers(headers))


class Supplier:
    """Makes the processors of a step; it may bring its stores along."""

    def __init__(
        self, kind: type[Any], step: Mapping[str, Any], stores: list[StoreSpec], *, brings: bool
    ) -> None:
        self._kind, self._stores, self._brings = kind, stores, brings
        self._fn, self._finds = step["fn"], step.get("finds", ())

    def __call__(self) -> Any:
        return self._kind(Behaviour(self._fn, self._stores, self._finds))

    def stores(self) -> list[StoreSpec] | None:
        """Return the stores, if it brings them."""
        return self._stores if self._brings else None


class Noted(ProcessorWrapper):
    """Notes what it wraps, and how many records each processor is given."""

    def __init__(self) -> None:
        self.wrapped: list[list[str]] = []
        self.records: Counter[str] = Counter()

    def wrap_processor_supplier(self, name: str, supplier: Any) -> Any:
        """Count the records of a processor."""
        self.wrapped.append([name, "any key"])
        return partial(_Counting, self.records, name, supplier)

    def wrap_fixed_key_processor_supplier(self, name: str, supplier: Any) -> Any:
        """Count the records of a processor that keeps keys."""
        self.wrapped.append([name, "fixed key"])
        return partial(_Counting, self.records, name, supplier)


class _Counting:
    """Counts records; neither kind of processor by type, which nobody asks."""

    def __init__(self, records: Counter[str], name: str, supplier: Any) -> None:
        self._records, self._name, self._inner = records, name, supplier()

    def init(self, context: Any) -> None:
        self._inner.init(context)

    def process(self, record: Any) -> None:
        self._records[self._name] += 1
        self._inner.process(record)

    def close(self) -> None:
        self._inner.close()
