"""The two ends of a test driver: a topic to write to and a topic to read from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from headwater.model.durations import millis

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from headwater.model.durations import Duration
    from headwater.ports import Headers
    from headwater.serde import Serde
    from headwater.testing.driver import TopologyTestDriver


class TopicRecord(NamedTuple):
    """A decoded record."""

    key: Any
    value: Any
    timestamp: int
    headers: Headers = None


class TestInputTopic:
    """Writes records into the topology; each is processed and committed before the call returns."""

    __test__ = False

    def __init__(
        self,
        driver: TopologyTestDriver,
        name: str,
        key_serde: Serde[Any],
        value_serde: Serde[Any],
        *,
        start_ms: int,
        auto_advance: Duration,
    ) -> None:
        self.name = name
        self._driver = driver
        self._encode_key = key_serde.serializer(name)
        self._encode_value = value_serde.serializer(name)
        self._time = start_ms
        self._advance = _forward("auto_advance", auto_advance)

    def advance_time(self, duration: Duration) -> None:
        """Move the timestamp of the next record, by a ``timedelta`` or milliseconds.

        Raises:
            ValueError: it is negative.
        """
        self._time += _forward("advance_time()", duration)

    def pipe_input(
        self, key: Any, value: Any, timestamp: int | None = None, headers: Headers = None
    ) -> None:
        """Write one record.

        Args:
            key: ``None`` for a null key.
            value: ``None`` for a tombstone.
            timestamp: milliseconds; by default the topic's own time, which then advances.
            headers: the record's headers.
        """
        if timestamp is None:
            timestamp = self._time
            self._time += self._advance
        self._driver.pipe_raw(
            self.name,
            None if key is None else self._encode_key(key),
            None if value is None else self._encode_value(value),
            timestamp,
            headers,
        )

    def pipe_value_list(
        self, values: Iterable[Any], start_ms: int | None = None, advance: Duration = 0
    ) -> None:
        """Write records without keys; times as for :meth:`pipe_key_value_list`."""
        self.pipe_key_value_list(((None, value) for value in values), start_ms, advance)

    def pipe_key_value_list(
        self,
        pairs: Iterable[tuple[Any, Any]],
        start_ms: int | None = None,
        advance: Duration = 0,
    ) -> None:
        """Write ``(key, value)`` pairs.

        Args:
            pairs: in order.
            start_ms: the timestamp of the first; without it the topic's own time goes on.
            advance: from each to the next; a ``timedelta`` or milliseconds.
        """
        step = _forward("advance", advance)
        for place, (key, value) in enumerate(pairs):
            self.pipe_input(key, value, None if start_ms is None else start_ms + place * step)

    def pipe_record(self, record: TopicRecord) -> None:
        """Write a record with its own timestamp and headers."""
        self.pipe_input(*record)

    def pipe_record_list(self, records: Iterable[TopicRecord]) -> None:
        """Write records with their own timestamps and headers."""
        for record in records:
            self.pipe_record(record)


def _forward(what: str, duration: Duration) -> int:
    """Return a duration in milliseconds."""
    found = millis(what, duration)
    if found < 0:
        raise ValueError(f"time only moves forward, not by {found} ms")
    return found


class TestOutputTopic:
    """Reads what the topology wrote, once each, in order."""

    __test__ = False

    def __init__(
        self,
        driver: TopologyTestDriver,
        name: str,
        key_serde: Serde[Any],
        value_serde: Serde[Any],
    ) -> None:
        self.name = name
        self._queue = driver.output_queue(name)
        self._decode_key = key_serde.deserializer(name)
        self._decode_value = value_serde.deserializer(name)

    def is_empty(self) -> bool:
        """Whether there is nothing left to read."""
        return not self._queue

    def queue_size(self) -> int:
        """How many records are left to read."""
        return len(self._queue)

    def read_record(self) -> TopicRecord:
        """Read the next record.

        Raises:
            LookupError: there is none.
        """
        if not self._queue:
            raise LookupError(f"nothing left to read from topic {self.name}")
        raw = self._queue.popleft()
        return TopicRecord(
            None if raw.key is None else self._decode_key(raw.key),
            None if raw.value is None else self._decode_value(raw.value),
            raw.timestamp,
            raw.headers,
        )

    def read_value(self) -> Any:
        """Read the next record's value."""
        return self.read_record().value

    def read_key_value(self) -> tuple[Any, Any]:
        """Read the next record's key and value."""
        record = self.read_record()
        return record.key, record.value

    def read_records_to_list(self) -> list[TopicRecord]:
        """Read everything that is left."""
        return [self.read_record() for _ in range(len(self._queue))]

    def read_values_to_list(self) -> list[Any]:
        """Read the values of everything that is left."""
        return [record.value for record in self.read_records_to_list()]

    def read_key_values_to_list(self) -> list[tuple[Any, Any]]:
        """Read key and value of everything that is left."""
        return [(record.key, record.value) for record in self.read_records_to_list()]

    def read_key_values_to_map(self) -> Mapping[Any, Any]:
        """Read everything that is left; the last value of each key wins.

        Raises:
            ValueError: a record has no key.
        """
        pairs = self.read_key_values_to_list()
        if any(key is None for key, _ in pairs):
            raise ValueError(f"topic {self.name} holds a record without a key: read it as a list")
        return dict(pairs)
