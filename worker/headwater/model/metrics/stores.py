"""Numbers of a state store: its operations, its iterators, its RocksDB, its record cache."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from headwater.metrics_settings import RecordingLevel
from headwater.model.metrics.declaring import (
    Metric,
    Scope,
    Spread,
    Unit,
    counter,
    gauge,
    rate,
    spread,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

_STORE: Final = Scope.STORE
_DEBUG: Final = RecordingLevel.DEBUG

OPERATIONS: Final = MappingProxyType(
    {
        "put": "writes, in a batch of updates each",
        "put-if-absent": "writes of absent keys",
        "put-all": "writes of several keys",
        "delete": "deletions",
        "remove": "removals of sessions",
        "get": "look-ups of a key",
        "fetch": "look-ups of windows or sessions of a key",
        "all": "scans of the whole store",
        "range": "scans of a range",
        "prefix-scan": "scans of a prefix",
        "flush": "flushes of cache and changelog",
        "commit": "commits",
    }
)
"""What can be done with a store, by Kafka's names."""
OPERATION_LATENCIES: Final[Mapping[str, Spread]] = MappingProxyType(
    {
        name: spread(_STORE, f"{name}-latency", f"the time of {what}", Unit.NS, level=_DEBUG)
        for name, what in OPERATIONS.items()
    }
)
OPERATION_COUNTS: Final[Mapping[str, Metric]] = MappingProxyType(
    {
        name: counter(
            _STORE,
            f"{name}-total",
            f"How many {what.partition(',')[0]} there were.",
            is_kafkas=False,
            level=_DEBUG,
        )
        for name, what in OPERATIONS.items()
    }
)
OPEN_ITERATORS: Final = gauge(
    _STORE, "num-open-iterators", "Iterators that are not read to their end."
)
OLDEST_ITERATOR: Final = gauge(
    _STORE,
    "oldest-iterator-open-since-ms",
    "When the oldest of them was opened, in milliseconds since the epoch; 0 if none is open.",
    Unit.MS,
)
ITERATOR_DURATION: Final = spread(
    _STORE, "iterator-duration", "how long an iterator was open", Unit.NS, level=_DEBUG
)
NUM_KEYS: Final = gauge(_STORE, "num-keys", "Keys of a store in memory, about.")
STORE_E2E_LATENCY: Final = spread(
    _STORE,
    "record-e2e-latency",
    "how old a record was, by its timestamp, when it reached the store",
    Unit.MS,
    least=True,
    level=RecordingLevel.TRACE,
)
BUFFER_COUNT: Final = spread(
    _STORE,
    "suppression-buffer-count",
    "the number of changes that wait",
    Unit.RECORDS,
    level=_DEBUG,
)
BUFFER_SIZE: Final = spread(
    _STORE, "suppression-buffer-size", "the bytes of changes that wait", Unit.BYTES, level=_DEBUG
)
METRICS_OF_STORES: Final = (
    *(
        metric
        for name in OPERATIONS
        for metric in (
            OPERATION_COUNTS[name],
            rate(OPERATION_COUNTS[name], is_kafkas=True),
            *OPERATION_LATENCIES[name],
        )
    ),
    OPEN_ITERATORS,
    OLDEST_ITERATOR,
    *ITERATOR_DURATION,
    NUM_KEYS,
    *STORE_E2E_LATENCY,
    *BUFFER_COUNT,
    *BUFFER_SIZE,
)

ROCKSDB_PROPERTIES: Final[Mapping[str, Metric]] = MappingProxyType(
    {
        name: gauge(_STORE, name, f"{what} (RocksDB's property `rocksdb.{name}`).", unit)
        for name, what, unit in (
            ("num-immutable-mem-table", "Write buffers that wait for their flush", Unit.NONE),
            ("cur-size-active-mem-table", "About the size of the active write buffer", Unit.BYTES),
            (
                "cur-size-all-mem-tables",
                "About the size of all unflushed write buffers",
                Unit.BYTES,
            ),
            ("size-all-mem-tables", "About the size of all write buffers", Unit.BYTES),
            ("num-entries-active-mem-table", "Entries of the active write buffer", Unit.NONE),
            ("num-entries-imm-mem-tables", "Entries of unflushed write buffers", Unit.NONE),
            ("num-deletes-active-mem-table", "Deletions in the active write buffer", Unit.NONE),
            ("num-deletes-imm-mem-tables", "Deletions in unflushed write buffers", Unit.NONE),
            ("mem-table-flush-pending", "1 while a flush waits", Unit.NONE),
            ("num-running-flushes", "Flushes that run", Unit.NONE),
            ("compaction-pending", "1 while a compaction waits", Unit.NONE),
            ("num-running-compactions", "Compactions that run", Unit.NONE),
            ("estimate-pending-compaction-bytes", "About how much is to be compacted", Unit.BYTES),
            ("total-sst-files-size", "The size of all table files", Unit.BYTES),
            ("live-sst-files-size", "The size of the table files in use", Unit.BYTES),
            ("num-live-versions", "Versions of the files that somebody reads", Unit.NONE),
            ("block-cache-capacity", "The size of the process's block cache", Unit.BYTES),
            ("block-cache-usage", "How much of it is used", Unit.BYTES),
            ("block-cache-pinned-usage", "How much of it is pinned", Unit.BYTES),
            ("estimate-num-keys", "About how many keys there are", Unit.NONE),
            ("estimate-table-readers-mem", "Memory of the readers of table files", Unit.BYTES),
            ("background-errors", "Errors in the background", Unit.NONE),
        )
    }
)
"""By the name of the property."""


def _of_statistics(kind: type, kafka: str, what: str, unit: Unit) -> Metric:
    declare = counter if kind is int else gauge
    return declare(_STORE, kafka, what, unit, level=_DEBUG)


BYTES_WRITTEN: Final = _of_statistics(int, "bytes-written-total", "Bytes written.", Unit.BYTES)
BYTES_READ: Final = _of_statistics(int, "bytes-read-total", "Bytes read.", Unit.BYTES)
MEMTABLE_FLUSHED: Final = _of_statistics(
    int, "memtable-bytes-flushed-total", "Bytes flushed from write buffers.", Unit.BYTES
)
MEMTABLE_HIT_RATIO: Final = _of_statistics(
    float, "memtable-hit-ratio", "Share of reads that a write buffer answered.", Unit.RATIO
)
MEMTABLE_FLUSH_TIME_AVG: Final = _of_statistics(
    float, "memtable-flush-time-avg", "The average time of a flush.", Unit.MS
)
MEMTABLE_FLUSH_TIME_MAX: Final = _of_statistics(
    float, "memtable-flush-time-max", "The greatest time of a flush.", Unit.MS
)
STALL_TOTAL: Final = _of_statistics(
    int, "write-stall-duration-total", "Time in which writes were stalled.", Unit.MS
)
STALL_AVG: Final = _of_statistics(
    float, "write-stall-duration-avg", "The average time of a stall.", Unit.MS
)
HIT_RATIOS: Final[Mapping[str, Metric]] = MappingProxyType(
    {
        kind: _of_statistics(
            float,
            f"block-cache-{kind}-hit-ratio",
            f"Share of reads of {kind} blocks that the block cache answered.",
            Unit.RATIO,
        )
        for kind in ("data", "index", "filter")
    }
)
COMPACTION_READ: Final = counter(
    _STORE,
    "bytes-read-compaction-total",
    "Bytes that compactions read.",
    Unit.BYTES,
    is_kafkas=False,
    level=_DEBUG,
)
COMPACTION_WRITTEN: Final = counter(
    _STORE,
    "bytes-written-compaction-total",
    "Bytes that compactions wrote.",
    Unit.BYTES,
    is_kafkas=False,
    level=_DEBUG,
)
COMPACTION_TIME_AVG: Final = _of_statistics(
    float, "compaction-time-avg", "The average time of a compaction.", Unit.MS
)
COMPACTION_TIME_MAX: Final = _of_statistics(
    float, "compaction-time-max", "The greatest time of a compaction.", Unit.MS
)
FILE_ERRORS: Final = _of_statistics(
    int, "number-file-errors-total", "Errors in opening files.", Unit.NONE
)
METRICS_OF_ROCKSDB: Final = (
    *ROCKSDB_PROPERTIES.values(),
    BYTES_WRITTEN,
    rate(BYTES_WRITTEN),
    BYTES_READ,
    rate(BYTES_READ),
    MEMTABLE_FLUSHED,
    rate(MEMTABLE_FLUSHED),
    MEMTABLE_HIT_RATIO,
    MEMTABLE_FLUSH_TIME_AVG,
    MEMTABLE_FLUSH_TIME_MAX,
    STALL_TOTAL,
    STALL_AVG,
    *HIT_RATIOS.values(),
    COMPACTION_READ,
    rate(COMPACTION_READ, is_kafkas=True),
    COMPACTION_WRITTEN,
    rate(COMPACTION_WRITTEN, is_kafkas=True),
    COMPACTION_TIME_AVG,
    COMPACTION_TIME_MAX,
    FILE_ERRORS,
)

HIT_RATIO: Final = spread(
    Scope.CACHE,
    "hit-ratio",
    "the share of look-ups that the record cache answered, between two reports",
    Unit.RATIO,
    least=True,
    level=_DEBUG,
)
METRICS_OF_CACHES: Final = tuple(HIT_RATIO)
