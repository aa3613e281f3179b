"""Functions that wait, against the same function called for one record after the other.

    python -m benchmarks.calls [--runs 3] [--records 40000]

A server in a process of its own answers each HTTP request after 20 ms. One StreamThread reads one
partition with 10,000 keys. ``one by one`` calls the server with ``map_values``; ``at once`` with
``map_values_async``, 200 calls in flight, in the order of keys. ``arrays`` compares a small neural
network in NumPy that is called for each value, and for 256 of them at once by ``map_batch``; it
gets ten times as many records. The two sides of a row take turns. A consumer that reads what was
written takes the time, from a tenth of the records on. The page is ``benchmarks/CALLS.md``.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import http.client
import json
import multiprocessing
import os
import random
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks import inputs
from benchmarks.report import measured
from headwater import KafkaStreams, Serdes
from headwater.local.broker import KafkaBroker

if TYPE_CHECKING:
    from multiprocessing.queues import Queue

    from headwater import KStream, StreamsBuilder

PAGE: Final = Path(__file__).parent / "CALLS.md"
INPUT: Final = "HEADWATER_BENCH_INPUT"
OUTPUT: Final = "HEADWATER_BENCH_OUTPUT"
PORT: Final = "HEADWATER_BENCH_PORT"
ANSWER_S: Final = 0.020
IN_FLIGHT: Final = 200
KEYS: Final = 10_000
FEATURES: Final = 16
_ONE_BY_ONE_RECORDS: Final = 400
_PATIENCE_S: Final = 300.0
_ANSWER: Final = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
_CALLS: Final = {
    "at_once": "`map_values_async`, 200 in flight, order of keys",
    "at_once_exactly_once": "the same under exactly-once, a commit each 100 ms",
}
_DRAW: Final = np.random.default_rng(7)
_MEAN: Final = _DRAW.normal(size=FEATURES)
_DEVIATION: Final = 1.0 + _DRAW.random(FEATURES)
_LAYERS: Final = [
    (_DRAW.normal(size=(FEATURES, FEATURES)) / 4, _DRAW.normal(size=FEATURES)) for _ in range(3)
]
_LAST: Final = _DRAW.normal(size=FEATURES) / 8
_ARRAY_SHARE: Final = 10
"""The rows of arrays get so many times as many records: they take little time for each."""


# ---- the server --------------------------------------------------------------------------------


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):  # the client has left
        while await reader.readuntil(b"\r\n\r\n"):
            await asyncio.sleep(ANSWER_S)
            writer.write(_ANSWER)
    writer.close()


async def _serve(found: Queue[int]) -> None:
    server = await asyncio.start_server(_answer, "127.0.0.1", 0, backlog=2_000)
    found.put(server.sockets[0].getsockname()[1])
    await server.serve_forever()


def serve(found: Queue[int]) -> None:
    """Answer each request 20 ms after it has come; say on which port."""
    asyncio.run(_serve(found))


# ---- the functions -----------------------------------------------------------------------------


class Client:
    """As many connections as there are requests at once, kept open."""

    def __init__(self) -> None:
        self._idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def get(self, value: str) -> str:
        """Ask for a value."""
        if self._idle:
            reader, writer = self._idle.pop()
        else:
            port = int(os.environ[PORT])
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /%b HTTP/1.1\r\nHost: localhost\r\n\r\n" % value.encode())
        await reader.readuntil(b"\r\n\r\n")
        body = await reader.readexactly(2)
        self._idle.append((reader, writer))
        return body.decode()


class BlockingClient:
    """One connection, kept open."""

    def __init__(self) -> None:
        self._connection: http.client.HTTPConnection | None = None

    def get(self, value: str) -> str:
        """Ask for a value."""
        if self._connection is None:
            self._connection = http.client.HTTPConnection("127.0.0.1", int(os.environ[PORT]))
        self._connection.request("GET", f"/{value}")
        return self._connection.getresponse().read().decode()


def network(features: Any) -> Any:
    """Normalise features, and give them to three layers; of one record or of many."""
    found = np.clip((features - _MEAN) / _DEVIATION, -5.0, 5.0)
    for weights, bias in _LAYERS:
        found = np.maximum(found @ weights + bias, 0.0)
    return 1.0 / (1.0 + np.exp(-(found @ _LAST)))


def score(features: list[float]) -> float:
    """Judge one list of numbers."""
    return float(network(np.asarray(features)))


def scores(many: list[list[float]]) -> list[float]:
    """Judge many lists of numbers."""
    found: list[float] = network(np.asarray(many)).tolist()
    return found


def features_of(value: str) -> list[float]:
    """Make numbers of a text."""
    return [len(value) * 0.1] * FEATURES


# ---- the topologies ----------------------------------------------------------------------------


def _read(builder: StreamsBuilder) -> KStream[str, str]:
    source = os.environ[INPUT]
    return builder.stream(source, key_serde=Serdes.string, value_serde=Serdes.string)


def one_by_one(builder: StreamsBuilder) -> None:
    """Ask the server for each record in turn."""
    texts = _read(builder).map_values(BlockingClient().get)
    texts.to(os.environ[OUTPUT], key_serde=Serdes.string, value_serde=Serdes.string)


def at_once(builder: StreamsBuilder) -> None:
    """Ask the server for many records at once."""
    texts = _read(builder).map_values_async(Client().get, max_in_flight=IN_FLIGHT)
    texts.to(os.environ[OUTPUT], key_serde=Serdes.string, value_serde=Serdes.string)


def arrays_one_by_one(builder: StreamsBuilder) -> None:
    """Call a model for each value."""
    found = _read(builder).map_values(features_of).map_values(score)
    found.to(os.environ[OUTPUT], key_serde=Serdes.string, value_serde=Serdes.double)


def arrays_by_batch(builder: StreamsBuilder) -> None:
    """Call a model for many values."""
    found = _read(builder).map_values(features_of).map_batch(scores, max_size=256)
    found.to(os.environ[OUTPUT], key_serde=Serdes.string, value_serde=Serdes.double)


# ---- measuring ---------------------------------------------------------------------------------


def run(servers: str, topology: str, records: int, number: int, **config: str) -> float:
    """Run a topology over as many records; return records a second."""
    source, target = f"calls-in-{records}", f"calls-out-{topology}-{number}"
    create(servers, target)
    os.environ[INPUT], os.environ[OUTPUT] = source, target
    with tempfile.TemporaryDirectory() as state_dir:
        options = {
            "application.id": f"calls-{topology}-{number}",
            "bootstrap.servers": servers,
            "state.dir": state_dir,
            **config,
        }
        with KafkaStreams(f"benchmarks.calls:{topology}", options):
            return _rate(servers, target, records)


def _rate(servers: str, topic: str, records: int) -> float:
    """Read all records; return how many came in a second, from a tenth of them on."""
    reader = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": f"reads-{topic}",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "topic.metadata.refresh.interval.ms": 500,
        }
    )
    reader.subscribe([topic])
    seen, begun_with, begun_at = 0, 0, 0.0
    deadline = time.monotonic() + _PATIENCE_S
    try:
        while seen < records:
            seen += sum(found.error() is None for found in reader.consume(100_000, 0.01))
            if not begun_with and seen >= records // 10:
                begun_with, begun_at = seen, time.perf_counter()
            if time.monotonic() > deadline:
                raise TimeoutError(f"{topic}: {seen} of {records} records in {_PATIENCE_S:.0f} s")
        return (seen - begun_with) / (time.perf_counter() - begun_at)
    finally:
        reader.close()


def create(servers: str, topic: str) -> None:
    """Create a topic with one partition."""
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(topic, 1)])[topic].result(60)


def load(servers: str, records: int) -> None:
    """Fill the one partition that both sides of a row read."""
    topic = f"calls-in-{records}"
    create(servers, topic)
    draw = random.Random(7)
    producer = Producer({"bootstrap.servers": servers, "queue.buffering.max.messages": 1_000_000})
    for number in range(records):
        producer.produce(topic, f"value-{number}", f"key-{draw.randrange(KEYS)}", 0)
    if left := producer.flush(60):
        raise TimeoutError(f"{topic}: {left} records were not delivered in 60 s")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--records", type=int, default=40_000)
    options = parser.parse_args()
    found: Queue[int] = multiprocessing.get_context("spawn").Queue()
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(found,), daemon=True)
    server.start()
    os.environ[PORT] = str(found.get(timeout=60))
    rates: dict[str, list[float]] = {}
    with KafkaBroker() as broker:
        servers = broker.bootstrap_servers
        inputs.await_coordinator(servers)
        many, exactly_once = options.records, {"processing.guarantee": "exactly_once_v2"}
        for records in {many, many * _ARRAY_SHARE, _ONE_BY_ONE_RECORDS}:
            load(servers, records)
        rows = {
            "one_by_one": ("one_by_one", _ONE_BY_ONE_RECORDS, {}),
            "at_once": ("at_once", many, {}),
            "at_once_exactly_once": ("at_once", many, exactly_once),
            "arrays_one_by_one": ("arrays_one_by_one", many * _ARRAY_SHARE, {}),
            "arrays_by_batch": ("arrays_by_batch", many * _ARRAY_SHARE, {}),
        }
        for number in range(options.runs):
            for row, (topology, records, config) in rows.items():
                name = 2 * number + bool(config)
                rate = run(servers, topology, records, name, **config)
                rates.setdefault(row, []).append(rate)
                print(f"  {row}: {rate:,.0f} records/s", flush=True)
    server.terminate()
    PAGE.write_text(page(rates, options))
    print(f"wrote {PAGE}")
    return 0


def page(rates: dict[str, list[float]], options: argparse.Namespace) -> str:
    """The page: medians, ratios and every run."""
    median = {row: statistics.median(of) for row, of in rates.items()}
    base, arrays = median["one_by_one"], median["arrays_one_by_one"]
    batched = median["arrays_by_batch"] / arrays
    command = f"python -m benchmarks.calls --runs {options.runs} --records {options.records}"
    every = json.dumps({row: [round(rate) for rate in of] for row, of in rates.items()})
    table = [
        ("`map_values`, one call after the other", base, 1.0),
        *((said, median[row], median[row] / base) for row, said in _CALLS.items()),
        ("`map_values`, a neural network of three layers in NumPy", arrays, 1.0),
        ("`map_batch` of 256, the same", median["arrays_by_batch"], batched),
    ]
    lines = [f"| {said} | {rate:,.0f} | {ratio:,.1f} |" for said, rate, ratio in table]
    rows = "\n".join(lines)
    return f"""# Functions that wait

Written by `{command}`. {measured()}.

A server answers each request after 20 ms. One StreamThread, one partition, 10,000 keys.

| row | records/s | ratio |
| --- | --- | --- |
{rows}

All runs, in records a second: `{every}`
"""


if __name__ == "__main__":
    raise SystemExit(main())
