"""A slow task among fast ones on one StreamThread: what the fast ones keep of their rate.

    python -m benchmarks.slow_task [--runs 3] [--records 1400000]

One StreamThread has eight tasks. Seven of them change their values to upper case. In ``beside`` the
eighth task has records, too, and computes for 2 ms on each; in ``alone`` it has none. The two take
turns. A consumer that reads what was written takes the time, from a tenth of the fast records on.
The page is ``benchmarks/SLOW_TASK.md``.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks import inputs
from benchmarks.report import measured
from headwater import KafkaStreams, Serdes
from headwater.local.broker import KafkaBroker

if TYPE_CHECKING:
    from headwater import StreamsBuilder

PAGE: Final = Path(__file__).parent / "SLOW_TASK.md"
INPUT: Final = "HEADWATER_BENCH_INPUT"
OUTPUT: Final = "HEADWATER_BENCH_OUTPUT"
TASKS: Final = 8
SLOW_S: Final = 0.002
_SLOW_RECORDS: Final = 100_000
_SLOW: Final = "slow"
_PATIENCE_S: Final = 300.0
_CASES: Final = {
    "alone": "the eighth task has no records",
    "beside": "the eighth task computes for 2 ms on each record",
}


def upper(value: str) -> str:
    """Change a text to upper case; some take 2 ms of computing."""
    if value.startswith(_SLOW):
        until = time.perf_counter() + SLOW_S
        while time.perf_counter() < until:
            pass
    return value.upper()


def topology(builder: StreamsBuilder) -> None:
    """Change each value."""
    source = os.environ[INPUT]
    texts = builder.stream(source, key_serde=Serdes.string, value_serde=Serdes.string)
    changed = texts.map_values(upper)
    changed.to(os.environ[OUTPUT], key_serde=Serdes.string, value_serde=Serdes.string)


def run(servers: str, case: str, records: int, number: int) -> tuple[float, float]:
    """Return how many records a second the fast tasks wrote, and how many the slow one."""
    target = f"slow-task-out-{case}-{number}"
    create(servers, target, 1)
    os.environ[INPUT], os.environ[OUTPUT] = source_of(case), target
    with tempfile.TemporaryDirectory() as state_dir:
        options = {
            "application.id": f"slow-task-{case}-{number}",
            "bootstrap.servers": servers,
            "state.dir": state_dir,
        }
        with KafkaStreams("benchmarks.slow_task:topology", options):
            return _rates(servers, target, records)


def _rates(servers: str, topic: str, records: int) -> tuple[float, float]:
    """Read until all fast records have come; return how many of each came in a second."""
    reader = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": f"reads-{topic}",
            "auto.offset.reset": "earliest",
            "topic.metadata.refresh.interval.ms": 500,
        }
    )
    reader.subscribe([topic])
    seen, slow, begun_with, begun_at = 0, 0, (0, 0), 0.0
    deadline = time.monotonic() + _PATIENCE_S
    slow_bytes = _SLOW.upper().encode()
    try:
        while seen < records:
            for found in reader.consume(10_000, 0.05):
                if found.error() is None:
                    is_slow = (found.value() or b"").startswith(slow_bytes)
                    slow += is_slow
                    seen += not is_slow
            if not begun_at and seen >= records // 10:
                begun_with, begun_at = (seen, slow), time.perf_counter()
            if time.monotonic() > deadline:
                raise TimeoutError(f"{topic}: {seen} of {records} records in {_PATIENCE_S:.0f} s")
        took_s = time.perf_counter() - begun_at
        return (seen - begun_with[0]) / took_s, (slow - begun_with[1]) / took_s
    finally:
        reader.close()


def source_of(case: str) -> str:
    """The topic that a case reads."""
    return f"slow-task-in-{case}"


def create(servers: str, topic: str, partitions: int) -> None:
    """Create a topic."""
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(topic, partitions)])[topic].result(60)


def load(servers: str, case: str, records: int) -> None:
    """Fill the partitions of the fast tasks, and of the slow one if it takes part."""
    topic = source_of(case)
    create(servers, topic, TASKS)
    producer = Producer({"bootstrap.servers": servers, "queue.buffering.max.messages": 1_000_000})
    for number in range(records):
        producer.produce(topic, f"value-{number}", f"key-{number}", 1 + number % (TASKS - 1))
        if not number % 1_000:
            producer.poll(0)
    if case == "beside":
        for number in range(_SLOW_RECORDS):
            producer.produce(topic, f"{_SLOW}-{number}", f"key-{number}", 0)
    if left := producer.flush(120):
        raise TimeoutError(f"{topic}: {left} records were not delivered in 120 s")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--records", type=int, default=1_400_000)
    options = parser.parse_args()
    rates: dict[str, list[tuple[float, float]]] = {}
    with KafkaBroker() as broker:
        servers = broker.bootstrap_servers
        inputs.await_coordinator(servers)
        for case in _CASES:
            load(servers, case, options.records)
        for number in range(options.runs):
            for case in _CASES:
                found = run(servers, case, options.records, number)
                rates.setdefault(case, []).append(found)
                print(f"  {case}: fast {found[0]:,.0f}, slow {found[1]:,.0f} records/s", flush=True)
    PAGE.write_text(page(rates, options.records, options.runs), encoding="utf-8")
    print(f"wrote {PAGE}")
    return 0


def page(rates: dict[str, list[tuple[float, float]]], records: int, runs: int) -> str:
    """Return the page of results."""
    medians = {
        case: [statistics.median(found[at] for found in its) for at in (0, 1)]
        for case, its in rates.items()
    }
    kept = medians["beside"][0] / medians["alone"][0]
    rows = "\n".join(
        f"| {_CASES[case]} | {fast:,.0f} | {slow:,.0f} |" for case, (fast, slow) in medians.items()
    )
    return f"""# A slow task among fast ones

{measured()}

One StreamThread, eight tasks, {records:,} records for seven of them, medians of {runs} rounds in
turn. `python -m benchmarks.slow_task` repeats it.

| | the seven fast tasks, records/s | the slow one |
|---|---|---|
{rows}

Beside the slow task the fast ones keep {kept:.2f} of their rate (goal 0.8).
"""


if __name__ == "__main__":
    raise SystemExit(main())
