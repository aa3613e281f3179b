"""RocksDB's properties (KIP-607) and statistics (KIP-471), by Kafka Streams' names."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from headwater.model.metrics import ROCKSDB_PROPERTIES
from headwater.model.metrics import stores as metrics

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_OF_DATABASE: Final = frozenset(
    {
        "num-running-flushes",
        "num-running-compactions",
        "block-cache-capacity",
        "block-cache-usage",
        "block-cache-pinned-usage",
        "background-errors",
    }
)
"""Properties that every column family tells alike; others are summed."""
_COUNT: Final = re.compile(r"^(rocksdb\.\S+) COUNT : (\d+)", re.MULTILINE)
_TIMES: Final = re.compile(
    r"^(rocksdb\.\S+) P50 .* P100 : (\S+) COUNT : (\d+) SUM : (\d+)", re.MULTILINE
)
_MS: Final = 1_000


def properties_of(families: Sequence[Any]) -> dict[str, float]:
    """Return the properties of a database by the names of their metrics.

    Args:
        families: its column families, as ``Rdict``.
    """
    found: dict[str, float] = {}
    for name, metric in ROCKSDB_PROPERTIES.items():
        asked = families[:1] if name in _OF_DATABASE else families
        values = [family.property_int_value(f"rocksdb.{name}") for family in asked]
        found[metric.name] = float(sum(value or 0 for value in values))
    return found


def numbers_of(text: str) -> dict[str, float]:
    """Return the numbers in RocksDB's statistics by the names of their metrics."""
    counts = {name: int(count) for name, count in _COUNT.findall(text)}
    times = {
        name: (float(greatest), int(count), int(total))
        for name, greatest, count, total in _TIMES.findall(text)
    }
    found = {
        metrics.BYTES_WRITTEN: counts.get("rocksdb.bytes.written", 0),
        metrics.BYTES_READ: counts.get("rocksdb.bytes.read", 0),
        metrics.MEMTABLE_FLUSHED: counts.get("rocksdb.flush.write.bytes", 0),
        metrics.MEMTABLE_HIT_RATIO: _share(counts, "rocksdb.memtable.hit", "rocksdb.memtable.miss"),
        metrics.STALL_TOTAL: counts.get("rocksdb.stall.micros", 0) / _MS,
        metrics.COMPACTION_READ: counts.get("rocksdb.compact.read.bytes", 0),
        metrics.COMPACTION_WRITTEN: counts.get("rocksdb.compact.write.bytes", 0),
        metrics.FILE_ERRORS: counts.get("rocksdb.no.file.errors", 0),
    }
    for kind, metric in metrics.HIT_RATIOS.items():
        cache = f"rocksdb.block.cache.{kind}"
        found[metric] = _share(counts, f"{cache}.hit", f"{cache}.miss")
    for name, average, greatest in (
        (
            "rocksdb.db.flush.micros",
            metrics.MEMTABLE_FLUSH_TIME_AVG,
            metrics.MEMTABLE_FLUSH_TIME_MAX,
        ),
        (
            "rocksdb.compaction.times.micros",
            metrics.COMPACTION_TIME_AVG,
            metrics.COMPACTION_TIME_MAX,
        ),
        ("rocksdb.db.write.stall", metrics.STALL_AVG, None),
    ):
        longest, count, total = times.get(name, (0.0, 0, 0))
        found[average] = total / count / _MS if count else 0.0
        if greatest is not None:
            found[greatest] = longest / _MS
    return {metric.name: value for metric, value in found.items()}


def _share(counts: Mapping[str, int], hit: str, miss: str) -> float:
    hits, total = counts.get(hit, 0), counts.get(hit, 0) + counts.get(miss, 0)
    return hits / total if total else 0.0
