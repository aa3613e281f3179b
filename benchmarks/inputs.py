"""The inputs of the benchmarks, loaded once into the private broker before anything is measured.

Record ``i`` goes to partition ``i % 4`` and its key is drawn among the keys of that partition, so
that every partition holds exactly as many records and two threads have equal shares. The draw is
seeded: every run of the benchmarks reads the same bytes.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.works import OTHER

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import TypeAlias

    Entry: TypeAlias = "tuple[str, int, str | bytes, str | bytes, int]"
    """Topic, partition (-1: by the key, as Java does), key, value, timestamp."""

PARTITIONS = 4
KEYS = 100_000
TIMED_KEYS = 10_000
TABLE_ROWS = 100_000
FOREIGN_ROWS = 10_000
CHANGES = 4
"""A versioned table changes once in so many records of the stream."""
WORDS_PER_LINE = 5
VOCABULARY = 20_000
VALUE_BYTES = 40
_SEED = 7
_WAIT_S = 60
_PAUSE_S = 0.2


@dataclass(frozen=True, slots=True)
class Input:
    """A loaded topic."""

    topic: str
    records: int
    """In the topic."""
    processed: int
    """By a system that runs the work: words travel through a second topic."""
    passed: int
    """Records that the filter of the stateless work lets through, or that a join gives."""


def create(servers: str, *topics: str, **config: str) -> None:
    """Create topics with four partitions."""
    admin = AdminClient({"bootstrap.servers": servers})
    new = [NewTopic(topic, PARTITIONS, 1, config=config) for topic in topics]
    for future in admin.create_topics(new).values():
        future.result(_WAIT_S)


def delete(servers: str, prefix: str) -> None:
    """Delete the topics whose name starts with ``prefix``: the next run has the disk to itself."""
    admin = AdminClient({"bootstrap.servers": servers})
    found = [name for name in admin.list_topics(timeout=_WAIT_S).topics if name.startswith(prefix)]
    if found:
        for future in admin.delete_topics(found).values():
            future.result(_WAIT_S)


def await_coordinator(servers: str) -> None:
    """Have the broker make its topic of offsets, which no system should pay for."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "first"})
    deadline = time.monotonic() + _WAIT_S
    while True:
        try:
            consumer.committed([TopicPartition("first", 0)], timeout=_WAIT_S)
            break
        except KafkaException:  # the coordinator is still starting
            if time.monotonic() > deadline:
                raise
            time.sleep(_PAUSE_S)
    consumer.close()


def load_keyed(servers: str, topic: str, records: int) -> Input:
    """Load ``records`` records of 100,000 keys with values of 40 bytes."""
    passed = [0]
    create(servers, topic)
    load(servers, topic, _counted(_keyed(records), passed))
    return Input(topic, records, records, passed[0])


def load_timed(servers: str, topic: str, records: int) -> Input:
    """Load records of 10,000 keys, a millisecond after each other."""
    create(servers, topic)
    load(servers, topic, _timed(records), timed=True)
    return Input(topic, records, records, 0)


def load_streams(servers: str, topic: str, records: int) -> Input:
    """Load records of 10,000 keys into two topics in turn, a millisecond after each other."""
    create(servers, topic, topic + OTHER)
    send(servers, _two_streams(topic, records))
    return Input(topic, records, records, 0)


def load_table(servers: str, topic: str, records: int) -> Input:
    """Load a stream, and a second topic with the 100,000 rows of a table that is there before."""
    create(servers, topic, topic + OTHER)
    begun_ms = now_ms()
    send(servers, _rows(topic + OTHER, begun_ms - TABLE_ROWS))
    send(servers, _looking_up(topic, records, begun_ms))
    read = TABLE_ROWS + records
    return Input(topic, read, read, records)


def load_versions(servers: str, topic: str, records: int) -> Input:
    """Load as ``load_table``; a row of the table changes with every fourth record."""
    create(servers, topic, topic + OTHER)
    begun_ms = now_ms()
    send(servers, _rows(topic + OTHER, begun_ms - TABLE_ROWS))
    send(servers, _looking_up(topic, records, begun_ms))
    changes = records // CHANGES
    send(servers, _looking_up(topic + OTHER, changes, begun_ms, every_ms=CHANGES))
    read = TABLE_ROWS + records + changes
    return Input(topic, read, read, records)


def load_foreign(servers: str, topic: str, records: int) -> Input:
    """Load rows that refer to the 10,000 rows of a second topic, which are there before.

    Each row is a subscription and a response, too.
    """
    create(servers, topic, topic + OTHER)
    begun_ms = now_ms()
    draw = random.Random(_SEED)
    keys = [f"key-{number:06d}" for number in range(FOREIGN_ROWS)]
    send(
        servers,
        (
            (topic + OTHER, -1, key, value_of(n), begun_ms - FOREIGN_ROWS)
            for n, key in enumerate(keys)
        ),
    )
    send(
        servers,
        (
            (topic, n % PARTITIONS, f"row-{n:08d}", f"{draw.choice(keys)}-{n:029d}", begun_ms + n)
            for n in range(records)
        ),
    )
    return Input(topic, FOREIGN_ROWS + records, FOREIGN_ROWS + 3 * records, records)


def load_lines(servers: str, topic: str, lines: int) -> Input:
    """Load ``lines`` lines of five words, 20,000 of them distinct."""
    create(servers, topic)
    load(servers, topic, _lines(lines))
    return Input(topic, lines, lines * (1 + WORDS_PER_LINE), 0)


def key_of(draw: random.Random, partition: int) -> str:
    """Draw one of the keys that live in a partition."""
    return f"key-{draw.randrange(KEYS // PARTITIONS) * PARTITIONS + partition:06d}"


def _keyed(records: int) -> Iterator[tuple[str, str]]:
    draw = random.Random(_SEED)
    for number in range(records):
        yield key_of(draw, number % PARTITIONS), value_of(number)


def _timed(records: int) -> Iterator[tuple[str, str]]:
    draw = random.Random(_SEED)
    for number in range(records):
        yield _timed_key(draw, number % PARTITIONS), value_of(number)


def _timed_key(draw: random.Random, partition: int) -> str:
    return f"key-{draw.randrange(TIMED_KEYS // PARTITIONS) * PARTITIONS + partition:06d}"


def value_of(number: int) -> str:
    """Return a value of 40 characters."""
    return f"value-{number:0{VALUE_BYTES - 6}d}"


def now_ms() -> int:
    """Return the time of this second, in milliseconds since 1970."""
    return int(time.time()) * 1_000


def _two_streams(topic: str, records: int) -> Iterator[Entry]:
    draw, begun_ms = random.Random(_SEED), now_ms()
    for number in range(records):
        partition = number // 2 % PARTITIONS
        key = _timed_key(draw, partition)
        name = topic + OTHER if number % 2 else topic
        yield name, partition, key, value_of(number), begun_ms + number


def _rows(topic: str, begun_ms: int) -> Iterator[Entry]:
    for number in range(TABLE_ROWS):
        partition = number % PARTITIONS
        yield topic, partition, f"key-{number:06d}", value_of(number), begun_ms + number


def _looking_up(topic: str, records: int, begun_ms: int, every_ms: int = 1) -> Iterator[Entry]:
    draw = random.Random(_SEED + every_ms)
    for number in range(records):
        partition = number % PARTITIONS
        key = key_of(draw, partition)
        yield topic, partition, key, value_of(number), begun_ms + number * every_ms


def _lines(lines: int) -> Iterator[tuple[str, str]]:
    draw = random.Random(_SEED)
    words = [f"word{number:05d}" for number in range(VOCABULARY)]
    for number in range(lines):
        yield f"line-{number:08d}", " ".join(draw.choices(words, k=WORDS_PER_LINE))


def _counted(records: Iterator[tuple[str, str]], passed: list[int]) -> Iterator[tuple[str, str]]:
    """Count what the filter of the stateless work lets through, on its way."""
    for key, value in records:
        passed[0] += not key.endswith("0")
        yield key, value


def load(
    servers: str,
    topic: str,
    records: Iterable[tuple[str, str]] | Iterable[tuple[bytes, bytes]],
    *,
    timed: bool = False,
) -> None:
    """Send keys and values to a topic that is there, to its partitions in turn.

    Records that are ``timed`` have a millisecond between them. They are of today, or the broker
    would delete what is made of them.

    Raises:
        TimeoutError: not all were delivered.
    """
    begun_ms = now_ms()
    given: Iterable[tuple[str | bytes, str | bytes]] = records
    send(
        servers,
        (
            (topic, number % PARTITIONS, key, value, begun_ms + number if timed else 0)
            for number, (key, value) in enumerate(given)
        ),
    )


def send(servers: str, entries: Iterable[Entry]) -> None:
    """Send records to topics that are there.

    Raises:
        TimeoutError: not all were delivered.
    """
    settings: dict[str, Any] = {
        "bootstrap.servers": servers,
        "enable.idempotence": True,
        "linger.ms": 50,
        "queue.buffering.max.messages": 1_000_000,
        "delivery.report.only.error": True,
        "partitioner": "murmur2_random",
    }
    producer = Producer(settings)
    for topic, partition, key, value, at in entries:
        while True:
            try:
                producer.produce(topic, value, key, partition, timestamp=at)
                break
            except BufferError:
                producer.poll(0.1)
    left = producer.flush(_WAIT_S)
    if left:
        raise TimeoutError(f"{left} records were not delivered in {_WAIT_S} s")
