"""How much an application needs: workers, memory, disk and network, from what was measured.

    measured constants, each with its source ─┐
    topology, StreamApp, rate, keys ──────────┴─► rows: what, how much, why

An estimate for a first deployment. The constants are of the machine of ``benchmarks/RESULTS.md``;
functions of the application cost what the user says they do.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import ceil
from typing import TYPE_CHECKING, Final

from headwater.model.topics import ChangelogKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headwater.model.topics import SubtopologyReport, TopologyReport

MARGIN: Final = 1.5
"""What is asked for is so many times what the constants say."""
_MB: Final = 1_000_000
_TABLE: Final = "benchmarks/RESULTS.md"


@dataclass(frozen=True, slots=True)
class Measured:
    """A number that was measured.

    Attributes:
        value: the number.
        source: the file.
        row: what stands there before the number.
    """

    value: float
    source: str
    row: str


STATELESS: Final = Measured(211_864, _TABLE, "stateless filter + map_values")
CACHED: Final = Measured(210_393, _TABLE, "keyed count, at-least-once, 10 MB cache")
UNCACHED: Final = Measured(123_755, _TABLE, "keyed count, cache 0 (every update emitted)")
EXACTLY_ONCE: Final = Measured(117_199, _TABLE, "keyed count, exactly-once, 100 ms")
WINDOWED: Final = Measured(83_306, _TABLE, "count in sliding windows of 1 s, 10 MB cache")
VERSIONED: Final = Measured(
    105_715, _TABLE, "a stream joined with a versioned table of 100,000 rows"
)
RESTORED: Final = Measured(375_375, _TABLE, "restore of a changelog, 4 tasks, 2 threads each")
BOTH_PROCESSES: Final = Measured(142, _TABLE, "memory, keyed count at cache 0 (peak sum of PSS)")
MEASURED: Final = (
    STATELESS,
    CACHED,
    UNCACHED,
    EXACTLY_ONCE,
    WINDOWED,
    VERSIONED,
    RESTORED,
    BOTH_PROCESSES,
)
"""All constants; a test compares them with their sources."""

_MAIN_MB: Final = 33
"""Of :data:`BOTH_PROCESSES`, the worker's main process (the same page, its list of runs)."""
_UPDATER_MB: Final = 54
"""A StateUpdater: as a StreamThread whose stores have filled their buffers (GROWTH.md)."""
_BUFFER_MB: Final = 4.2
"""The write buffer of a store, 4 MiB (GROWTH.md)."""
_RESTORE_SHARE: Final = 100_000.0
"""Records per second of a restore beside processing, a quarter of :data:`RESTORED`."""
_ROW_BYTES: Final = 16
"""Of a row in RocksDB besides key and value: sequence number, lengths, index."""
_ENTRY_BYTES: Final = 30
"""Of a record in a topic besides key and value."""
_COMPACTION: Final = 2.0
"""RocksDB, and a changelog, need so much while they compact: old and new files side by side."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the user says of the load.

    Attributes:
        rate: records per second of all input topics together.
        keys: rows of each store: keys, and for windows keys times windows that are kept.
        key_bytes: of a key.
        value_bytes: of a value, in topics and stores.
        function_us: microseconds that the application's own functions take for each record.
        partitions: of an input topic of which the StreamApp does not say it; 0 if not given.
        replication: copies of a topic that the brokers keep.
    """

    rate: float
    keys: int
    key_bytes: int = 20
    value_bytes: int = 100
    function_us: float = 0.0
    partitions: int = 0
    replication: int = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """What the StreamApp says.

    Attributes:
        report: the topology.
        partitions: of listed topics.
        threads: StreamThreads of a worker.
        standbys: of each task with state.
        is_exactly_once: the processing guarantee.
        cache_bytes: of the record caches of a worker.
        commit_s: the commit interval.
    """

    report: TopologyReport
    partitions: Mapping[str, int] = field(default_factory=dict)
    threads: int = 1
    standbys: int = 0
    is_exactly_once: bool = False
    cache_bytes: int = 10 * 1024 * 1024
    commit_s: float = 30.0


@dataclass(frozen=True, slots=True)
class Row:
    """One thing that is needed.

    Attributes:
        what: it.
        amount: how much, with its unit.
        why: where the number is from.
    """

    what: str
    amount: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What an application needs.

    Attributes:
        tasks: how many there are.
        stream_threads: how many are busy at the rate, with the margin.
        workers: to run.
        memory_bytes: of each worker.
        disk_bytes: of each worker's volume.
        changelog_bytes: on the brokers' disks, all copies.
        network_bytes_per_s: in and out of all workers.
        restore_s: until a worker that has lost its volume has its state again.
        is_enough: the tasks are as many as the StreamThreads that are needed.
        rows: the same for people.
    """

    tasks: int
    stream_threads: int
    workers: int
    memory_bytes: int
    disk_bytes: int
    changelog_bytes: int
    network_bytes_per_s: int
    restore_s: float
    is_enough: bool
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class _Part:
    """A sub-topology under the load: records per second, tasks, seconds of work per second."""

    found: SubtopologyReport
    rate: float
    tasks: int
    busy: float


def plan(application: Application, asked: Asked) -> Plan:
    """Estimate what an application needs.

    Args:
        application: what is to run.
        asked: the load.
    """
    parts = _parts(application, asked)
    tasks = sum(part.tasks for part in parts)
    busy = sum(part.busy for part in parts)
    needed = max(1, ceil(busy * MARGIN))
    threads = min(needed, max(1, tasks))
    workers = ceil(threads / application.threads)
    logs = sum(len(part.found.changelogs) for part in parts)
    copies = 1 + min(application.standbys, workers - 1)
    stores = sum(part.tasks * len(part.found.changelogs) for part in parts) * copies / workers
    entry = asked.key_bytes + asked.value_bytes
    state = asked.keys * logs * (entry + _ROW_BYTES)
    logged = _logged(application, parts, asked)
    flow = 2 * sum(part.rate for part in parts) + logged * copies
    found = Plan(
        tasks=tasks,
        stream_threads=threads,
        workers=workers,
        memory_bytes=int(_memory(application, stores, has_state=bool(logs))),
        disk_bytes=int(state * copies / workers * _COMPACTION * MARGIN),
        changelog_bytes=int(
            asked.keys * logs * (entry + _ENTRY_BYTES) * _COMPACTION * asked.replication
        ),
        network_bytes_per_s=int(flow * (entry + _ENTRY_BYTES)),
        restore_s=asked.keys * logs / workers / _RESTORE_SHARE,
        is_enough=needed <= tasks,
        rows=(),
    )
    at_work = f"{busy:.2f} are busy at {asked.rate:,.0f} records/s, times {MARGIN}"
    kept = f"{_size(state)} of state in {copies} {'copy' if copies == 1 else 'copies'}"
    on_brokers = f"{logs} of them, {asked.replication} replicas"
    buffers = f"processes, write buffers of {stores:.0f} stores"
    how_often = "changed key and flush" if application.cache_bytes else "record"
    rows = (
        *_rows_of_workers(application, found, at_work, buffers, kept),
        Row(
            "changelogs on the brokers",
            _size(found.changelog_bytes),
            f"{on_brokers}, times {_COMPACTION:g} until they are compacted",
        ),
        Row("changelog writes", f"{logged:,.0f} records/s", f"one for each {how_often}"),
        Row(
            "network of all workers",
            f"{_size(found.network_bytes_per_s)}/s",
            "reads, outputs of the same size, changelogs and what standbys read",
        ),
        Row(
            "restore of a lost volume",
            f"{found.restore_s:,.0f} s",
            f"{_RESTORE_SHARE:,.0f} records/s beside processing; {RESTORED.value:,.0f} were "
            "measured with two cores",
        ),
    )
    return replace(found, rows=rows)


def _rows_of_workers(
    application: Application, found: Plan, at_work: str, buffers: str, kept: str
) -> tuple[Row, ...]:
    """Return the rows about workers.

    Args:
        application: what is to run.
        found: the numbers.
        at_work: why so many StreamThreads.
        buffers: what the memory is for.
        kept: what the disk is for.
    """
    cores = min(application.threads, ceil(found.stream_threads / found.workers))
    return (
        Row("tasks", f"{found.tasks}", "one for each partition and sub-topology"),
        Row("StreamThreads", f"{found.stream_threads} needed", at_work),
        Row("workers", f"{found.workers}", f"spec.threadsPerWorker is {application.threads}"),
        Row("CPU per worker", _cores(cores), "a StreamThread uses little more than one"),
        Row("memory per worker", _size(found.memory_bytes), f"{buffers}, times {MARGIN}"),
        Row(
            "disk per worker",
            _size(found.disk_bytes),
            f"{kept}, shared by the workers, times {_COMPACTION:g} for compaction, times {MARGIN}",
        ),
    )


def _parts(application: Application, asked: Asked) -> list[_Part]:
    """Return the sub-topologies with what reaches them: all that one reads goes on to the next."""
    report = application.report
    external = {topic for each in report.subtopologies for topic in each.source_topics}
    rates: dict[str, float] = {topic: asked.rate / len(external) for topic in external}
    counts: dict[str, int] = {
        topic: application.partitions.get(topic, asked.partitions) for topic in external
    }
    sources = [source for each in report.subtopologies for source in each.repartition_sources]
    fixed = {source.name: source.partitions for source in sources if source.partitions}
    left, parts = list(report.subtopologies), list[_Part]()
    while left:
        ready = [each for each in left if all(t.name in rates for t in each.repartition_sources)]
        for each in ready or left[:1]:  # a circle of topics begins with what is known
            left.remove(each)
            reads = [*each.source_topics, *(topic.name for topic in each.repartition_sources)]
            rate = sum(rates.get(topic, 0.0) for topic in reads)
            tasks = max((counts.get(topic, asked.partitions) for topic in reads), default=1)
            for topic in each.sink_topics:
                rates[topic] = rates.get(topic, 0.0) + rate
                counts[topic] = fixed.get(topic, max(tasks, counts.get(topic, 0)))
            parts.append(_Part(each, rate, tasks, rate * _seconds(application, each, asked)))
    return parts


def _seconds(application: Application, part: SubtopologyReport, asked: Asked) -> float:
    """Return how long a StreamThread takes for a record of a sub-topology."""
    own = asked.function_us / 1e6
    if not part.changelogs:
        return 1 / STATELESS.value + own
    usual = CACHED if application.cache_bytes else UNCACHED
    by_kind = {
        ChangelogKind.KEY_VALUE: usual,
        ChangelogKind.WINDOWED: WINDOWED,
        ChangelogKind.VERSIONED: VERSIONED,
    }
    seconds = sum(1 / by_kind[log.kind].value for log in part.changelogs)
    if application.is_exactly_once:
        seconds *= usual.value / EXACTLY_ONCE.value
    return seconds + own


def _memory(application: Application, stores: float, *, has_state: bool) -> float:
    """Return the bytes of a worker's processes."""
    thread = BOTH_PROCESSES.value - _MAIN_MB
    processes = _MAIN_MB + application.threads * thread + (_UPDATER_MB if has_state else 0)
    return (processes + stores * _BUFFER_MB) * MARGIN * _MB + application.cache_bytes


def _logged(application: Application, parts: list[_Part], asked: Asked) -> float:
    """Return records per second that go to changelogs: of a cached key, one for each commit."""
    found = 0.0
    for part in parts:
        most = asked.keys / application.commit_s if application.cache_bytes else part.rate
        found += min(part.rate, max(most, 0.0)) * len(part.found.changelogs)
    return found


def _cores(count: int) -> str:
    return f"{count} core{'' if count == 1 else 's'}"


def _size(count: float) -> str:
    for unit, factor in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= factor:
            return f"{count / factor:.1f} {unit}"
    return f"{count:.0f} B"
