"""What the stores on disk of one process share, as the application's configuration says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headwater.errors import ConfigError
from headwater.model.rocksdb import RocksDBConfigSetter
from headwater.processor.resolving import resolve
from headwater.state import BlockCache

if TYPE_CHECKING:
    from headwater.config import StreamsConfig

_OPTION = "rocksdb.config.setter"


def shared_blocks(
    config: StreamsConfig, *, write_buffer_bytes: int | None = None, statistics: bool = False
) -> BlockCache:
    """Return the block cache of a process, and with it what sets options of its stores.

    Args:
        config: the application's.
        write_buffer_bytes: as of ``BlockCache``.
        statistics: as of ``BlockCache``.

    Raises:
        ConfigError: ``rocksdb.config.setter`` names no ``RocksDBConfigSetter``.
    """
    made: Any = resolve(_OPTION, config.rocksdb_config_setter)
    if made is not None and not (isinstance(made, type) and issubclass(made, RocksDBConfigSetter)):
        raise ConfigError(
            f"{_OPTION}: {config.rocksdb_config_setter!r} is no RocksDBConfigSetter; name a "
            "subclass, 'module:Class'"
        )
    return BlockCache(
        write_buffer_bytes=write_buffer_bytes,
        config_setter=made,
        configs=config.originals,
        statistics=statistics,
        settings=config.rocksdb,
    )
