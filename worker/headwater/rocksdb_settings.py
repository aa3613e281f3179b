"""What a configuration says of RocksDB, as one value: ``rocksdb.write_buffer_size`` and the like.

The names are RocksDB's own behind ``rocksdb.``. Whatever they do not cover is set in code, by
``rocksdb.config.setter``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from headwater.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

PREFIX: Final = "rocksdb."
BLOCK_CACHE_SIZE: Final = "block_cache_size"
"""Of each process with stores, in bytes; RocksDB has no such option, its caches have a capacity."""
LIVE_MINIMA: Final[Mapping[str, int]] = {
    "write_buffer_size": 65_536,
    "max_write_buffer_number": 2,
    "level0_file_num_compaction_trigger": 1,
    "level0_slowdown_writes_trigger": 1,
    "level0_stop_writes_trigger": 1,
    "max_bytes_for_level_base": 65_536,
    "max_bytes_for_level_multiplier": 2,
    "target_file_size_base": 65_536,
    BLOCK_CACHE_SIZE: 65_536,
}
"""By name, the least value of what RocksDB changes in a database that is open."""
MINIMA: Final[Mapping[str, int]] = {**LIVE_MINIMA, "block_size": 1_024, "max_background_jobs": 1}
"""By name, the least value of every option."""
ROCKSDB_OPTIONS: Final = frozenset(f"{PREFIX}{name}" for name in MINIMA)
"""Their names in a configuration."""
_SPELT: Final = {name.replace("_", ".").replace("-", "."): name for name in ROCKSDB_OPTIONS}
_MOST: Final = 10**12


@dataclass(frozen=True, slots=True, kw_only=True)
class RocksSettings:
    """What was set of RocksDB's options, all whole numbers.

    Attributes:
        given: name, without the prefix, and value of each, in the order of the names.
    """

    given: tuple[tuple[str, int], ...] = ()

    @classmethod
    def parse(cls, given: Mapping[str, tuple[str, object]]) -> RocksSettings:
        """Check options.

        Args:
            given: by the names that ``rocksdb_option`` returns, the name as written and the value.

        Raises:
            ConfigError: a value is not allowed.
        """
        found = {}
        for option, (name, value) in given.items():
            known = option.removeprefix(PREFIX)
            text = str(value).strip()
            is_number = text.isascii() and text.isdigit() and not isinstance(value, bool)
            if not is_number or not MINIMA[known] <= int(text) <= _MOST:
                raise ConfigError(
                    f"{name}: {value!r} is not allowed; expected a whole number, at least "
                    f"{MINIMA[known]}"
                )
            found[known] = int(text)
        return cls(given=tuple(sorted(found.items())))

    def values(self) -> dict[str, int]:
        """Return them by name."""
        return dict(self.given)


def rocksdb_option(name: str) -> str | None:
    """Return an option's name in a configuration, whichever way it is spelt; else ``None``."""
    return _SPELT.get(name.strip().replace("_", ".").replace("-", "."))
