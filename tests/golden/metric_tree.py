"""Every metric of Kafka Streams, as Java shows them: ``python -m tests.golden.metric_tree``.

The topology of ``tests/java/metrics/MetricTree.java`` in Python, and what was recorded from there:
names with the names of their tags, and values that depend on no clock of the machine.
"""

from __future__ import annotations

import subprocess
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from headwater import (
    BufferConfig,
    EmitStrategy,
    Materialized,
    Processor,
    Serdes,
    SessionWindows,
    Stores,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
)
from headwater.testing import TopologyTestDriver
from tests.java.tool import JavaTool

if TYPE_CHECKING:
    from headwater import ProcessorContext, Record
    from headwater.model.topology import Topology

RECORDED = Path(__file__).parent / "metric_tree.tsv"
NAME, RECORDED_KIND = "name", "recorded"
TEN_SECONDS = timedelta(seconds=10)


Recorded: TypeAlias = "tuple[str, tuple[tuple[str, str], ...]]"
"""The name of a latency that is recorded, and its tags."""


class Value(NamedTuple):
    """A value that Java shows at a level."""

    level: str
    group: str
    name: str
    tags: tuple[tuple[str, str], ...]
    value: float


def names() -> dict[tuple[str, str], list[str]]:
    """Return Java's metrics, by group and name, with the names of tags of each kind of thing."""
    found: dict[tuple[str, str], list[str]] = {}
    for line in RECORDED.read_text().splitlines():
        kind, group, name, tags, *_ = line.split("\t")
        if kind == NAME:
            found.setdefault((group, name), []).append(tags)
    return found


def values() -> list[Value]:
    """Return the values that Java shows."""
    found = []
    for line in RECORDED.read_text().splitlines():
        kind, group, name, tags, *rest = line.split("\t")
        if kind not in (NAME, RECORDED_KIND):
            found.append(Value(kind, group, name, _tags(tags), float(rest[0])))
    return found


def recorded() -> set[Recorded]:
    """Return which latencies of stores Java records at DEBUG: names with tags."""
    lines = (line.split("\t") for line in RECORDED.read_text().splitlines())
    return {(name, _tags(tags)) for kind, _, name, tags, *_ in lines if kind == RECORDED_KIND}


def _tags(text: str) -> tuple[tuple[str, str], ...]:
    pairs = (pair.split("=") for pair in text.strip("{}").split(", "))
    return tuple((k, v) for k, v in pairs)


class Measuring(Processor[str, str, None, None]):
    """Adds sensors."""

    def init(self, context: ProcessorContext[None, None]) -> None:
        self._sensor = context.metrics.add_latency_rate_total_sensor(
            "model", "prices", "predict", kind="linear"
        )
        context.metrics.add_rate_total_sensor("model", "prices", "miss")

    def process(self, record: Record[str, str]) -> None:
        self._sensor.record(5.0)


class Keeping(Processor[str | None, str, None, None]):
    """Does to a store whatever can be done, and looks into the global one."""

    def init(self, context: ProcessorContext[None, None]) -> None:
        self._kept = context.get_state_store("kept")
        self._names = context.get_state_store("names")

    def process(self, record: Record[str | None, str]) -> None:
        if record.key is None:
            return
        kept = self._kept
        kept.put_if_absent(record.key, record.value)
        kept.put_all([("several", record.value)])
        kept.delete("several")
        kept.put("one", record.value)
        kept.put("one", None)
        kept.get(record.key)
        for scan in (kept.range("k0", "k1"), kept.all(), kept.prefix_scan("k", Serdes.string)):
            assert list(scan) is not None
        self._names.get(record.key)


def topology() -> Topology:
    """Return the same topology as ``MetricTree.java``."""
    builder = StreamsBuilder()
    draw(builder)
    return builder.build()


def draw(
    builder: StreamsBuilder, source: str = "lines", sink: str = "counted", places: str = "places"
) -> None:
    """Draw it, with other topics if they are given."""
    strings: dict[str, Any] = {"key_serde": Serdes.string, "value_serde": Serdes.string}
    lines = builder.stream(source, **strings)
    counts = lines.group_by_key(**strings).count(store="counts")
    counts.to_stream().to(sink, key_serde=Serdes.string, value_serde=Serdes.long)
    grouped = lines.group_by_key(**strings)
    (
        grouped.windowed_by(TimeWindows.of_size_with_no_grace(TEN_SECONDS))
        .emit_strategy(EmitStrategy.on_window_close())
        .count(store="windows")
    )
    minute = timedelta(minutes=1)
    grouped.windowed_by(SessionWindows.of_inactivity_gap_with_no_grace(TEN_SECONDS)).count(
        Materialized.as_(Stores.in_memory_session_store("sessions", minute))
    )
    grouped.count(Materialized.as_(Stores.in_memory_key_value_store("memory")))
    grouped.count(Materialized.as_(Stores.lru_map("lru", 10)))
    limit = Suppressed.until_time_limit(timedelta(seconds=1), BufferConfig.unbounded())
    counts.suppress(limit).to_stream().for_each(lambda _key, _value: None)
    lines.process(Measuring)
    builder.global_table(places, store="names", **strings)
    kept = Stores.in_memory_key_value_store("kept")
    builder.add_state_store(Stores.key_value_store_builder(kept, Serdes.string, Serdes.string))
    lines.process(Keeping, "kept")


def driven(level: str) -> TopologyTestDriver:
    """Return a driver after the records that Java's has had."""
    config = {
        "application.id": "tree",
        "metrics.recording.level": level,
        "default.key.serde": "string",
        "default.value.serde": "string",
    }
    driver = TopologyTestDriver(topology(), config, start_ms=100_000)
    lines = driver.create_input_topic("lines", Serdes.string, Serdes.string)
    for record in records():
        lines.pipe_input(*record)
    places = driver.create_input_topic("places", Serdes.string, Serdes.string)
    for row in rows():
        places.pipe_input(*row)
    return driver


def records() -> list[tuple[str | None, str, int]]:
    """Return what Java's driver is given: keys, values and times."""
    found: list[tuple[str | None, str, int]] = [
        (f"k{i % 3}", f"value {i}", 500 * i if i % 5 == 4 else 1_000 * i) for i in range(20)
    ]
    return [*found, (None, "without a key", 20_000)]


def rows() -> list[tuple[str | None, str | None, int]]:
    """Return what the topic of the global table gets after them."""
    found: list[tuple[str | None, str | None, int]] = [
        (f"k{i % 3}", f"place {i}" if i < 3 else None, 1_000 * i) for i in range(4)
    ]
    return [*found, (None, "without a key", 5_000)]


def main() -> None:
    tool = JavaTool(Path(__file__).parents[1] / "java" / "metrics")
    with tempfile.TemporaryDirectory() as folder:
        command = tool.command("MetricTree", folder)
        told = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    RECORDED.write_text(told.stdout)


if __name__ == "__main__":
    main()
