"""What a configuration says of RocksDB, as one value: ``rocksdb.write_buffer_size`` and the like.

The names are RocksDB's own behind ``rocksdb.``. Whatever they do not cover is set in code, by
``rocksdb.config.setter``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
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
_INT: Final = 2**31 - 1
"""Of an ``int`` in C++."""
_TEBIBYTE: Final = 2**40
MAXIMA: Final[Mapping[str, int]] = {
    "write_buffer_size": 64 * 2**30,
    "max_write_buffer_number": _INT,
    "level0_file_num_compaction_trigger": _INT,
    "level0_slowdown_writes_trigger": _INT,
    "level0_stop_writes_trigger": _INT,
    "max_bytes_for_level_base": _TEBIBYTE,
    "max_bytes_for_level_multiplier": 1_000,
    "target_file_size_base": _TEBIBYTE,
    BLOCK_CACHE_SIZE: _TEBIBYTE,
    "block_size": 64 * 2**20,
    "max_background_jobs": 64,
}
"""By name, the greatest value of every option.

At the opening of a database RocksDB cuts a write buffer down to 64 GiB, later it does not. It
starts the threads of all background jobs at once.
"""
TRIGGERS: Final[Mapping[str, int]] = {
    "level0_file_num_compaction_trigger": 4,
    "level0_slowdown_writes_trigger": 20,
    "level0_stop_writes_trigger": 36,
}
"""By name, RocksDB's defaults of numbers of files at level 0; none may be less than one before it.

If writes stop at fewer files than a compaction begins at, they stop for good. RocksDB mends that
when it opens a database, but not in one that is open.
"""
NUMBER: Final = "[0-9]{1,13}"
"""How a value is written: as a regular expression that Python and CEL read alike."""
_NUMBER: Final = re.compile(NUMBER)
ORDERED: Final = tuple(pairwise(TRIGGERS))
"""Pairs of them: the first is at most the second."""
ROCKSDB_OPTIONS: Final = frozenset(f"{PREFIX}{name}" for name in MINIMA)
"""Their names in a configuration."""
_SPELT: Final = {name.replace("_", ".").replace("-", "."): name for name in ROCKSDB_OPTIONS}


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
            if not is_allowed(known, text):
                raise ConfigError(f"{name}: {value!r} is not allowed; {expected_number(known)}")
            found[known] = int(text)
        for low, high in ORDERED:
            least, value = found.get(low, TRIGGERS[low]), found.get(high, TRIGGERS[high])
            if value < least:
                name = given.get(f"{PREFIX}{high}", (f"{PREFIX}{high}", None))[0]
                raise ConfigError(
                    f"{name}: {value} is less than {least}; {expected_order(low, high)}"
                )
        return cls(given=tuple(sorted(found.items())))

    def values(self) -> dict[str, int]:
        """Return them by name; one of ``TRIGGERS`` brings the others, with their defaults.

        So the three are in order, whatever a setter or an earlier configuration has made of them.
        """
        values = dict(self.given)
        return {**TRIGGERS, **values} if TRIGGERS.keys() & values.keys() else values


def is_allowed(name: str, text: str) -> bool:
    """Whether an option may have a value, whatever the others are."""
    return bool(_NUMBER.fullmatch(text)) and MINIMA[name] <= int(text) <= MAXIMA[name]


def expected_number(name: str) -> str:
    """Return what is expected of an option's value."""
    return f"expected a whole number, at least {MINIMA[name]} and at most {MAXIMA[name]}"


def expected_order(low: str, high: str) -> str:
    """Return what is expected of the second of ``ORDERED``."""
    return (
        f"expected at least {PREFIX}{low} (the defaults are {TRIGGERS[high]} and {TRIGGERS[low]})"
    )


def rocksdb_option(name: str) -> str | None:
    """Return an option's name in a configuration, whichever way it is spelt; else ``None``."""
    return _SPELT.get(name.strip().replace("_", ".").replace("-", "."))
