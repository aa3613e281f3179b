"""A task's versioned store: for each key the values of the past, by time (KIP-889).

A put has a time, and is valid from it to the time of the next version. One that is older than the
history retention, by stream time, is dropped; what was valid before that is not told any more.
Kafka's ``RocksDBVersionedStore`` and ``ChangeLoggingVersionedKeyValueBytesStore``.

Every put is sent to the changelog, with its time. Uncommitted versions are in memory, by key, and
the newest version of keys seen lately, so that an update in order reads nothing.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

from headwater.errors import StateError
from headwater.ports import LATEST, NOT_PUT, NotLatest, Timestamps
from headwater.state.store import LayeredStore
from headwater.state.versions import (
    TIME_MAX,
    key_of,
    outlived,
    row_key,
    row_value,
    time_of,
    value_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from headwater.model.stores import StoreSpec
    from headwater.ports import Forward, Headers, Position, Send, Update
    from headwater.state.layers.writeback import WriteBack

_KNOWN_MAX: Final = 100_000
"""The newest versions of so many keys are known without a look into the backend."""
_VERSION_BYTES: Final = 250
"""About what Python takes for a version that is not committed, beside key and value."""
_SWEPT_PER_ROW: Final = 2
_SWEPT_MIN: Final = 64
"""A commit looks at twice as many rows as it writes, and at some more, for what is outlived."""


class Version(NamedTuple):
    """A value, in the stored form, and from when on it holds; ``None`` where the key is deleted."""

    time: int
    stored: Any


_time: Final = itemgetter(0)


class VersionedStore(LayeredStore):
    """The ``VersionedStore`` of ``ports``, without a record cache.

    Attributes:
        on_expired: called with each put that is too old to be kept.
    """

    def __init__(
        self, spec: StoreSpec, below: WriteBack, send: Send | None, partition: int
    ) -> None:
        super().__init__(spec, below, None)
        self.on_expired: Callable[[], None] = _nothing
        self._retention_ms = spec.retention_ms
        self._send, self._partition = send, partition
        self._backend = below.backend
        self._forget()
        self._stream_time = self._sealed_time = self._committed_time = -1
        self._swept: bytes | None = None
        self._unswept = 0

    def _forget(self) -> None:
        self._newest: dict[Any, Version | None] = {}
        self._written: dict[Any, list[Version]] = {}
        self._unsent: list[tuple[Any, Version]] = []
        self._unwritten: list[tuple[Any, Version]] = []
        self._sealed: list[tuple[Any, Version]] = []
        self._sealed_rows: list[tuple[bytes, bytes | None]] | None = None
        self._held_bytes = 0

    # ---- reading -------------------------------------------------------------------------------

    def get(self, key: Any) -> tuple[Any, int] | None:
        """Return value and time of the newest version, ``None`` if there is none or it is deleted.

        Raises:
            SerializationError: the key is null or its serde does not take it.
        """
        newest = self._newest_of(self._keys.identity(key))
        if newest is None or newest.stored is None:
            return None
        return self._codec.to_value(newest.stored), newest.time

    def get_as_of(self, key: Any, as_of: int) -> tuple[Any, int] | None:
        """Return value and time of the version that was valid at ``as_of``.

        A time before the history retention finds nothing but a newest version that is as old.

        Raises:
            SerializationError: the key is null or its serde does not take it.
        """
        identity = self._keys.identity(key)
        newest = self._newest_of(identity)
        if newest is None:
            return None
        to_value = self._codec.to_value
        if newest.time <= as_of:
            if newest.stored is None:
                return None
            return to_value(newest.stored), newest.time
        if as_of < self._stream_time - self._retention_ms:
            return None
        found = self._at_most(identity, as_of)
        if found is None or found.stored is None:
            return None
        return to_value(found.stored), found.time

    def _newest_of(self, identity: Any) -> Version | None:
        known = self._newest
        try:
            return known[identity]
        except KeyError:
            found = self._at_most(identity, TIME_MAX)
            if len(known) >= _KNOWN_MAX:
                known.clear()
            known[identity] = found
            return found

    def _at_most(self, identity: Any, time: int) -> Version | None:
        """Return the last version that is not later than ``time``."""
        if time < 0:
            return None
        key = self._keys.bytes_of(identity)
        rows = self._backend.range(row_key(key, 0), row_key(key, time), reverse=True)
        row = next(rows, None)
        written = self._written.get(identity, ())
        place = bisect_right(written, time, key=_time)
        if place and (row is None or written[place - 1].time >= time_of(row[0])):
            return written[place - 1]
        return None if row is None else Version(time_of(row[0]), self._stored_of(row[1]))

    def _next_time(self, identity: Any, time: int) -> int:
        """Return the time of the first version after ``time``; there is one."""
        key = self._keys.bytes_of(identity)
        rows = self._backend.range(row_key(key, time + 1), row_key(key, TIME_MAX))
        row = next(rows, None)
        written = self._written.get(identity, ())
        place = bisect_right(written, time, key=_time)
        following = [] if row is None else [time_of(row[0])]
        if place < len(written):
            following.append(written[place].time)
        return min(following)

    def _stored_of(self, held: bytes) -> Any:
        data = value_of(held)
        return None if data is None else self._codec.stored_of(data)

    def range(self, start: Any, end: Any, *, reverse: bool = False) -> NoReturn:
        """Refuse: a versioned store has no ranges of keys, as in Kafka Streams.

        Raises:
            StateError: always.
        """
        del start, end, reverse
        raise StateError(f"versioned store {self.name} has no ranges of keys: get single ones")

    def prefix_scan(self, prefix: Any, encode: Callable[[Any], bytes] | None = None) -> NoReturn:
        """Refuse, as ``range``.

        Raises:
            StateError: always.
        """
        self.range(prefix, encode)

    def approximate_num_entries(self) -> int:
        """About how many versions there are."""
        waiting = len(self._unsent) + len(self._unwritten) + len(self._sealed)
        return self._backend.approximate_num_entries() + waiting

    # ---- writing -------------------------------------------------------------------------------

    def num_keys(self) -> int:
        """Count the keys whose newest version is committed and no deletion. All of it is read."""
        newest = {key_of(row): held for row, held in self._backend.range(None, None)}
        return sum(value_of(held) is not None for held in newest.values())

    def put(self, key: Any, value: Any, timestamp: int, headers: Headers = None) -> None:
        """Add a version; see ``put_version``."""
        del headers
        self.put_version(key, value, timestamp)

    def put_version(self, key: Any, value: Any, timestamp: int) -> int:
        """Add a version, or replace that of the same time; ``None`` deletes from then on.

        Returns:
            Until when it is valid: the next version's time, ``LATEST`` if there is none;
            ``NOT_PUT`` if it was too old.

        Raises:
            SerializationError: a serde does not take the key or the value.
        """
        identity = self._keys.identity(key)
        stored = None if value is None else self._codec.to_stored(value)
        return self._put(identity, stored, timestamp)

    def _put(self, identity: Any, stored: Any, time: int) -> int:
        if time < 0:
            raise StateError(f"versioned store {self.name}: the time of a put is negative: {time}")
        version = Version(time, stored)
        if time < self._stream_time - self._retention_ms:
            self._log(identity, version)
            self.on_expired()
            return NOT_PUT
        self._stream_time = max(self._stream_time, time)
        newest = self._newest_of(identity)
        self._keep(identity, version)
        self._log(identity, version)
        if newest is None or newest.time <= time:
            self._newest[identity] = version
            return LATEST
        return self._next_time(identity, time)

    def _keep(self, identity: Any, version: Version) -> None:
        written = self._written.setdefault(identity, [])
        place = bisect_left(written, version.time, key=_time)
        if place < len(written) and written[place].time == version.time:
            written[place] = version
        else:
            insort(written, version, key=_time)
        self._unwritten.append((identity, version))
        self._held_bytes += self._codec.size(identity, version.stored) + _VERSION_BYTES

    def _log(self, identity: Any, version: Version) -> None:
        if self._send is not None:
            self._unsent.append((identity, version))

    def updater(
        self, step: Update | None, timestamps: str, initializer: Callable[[], Any] | None = None
    ) -> Forward:
        """Compile read, step, put and forward; what is too old is neither put nor forwarded.

        A change that is not the newest one of its key is forwarded as ``NotLatest``.
        """
        self._compiled = True
        identity_of, newest_of, put = self._keys.identity, self._newest_of, self._put
        to_value, to_stored = self._codec.to_value, self._codec.to_stored
        forward, send_old = self._forward or _nobody, self._send_old
        take_max = timestamps == Timestamps.MAX

        def update(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            identity = identity_of(key)
            newest = newest_of(identity)
            held = None if newest is None else newest.stored
            old = None if held is None else to_value(held)
            before = old if send_old else None
            new = value
            if step is not None:
                initial = held is None and initializer is not None
                new = step(key, value, initializer() if initial and initializer else old)
                # Decoded afresh: the step may have changed its copy into the new value.
                before = None if held is None or not send_old else to_value(held)
                if send_old and initial and initializer is not None:
                    before = initializer()
            if take_max and held is not None and newest is not None:
                timestamp = max(timestamp, newest.time)
            valid_to = put(identity, None if new is None else to_stored(new), timestamp)
            if valid_to == NOT_PUT:
                return
            is_latest = valid_to == LATEST
            change = (new, before) if is_latest else NotLatest((new, before))
            forward(key, change, timestamp, headers)

        return update

    # ---- commit --------------------------------------------------------------------------------

    def flush_changelog(self) -> int:
        """Send every put that was not sent; return how many.

        Raises:
            SerializationError: a value turned out not to fit its serde.
        """
        unsent, send = self._unsent, self._send
        if not unsent or send is None:
            return 0
        bytes_of = self._keys.bytes_of
        for identity, version in unsent:
            send(bytes_of(identity), self._data(version), version.time, None, self._partition)
        self._unsent = []
        return len(unsent)

    def _data(self, version: Version) -> bytes | None:
        codec, stored = self._codec, version.stored
        if stored is None or not codec.immutable:
            data: bytes | None = stored
            return data
        try:
            return codec.serialize(stored)
        except Exception as error:
            raise codec.value_error(stored, error) from error

    def seal(self) -> None:
        """Fix what ``commit`` writes; what is put from now on belongs to the next commit."""
        assert self._sealed_rows is None, "sealed already"
        assert not self._unsent, "a write between flush_changelog and commit"
        self._sealed_rows = self._rows()
        self._sealed_time = self._stream_time
        self._sealed, self._unwritten = self._unwritten, []

    def _rows(self) -> list[tuple[bytes, bytes | None]]:
        bytes_of = self._keys.bytes_of
        return [
            (row_key(bytes_of(identity), version.time), row_value(self._data(version)))
            for identity, version in self._unwritten
        ]

    def commit(self, position: Position | None) -> None:
        """Write all uncommitted versions and the position in one batch, and forget old ones."""
        if self._sealed_rows is None:
            self.seal()
        rows, sealed = self._sealed_rows or [], self._sealed
        if position is not None:
            position = position._replace(stream_time=self._sealed_time)
        if rows or position is not None:
            self._backend.write([*rows, *self._outlived(len(rows))], position)
        self._sealed_rows, self._sealed = None, []
        self._committed_time = self._sealed_time
        for identity, version in sealed:
            self._held_bytes -= self._codec.size(identity, version.stored) + _VERSION_BYTES
            left = [found for found in self._written.get(identity, ()) if found is not version]
            if left:
                self._written[identity] = left
            else:
                self._written.pop(identity, None)

    def _outlived(self, written: int) -> list[tuple[bytes, None]]:
        """Return some rows that nobody can ask for any more, as deletions.

        On disk a part of the store is looked at, beginning where the last look ended.
        """
        oldest = self._stream_time - self._retention_ms
        self._unswept += written
        wanted = _SWEPT_PER_ROW * written + _SWEPT_MIN
        if not self._backend.persistent:
            wanted = self._backend.approximate_num_entries()
        if oldest <= 0 or not written or self._unswept * _SWEPT_PER_ROW < wanted - _SWEPT_MIN:
            return []
        self._unswept = 0
        rows = list(islice(self._backend.range(self._swept, None), wanted + 1))
        # The last of them is where the next look begins: its follower has not been seen.
        self._swept = rows[-1][0] if len(rows) > wanted else None
        return [(row, None) for row in outlived(rows, oldest)]

    def abort(self, *, resend: bool = False) -> None:
        """Forget every uncommitted put.

        Args:
            resend: see ``ports.KeyValueStore.abort``.
        """
        sent = [*self._sealed, *self._unwritten]
        self._forget()
        self._stream_time = self._committed_time
        if not resend or self._send is None:
            return
        for identity, version in sent:
            # What is not in the store will be put again when its record is processed again.
            found = self._at_most(identity, version.time)
            if found is not None and found.time == version.time:
                self._log(identity, found)

    def uncommitted_bytes(self) -> int:
        """About how much memory the puts that are not committed hold."""
        return self._held_bytes


def _nothing() -> None:
    """Nobody counts what has expired."""


def _nobody(_key: Any, _change: Any, _timestamp: int, _headers: Headers) -> None:
    """Hear nothing."""
