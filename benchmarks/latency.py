"""End-to-end latency at a steady rate: from before the send to after the receipt.

One process sends and receives, so there is one clock; its own share is the same for all systems.
Outputs are sent at once (``linger.ms`` 0). Under exactly-once an output is received once it is
committed. The first seconds warm the systems up and do not count.
"""

from __future__ import annotations

import os
import random
import statistics
import subprocess
import sys
import threading
import time
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks import inputs, systems
from benchmarks.inputs import Input
from benchmarks.systems import Job

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from benchmarks.machine import Surroundings

RATE = 5_000
WARM_UP_S = 10.0
MEASURED_S = 15.0
_BURST_S = 0.002
_KEYS = 10_000
_SETTLE_S = 30.0
_SETTINGS = {
    **systems.AT_LEAST_ONCE,
    "statestore.cache.max.bytes": "0",
    "producer.linger.ms": "0",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a row measures."""

    work: str
    rate: int = RATE
    """Records a second."""
    settings: Mapping[str, str] = field(default_factory=lambda: _SETTINGS)


_COMMITTED = {**_SETTINGS, **systems.EXACTLY_ONCE}
COMMITTED = Plan(work="count", settings=_COMMITTED)
"""The count under exactly-once: outputs wait for a commit, each 100 ms."""
COMMITTED_FAST = Plan(work="count", rate=50_000, settings=_COMMITTED)


def compare(
    servers: str, plan: Plan, runs: int, around: Callable[[], Surroundings]
) -> list[dict[str, Any]]:
    """Measure both systems in turn, after a round that warms the broker up."""
    found = []
    print(f"  warm-up: {_measure(servers, plan, 'headwater')}", flush=True)
    for _ in range(runs):
        for name in ("headwater", "java"):
            surroundings = around()
            result = _measure(servers, plan, name)
            result["others"] = round(surroundings.others(), 2)
            print(f"  {result}", flush=True)
            found.append(result)
    return found


def _measure(servers: str, plan: Plan, system: str) -> dict[str, Any]:
    work = plan.work
    source = f"latency-{uuid.uuid4().hex[:8]}"
    inputs.create(servers, source)
    job = Job(work=work, source=Input(source, 0, 0, 0), settings=plan.settings)
    with systems.names(servers) as (application_id, sink), systems.directory() as state_dir:
        if system == "java":
            command = systems.java_command(servers, job, application_id, sink, state_dir)
        else:
            given = {
                "application.id": application_id,
                "bootstrap.servers": servers,
                "state.dir": state_dir,
                **plan.settings,
            }
            command = [
                *(sys.executable, "-m", "benchmarks.embedded", "--work", work),
                *("--input", source, "--output", sink),
                *(f"{name}={value}" for name, value in given.items()),
            ]
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            _await_running(process)
            probe = Probe(servers, source, sink, counts=work == "count", rate=plan.rate)
            delays = probe.delays()
            process.communicate("\n", timeout=60)
        finally:
            process.kill()
            process.wait()
    inputs.delete(servers, source)
    quantiles = statistics.quantiles(delays, n=100)
    return {
        "system": system,
        "records": len(delays),
        "p50_ms": round(quantiles[49], 2),
        "p99_ms": round(quantiles[98], 2),
        "max_ms": round(max(delays), 1),
        "load": round(os.getloadavg()[0], 1),
    }


def _await_running(process: subprocess.Popen[str]) -> None:
    assert process.stderr is not None
    said = []
    for line in process.stderr:
        said.append(line)
        if line.startswith("RUNNING"):
            threading.Thread(target=process.stderr.read, daemon=True).start()
            return
    raise RuntimeError(f"the system ended before it ran: {''.join(said)[-2000:]}")


class Probe:
    """Sends records at a steady rate and knows each again in the output."""

    def __init__(
        self,
        servers: str,
        source: str,
        sink: str,
        *,
        counts: bool,
        warm_up_s: float = WARM_UP_S,
        rate: int = RATE,
    ) -> None:
        self._servers = servers
        self._rate = rate
        self._warm_up_s = warm_up_s
        self._source = source
        self._sink = sink
        self._counts = counts
        self._sent: dict[bytes, list[int]] = {}
        self._expected = 0
        self._delays: list[float] = []
        self._received = 0
        self._finished = threading.Event()
        self._count_from = 0

    def delays(self) -> list[float]:
        """Return the delays of the measured records, in milliseconds."""
        receiver = threading.Thread(target=self._receive, daemon=True)
        receiver.start()
        self._send()
        deadline = time.monotonic() + _SETTLE_S
        while self._received < self._expected and time.monotonic() < deadline:
            time.sleep(0.05)
        self._finished.set()
        receiver.join()
        if self._received < self._expected:
            raise RuntimeError(f"{self._expected - self._received} outputs never came")
        return self._delays

    def _send(self) -> None:
        # Not a request a record: the broker would be busy with our requests alone.
        producer = Producer(
            {
                "bootstrap.servers": self._servers,
                "linger.ms": 1,
                "enable.idempotence": True,
                "queue.buffering.max.messages": 1_000_000,
            }
        )
        draw = random.Random(5)
        started = time.perf_counter()
        self._count_from = time.time_ns() + int(self._warm_up_s * 1e9)
        sent = 0
        while (elapsed := time.perf_counter() - started) < self._warm_up_s + MEASURED_S:
            while sent < elapsed * self._rate:
                key = f"key-{draw.randrange(_KEYS):05d}"
                now = time.time_ns()
                if self._counts:
                    self._sent.setdefault(key.encode(), []).append(now)
                self._expected += self._counts or not key.endswith("0")
                producer.produce(self._source, str(now), key)
                sent += 1
            producer.poll(0)
            time.sleep(_BURST_S)
        producer.flush(30)

    def _receive(self) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self._servers,
                "group.id": "latency",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
            }
        )
        partitions = range(inputs.PARTITIONS)
        consumer.assign([TopicPartition(self._sink, number, 0) for number in partitions])
        sent_at: Callable[[bytes, bytes], int] = self._sent_of_count if self._counts else _sent_of
        while not self._finished.is_set():
            first = consumer.poll(0.1)
            if first is None:
                continue
            messages = [first, *consumer.consume(1_000, 0)]
            now = time.time_ns()
            for message in messages:
                if message.error() is None:
                    sent = sent_at(message.key(), message.value())
                    if sent >= self._count_from:
                        self._delays.append((now - sent) / 1e6)
                    self._received += 1
        consumer.close()

    def _sent_of_count(self, key: bytes, value: bytes) -> int:
        """At cache 0 each count of a key occurs once: the n-th belongs to the n-th record."""
        return self._sent[key][int.from_bytes(value, "big") - 1]


def _sent_of(_key: bytes, value: bytes) -> int:
    return int(value)
