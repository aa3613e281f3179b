"""The RocksDB backend: one database per store, data and position in one write batch.

There is one column family. The position lies in the same key space as the data, under a key that
sorts after nearly every other. The few user keys that would reach it are escaped, so any bytes are
a legal key and byte order is kept:

    key <  8 x 0xff              stored as it is
    8 x 0xff 0x00                the position; behind it what else is no entry
    8 x 0xff ‖ rest              stored as 8 x 0xff ‖ 0x01 ‖ rest

The write-ahead log is on and never synced: a killed process loses nothing. A machine that loses
power may lose the tail; since data and position share a batch, the store is then merely older, and
its changelog makes that good.
"""

from __future__ import annotations

import re
import weakref
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from rocksdict import (
    AccessType,
    BlockBasedOptions,
    Cache,
    DBCompressionType,
    MemtableFactory,
    Options,
    Rdict,
    ReadOptions,
    WriteBatch,
    WriteBufferManager,
)

from headwater import failpoints
from headwater.errors import DiskFullError, StateError, StoreCorruptedError, StoreLockedError
from headwater.rocksdb_settings import (
    BLOCK_CACHE_SIZE,
    LIVE_MINIMA,
    PREFIX,
    TRIGGERS,
    RocksSettings,
)
from headwater.state.backends.copies import EmptyDatabase
from headwater.state.backends.statistics import numbers_of, properties_of
from headwater.state.diskfull import is_disk_full
from headwater.state.position import decode_position, encode_position

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from headwater.model.rocksdb import RocksDBConfigSetter
    from headwater.ports import Position

_CEILING: Final = b"\xff" * 8
POSITION_KEY: Final = _CEILING + b"\x00"
_ESCAPED: Final = _CEILING + b"\x01"
_COLUMN_FAMILY: Final = "default"
_DAMAGED: Final = re.compile(r"corruption|no such file", re.IGNORECASE)
_IN_USE: Final = re.compile(r"lock file|lock hold", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class RocksOptions:
    """Sizes of one store, in bytes. The block cache is shared by all stores of a process."""

    write_buffer_bytes: int = 4 * 1024 * 1024
    """A quarter of what Kafka Streams takes: the buffers of all stores fit a processor's cache,
    which makes a put faster and costs no more compaction."""
    write_buffers_max: int = 3
    block_bytes: int = 4096
    bloom_bits_per_key: int = 10
    wal_bytes_max: int = 64 * 1024 * 1024
    background_jobs: int = 2
    bulk: bool = False
    """The store is only written, as in a restore: entries are sorted when a buffer is flushed, by
    a background thread, instead of when they are put. Reads are very slow meanwhile."""


class BlockCache:
    """Uncompressed blocks of every store of a process (Kafka Streams has 50 MB for each store).

    Args:
        capacity_bytes: for blocks.
        write_buffer_bytes: for the write buffers of all stores; from about there on a write begins
            to flush. By default each store has its own bound only.
        config_setter: makes what changes the options of each store (``rocksdb.config.setter``).
        configs: what it is told, the application's configuration.
        statistics: each store keeps statistics, which costs a few percent.
        settings: options of the stores, in the place of those that the setter or Headwater sets.
    """

    __slots__ = (
        *("config_setter", "configs", "handle", "statistics", "write_buffers"),
        *("_capacity_bytes", "empty", "opened", "settings"),
    )

    def __init__(
        self,
        capacity_bytes: int = 32 * 1024 * 1024,
        *,
        write_buffer_bytes: int | None = None,
        config_setter: Callable[[], RocksDBConfigSetter] | None = None,
        configs: Mapping[str, object] | None = None,
        statistics: bool = False,
        settings: RocksSettings | None = None,
    ) -> None:
        self.statistics = statistics
        self.settings = settings or RocksSettings()
        self.opened: weakref.WeakSet[RocksBackend] = weakref.WeakSet()
        self.empty = EmptyDatabase()
        self._capacity_bytes = capacity_bytes
        capacity_bytes = self.settings.values().get(BLOCK_CACHE_SIZE, capacity_bytes)
        self.config_setter = config_setter
        self.configs = configs or {}
        self.handle: Any = Cache(capacity_bytes)
        self.write_buffers: Any = None
        if write_buffer_bytes is not None:
            self.write_buffers = WriteBufferManager(write_buffer_bytes, allow_stall=False)

    def configure(self, settings: RocksSettings) -> bool:
        """Have the stores that are open take over other options, and the next ones begin with them.

        Returns:
            Whether an option was taken away: a store has its default when it is opened anew.

        Raises:
            StateError: RocksDB refuses one.
        """
        before, now = self.settings.values(), settings.values()
        if before == now:
            return False
        self.settings = settings
        self.handle.set_capacity(now.get(BLOCK_CACHE_SIZE, self._capacity_bytes))
        changed = {
            name: value
            for name, value in now.items()
            if name in LIVE_MINIMA and name != BLOCK_CACHE_SIZE and before.get(name) != value
        }
        if TRIGGERS.keys() & changed.keys():  # RocksDB does not put them in order by itself
            changed |= {name: now[name] for name in TRIGGERS}
        for backend in list(self.opened):
            backend.configure(changed)
        return bool(before.keys() - now.keys() - {BLOCK_CACHE_SIZE})


class RocksBackend:
    """Holds the committed entries of one store in a RocksDB database.

    Args:
        path: directory of the database; made if missing.
        options: sizes.
        block_cache: shared by all stores of the process.
        name: what messages call the store; the directory's name if not given.
        store_name: what it is called in the topology, for who sets its options.
        on_close: called once the files are released.
        on_damage: called when the database turns out to be damaged.

    Raises:
        StoreLockedError: another process has the database open.
        DiskFullError: there is no room to open it.
        StoreCorruptedError: it cannot be read.
    """

    persistent = True
    writes = True
    """Whether it takes over other options; threads open what they only read whenever they like."""

    def __init__(
        self,
        path: Path,
        *,
        options: RocksOptions | None = None,
        block_cache: BlockCache | None = None,
        name: str = "",
        store_name: str = "",
        on_close: Callable[[], None] | None = None,
        on_damage: Callable[[], None] | None = None,
    ) -> None:
        self._on_damage = on_damage
        self.path = path
        self.name = name or path.name
        blocks = self._blocks = block_cache or BlockCache(8 * 1024 * 1024)
        self._built = built = build_options(options or RocksOptions(), blocks)
        self._keeps_statistics = blocks.statistics
        if blocks.statistics:
            built.enable_statistics()
        self._on_close = on_close
        self._closed = False
        self._store_name = store_name or self.name
        self._setter = None if blocks.config_setter is None else blocks.config_setter()
        if self._setter is not None:
            self._setter.set_config(self._store_name, built, blocks.configs)
        try:
            _set(built, blocks.settings.values())
            self._db = self._opened()
            failpoints.hit("rocks.opened")
            data = self._newest(POSITION_KEY)
        except Exception as error:
            raise self._explain(error, "opened") from error
        self._position = None if data is None else decode_position(data)
        self._iterators: weakref.WeakSet[Generator[Any, None, None]] = weakref.WeakSet()
        if self.writes:
            blocks.opened.add(self)

    def configure(self, options: Mapping[str, int]) -> None:
        """Change options of RocksDB while the database is open.

        Raises:
            StateError: RocksDB refuses one.
        """
        try:
            _set(self._built, options)  # for column families that are made later
            if options:
                for family in self._all():
                    family.set_options({name: str(value) for name, value in options.items()})
        except Exception as error:
            raise self._explain(error, "configured") from error

    def _opened(self) -> Any:
        """Open the database."""
        self.path.mkdir(parents=True, exist_ok=True)
        # An option of a user's may be for good, such as how keys are compared.
        is_first = self._setter is None and self._blocks.empty.lay(self.path)
        # On re-open a column family that is not named here silently gets default options.
        families = dict.fromkeys(self._families(), self._built)
        opened = Rdict(str(self.path), options=self._built, column_families=families)
        if is_first:
            self._blocks.empty.learn(self.path)
        return opened

    def _families(self) -> list[str]:
        """Return the column families that the database has, or is to have."""
        return [_COLUMN_FAMILY]

    def _newest(self, stored: bytes) -> bytes | None:
        """Return what is stored under a key."""
        value: bytes | None = self._db.get(stored)
        return value

    def get(self, key: bytes) -> bytes | None:
        """Return the value of ``key``.

        Raises:
            StoreCorruptedError: its block is damaged.
        """
        try:
            value: bytes | None = self._db.get(key if key < _CEILING else stored_key(key))
        except Exception as error:
            raise self._explain(error, "read") from error
        return value

    def range(
        self, start: bytes | None, end: bytes | None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Iterate from ``start`` to ``end``, both inclusive, in byte order, as of this call."""
        low = None if start is None else stored_key(start)
        high = None if end is None else stored_key(end)
        if low is not None and high is not None and low > high:
            return iter(())
        first = high if reverse else low
        rows: Any = self._db.items(backwards=reverse, from_key=first, read_opt=ReadOptions())
        iterator = self._bounded(rows, low, high, reverse=reverse)
        self._iterators.add(iterator)
        return iterator

    def _bounded(
        self,
        rows: Iterator[tuple[bytes, bytes]],
        low: bytes | None,
        high: bytes | None,
        *,
        reverse: bool,
    ) -> Generator[tuple[bytes, bytes], None, None]:
        last = high if reverse else low
        for stored, value in rows:
            if reverse:
                if high is not None and stored > high:
                    continue
                if low is not None and stored < low:
                    return
            elif high is not None and stored > high:
                return
            last = stored
            if stored < _CEILING:
                yield stored, value
            elif stored.startswith(_ESCAPED):
                yield _CEILING + stored[len(_ESCAPED) :], value
        self._check_the_end(last, reverse=reverse)

    def _check_the_end(self, last: bytes | None, *, reverse: bool) -> None:
        """Tell the end of the data from a damaged block: rocksdict's iterator ends at both."""
        step = self._db.iter()
        try:
            if last is None:
                step.seek_to_last() if reverse else step.seek_to_first()
            else:
                step.seek_for_prev(last) if reverse else step.seek(last)
            # To step beyond either end would crash the process.
            if step.valid():
                step.prev() if reverse else step.next()
            step.status()
        except Exception as error:
            raise self._explain(error, "read") from error

    def write(
        self, entries: Iterable[tuple[bytes, bytes | None]], position: Position | None
    ) -> None:
        """Apply puts and deletes and the position in one atomic batch.

        Raises:
            DiskFullError: nothing of the batch was applied.
        """
        batch = WriteBatch(raw_mode=True)
        put = batch.put
        for key, value in entries:
            stored = key if key < _CEILING else stored_key(key)
            if value is None:
                batch.delete(stored)
            else:
                put(stored, value)
        if position is not None:
            put(POSITION_KEY, encode_position(position))
        self._complete(batch)
        try:
            failpoints.hit("rocks.write")
            self._db.write(batch)
        except Exception as error:
            raise self._explain(error, "written") from error
        if position is not None:
            self._position = position
        failpoints.hit("rocks.written")

    def _complete(self, batch: WriteBatch) -> None:
        """Add to a batch what is no entry."""

    def position(self) -> Position | None:
        """Return the stored position."""
        return self._position

    def approximate_num_entries(self) -> int:
        """RocksDB's estimate of the number of keys; overwritten ones count until compaction."""
        estimate: int | None = self._db.property_int_value("rocksdb.estimate-num-keys")
        return max(0, (estimate or 0) - (self._position is not None))

    def numbers(self) -> Mapping[str, float]:
        """Return RocksDB's properties and, if it keeps them, statistics, by names of metrics."""
        found = properties_of(self._all())
        if self._keeps_statistics:
            found |= numbers_of(str(self._built.get_statistics() or ""))
        return found

    def _all(self) -> Sequence[Any]:
        """Return the column families."""
        return [self._db]

    def flush_later(self) -> None:
        """Begin to write the write buffer to a table, so that closing the store has little to do.

        Raises:
            DiskFullError: there is no room.
            StoreCorruptedError: an earlier one failed because of damage.
        """
        try:
            self._db.flush(wait=False)
        except Exception as error:
            raise self._explain(error, "flushed") from error

    def close(self) -> None:
        """Release the files; another process may open them after this returns."""
        if self._closed:
            return
        self._closed = True
        self._blocks.opened.discard(self)
        for iterator in list(self._iterators):
            iterator.close()
        # Whatever the last flush says, the data is in the write-ahead log.
        with suppress(Exception):
            self._db.close()
        if self._setter is not None:
            self._setter.close(self._store_name, self._built)
        if self._on_close is not None:
            self._on_close()

    def _explain(self, error: Exception, verb: str) -> StateError:
        text = str(error)
        if is_disk_full(error):
            return DiskFullError(
                f"store {self.name} cannot be {verb}: the disk that holds {self.path} is full; "
                f"free space or enlarge the volume, then start again: nothing committed is lost"
            )
        if _IN_USE.search(text):
            return StoreLockedError(
                f"store {self.name} at {self.path} is in use by another process: {text}"
            )
        if _DAMAGED.search(text):
            if self._on_damage is not None:
                self._on_damage()
            return StoreCorruptedError(
                f"store {self.name} at {self.path} is damaged: {text}; it must be rebuilt from its "
                f"changelog"
            )
        return StateError(f"store {self.name} at {self.path} cannot be {verb}: {text}")


def build_options(options: RocksOptions, block_cache: BlockCache) -> Any:
    """Return the ``rocksdict.Options`` that every open of a store must be given."""
    built = Options(raw_mode=True)
    built.create_if_missing(create_if_missing=True)
    built.set_write_buffer_size(options.write_buffer_bytes)
    built.set_max_write_buffer_number(options.write_buffers_max)
    built.set_max_total_wal_size(options.wal_bytes_max)
    built.set_max_background_jobs(options.background_jobs)
    built.set_compression_type(DBCompressionType.none())
    built.set_keep_log_file_num(2)
    built.set_max_log_file_size(1024 * 1024)
    built.set_stats_dump_period_sec(0)
    built.set_stats_persist_period_sec(0)
    # The table of open files has 64 parts by default; one thread reads.
    built.set_table_cache_num_shard_bits(1)
    if block_cache.write_buffers is not None:
        built.set_write_buffer_manager(block_cache.write_buffers)
    if options.bulk:
        built.set_memtable_factory(MemtableFactory.vector())
    # One process writes, one batch at a time: the locks for concurrent writers only cost.
    built.set_allow_concurrent_memtable_write(allow=False)
    built.set_enable_write_thread_adaptive_yield(enabled=False)
    table = BlockBasedOptions()
    table.set_block_size(block_cache.settings.values().get("block_size", options.block_bytes))
    table.set_block_cache(block_cache.handle)
    table.set_bloom_filter(options.bloom_bits_per_key, block_based=False)
    table.set_format_version(5)
    built.set_block_based_table_factory(table)
    return built


_SETTERS: Final[Mapping[str, str]] = {
    "write_buffer_size": "set_write_buffer_size",
    "max_write_buffer_number": "set_max_write_buffer_number",
    "level0_file_num_compaction_trigger": "set_level_zero_file_num_compaction_trigger",
    "level0_slowdown_writes_trigger": "set_level_zero_slowdown_writes_trigger",
    "level0_stop_writes_trigger": "set_level_zero_stop_writes_trigger",
    "max_bytes_for_level_base": "set_max_bytes_for_level_base",
    "max_bytes_for_level_multiplier": "set_max_bytes_for_level_multiplier",
    "target_file_size_base": "set_target_file_size_base",
    "max_background_jobs": "set_max_background_jobs",
}


def _set(built: Any, options: Mapping[str, int]) -> None:
    """Set options of RocksDB by its own names; those of tables and caches are set elsewhere.

    Raises:
        ValueError: it does not take a value.
    """
    for name, value in options.items():
        if name in _SETTERS:
            try:
                getattr(built, _SETTERS[name])(value)
            except (OverflowError, TypeError, ValueError) as error:
                raise ValueError(f"{PREFIX}{name}: {value} is not taken: {error}") from error


def read_position(path: Path) -> Position | None:
    """Return the position of the database at ``path`` without taking its lock, if it has one.

    Sees what is committed at this moment, also while another process writes.
    """
    built = build_options(RocksOptions(), BlockCache(1024 * 1024))
    built.create_if_missing(create_if_missing=False)
    try:
        db = Rdict(
            str(path),
            options=built,
            column_families={_COLUMN_FAMILY: built},
            access_type=AccessType.read_only(error_if_log_file_exist=False),
        )
    except Exception:  # noqa: BLE001  an unreadable database has no position; opening it properly says why
        return None
    try:
        data: bytes | None = db.get(POSITION_KEY)
    except Exception:  # noqa: BLE001  a damaged block, the same
        return None
    finally:
        db.close()
    return None if data is None else decode_position(data)


def stored_key(key: bytes) -> bytes:
    """Return how a key of the data is stored, beside the rows of the store itself."""
    return key if key < _CEILING else _ESCAPED + key[len(_CEILING) :]
