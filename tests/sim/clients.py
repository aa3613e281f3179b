"""What StreamTasks of the simulation have around them: the model broker, a disk, the time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater import Serdes
from headwater.errors import FencedError
from headwater.ids import TopicPartition
from headwater.ports import Position, counted
from tests.sim.broker import ProducerFencedError
from tests.sim.world import CHANGELOG, OUT, PARTITIONS, WORDS, partition_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from headwater.ports import Headers, OnRefused, Send
    from tests.sim.broker import ModelProducer
    from tests.sim.world import Store, World


class ModelCollector:
    """Sends what tasks give it to the model broker (``RecordCollector``).

    Attributes:
        sent: the inputs whose outputs were sent since the last commit, by topic.
        ends: the offset after the last entry of each changelog.
    """

    def __init__(self, producer: ModelProducer) -> None:
        self._producer = producer
        self.sent: dict[str, set[int]] = {WORDS: set(), OUT: set()}
        self.ends: dict[TopicPartition, int] = {}
        self._held: list[tuple[str, str, bytes, int | None]] | None = None

    def sender(self, topic: str, on_refused: OnRefused | None = None) -> Send:
        """Return the function that sends to a topic.

        Raises:
            FencedError: from that function: somebody else has the transactional id.
        """
        del on_refused
        sent = 0

        def send(
            key: bytes | None,
            value: bytes | None,
            timestamp: int,
            headers: Headers,
            partition: int | None,
        ) -> None:
            nonlocal sent
            del timestamp, headers
            assert key is not None
            assert value is not None
            sent += 1
            self._send(topic, key.decode(), value, partition)

        return counted(send, lambda: sent)

    def hold(self) -> None:
        """Keep back what is sent from now on: it belongs to the next commit."""
        self._held = []

    def release(self) -> None:
        """Send what was kept back; what was sent before is committed."""
        held, self._held = self._held or [], None
        for sent in self.sent.values():
            sent.clear()
        for output in held:
            self._send(*output)

    def forget(self) -> None:
        """Forget what was sent since the last commit, and what was kept back."""
        self._held = None
        for sent in self.sent.values():
            sent.clear()

    def _send(self, topic: str, word: str, value: bytes, partition: int | None) -> None:
        if self._held is not None:
            self._held.append((topic, word, value, partition))
            return
        target = TopicPartition(topic, partition_of(word) if partition is None else partition)
        if not self._producer.is_open:
            self._producer.begin()
        try:
            if topic == CHANGELOG:
                count = Serdes.long.deserializer(topic)(value)
                self.ends[target] = self._producer.send(target, word, count) + 1
                return
            numbers = [int(part) for part in value.split()]
            self.sent[topic].add(numbers[0])
            self._producer.send(target, word, numbers[0] if topic == WORDS else tuple(numbers))
        except ProducerFencedError as error:
            raise FencedError(str(error)) from error

    def partitions(self, topic: str) -> int:
        """Return the same number for every topic."""
        del topic
        return PARTITIONS


class ModelClock:
    """The clock of the simulation (``Clock``)."""

    def __init__(self, world: World) -> None:
        self._world = world

    def now_ms(self) -> int:
        """Milliseconds since the beginning."""
        return self._world.now_ms


class ModelBackend:
    """The store on a worker's disk (``Backend``)."""

    persistent = True

    def __init__(self, store: Store) -> None:
        self._store = store
        self._encode = Serdes.long.serializer(CHANGELOG)
        self._decode = Serdes.long.deserializer(CHANGELOG)

    def get(self, key: bytes) -> bytes | None:
        """Return the count of a word."""
        count = self._store.data.get(key.decode())
        return None if count is None else self._encode(count)

    def range(
        self, start: bytes | None, end: bytes | None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Iterate words with their counts."""
        found = sorted((word.encode(), self._encode(n)) for word, n in self._store.data.items())
        within = [
            row for row in found if (start or b"") <= row[0] and (end is None or row[0] <= end)
        ]
        return iter(within[::-1] if reverse else within)

    def write(
        self, entries: Iterable[tuple[bytes, bytes | None]], position: Position | None
    ) -> None:
        """Write counts and position."""
        for key, value in entries:
            assert value is not None, "no word is forgotten"
            self._store.data[key.decode()] = self._decode(value)
        if position is not None:
            self._store.position, self._store.read = position.offset, position.read
        self._store.written += 1

    def position(self) -> Position | None:
        """Return the stored position."""
        return Position("counts", self._store.position, 0, read=self._store.read)

    def flush_later(self) -> None:
        """Nothing is buffered."""

    def approximate_num_entries(self) -> int:
        """How many words there are."""
        return len(self._store.data)

    def close(self) -> None:
        """Whoever closes the task says that the store is free."""
