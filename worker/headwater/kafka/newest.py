"""Changelog records as the client hands them out: of most only the key is ever looked at.

A store wants the last value of each key. A record that another one of the same key follows before
the store is written need not be taken apart: on a busy changelog that is nearly every one.
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from confluent_kafka import Message

from headwater.kafka.headers import mend_headers
from headwater.wire.headers import encode_headers
from headwater.wire.timestamps import entries_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from headwater.ports import Headers
    from headwater.wire.timestamps import Entry, Row

Columns: TypeAlias = "tuple[list[Any], list[Any], list[Any], list[Any]]"
"""Offsets, timestamps, keys and values of records, of one length if all of them are wanted."""

_offset: Any = Message.offset
_timestamp: Any = Message.timestamp
_key: Any = Message.key
_value: Any = Message.value
_headers: Any = Message.headers
_second: Final = itemgetter(1)
_SAMPLE: Final = 16
_OVERHEAD_BYTES: Final = 420
"""What Python takes for a record that is held, beside its value; measured with short keys."""


class ChangelogRun(Protocol):
    """Records of one partition in offset order, whichever path they have taken."""

    def __len__(self) -> int:
        """Return how many they are."""
        ...

    @property
    def next_offset(self) -> int:
        """The offset behind the last record, if there is any."""
        ...

    def before(self, offset: int) -> ChangelogRun:
        """Return the records below ``offset``; here there may be none."""
        ...

    def newest(self, *, headers: bool = False, versions: bool = False) -> NewestRecords:
        """Return what takes in runs of this kind, and is empty.

        Args:
            headers: values have their records' headers in front.
            versions: a key has a record for each of its times.
        """
        ...


class NewestRecords(Protocol):
    """The newest record of each key among runs of one partition."""

    def add(self, run: Any) -> None:
        """Take in what comes next."""

    def __len__(self) -> int:
        """Return how many there are."""
        ...

    @property
    def size_bytes(self) -> int:
        """About how much memory the records take."""
        ...

    def rows(self) -> Iterable[Row]:
        """Return those whose key is not null. Nothing can be taken in afterwards."""
        ...

    def entries(self, *, timestamped: bool) -> list[Entry]:
        """Likewise, as entries of a store that keeps no headers.

        Args:
            timestamped: a value has its timestamp in front.
        """
        ...


class Run:
    """A ``ChangelogRun`` of messages.

    Args:
        messages: as the client gave them.
    """

    __slots__ = ("messages",)

    def __init__(self, messages: Sequence[Message]) -> None:
        self.messages = messages
        """Only for this package."""

    def __len__(self) -> int:
        return len(self.messages)

    @property
    def next_offset(self) -> int:
        """The offset behind the last record."""
        return (_offset(self.messages[-1]) or 0) + 1

    def columns(self, *, offsets: bool = True) -> Columns:
        """Take all of them apart: offsets, timestamps, keys, values.

        Args:
            offsets: whether anybody wants them; otherwise that list is empty.
        """
        messages = self.messages
        return (
            list(map(_offset, messages)) if offsets else [],
            list(map(_second, map(_timestamp, messages))),
            list(map(_key, messages)),
            list(map(_value, messages)),
        )

    def before(self, offset: int) -> Run:
        """Return the records below ``offset``; here there may be none."""
        return Run([message for message in self.messages if (_offset(message) or 0) < offset])

    def newest(self, *, headers: bool = False, versions: bool = False) -> Newest:
        """Return what takes in such runs, and is empty; see ``ChangelogRun.newest``."""
        if headers:
            return WithHeaders()
        return Versions() if versions else Newest()


class Newest:
    """The newest record of each key among runs of one partition."""

    __slots__ = ("_held", "_sampled", "_samples")

    def __init__(self) -> None:
        self._held: dict[Any, Any] = {}
        self._sampled = self._samples = 0

    def add(self, run: Run) -> None:
        """Take in what comes next."""
        messages = run.messages
        self._held.update(zip(self._ids(messages), messages, strict=False))
        sample = messages[::_SAMPLE]
        self._samples += len(sample)
        self._sampled += sum(map(len, sample))

    def __len__(self) -> int:
        return len(self._held)

    @property
    def size_bytes(self) -> int:
        """About how much memory the records take: the size of values is that of a sample."""
        if not self._samples:
            return 0
        return len(self._held) * (_OVERHEAD_BYTES + self._sampled // self._samples)

    def _ids(self, messages: Sequence[Message]) -> Iterator[Any]:
        """Return what tells records apart, of which the last one is wanted."""
        return map(_key, messages)

    def rows(self) -> Iterator[Row]:
        """Return key, timestamp and value of each; records with a null key are left out."""
        self._held.pop(None, None)
        messages = self._held.values()
        return zip(
            self._held, map(_second, map(_timestamp, messages)), map(_value, messages), strict=True
        )

    def entries(self, *, timestamped: bool) -> list[Entry]:
        """Return them as entries of a store; see ``NewestRecords.entries``."""
        return entries_of(self.rows(), timestamped=timestamped)


class WithHeaders(Newest):
    """The newest record of each key, for a store that keeps headers beside values."""

    __slots__ = ()

    def rows(self) -> Iterator[Row]:
        """Return key, timestamp and value of each, with its headers in front of the value."""
        for key, message in self._held.items():
            if key is not None:
                value = _value(message)
                if value is not None:
                    value = encode_headers(_headers_of(message)) + value
                yield key, _timestamp(message)[1], value


def _headers_of(message: Message) -> Headers:
    try:
        found: Headers = _headers(message)
    except SystemError as raised:
        mend_headers([message], raised)
        found = _headers(message)
    return found


class Versions(Newest):
    """All records but those of which another one of the same key and time follows, in order."""

    __slots__ = ()

    def _ids(self, messages: Sequence[Message]) -> Iterator[Any]:
        times = map(_second, map(_timestamp, messages))
        return zip(map(_key, messages), times, strict=True)

    def rows(self) -> Iterator[Row]:
        """Return key, timestamp and value of each; records with a null key are left out."""
        for (key, timestamp), message in self._held.items():
            if key is not None:
                yield key, timestamp, _value(message)
