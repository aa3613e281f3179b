"""What one task records, decided by the level when its closures are compiled.

At level INFO nothing is counted for a single record: the timestamp of the last record that came to
a node is left in a variable, and read once at the end of the batch. From DEBUG each is recorded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from headwater.measuring.sensors import ThreadSensors
from headwater.measuring.stores import StoreMeasures
from headwater.measuring.windows import Windows
from headwater.model import metrics
from headwater.model.metrics import RecordingLevel, Snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from headwater.measuring.windows import Window
    from headwater.metrics_settings import MetricsSettings
    from headwater.model.stores import StoreSpec
    from headwater.ports import Headers

NOT_YET: Final = -1
SAMPLED: Final = 16
"""So many records of a batch tell how many bytes it has."""
RECORD_BYTES: Final = 20
"""What Kafka Streams counts for timestamp, offset and partition of a record."""


class Measures:
    """What the tasks of one StreamThread have in common.

    Args:
        level: what is recorded.
        samples: how many windows a value counts for.
        window_s: how long each is.
        now_ms: the wall clock.
        now_ns: a clock for durations.
    """

    def __init__(
        self,
        level: RecordingLevel,
        *,
        samples: int = 2,
        window_s: float = 30.0,
        now_ms: Callable[[], int],
        now_ns: Callable[[], int],
    ) -> None:
        self.level = level
        self.samples, self.window_s = samples, window_s
        self.now_ms, self.now_ns = now_ms, now_ns
        self.windows = self.new_windows()
        self.users = ThreadSensors(level, self.windows, samples=samples, window_s=window_s)

    @classmethod
    def of(
        cls, asked: MetricsSettings, now_ms: Callable[[], int], now_ns: Callable[[], int]
    ) -> Measures:
        """Return what a configuration asks for."""
        return cls(
            asked.level,
            samples=asked.samples,
            window_s=asked.window_ms / 1000,
            now_ms=now_ms,
            now_ns=now_ns,
        )

    @classmethod
    def off(cls) -> Measures:
        """Return what measures nothing."""
        return cls(RecordingLevel.OFF, now_ms=lambda: 0, now_ns=lambda: 0)

    def new_windows(self) -> Windows:
        """Return the windows of one thing."""
        return Windows(self.samples, self.window_s)


class Arrival:
    """Records that come to a node: how old they are (KIP-613)."""

    __slots__ = ("_now_ms", "_window", "is_exact", "node", "timestamp")

    def __init__(
        self, node: str, window: Window, now_ms: Callable[[], int], *, exact: bool
    ) -> None:
        self.node = node
        self.timestamp = NOT_YET
        self.is_exact = exact
        self._window = window
        self._now_ms = now_ms

    def __call__(self, timestamp: int) -> None:
        """Record one record."""
        self._window.record(self._now_ms() - timestamp)

    def sample(self, now_ms: int) -> None:
        """Record the last one that came."""
        if self.timestamp >= 0:
            self._window.record(now_ms - self.timestamp)
            self.timestamp = NOT_YET

    def numbers(self) -> dict[metrics.Metric, float | None]:
        """Return what there is to see."""
        return self._window.values(metrics.E2E_LATENCY)


class Output:
    """What a sink node sends to one topic (KIP-846).

    Attributes:
        key: of the last record.
        value: of the last record.
    """

    __slots__ = (
        "_bytes",
        "_count",
        "_counted",
        "_per_record",
        "is_exact",
        "key",
        "node",
        "topic",
        "value",
    )

    def __init__(self, node: str, topic: str, count: Callable[[], int], *, exact: bool) -> None:
        self.node, self.topic = node, topic
        self.is_exact = exact
        self.key: bytes | None = None
        self.value: bytes | None = None
        self._count = count
        self._counted = 0
        self._bytes = 0
        self._per_record = RECORD_BYTES + len(topic)

    def __call__(self, key: bytes | None, value: bytes | None, headers: Headers) -> None:
        """Count one record."""
        self._bytes += self._per_record + len(key or b"") + len(value or b"")
        if headers:
            self._bytes += sum(len(name) + len(data or b"") for name, data in headers)

    def sample(self) -> None:
        """Count what was sent since the last sample as if all were like the last one."""
        count = self._count()
        if count == self._counted or self.is_exact:
            return
        size = self._per_record + len(self.key or b"") + len(self.value or b"")
        self._bytes += size * (count - self._counted)
        self._counted = count

    def numbers(self) -> dict[metrics.Metric, float | None]:
        """Return what there is to see."""
        return {metrics.RECORDS_PRODUCED: self._count(), metrics.BYTES_PRODUCED: self._bytes}


class Lateness:
    """How much older than the stream time records are."""

    __slots__ = ("_stream_time", "window")

    def __init__(self, window: Window) -> None:
        self.window = window
        self._stream_time = NOT_YET

    def __call__(self, timestamp: int) -> None:
        """Record one record."""
        if timestamp > self._stream_time:
            self._stream_time = timestamp
            self.window.record(0)
        else:
            self.window.record(self._stream_time - timestamp)


class TaskMeasures:
    """What is measured of one task.

    Args:
        measures: those of the StreamThread.
        task: the task's id.
    """

    def __init__(self, measures: Measures, task: str) -> None:
        self._measures = measures
        self._task = task
        self.users = measures.users
        level = measures.level
        self.is_on = level.records(RecordingLevel.INFO)
        self.is_debug = level.records(RecordingLevel.DEBUG)
        self.now_ns = measures.now_ns
        self._is_trace = level.records(RecordingLevel.TRACE)
        self._windows = measures.new_windows()
        self._process_latency = self._windows.new()
        self._punctuate_latency = self._windows.new()
        self.lateness = Lateness(self._windows.new()) if self.is_debug else None
        self._punctuated = 0
        self.enforced = 0
        """Times that the task went on without records of some partition."""
        self._arrivals: list[Arrival] = []
        self._outputs: list[Output] = []
        self._emitted: dict[str, list[int]] = {}
        self._final: dict[str, tuple[list[int], Window]] = {}
        self._stores: list[StoreMeasures] = []

    # ---- when closures are compiled ------------------------------------------------------------

    def arrival(self, node: str, *, ends: bool) -> Arrival | None:
        """Return where a node says which record came, or ``None`` if it does not say so.

        Args:
            node: its name.
            ends: whether it is a source node, or has no children.
        """
        if not (self._is_trace or (self.is_on and ends)):
            return None
        now_ms = self._measures.now_ms
        made = Arrival(node, self._windows.new(), now_ms, exact=self.is_debug)
        self._arrivals.append(made)
        return made

    def output(self, node: str, topic: str, send: Any) -> Output | None:
        """Return where a sink says what it sends, or ``None`` if nothing is measured."""
        count = _count_of(send)
        if not self.is_on or count is None:
            return None
        self._outputs.append(Output(node, topic, count, exact=self.is_debug))
        return self._outputs[-1]

    def emissions(self, node: str) -> list[int] | None:
        """Return where a suppression counts, as the only item, or ``None`` if it does not."""
        return self._emitted.setdefault(node, [0]) if self.is_debug else None

    def final_emissions(self, node: str) -> Callable[[int, int], None] | None:
        """Return what takes how much a node has emitted of closed windows, and in how long (ns)."""
        if not self.is_debug:
            return None
        count, window = self._final.setdefault(node, ([0], self._windows.new()))

        def emitted(records: int, took_ns: int) -> None:
            count[0] += records
            window.record(took_ns / 1e6)

        return emitted

    def watch(self, spec: StoreSpec, store: Any) -> None:
        """Measure a store from now on."""
        if self.is_on:
            self._stores.append(StoreMeasures(spec, store, self._measures, self._windows))

    # ---- when records are processed ------------------------------------------------------------

    def sample(self, now_ms: int) -> None:
        """Take in what nodes say of the last record, at the end of a batch."""
        for arrival in self._arrivals:
            arrival.sample(now_ms)
        for output in self._outputs:
            output.sample()

    def processed(self, records: int, took_ns: int) -> None:
        """Take in how long a batch took."""
        self._process_latency.record(took_ns / 1e6 / records)

    def punctuated(self, count: int, took_ns: int) -> None:
        """Take in how long punctuators took."""
        self._punctuated += count
        if self.is_debug:
            self._punctuate_latency.record(took_ns / 1e6 / count)

    # ---- when somebody looks -------------------------------------------------------------------

    def numbers(self, sources: Iterable[tuple[str, str, int, int]], now_s: float) -> Snapshot:
        """Return the numbers of the task's nodes, topics and stores, and its own.

        Args:
            sources: of each input: node, topic, records and bytes read.
            now_s: of any clock that never goes back.
        """
        if not self.is_on:
            return Snapshot()
        inside = self.numbers_inside(sources, now_s)
        return Snapshot.merged([self._of_task(), inside])

    def numbers_inside(
        self, sources: Iterable[tuple[str, str, int, int]], now_s: float
    ) -> Snapshot:
        """Return the numbers of nodes, topics and stores alone; arguments as of ``numbers``."""
        if not self.is_on:
            return Snapshot()
        self._windows.roll_if_due(now_s)
        task = self._task
        parts: list[Snapshot] = []
        consumed: dict[tuple[str, str], list[int]] = {}
        for node, topic, records, size in sources:
            sums = consumed.setdefault((node, topic), [0, 0])
            sums[0] += records
            sums[1] += size
        by_node: dict[str, int] = {}
        for (node, topic), (records, size) in consumed.items():
            by_node[node] = by_node.get(node, 0) + records
            values: dict[metrics.Metric, float | None] = {
                metrics.RECORDS_CONSUMED: records,
                metrics.BYTES_CONSUMED: size,
            }
            parts.append(Snapshot.of(values, task, node, topic))
        parts += [Snapshot.of({metrics.NODE_PROCESS: n}, task, node) for node, n in by_node.items()]
        parts += [Snapshot.of(one.numbers(), task, one.node) for one in self._arrivals]
        parts += [Snapshot.of(one.numbers(), task, one.node, one.topic) for one in self._outputs]
        parts += [
            Snapshot.of({metrics.SUPPRESSION_EMIT: count[0]}, task, node)
            for node, count in self._emitted.items()
        ]
        for node, (count, window) in self._final.items():
            shown = {metrics.FINAL_EMIT: count[0], **window.values(metrics.FINAL_EMIT_LATENCY)}
            parts.append(Snapshot.of(shown, task, node))
        parts += [store.numbers(task) for store in self._stores]
        return Snapshot.merged(parts)

    def _of_task(self) -> Snapshot:
        shown: dict[metrics.Metric, float | None] = {
            metrics.TASK_PUNCTUATE: self._punctuated,
            metrics.ENFORCED_PROCESSING: self.enforced,
            metrics.CACHE_SIZE_BYTES: sum(store.cached_bytes for store in self._stores),
            **self._process_latency.values(metrics.TASK_PROCESS_LATENCY),
            **self._punctuate_latency.values(metrics.TASK_PUNCTUATE_LATENCY),
        }
        if self.lateness is not None:
            shown |= self.lateness.window.values(metrics.RECORD_LATENESS)
        return Snapshot.of(shown, self._task)


def _count_of(send: object) -> Callable[[], int] | None:
    """Return what tells how often a function that sends was called, if anything does.

    A function in C is a method of what counts.
    """
    of_method = getattr(getattr(send, "__self__", None), "times_sent", None)
    found: Callable[[], int] | None = getattr(send, "count", of_method)
    return found
