"""One application of windows, suppression and joins: of streams, by foreign key, global.

What it puts out does not depend on which partition is read first, so Java can be asked about all
records in any order that keeps each partition's. Time is that of the records. They come in blocks,
and a block is sent only when the one before the last has been committed; every grace is longer than
two blocks. So no record is ever late, however far apart two partitions are, and still windows close
and records stay without a partner all the time. A view meets the clicks of two blocks and more: one
that is read after the end of its own window has its result without a partner at once, as in Java,
although a partner may come within the grace.
"""

from __future__ import annotations

import contextlib
import os
import time
from random import Random
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from tests.oracle.translate import Drawing
from tests.support.counting import PREFIX_VARIABLE
from tests.support.creating import create_known
from tests.support.local_cluster import Load
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headwater import StreamsBuilder

Ends: TypeAlias = "dict[tuple[str, int], int]"
"""By topic and partition."""
SOURCES: Final = {"clicks": 3, "views": 3, "orders": 3, "customers": 2}
"""How many partitions each topic has."""
STREAMS: Final = ("clicks", "views")
OUTPUTS: Final = ("counts", "closed", "pairs", "bought", "spent", "named")
GLOBAL: Final = "names"
"""The topic of the global table, which is written before all else: its rows are looked up."""
END: Final = "the end"
"""Key of the records that let all windows close; what is made of them is not looked at."""

STEP_MS: Final = 5
SHIFTS_MS: Final = (42, 83)
"""By how much some records are ahead of time: by no whole steps, so that times stay different."""
BLOCK_RECORDS: Final = 200
BLOCK_MS: Final = BLOCK_RECORDS * STEP_MS
GRACE_MS: Final = 2 * BLOCK_MS + 500
WINDOW_MS: Final = 500
BEFORE_MS: Final = 100
AFTER_MS: Final = 2 * BLOCK_MS + 500
KEYS: Final = [f"k{number}" for number in range(20)]
LONELY: Final = [f"l{number}" for number in range(8)]
"""Keys of views that no click has."""
LETTERS: Final = "abcdefghijkl"


def steps(prefix: str) -> list[dict[str, Any]]:
    """Return the topology in the language of the oracle (``tests/oracle/FORMAT.md``)."""

    def out(on: str, topic: str, **produced: str) -> dict[str, Any]:
        options = {"produced": produced} if produced else {}
        return {"id": f"to {topic}", "op": "to", "on": on, "topic": f"{prefix}-{topic}", **options}

    def table(topic: str) -> dict[str, Any]:
        stored = {"store": topic}
        return {"id": topic, "op": "table", "topic": f"{prefix}-{topic}", "materialized": stored}

    within = {"before": BEFORE_MS, "after": AFTER_MS, "grace": GRACE_MS}
    windows = {"kind": "time", "size": WINDOW_MS, "grace": GRACE_MS}
    counted = {"store": "windows", "key": "string", "retention": 86_400_000}
    return [
        *({"id": it, "op": "stream", "topics": [f"{prefix}-{it}"]} for it in STREAMS),
        {"id": "grouped", "op": "group_by_key", "on": "clicks"},
        {"id": "windowed", "op": "windowed_by", "on": "grouped", "windows": windows},
        {"id": "counted", "op": "count", "on": "windowed", "materialized": counted},
        {"id": "each", "op": "to_stream", "on": "counted", "fn": "key_text"},
        out("each", "counts", value="long"),
        {"id": "final", "op": "suppress", "on": "counted", "buffer": {}, "name": "final"},
        {"id": "once", "op": "to_stream", "on": "final", "fn": "key_text"},
        out("once", "closed", value="long"),
        {
            "id": "paired",
            "op": "left_join",
            "on": "views",
            "with": "clicks",
            "fn": "both",
            "windows": within,
            "stream_joined": {"store": "pairs"},
        },
        out("paired", "pairs"),
        *_named(prefix),
        out("named", "named"),
        table("orders"),
        table("customers"),
        {
            "id": "bought",
            "op": "left_join",
            "on": "orders",
            "with": "customers",
            "foreign_key": "first_letter",
            "fn": "both",
            "table_joined": {"name": "buying"},
            "materialized": {"store": "bought"},
        },
        {"id": "told", "op": "to_stream", "on": "bought"},
        out("told", "bought"),
        {
            "id": "per customer",
            "op": "group_by",
            "on": "bought",
            "fn": "first_letter_pair",
            "grouped": {"name": "spending"},
        },
        {
            "id": "spent",
            "op": "aggregate",
            "on": "per customer",
            "init": "zero",
            "fn": "add_length",
            "subtract": "subtract_length",
            "materialized": {"store": "spent", "value": "long"},
        },
        {"id": "sums", "op": "to_stream", "on": "spent"},
        out("sums", "spent", value="long"),
    ]


def _named(prefix: str) -> list[dict[str, Any]]:
    """Join the clicks with the global table."""
    return [
        {
            "id": "names",
            "op": "global_table",
            "topic": f"{prefix}-{GLOBAL}",
            "materialized": {"store": "names"},
        },
        {
            "id": "named",
            "op": "left_join",
            "on": "clicks",
            "with": "names",
            "selector": "key_text",
            "fn": "both",
        },
    ]


def build(builder: StreamsBuilder) -> None:
    """Draw the topology on the topics of one test: what the workers run."""
    Drawing({"steps": steps(os.environ[PREFIX_VARIABLE])}, builder=builder).draw()


def create_topics(bootstrap_servers: str, prefix: str) -> None:
    """Create the topics that it reads and writes, and fill the global table's."""
    wanted = SOURCES | dict.fromkeys(OUTPUTS, 2) | {GLOBAL: 2}
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    create_known(admin, *(NewTopic(f"{prefix}-{topic}", count) for topic, count in wanted.items()))
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    for number, key in enumerate(KEYS[:-4]):
        producer.produce(f"{prefix}-{GLOBAL}", f"name {number}", key)
    assert producer.flush(60) == 0


class Records:
    """The records of the load, one after the other: a pure function of the seed and the start.

    Args:
        seed: of what is random.
        start_ms: time of the first; today's, since a broker deletes what is older than a changelog
            of windows keeps.
    """

    def __init__(self, seed: str, start_ms: int) -> None:
        self._random = Random(f"{seed} records")
        self._start_ms = start_ms
        self.number = 0

    def following(self) -> tuple[str, str, str | None, int]:
        """Return topic, key, value and time of the next record; no two have the same time."""
        choose, number = self._random.choice, self.number
        self.number += 1
        now = self._start_ms + number * STEP_MS
        match number % 8:
            case 0 | 2 | 4:
                return "clicks", choose(KEYS), f"c{number}", now + self._shift()
            case 1 | 3 | 5:
                return "views", choose(KEYS + LONELY), f"v{number}", now + self._shift()
            case 6:
                order = choose((None, *[f"{choose(LETTERS)}{number}"] * 4))
                return "orders", f"o{self._random.randrange(40)}", order, now
            case _:
                customer = choose((None, *[f"n{'x' * (number % 5)}{number}"] * 4))
                return "customers", choose(LETTERS[:-2]), customer, now

    def ending(self, round_number: int) -> Iterator[tuple[str, str, str | None, int]]:
        """Yield records after which nothing waits any more; the time of each is its own."""
        after = self._start_ms + self.number * STEP_MS + GRACE_MS + 10 * WINDOW_MS
        for topic in STREAMS:
            yield topic, END, "x", after + round_number * STEP_MS

    def _shift(self) -> int:
        return self._random.choice(SHIFTS_MS) if self._random.random() < 0.3 else 0


class Storm(Load):
    """Sends such records, block by block, until it is told to stop.

    Args:
        bootstrap_servers: of the broker.
        prefix: of the topics, and the application id.
        seed: of the records.
        per_s: how many a second.
    """

    def __init__(self, bootstrap_servers: str, prefix: str, seed: str, *, per_s: int = 40) -> None:
        super().__init__(bootstrap_servers, prefix)
        self._prefix, self._pause_s = prefix, 1 / per_s
        self._records = Records(seed, int(time.time() * 1000))
        self._admin = AdminClient({"bootstrap.servers": bootstrap_servers})

    def run(self) -> None:
        """Send blocks; the next but one waits until one has been committed."""
        former: Ends = {}
        while not self._ended.is_set():
            for _ in range(BLOCK_RECORDS):
                self._send(*self._records.following())
                if self._ended.wait(self._pause_s):
                    return
            latest = self._sent_up_to()
            while not self._ended.is_set() and not self._is_committed(former):
                self._ended.wait(0.2)
            former = latest

    def finish(self) -> None:
        """Stop, and let every window close."""
        self.end()
        self.join()
        self._wait_until_committed()
        for round_number in range(3):
            # A join looks for records without partners once a second.
            _pass_time(1.2 if round_number else 0)
            for topic, key, value, at in self._records.ending(round_number):
                for partition in range(SOURCES[topic]):
                    self._send(topic, key, value, at, partition)
            self._wait_until_committed()

    def _send(
        self, topic: str, key: str, value: str | None, timestamp: int, partition: int = -1
    ) -> None:
        while True:
            with contextlib.suppress(BufferError):  # full while no broker is there
                self._producer.produce(
                    f"{self._prefix}-{topic}", value, key, partition, timestamp=timestamp
                )
                break
            self._producer.poll(0.1)
        self._producer.poll(0)
        self._replace_if_cut_off()

    def _wait_until_committed(self) -> None:
        ends = self._sent_up_to()
        wait_for(lambda: self._is_committed(ends), what="all of the load to be committed")

    def _sent_up_to(self) -> Ends:
        """Wait until all is delivered; return where the partitions end."""
        wait_for(self._is_delivered, what="all of the load to be delivered", timeout_s=120)

        def found() -> Ends:
            with contextlib.suppress(KafkaException):
                self._admin.list_topics(timeout=10)  # or the client asks a former leader for ever
                latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
                wanted = {
                    TopicPartition(f"{self._prefix}-{topic}", number): latest
                    for topic, count in SOURCES.items()
                    for number in range(count)
                }
                listed = self._admin.list_offsets(wanted)
                return {
                    (at.topic, at.partition): offset.result(10).offset
                    for at, offset in listed.items()
                }
            return {}

        return wait_for(found, what="the ends of the sources", timeout_s=120)

    def _is_committed(self, ends: Ends) -> bool:
        if not ends:
            return True
        reader = Consumer({"bootstrap.servers": self._servers, "group.id": self._prefix})
        try:
            committed = reader.committed([TopicPartition(*at) for at in ends], timeout=10)
        except KafkaException:
            return False
        finally:
            reader.close()
        return all(ends[it.topic, it.partition] <= max(it.offset, 0) for it in committed)


def _pass_time(seconds: float) -> None:
    due = time.monotonic() + seconds
    wait_for(lambda: time.monotonic() >= due, what=f"{seconds} s to pass")
