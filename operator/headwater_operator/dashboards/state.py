"""The dashboard of state: stores, restores and copies."""

from __future__ import annotations

from typing import Final

from headwater.model import metrics
from headwater.model.metrics import ROCKSDB_PROPERTIES
from headwater_operator.dashboards.choosing import (
    AVG,
    CLIENT,
    MAX,
    MIN,
    MOVES,
    OF_WORKERS,
    PLACE,
    ROLL_OUTS,
    STORE,
    TASK,
    THREAD,
    average,
    lines,
    shown,
    spread_lines,
)
from headwater_operator.dashboards.panels import Dashboard, Panel, Quotient, Row, named

_CACHE: Final = (*TASK, "record_cache_id")
_USAGE, _CAPACITY = (
    ROCKSDB_PROPERTIES["block-cache-usage"],
    ROCKSDB_PROPERTIES["block-cache-capacity"],
)


def _rocksdb(title: str, description: str, name: str) -> Panel:
    return lines(title, description, ROCKSDB_PROPERTIES[name], STORE)


STATE: Final = Dashboard(
    uid="headwater-state",
    title="Headwater / State",
    description="Stores, restores and copies: how large is the state, and how far is each copy?",
    variables=OF_WORKERS,
    annotations=(MOVES, ROLL_OUTS),
    links=("headwater-fleet", "headwater-application", "headwater-worker"),
    rows=(
        Row(
            title="Restores",
            panels=(
                lines(
                    "Records still to restore",
                    "Falls to 0 while a task is restored. A line that stays: the restore does not "
                    "progress.",
                    metrics.RESTORE_REMAINING_RECORDS,
                    PLACE,
                ),
                lines(
                    "Records restored",
                    "Changelog records that restores applied, per second.",
                    metrics.RESTORE_RECORDS,
                    CLIENT,
                ),
                lines(
                    "Tasks being restored",
                    "They process nothing meanwhile.",
                    metrics.ACTIVE_RESTORING_TASKS,
                    CLIENT,
                ),
                Panel(
                    title="What a StateUpdater does",
                    description="Shares of its time.",
                    queries=tuple(
                        shown(metric, THREAD, AVG, legend=f"{name} {named(THREAD)}")
                        for name, metric in (
                            ("restore", metrics.UPDATER_RESTORE_RATIO),
                            ("standby", metrics.UPDATER_STANDBY_RATIO),
                            ("idle", metrics.UPDATER_IDLE_RATIO),
                        )
                    ),
                    stacked=True,
                ),
                lines(
                    "Records of global stores still to read",
                    "Tasks start when there are none left.",
                    metrics.GLOBAL_REMAINING,
                    CLIENT,
                ),
            ),
        ),
        Row(
            title="Standby and warm-up tasks",
            panels=(
                lines(
                    "Records a copy is behind",
                    "A copy within `acceptable.recovery.lag` can take over at once.",
                    metrics.STANDBY_RECORDS_LAG,
                    PLACE,
                    MAX,
                ),
                Panel(
                    title="Copies",
                    description="Standby and warm-up tasks, and how many have caught up.",
                    queries=(
                        shown(
                            metrics.STANDBY_UPDATING_TASKS,
                            CLIENT,
                            legend=f"{named(CLIENT)} followed",
                        ),
                        shown(
                            metrics.STANDBY_CAUGHT_UP_TASKS,
                            CLIENT,
                            legend=f"{named(CLIENT)} caught up",
                        ),
                    ),
                ),
                lines(
                    "Records applied to copies",
                    "Changelog records, per second.",
                    metrics.STANDBY_UPDATE_RECORDS,
                    CLIENT,
                ),
                lines(
                    "Size of record caches",
                    "What the record caches of a task hold.",
                    metrics.CACHE_SIZE_BYTES,
                    TASK,
                ),
            ),
        ),
        Row(
            title="RocksDB",
            panels=(
                Panel(
                    title="Disk still available",
                    description="Share of the file system that holds the stores. At 0 the "
                    "application stops.",
                    queries=(
                        Quotient(
                            numerator=shown(metrics.STATE_DIR_AVAILABLE, CLIENT, MIN),
                            denominator=shown(metrics.STATE_DIR_SIZE, CLIENT, MAX),
                        ),
                    ),
                ),
                _rocksdb("Keys", "RocksDB's estimate.", "estimate-num-keys"),
                _rocksdb("Size of the files", "All table files.", "total-sst-files-size"),
                _rocksdb(
                    "Write buffers",
                    "Memory of all write buffers of a store.",
                    "size-all-mem-tables",
                ),
                Panel(
                    title="Block cache in use",
                    description="Share of its capacity, by process. Near 1 while the disk is "
                    "read a lot: it is too small.",
                    queries=(
                        Quotient(
                            numerator=shown(_USAGE, THREAD, MAX),
                            denominator=shown(_CAPACITY, THREAD, MAX),
                        ),
                    ),
                ),
                _rocksdb(
                    "Still to be compacted",
                    "Growing: the disk is too slow for what is written.",
                    "estimate-pending-compaction-bytes",
                ),
                _rocksdb("Compactions that run", "By store.", "num-running-compactions"),
                _rocksdb(
                    "Memory of table readers", "Indexes and filters.", "estimate-table-readers-mem"
                ),
                _rocksdb(
                    "Errors in the background",
                    "Anything above 0: look at the disk and at the worker's log.",
                    "background-errors",
                ),
                lines(
                    "Open iterators",
                    "Iterators that are not read to their end. Growing: a processor does not "
                    "close them.",
                    metrics.OPEN_ITERATORS,
                    STORE,
                ),
            ),
        ),
        Row(
            title="At level DEBUG",
            collapsed=True,
            panels=(
                spread_lines(
                    "Time of a put",
                    "Writes, in batches.",
                    metrics.OPERATION_LATENCIES["put"],
                    STORE,
                ),
                spread_lines(
                    "Time of a get", "Look-ups of a key.", metrics.OPERATION_LATENCIES["get"], STORE
                ),
                lines("Gets", "Per second.", metrics.OPERATION_COUNTS["get"], STORE),
                lines("Puts", "Per second.", metrics.OPERATION_COUNTS["put"], STORE),
                lines(
                    "Look-ups that the record cache answered",
                    "Share of all look-ups. Low: the cache is too small for the keys in use.",
                    average(metrics.HIT_RATIO),
                    _CACHE,
                    AVG,
                ),
                lines(
                    "Reads that the block cache answered",
                    "Share of reads of data blocks.",
                    metrics.HIT_RATIOS["data"],
                    STORE,
                    AVG,
                ),
                lines("Bytes written", "Per second.", metrics.BYTES_WRITTEN, STORE),
                lines("Bytes read", "Per second.", metrics.BYTES_READ, STORE),
                lines(
                    "Time of a stall, on average",
                    "RocksDB stalls writes when compactions do not follow.",
                    metrics.STALL_AVG,
                    STORE,
                    MAX,
                ),
                Panel(
                    title="Time of a compaction",
                    description="The average and the maximum.",
                    queries=(
                        shown(
                            metrics.COMPACTION_TIME_AVG,
                            STORE,
                            MAX,
                            legend=f"{named(STORE)} avg",
                        ),
                        shown(
                            metrics.COMPACTION_TIME_MAX,
                            STORE,
                            MAX,
                            legend=f"{named(STORE)} max",
                        ),
                    ),
                ),
                spread_lines(
                    "Changes that wait in suppressions", "Records.", metrics.BUFFER_COUNT, STORE
                ),
            ),
        ),
    ),
)
"""State in detail."""
