"""Everything at once: every record counts once, and in twenty minutes nothing grows.

An application under exactly-once calls an async function for each record and counts. It gets half
of what it can do. Meanwhile its store is asked, and in each turn a StreamThread comes and another
goes. Memory, file descriptors and threads of all its processes are looked at when it has gone.
"""

from __future__ import annotations

import asyncio
import random
import statistics
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

import psutil
import pytest
from confluent_kafka import Producer

from headwater import (
    KafkaStreams,
    KeyQuery,
    RangeQuery,
    Serdes,
    StateQueryRequest,
    StreamsBuilder,
)
from headwater.model.lifecycle import ClientState
from tests.conftest import seed_base
from tests.support.waiting import wait_for
from tests.support.worker import Counting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = [pytest.mark.kafka, pytest.mark.sampled, pytest.mark.slow]

ENOUGH: Final = 20
"""So many turns tell whether something grows."""
KEYS: Final = 1_000
ASKED_A_SECOND: Final = 50
_BURST: Final = 20_000
_MORE: Final = 1.10
"""The last quarter may have a tenth more than the second: caches and heaps still settle."""


class Sample(NamedTuple):
    """What all processes of the application have."""

    memory_mb: float
    descriptors: int
    threads: int
    processes: int


def waiting_count(topic: str) -> Callable[[StreamsBuilder], None]:
    """Count by key behind a function that waits for 5 ms."""

    async def shown(value: str) -> str:
        await asyncio.sleep(0.005)
        return value

    def build(builder: StreamsBuilder) -> None:
        (
            builder.stream(topic, key_serde=Serdes.string, value_serde=Serdes.string)
            .map_values_async(shown, max_in_flight=100)
            .group_by_key(key_serde=Serdes.string, value_serde=Serdes.string)
            .count(store="counts", key_serde=Serdes.string)
        )

    return build


class Feeding(threading.Thread):
    """Sends records, once it is started at a steady rate until it is stopped."""

    def __init__(self, servers: str, topic: str) -> None:
        super().__init__(daemon=True)
        self._producer = Producer({"bootstrap.servers": servers, "linger.ms": 10})
        self._topic = topic
        self._ended = threading.Event()
        self.rate = 0.0
        self.sent = 0

    def run(self) -> None:
        started, first = time.monotonic(), self.sent
        while not self._ended.wait(0.05):
            self.feed(int((time.monotonic() - started) * self.rate) - (self.sent - first))

    def feed(self, count: int) -> None:
        """Send so many records."""
        for _ in range(count):
            self._producer.produce(self._topic, b"v", b"key-%d" % (self.sent % KEYS))
            self.sent += 1
        self._producer.poll(0)

    def end(self) -> None:
        """Stop; everything that was sent is there."""
        self._ended.set()
        self.join()
        assert not self._producer.flush(60)


class Asking(threading.Thread):
    """Asks for the counts of random keys, which never go back."""

    def __init__(self, streams: KafkaStreams, seed: str) -> None:
        super().__init__(daemon=True)
        self._streams = streams
        self._draw = random.Random(seed)
        self._ended = threading.Event()
        self.answers = 0
        self.failures: Counter[str] = Counter()
        self.steps_back: list[str] = []

    def run(self) -> None:
        known: dict[str, int] = {}
        while not self._ended.wait(1 / ASKED_A_SECOND):
            key = f"key-{self._draw.randrange(KEYS)}"
            request = StateQueryRequest.in_store("counts").with_query(KeyQuery.with_key(key))
            counts = []
            for result in self._streams.query(request).partition_results.values():
                if not result.is_success:
                    self.failures[str(result.failure_reason)] += 1
                elif result.value is not None:
                    counts.append(result.value)
            for count in counts:
                self.answers += 1
                if count < known.get(key, 0):
                    self.steps_back.append(f"{key}: {count} after {known[key]}")
                known[key] = count

    def end(self) -> None:
        """Stop."""
        self._ended.set()
        self.join()


@pytest.fixture
def counting(bootstrap_servers: str, unique_name: str) -> Counting:
    return Counting(bootstrap_servers, unique_name, changelog=False, partitions=4)


@pytest.fixture
def streams(counting: Counting, tmp_path: Path) -> Iterator[KafkaStreams]:
    config = {
        "application.id": counting.application_id,
        "bootstrap.servers": counting.bootstrap_servers,
        "processing.guarantee": "exactly_once_v2",
        "num.stream.threads": 1,
        "state.dir": str(tmp_path / "state"),
    }
    with KafkaStreams(waiting_count(counting.topic), config) as running:
        wait_for(lambda: running.state is ClientState.RUNNING, what="RUNNING")
        yield running


def counted(streams: KafkaStreams) -> int:
    """The sum of all counts, as of the last commit."""
    request = StateQueryRequest.in_store("counts").with_query(RangeQuery.with_no_bounds())
    total = 0
    for result in streams.query(request).partition_results.values():
        if result.is_success:
            with result.value as rows:
                total += sum(count for _, count in rows)
    return total


def sample() -> Sample:
    """Look at this process and its children."""
    this = psutil.Process()
    family = [this, *this.children(recursive=True)]
    ours = [one for one in family if "java" not in one.name()]
    return Sample(
        sum(one.memory_full_info().uss for one in ours) / 1e6,
        sum(one.num_fds() - _data_files(one) for one in ours),
        sum(one.num_threads() for one in ours),
        len(ours),
    )


def _data_files(process: psutil.Process) -> int:
    """How many data files of RocksDB it has open: they come, and go with the next compaction."""
    return sum(".sst" in file.path for file in process.open_files())


def a_turn(streams: KafkaStreams, seconds: float) -> Sample:
    """Let a StreamThread come and go; return what there is when it has gone."""
    ended = time.monotonic() + seconds
    assert streams.add_stream_thread() is not None
    wait_for(lambda: streams.state is ClientState.RUNNING, what="the thread that was added")
    threading.Event().wait(seconds / 3)
    assert streams.remove_stream_thread() is not None
    wait_for(lambda: streams.state is ClientState.RUNNING, what="the thread that was removed")
    threading.Event().wait(max(0.0, ended - time.monotonic()))
    return sample()


@pytest.mark.parametrize(
    ("turns", "seconds"),
    [(2, 8.0), pytest.param(20, 60.0, marks=[pytest.mark.soak, pytest.mark.timeout(3_000)])],
)
def test_every_record_counts_once_and_nothing_grows_while_threads_come_and_go(
    streams: KafkaStreams,
    counting: Counting,
    request: pytest.FixtureRequest,
    turns: int,
    seconds: float,
) -> None:
    feeding = Feeding(counting.bootstrap_servers, counting.topic)
    started = time.monotonic()
    feeding.feed(_BURST)
    wait_for(lambda: counted(streams) == _BURST, what="the counts of a burst", every_s=0.2)
    most = _BURST / (time.monotonic() - started)
    feeding.rate = most / 2
    asking = Asking(streams, seed_base(request.config))
    feeding.start()
    asking.start()
    samples = []
    for turn in range(turns):
        samples.append(a_turn(streams, seconds))
        print(f"turn {turn + 1} at {feeding.rate:,.0f} records/s: {samples[-1]}", flush=True)
    feeding.end()
    asking.end()
    wait_for(lambda: counted(streams) == feeding.sent, what=f"{feeding.sent} counts", every_s=0.5)

    assert not asking.steps_back
    assert asking.answers, asking.failures
    if turns < ENOUGH:
        return
    quarter = turns // 4
    before, after = samples[quarter : 2 * quarter], samples[-quarter:]
    for what in Sample._fields:
        was, found = (statistics.median(getattr(one, what) for one in of) for of in (before, after))
        assert found <= _MORE * was, what
