"""Brings a store up to date from its changelog. Knows no Kafka: the records are handed in.

    open -> judge its position -> (replace) -> apply batch, apply batch, ... -> finish or close

A store that cannot be continued is deleted if its changelog has everything. If it may be the last
copy of its state, whoever opens it is asked first (``Consent``).

The *time* of a position says since when tombstones may be missing from the store, so it moves only
when the store is known to be complete: a restore keeps the time of the commit it continues from
(or of its own start, after a wipe) until it has reached the end of the log. A restore that is
interrupted again and again for a day is thus found too old and begins anew, as it must.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

from headwater import failpoints
from headwater.errors import StateError, StoreCorruptedError
from headwater.ports import Position
from headwater.state.backends.rocks import BlockCache, RocksBackend, RocksOptions, read_position
from headwater.state.backends.segments import SegmentedRocksBackend
from headwater.state.expiry import Expiry
from headwater.state.headers import to_row
from headwater.state.keys import suffix_bytes_of
from headwater.state.making import memory_backend
from headwater.state.position import (
    Discard,
    Rebuild,
    RebuildReason,
    Usable,
    judge,
    may_be_last_copy,
)
from headwater.state.versions import RestoredVersions
from headwater.wire.headers import encode_headers
from headwater.wire.timestamps import entries_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from headwater.model.stores import StoreSpec
    from headwater.ports import Backend, RawRecord
    from headwater.state.directory import StoreDirectory
    from headwater.state.position import Verdict
    from headwater.wire.timestamps import Entry, Row

BATCH_ENTRIES_MAX: Final = 5_000
"""RocksDB's write holds the global lock: a larger batch would stop the process' other threads."""

_SETTLED_ENTRIES: Final = 20_000
"""So many entries in a write buffer are written out in some 10 ms when the store is closed."""

_RESTORING: Final = RocksOptions(write_buffer_bytes=8 * 1024 * 1024)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangelogFacts:
    """What the broker says about a store's changelog partition when the store is opened.

    Attributes:
        topic_id: UUID of the topic.
        log_start: first offset there is.
        log_end: end offset, uncommitted records included.
        delete_retention_ms: the topic's ``delete.retention.ms``.
        is_expiring: the topic's ``cleanup.policy`` deletes old records.
    """

    topic_id: str
    log_start: int
    log_end: int
    delete_retention_ms: int
    is_expiring: bool = False


Consent: TypeAlias = "Callable[[RebuildReason], Discard]"
"""Says how a store is replaced that may be the last copy of its state; raises if it must stay."""


def set_aside(_: RebuildReason) -> Discard:
    """Let a store be replaced, and keep what it was."""
    return Discard.SET_ASIDE


def open_backend(
    spec: StoreSpec,
    directory: StoreDirectory | None,
    *,
    holder: str,
    options: RocksOptions | None = None,
    block_cache: BlockCache | None = None,
) -> Backend:
    """Open the backend that ``spec`` asks for; closing it also releases the directory.

    Args:
        spec: the store; in memory if it is not persistent, then ``directory`` is not used.
        directory: where a persistent store lies.
        holder: who opens it, for the message that somebody else may get.
        options: sizes of the database.
        block_cache: the process' shared one.

    Raises:
        StoreLockedError: the store is in use.
        StoreFormatError: a newer version wrote it.
        DiskFullError: there is no room.
        StoreCorruptedError: the database is damaged, or was found so when it was open last.
    """
    if not spec.persistent:
        return memory_backend(spec)
    assert directory is not None, f"store {spec.name} is persistent: it needs a directory"
    directory.acquire(holder=holder, is_logged=spec.is_restorable)
    try:
        if spec.is_restorable and directory.damage is not None:
            raise StoreCorruptedError(
                f"store {directory.name} at {directory.path}: {directory.damage.value}; it must be "
                "rebuilt from its changelog"
            )
        made = (
            partial(
                SegmentedRocksBackend,
                expiry=Expiry.of(spec),
                suffix_bytes=suffix_bytes_of(spec),
                by_time=spec.time_ordered,
            )
            if spec.kind.expires
            else RocksBackend
        )
        return made(
            directory.database,
            options=options,
            block_cache=block_cache,
            name=directory.name,
            store_name=spec.name,
            on_close=directory.release,
            on_damage=directory.mark_damaged,
        )
    except StateError:
        directory.release()
        raise


def is_up_to_date(
    directory: StoreDirectory, facts: ChangelogFacts, *, now_ms: int, holder: str
) -> bool:
    """Say whether a store on disk has its whole changelog, by a look that changes nothing.

    A database that is opened to be written waits for the disk several times; this does not. It
    leaves the time of the position as it is, so a store that is half as old as it may be is opened
    by a ``StoreRestorer``, which renews it.

    Args:
        directory: where the store lies; nobody has it open.
        facts: what the broker says about its changelog.
        now_ms: wall-clock time.
        holder: who asks, for the message that somebody else may get.

    Raises:
        StoreLockedError: the store is in use.
        StateError: as ``StoreDirectory.acquire``.
    """
    if not directory.database.exists():
        return False
    directory.acquire(holder=holder)
    try:
        position = None if directory.damage else read_position(directory.database)
    finally:
        directory.release()
    if position is None:
        return False
    is_young = now_ms - position.committed_at_ms < facts.delete_retention_ms // 2
    return is_young and _judge(position, facts, now_ms) == Usable(facts.log_end)


class StoreRestorer:
    """One store being restored or kept up as a standby.

    Opening it judges the stored position, and replaces a store that cannot be continued or that is
    damaged: it is deleted, since the changelog has everything, or ``consent`` is asked.

    Args:
        spec: the store.
        directory: where a persistent store lies; ``None`` for one in memory.
        facts: what the broker says about the changelog partition now.
        now_ms: wall-clock time.
        holder: who restores, for the message that somebody else may get.
        options: sizes; a restore only writes, so ``bulk`` is switched on.
        block_cache: the process' shared one.
        consent: asked before a store is replaced that may be the last copy of its state.

    Raises:
        HeadwaterError: the store cannot be opened, or ``consent`` says no; then it is as it was.

    Attributes:
        store: the store's name.
        verdict: ``Usable`` or ``Rebuild`` with its reason.
        offset: the next changelog offset to apply.
        applied: records applied so far.
        is_replaced: there was a store that was replaced.
        kept: where that one lies now, if it was set aside.
    """

    def __init__(
        self,
        spec: StoreSpec,
        directory: StoreDirectory | None,
        facts: ChangelogFacts,
        *,
        now_ms: int,
        holder: str,
        options: RocksOptions | None = None,
        block_cache: BlockCache | None = None,
        consent: Consent = set_aside,
    ) -> None:
        self._spec = spec
        self.store = spec.name
        self._directory = directory
        self._holder = holder
        self._options = replace(options or _RESTORING, bulk=True)
        self._block_cache = block_cache
        self._kind = spec.kind
        self._versions = RestoredVersions(spec.retention_ms) if spec.kind.versioned else None
        self.is_replaced = False
        self.kept: Path | None = None
        self._backend, self.verdict, position = self._opened(facts, now_ms, consent)
        self.offset = self.verdict.offset
        self.applied = 0
        self._unsettled = 0
        complete_at_ms = now_ms if position is None else position.committed_at_ms
        self._position = Position(facts.topic_id, self.offset, complete_at_ms)

    @property
    def keeps_headers(self) -> bool:
        """Whether the store wants records' headers, in front of their values."""
        return self._kind.keeps_headers

    @property
    def keeps_versions(self) -> bool:
        """Whether the store wants every record of a key, not the newest alone."""
        return self._versions is not None

    def judge(self, facts: ChangelogFacts, now_ms: int) -> Verdict:
        """Say whether the store, open all the time, may still be continued from its changelog.

        Args:
            facts: what the broker says about the changelog partition now.
            now_ms: wall-clock time.
        """
        return _judge(self._position, facts, now_ms)

    def apply(
        self, records: Sequence[RawRecord], next_offset: int, *, complete_at_ms: int | None = None
    ) -> None:
        """Apply committed changelog records, in order, and remember ``next_offset``.

        Args:
            records: as read from the partition; those with a null key are skipped.
            next_offset: the consumer's position after them (control records count).
            complete_at_ms: wall-clock time at which ``next_offset`` was the end of the log, if it
                was: from then on nothing can be missing.

        Raises:
            DiskFullError: what was not written can be applied again after a re-open.
        """
        for start in range(0, len(records), BATCH_ENTRIES_MAX):
            end = start + BATCH_ENTRIES_MAX
            last = end >= len(records)
            slice_ = records if last and not start else records[start:end]
            offset = next_offset if last else slice_[-1][0] + 1
            at_ms = complete_at_ms if last else None
            entries = self.entries_of(self._rows(slice_))
            self.write(entries, offset, records=len(slice_), complete_at_ms=at_ms)
        if not records and (next_offset != self.offset or complete_at_ms is not None):
            self.write([], next_offset, records=0, complete_at_ms=complete_at_ms)

    def _rows(self, records: Sequence[RawRecord]) -> Iterator[Row]:
        if self.keeps_headers:
            return (
                (key, timestamp, None if value is None else encode_headers(headers) + value)
                for _, timestamp, key, value, headers in records
                if key is not None
            )
        return ((key, at, value) for _, at, key, value, _ in records if key is not None)

    @property
    def keeps_rows(self) -> bool:
        """Whether an entry is more than a value and perhaps a timestamp; see ``entries_of``."""
        return self.keeps_headers or self.keeps_versions

    @property
    def timestamped(self) -> bool:
        """Whether values have their timestamps in front."""
        return self._kind.timestamped

    def entries_of(self, rows: Iterable[Row]) -> list[Entry]:
        """Return what the store keeps of committed changes of different keys or versions.

        Args:
            rows: key, timestamp and value; the value has its headers in front if the store keeps
                them.
        """
        if self._versions is not None:
            return list(self._versions.rows(rows))
        if self._kind.keeps_headers:
            return [
                (key, None if value is None else to_row(self._kind, value, timestamp))
                for key, timestamp, value in rows
            ]
        return entries_of(rows, timestamped=self._kind.timestamped)

    def write(
        self,
        entries: list[Entry],
        next_offset: int,
        *,
        records: int,
        complete_at_ms: int | None = None,
    ) -> None:
        """Write committed changes of different keys or versions, and remember ``next_offset``.

        More than ``BATCH_ENTRIES_MAX`` are written in parts. All but the last keep the position
        that was: whoever is killed in between reads on from there, and writes them again.

        Args:
            entries: what the store keeps of the newest record of each key (``entries_of``).
            next_offset: the consumer's position after all records that they stand for.
            records: how many those are.
            complete_at_ms: as in ``apply``.

        Raises:
            DiskFullError: what was not written can be applied again after a re-open.
        """
        position = self._position
        count = len(entries)
        last = max(0, count - 1) // BATCH_ENTRIES_MAX * BATCH_ENTRIES_MAX
        for start in range(0, last, BATCH_ENTRIES_MAX):
            self._backend.write(entries[start : start + BATCH_ENTRIES_MAX], position)
        complete = position.committed_at_ms if complete_at_ms is None else complete_at_ms
        self._position = Position(position.topic_id, next_offset, complete)
        self._backend.write(entries[last:] if last else entries, self._position)
        self.offset = next_offset
        self.applied += records
        self._unsettled += count
        failpoints.hit("restore.applied")

    def settle(self) -> None:
        """Begin to flush what was applied, if it is much: for a store that may soon be closed.

        Raises:
            StateError: as ``apply``.
        """
        if self._unsettled > _SETTLED_ENTRIES:
            self._backend.flush_later()
            self._unsettled = 0

    def approximate_num_entries(self) -> int:
        """About how many keys the store holds by now."""
        return self._backend.approximate_num_entries()

    def take(self) -> Backend:
        """Return the backend, which is the caller's to close: how a store in memory is handed on.

        A persistent store is better closed and opened again, which gives it the options for
        reading and writing.
        """
        return self._backend

    def close(self) -> None:
        """Release the store; it resumes from ``offset`` when it is opened next."""
        self._backend.close()

    def condemn(self) -> None:
        """Release the store as damaged: whoever opens it next throws it away, and says why."""
        self._backend.close()
        if self._directory is not None and self._spec.persistent:
            self._directory.mark_damaged()

    def _open(self) -> Backend:
        return open_backend(
            self._spec,
            self._directory,
            holder=self._holder,
            options=self._options,
            block_cache=self._block_cache,
        )

    def _opened(
        self, facts: ChangelogFacts, now_ms: int, consent: Consent
    ) -> tuple[Backend, Verdict, Position | None]:
        """Return a backend that may be continued or is empty, the verdict, and its position."""
        try:
            backend = self._open()
        except StoreCorruptedError:
            assert self._directory is not None, f"{self._spec.name} is damaged, so it is on disk"
            damage = self._directory.damage or RebuildReason.DAMAGED
            position = read_position(self._directory.database)
            found = _judge(position, facts, now_ms)
            reason = found.reason if isinstance(found, Rebuild) else damage
            is_kept = damage is RebuildReason.UNREADABLE_FORMAT
            if isinstance(found, Usable) and not found.offset:
                self._discard(Discard.SET_ASIDE if is_kept else Discard.DELETE)
            else:
                self._replace(reason, facts, consent, is_kept=is_kept)
            return self._open(), Rebuild(damage, facts.log_start), None
        position = backend.position()
        verdict = _judge(position, facts, now_ms)
        if isinstance(verdict, Usable):
            return backend, verdict, position
        try:
            has_entries = next(backend.range(None, None), None) is not None
        except StateError:
            backend.close()
            raise
        if position is None and not has_entries:
            return backend, verdict, None
        backend.close()
        if has_entries:
            self._replace(verdict.reason, facts, consent)
        else:
            self._discard(Discard.DELETE)
        return self._open(), verdict, None

    def _replace(
        self,
        reason: RebuildReason,
        facts: ChangelogFacts,
        consent: Consent,
        *,
        is_kept: bool = False,
    ) -> None:
        """Make room for a new store, unless the old one must stay."""
        fate = Discard.DELETE
        if may_be_last_copy(
            reason,
            log_start=facts.log_start,
            log_end=facts.log_end,
            is_expiring=facts.is_expiring,
        ):
            fate = consent(reason)
        self._discard(Discard.SET_ASIDE if is_kept else fate)
        self.is_replaced = True

    def _discard(self, fate: Discard) -> None:
        if self._directory is None or not self._spec.persistent:
            return
        self._directory.acquire(holder=self._holder)
        try:
            if fate is Discard.SET_ASIDE:
                self.kept = self._directory.set_aside()
            else:
                self._directory.wipe()
        finally:
            self._directory.release()


def _judge(position: Position | None, facts: ChangelogFacts, now_ms: int) -> Verdict:
    return judge(
        position,
        topic_id=facts.topic_id,
        log_start=facts.log_start,
        log_end=facts.log_end,
        now_ms=now_ms,
        delete_retention_ms=facts.delete_retention_ms,
    )
