"""What metrics cost: the same work at level INFO and with metrics off, in turns.

    python -m benchmarks.metrics [--runs 3] [--records 2000000]

One StreamThread reads one partition with 100,000 keys: a keyed count with the default record cache,
and a filter with ``map_values``. What is compared is the processor time of the StreamThread for a
record, which other processes of the machine disturb least, between the report after a tenth of the
records and the last one before the end. The count is run at DEBUG, too. The page is
``benchmarks/METRICS.md``.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks import inputs
from benchmarks.report import measured
from headwater import KafkaStreams, Serdes
from headwater.local.broker import KafkaBroker
from headwater.model.metrics import THREAD_PROCESS

if TYPE_CHECKING:
    from headwater import StreamsBuilder

PAGE: Final = Path(__file__).parent / "METRICS.md"
INPUT: Final = "metrics-in"
KEYS: Final = 100_000
GOAL_PERCENT: Final = 3
FLOOR_PERCENT: Final = 8
_PATIENCE_S: Final = 300.0
_LOOK_S: Final = 0.005
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_WORKS: Final = {"count": "keyed count, record cache of 10 MB", "stateless": "filter, map_values"}
_TEXT: Final = "of forty bytes, which nobody reads ......"


def count(builder: StreamsBuilder) -> None:
    """Count by key."""
    texts = builder.stream(INPUT, key_serde=Serdes.string, value_serde=Serdes.string)
    counts = texts.group_by_key(key_serde=Serdes.string, value_serde=Serdes.string).count()
    counts.to_stream().to(os.environ["OUTPUT"], key_serde=Serdes.string, value_serde=Serdes.long)


def stateless(builder: StreamsBuilder) -> None:
    """Filter and change."""
    texts = builder.stream(INPUT, key_serde=Serdes.string, value_serde=Serdes.string)
    kept = texts.filter(lambda _key, value: value[0] != "!").map_values(str.upper)
    kept.to(os.environ["OUTPUT"], key_serde=Serdes.string, value_serde=Serdes.string)


class Sight(NamedTuple):
    """What a StreamThread has done at a moment: records, processor time and time in seconds."""

    records: int
    cpu_s: float
    at_s: float


class Cost(NamedTuple):
    """Of a run: processor time in microseconds a record, and records a second."""

    cpu_us: float
    rate: float


def run(servers: str, work: str, level: str, records: int, number: int) -> Cost:
    """Run a work over all records at a level."""
    name = f"metrics-{work}-{level.lower()}-{number}"
    create(servers, name)
    os.environ["OUTPUT"] = name
    with tempfile.TemporaryDirectory() as state_dir:
        options = {
            "application.id": name,
            "bootstrap.servers": servers,
            "state.dir": state_dir,
            "metrics.recording.level": level,
        }
        with KafkaStreams(f"benchmarks.metrics:{work}", options, http_port=0) as streams:
            return _cost(streams, records)


def _cost(streams: KafkaStreams, records: int) -> Cost:
    sights: list[Sight] = []
    deadline = time.monotonic() + _PATIENCE_S
    while not sights or sights[-1].records < records:
        found = _look(streams)
        if found is not None and (not sights or found.records > sights[-1].records):
            sights.append(found)
        if time.monotonic() > deadline:
            raise TimeoutError(f"{sights[-1:]} of {records} records in {_PATIENCE_S:.0f} s")
        time.sleep(_LOOK_S)
    begin = next(sight for sight in sights if sight.records >= records // 10)
    end = sights[-2]
    done = end.records - begin.records
    if done < records // 3:
        raise ValueError(f"{records} records are too few to measure: {sights}")
    cpu_s, took_s = end.cpu_s - begin.cpu_s, end.at_s - begin.at_s
    return Cost(cpu_s / done * 1e6, done / took_s)


def _look(streams: KafkaStreams) -> Sight | None:
    worker = streams._worker  # noqa: SLF001 - the process ids of StreamThreads are nobody else's
    threads = () if worker is None else worker.view.threads
    if worker is None or not threads or threads[0].pid is None:
        return None
    try:
        fields = Path(f"/proc/{threads[0].pid}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        return None
    cpu_s = (int(fields[11]) + int(fields[12])) / _TICKS
    return Sight(worker.view.numbers.total(THREAD_PROCESS), cpu_s, time.perf_counter())


def create(servers: str, topic: str) -> None:
    """Create a topic with one partition."""
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(topic, 1)])[topic].result(60)


def load(servers: str, records: int) -> None:
    """Fill the one partition that every run reads."""
    create(servers, INPUT)
    draw = random.Random(7)
    producer = Producer({"bootstrap.servers": servers, "queue.buffering.max.messages": 1_000_000})
    for number in range(records):
        while True:
            try:
                producer.produce(INPUT, f"{number} {_TEXT}"[:40], f"key-{draw.randrange(KEYS)}", 0)
                break
            except BufferError:
                producer.poll(0.1)
    if left := producer.flush(120):
        raise TimeoutError(f"{INPUT}: {left} records were not delivered in 120 s")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--records", type=int, default=2_000_000)
    options = parser.parse_args()
    costs: dict[str, list[Cost]] = {}
    with KafkaBroker() as broker:
        servers = broker.bootstrap_servers
        inputs.await_coordinator(servers)
        load(servers, options.records)
        for number in range(options.runs):
            levels = ("OFF", "INFO") if number % 2 else ("INFO", "OFF")
            todo = [(work, level) for work in _WORKS for level in levels]
            if number == 0:
                todo.append(("count", "DEBUG"))
            for work, level in todo:
                cost = run(servers, work, level, options.records, number)
                costs.setdefault(f"{work} {level}", []).append(cost)
                print(f"  {work} {level}: {cost.cpu_us:.2f} us, {cost.rate:,.0f}/s", flush=True)
    PAGE.write_text(page(costs, options))
    print(f"wrote {PAGE}")
    return 0


def page(costs: dict[str, list[Cost]], options: argparse.Namespace) -> str:
    """The page: medians, what INFO costs, and every run."""
    command = f"python -m benchmarks.metrics --runs {options.runs} --records {options.records}"
    lines = []
    for work, said in _WORKS.items():
        off, info = (costs[f"{work} {level}"] for level in ("OFF", "INFO"))
        percent = _dearer(off, info)
        verdict = "goal" if percent <= GOAL_PERCENT else "floor"
        verdict = verdict if percent <= FLOOR_PERCENT else "missed"
        lines.append(
            f"| {said} | {_cpu(off):.2f} | {_cpu(info):.2f} | {percent:+.1f} % | "
            f"{GOAL_PERCENT} % | {FLOOR_PERCENT} % | {verdict} |"
        )
    debug = costs["count DEBUG"]
    times = _cpu(debug) / _cpu(costs["count OFF"])
    every = {name: [[round(c.cpu_us, 2), round(c.rate)] for c in of] for name, of in costs.items()}
    rows = "\n".join(lines)
    return f"""# What metrics cost

Written by `{command}`. {measured()}.

One StreamThread, one partition, {KEYS:,} keys. Levels take turns; the medians of all runs are
compared. Figures are microseconds of processor time of the StreamThread for a record.

| work | off | INFO | INFO costs | goal | floor | verdict |
| --- | --- | --- | --- | --- | --- | --- |
{rows}

At DEBUG, where each operation of a store is timed, a record of the keyed count takes
{_cpu(debug):.2f} us: {times:.1f} times as much as with metrics off.

All runs, microseconds and records a second: `{json.dumps(every)}`
"""


def _cpu(costs: list[Cost]) -> float:
    return statistics.median(cost.cpu_us for cost in costs)


def _dearer(off: list[Cost], info: list[Cost]) -> float:
    return (_cpu(info) / _cpu(off) - 1) * 100


if __name__ == "__main__":
    raise SystemExit(main())
