"""Point queries beside the keyed count under full load, and what they cost it.

    python -m benchmarks.queries [--runs 3] [--records 2000000] [--rate 1000]

One StreamThread counts by key as fast as it can; 100,000 keys in four partitions. ``beside`` asks
for a random key a thousand times a second meanwhile, by ``KafkaStreams.query`` with its partition,
each at its own time whether or not the one before was answered: what an answer takes counts from
then. ``alone`` and ``beside`` take turns, under both guarantees. The page is
``benchmarks/QUERIES.md``.
"""

from __future__ import annotations

import argparse
import json
import queue
import random
import statistics
import tempfile
import threading
import time
from pathlib import Path
from typing import Final, NamedTuple

from confluent_kafka import Producer

from benchmarks import inputs
from benchmarks.report import measured
from headwater import KafkaStreams, KeyQuery, Serdes, StateQueryRequest, StreamsBuilder
from headwater.errors import HeadwaterError
from headwater.local.broker import KafkaBroker
from headwater.model import metrics
from headwater.wire.partitioner import partition_for_key

PAGE: Final = Path(__file__).parent / "QUERIES.md"
INPUT: Final = "queries-in"
OUTPUT: Final = "queries-out"
KEYS: Final = 100_000
ASKING: Final = 8
"""So many threads ask, so that one late answer delays no other question."""
GUARANTEES: Final = {
    "at_least_once": "at least once, a commit each 30 s",
    "exactly_once_v2": "exactly once, a commit each 100 ms",
}
_PATIENCE_S: Final = 300.0
_LOOK_S: Final = 0.05
_FIRST: Final = 0.2
_LAST: Final = 0.95


def count(builder: StreamsBuilder) -> None:
    """The keyed count of ``benchmarks.works``, of topics of our own."""
    (
        builder.stream(INPUT, key_serde=Serdes.string, value_serde=Serdes.string)
        .group_by_key()
        .count(store="counts")
        .to_stream()
        .to(OUTPUT, key_serde=Serdes.string, value_serde=Serdes.long)
    )


class Outcome(NamedTuple):
    """One run: records a second, and how long each answer took, in seconds."""

    rate: float
    answers: list[float]
    failures: int = 0


class Asker:
    """Asks at a fixed rate, from its start to its stop.

    Args:
        streams: whom.
        rate: questions a second.
    """

    def __init__(self, streams: KafkaStreams, rate: int) -> None:
        self._streams = streams
        self._rate = rate
        self._due: queue.SimpleQueue[float | None] = queue.SimpleQueue()
        self._is_over = threading.Event()
        self.answers: list[float] = []
        self.failures = 0
        self._threads = [threading.Thread(target=self._ask) for _ in range(ASKING)]
        self._clock = threading.Thread(target=self._tick)
        for thread in (*self._threads, self._clock):
            thread.start()

    def stop(self) -> None:
        """Ask no more, and wait for the last answers."""
        self._is_over.set()
        self._clock.join()
        for _ in self._threads:
            self._due.put(None)
        for thread in self._threads:
            thread.join()

    def _tick(self) -> None:
        due = time.perf_counter()
        while not self._is_over.is_set():
            due += 1 / self._rate
            time.sleep(max(0.0, due - time.perf_counter()))
            self._due.put(due)

    def _ask(self) -> None:
        draw = random.Random(threading.get_ident())
        while (due := self._due.get()) is not None:
            key = f"key-{draw.randrange(KEYS)}"
            partition = partition_for_key(key.encode(), inputs.PARTITIONS)
            request = StateQueryRequest.in_store("counts").with_query(KeyQuery.with_key(key))
            try:
                found = self._streams.query(request.with_partitions([partition]))
                self.failures += found.partition_results[partition].is_failure
            except HeadwaterError:
                self.failures += 1
            self.answers.append(time.perf_counter() - due)


def run(servers: str, records: int, name: str, guarantee: str, rate: int) -> Outcome:
    """Count all records, with so many questions a second; 0 for none."""
    with tempfile.TemporaryDirectory() as state_dir:
        options = {
            "application.id": name,
            "bootstrap.servers": servers,
            "state.dir": state_dir,
            "processing.guarantee": guarantee,
        }
        with KafkaStreams("benchmarks.queries:count", options) as streams:
            if rate:  # the first question starts the query process
                streams.query(StateQueryRequest.in_store("counts").with_query(KeyQuery("key-0")))
            first, began = _processed(streams, int(records * _FIRST))
            asker = Asker(streams, rate) if rate else None
            last, ended = _processed(streams, int(records * _LAST))
            if asker is not None:
                asker.stop()
            speed = (last - first) / (ended - began)
            return Outcome(
                speed,
                asker.answers if asker is not None else [],
                asker.failures if asker is not None else 0,
            )


def _processed(streams: KafkaStreams, wanted: int) -> tuple[int, float]:
    """Wait until so many records are processed; return how many, and when that was told."""
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        worker = streams._worker  # noqa: SLF001 - as near to the source of the number as can be
        assert worker is not None
        done = int(worker.view.numbers.total(metrics.THREAD_PROCESS))
        if done >= wanted:
            return done, time.perf_counter()
        if time.monotonic() > deadline:
            raise TimeoutError(f"{done} of {wanted} records in {_PATIENCE_S:.0f} s")
        time.sleep(_LOOK_S)


def load(servers: str, records: int) -> None:
    """Fill the input, and wait until it is there."""
    inputs.create(servers, INPUT, OUTPUT)
    draw = random.Random(7)
    producer = Producer(
        {
            "bootstrap.servers": servers,
            "queue.buffering.max.messages": 500_000,
            "partitioner": "murmur2_random",
            "linger.ms": 50,
        }
    )
    for number in range(records):
        while True:
            try:
                producer.produce(INPUT, b"x" * 40, f"key-{draw.randrange(KEYS)}")
                break
            except BufferError:
                producer.poll(0.05)
        if number % 10_000 == 0:
            producer.poll(0)
    if left := producer.flush(120):
        raise TimeoutError(f"{left} records were not delivered in 120 s")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--rate", type=int, default=1_000)
    options = parser.parse_args()
    found: dict[tuple[str, bool], list[Outcome]] = {}
    with KafkaBroker() as broker:
        servers = broker.bootstrap_servers
        inputs.await_coordinator(servers)
        load(servers, options.records)
        for number in range(options.runs):
            for guarantee in GUARANTEES:
                for is_beside in (False, True) if number % 2 == 0 else (True, False):
                    name = f"queries-{guarantee}-{number}-{is_beside}".replace("_", "-").lower()
                    rate = options.rate if is_beside else 0
                    outcome = run(servers, options.records, name, guarantee, rate)
                    found.setdefault((guarantee, is_beside), []).append(outcome)
                    print(
                        f"  {guarantee} {'beside' if rate else 'alone'}: {said(outcome)}",
                        flush=True,
                    )
    PAGE.write_text(page(found, options))
    print(f"wrote {PAGE}")
    return 0


def at(values: list[float], share: float) -> float:
    """Return the value that so many lie below, in milliseconds."""
    ordered = sorted(values)
    return 1_000 * ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def said(outcome: Outcome) -> str:
    """One run in a line."""
    if not outcome.answers:
        return f"{outcome.rate:,.0f} records/s"
    return (
        f"{outcome.rate:,.0f} records/s, {len(outcome.answers):,} answers, "
        f"p50 {at(outcome.answers, 0.5):.2f} ms, p99 {at(outcome.answers, 0.99):.2f} ms, "
        f"{outcome.failures} failures"
    )


def page(found: dict[tuple[str, bool], list[Outcome]], options: argparse.Namespace) -> str:
    """The page: medians, ratios and every run."""
    rows = []
    for guarantee, text in GUARANTEES.items():
        alone, beside = found[guarantee, False], found[guarantee, True]
        pairs = [b.rate / a.rate for a, b in zip(alone, beside, strict=True)]
        p50s, p99s = ([at(one.answers, share) for one in beside] for share in (0.5, 0.99))
        rows.append(
            f"| {text} | {statistics.median(a.rate for a in alone):,.0f} | "
            f"{statistics.median(b.rate for b in beside):,.0f} | {statistics.median(pairs):.2f} | "
            f"{statistics.median(p50s):.2f} | {statistics.median(p99s):.2f} |"
        )
    every = json.dumps(
        {
            f"{guarantee}, {'beside' if is_beside else 'alone'}": [
                [round(one.rate), *([round(at(one.answers, 0.99), 2)] if one.answers else [])]
                for one in outcomes
            ]
            for (guarantee, is_beside), outcomes in found.items()
        }
    )
    failures = sum(one.failures for outcomes in found.values() for one in outcomes)
    command = (
        f"python -m benchmarks.queries --runs {options.runs} --records {options.records} "
        f"--rate {options.rate}"
    )
    table = "\n".join(rows)
    return f"""# Queries

Written by `{command}`. {measured()}.

One StreamThread counts by key as fast as it can: {options.records:,} records, {KEYS:,} keys, four
partitions. Beside it {options.rate:,} point queries a second ask for random keys. Ratios are of
pairs that ran after each other; queries without an answer: {failures}.

| keyed count | alone, records/s | beside, records/s | ratio | p50 ms | p99 ms |
| --- | --- | --- | --- | --- | --- |
{table}

All runs, in records a second and milliseconds at the 99th percentile: `{every}`
"""


if __name__ == "__main__":
    raise SystemExit(main())
