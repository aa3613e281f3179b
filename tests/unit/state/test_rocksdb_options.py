"""Options of RocksDB are in force: from the opening of a store on, and in one that is open."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from headwater.config import StreamsConfig
from headwater.errors import ConfigError, StateError
from headwater.model.livesettings import LiveSettings, live_options, with_live
from headwater.model.rocksdb import RocksDBConfigSetter
from headwater.native.blocks import shared_blocks
from headwater.rocksdb_settings import (
    LIVE_MINIMA,
    MAXIMA,
    MINIMA,
    PREFIX,
    TRIGGERS,
    RocksSettings,
)
from headwater.state.backends.rocks import BlockCache, RocksBackend
from headwater.state.backends.segments import SegmentedRocksBackend
from headwater.state.expiry import Expiry

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

VALUES = {
    "write_buffer_size": 70_000,
    "max_write_buffer_number": 5,
    "level0_file_num_compaction_trigger": 7,
    "level0_slowdown_writes_trigger": 25,
    "level0_stop_writes_trigger": 50,
    "max_bytes_for_level_base": 700_000,
    "max_bytes_for_level_multiplier": 8,
    "target_file_size_base": 80_000,
    "block_size": 8_192,
    "max_background_jobs": 3,
}


def newest(path: Path) -> Path:
    """The newest file in which RocksDB keeps its options."""
    return max(path.glob("OPTIONS-*"), key=lambda file: int(file.name.partition("-")[2]))


def in_force(path: Path, name: str) -> set[str]:
    """The values of an option, of each column family."""
    return set(re.findall(rf"^\s*{name}=(.*)$", newest(path).read_text(), re.MULTILINE))


def settings(**values: int) -> RocksSettings:
    return RocksSettings(given=tuple(sorted(values.items())))


@pytest.mark.parametrize("name", sorted(MINIMA.keys() - {"block_cache_size"}))
def test_an_option_holds_from_the_opening_on(name: str, tmp_path: Path) -> None:
    value = VALUES[name]

    store = RocksBackend(tmp_path, block_cache=BlockCache(settings=settings(**{name: value})))

    assert {each.removesuffix(".000000") for each in in_force(tmp_path, name)} == {str(value)}
    store.close()


@pytest.mark.parametrize("name", sorted(LIVE_MINIMA.keys() - {"block_cache_size"}))
def test_an_option_is_changed_in_an_open_store_which_keeps_what_it_holds(
    name: str, tmp_path: Path
) -> None:
    blocks = BlockCache()
    store = RocksBackend(tmp_path, block_cache=blocks)
    store.write([(b"key", b"value")], None)
    value = VALUES[name]

    assert not blocks.configure(settings(**{name: value}))

    assert {each.removesuffix(".000000") for each in in_force(tmp_path, name)} == {str(value)}
    assert store.get(b"key") == b"value"
    store.close()
    assert not list(blocks.opened)


FLUSHES = """
import json, sys
from pathlib import Path
from headwater.rocksdb_settings import RocksSettings
from headwater.state.backends.rocks import BlockCache, RocksBackend

before, now = (
    RocksSettings.parse({f"rocksdb.{n}": (n, v) for n, v in json.loads(given).items()})
    for given in sys.argv[2:]
)
blocks = BlockCache(settings=before)
store = RocksBackend(Path(sys.argv[1]), block_cache=blocks)
blocks.configure(now)
for number in range(45):
    store.write([(number.to_bytes(2), b"value")], None)
    store._db.flush(wait=True)
store.close()
"""


@pytest.mark.parametrize(
    ("before", "now"),
    [((), (40, 40, 40)), ((2, 5, 5), (10,)), ((40, 50, 60), ()), ((4, 40, 50), (30, 30))],
)
def test_writes_do_not_stop_for_good_once_triggers_are_changed(
    before: tuple[int, ...], now: tuple[int, ...], tmp_path: Path
) -> None:
    given = [json.dumps(dict(zip(TRIGGERS, each, strict=False))) for each in (before, now)]

    # Writes that are stopped keep the interpreter's lock: only another process can tell.
    subprocess.run([sys.executable, "-c", FLUSHES, str(tmp_path), *given], check=True, timeout=20)


def test_one_trigger_brings_the_others_at_the_opening_and_later(tmp_path: Path) -> None:
    given = settings(level0_slowdown_writes_trigger=25)
    wanted = {**TRIGGERS, "level0_slowdown_writes_trigger": 25}
    for place, begun in (("opened", given), ("changed", settings())):
        blocks = BlockCache(config_setter=Triggers, settings=begun)
        store = RocksBackend(tmp_path / place, block_cache=blocks)
        blocks.configure(given)

        for name, value in wanted.items():
            assert in_force(tmp_path / place, name) == {str(value)}, place
        store.close()


class Triggers(RocksDBConfigSetter):
    """Sets triggers of its own."""

    def set_config(self, store_name: str, options: Any, configs: Mapping[str, object]) -> None:
        options.set_level_zero_file_num_compaction_trigger(6)
        options.set_level_zero_slowdown_writes_trigger(8)
        options.set_level_zero_stop_writes_trigger(10)


@pytest.mark.parametrize("name", sorted(MAXIMA))
def test_the_greatest_value_is_taken_and_one_more_is_refused(name: str, tmp_path: Path) -> None:
    triggers = list(TRIGGERS)
    raised = triggers[triggers.index(name) :] if name in TRIGGERS else [name]
    greatest = settings(**dict.fromkeys(raised, MAXIMA[name]))
    option = f"{PREFIX}{name}"
    for place, begun in (("opened", greatest), ("changed", settings())):
        blocks = BlockCache(settings=begun)
        store = RocksBackend(tmp_path / place, block_cache=blocks)
        blocks.configure(greatest)

        store.write([(b"key", b"value")], None)
        assert store.get(b"key") == b"value"
        if name == "block_cache_size":
            capacity = store._db.property_int_value("rocksdb.block-cache-capacity")
            assert capacity == MAXIMA[name]
        elif place == "opened" or name in LIVE_MINIMA:
            values = {each.removesuffix(".000000") for each in in_force(tmp_path / place, name)}
            assert values == {str(MAXIMA[name])}
        store.close()
    given = {f"{PREFIX}{each}": (each, value) for each, value in greatest.given}

    assert RocksSettings.parse(given) == greatest
    with pytest.raises(ConfigError, match=f"{option}: .* at most {MAXIMA[name]}"):
        RocksSettings.parse({**given, option: (option, MAXIMA[name] + 1)})


def test_a_value_that_rocksdb_does_not_take_is_named(tmp_path: Path) -> None:
    too_great = settings(max_write_buffer_number=2**31)
    with pytest.raises(StateError, match=r"cannot be opened: rocksdb.max_write_buffer_number: 2"):
        RocksBackend(tmp_path / "refused", block_cache=BlockCache(settings=too_great))
    blocks = BlockCache()
    store = RocksBackend(tmp_path / "open", block_cache=blocks)

    with pytest.raises(StateError, match=r"cannot be configured: rocksdb.max_write_buffer_number"):
        blocks.configure(too_great)

    store.close()


def test_every_segment_has_it_also_one_that_is_made_later(tmp_path: Path) -> None:
    blocks = BlockCache()
    expiry = Expiry(retention_ms=60_000, segment_ms=1_000, persistent=True)
    store = SegmentedRocksBackend(tmp_path, expiry, 8, block_cache=blocks)
    store.write([(b"key" + (5_000).to_bytes(8), b"value")], None)

    blocks.configure(settings(write_buffer_size=123_456))
    store.write([(b"key" + (9_000).to_bytes(8), b"value")], None)

    text = newest(tmp_path).read_text()
    assert text.count("[CFOptions ") >= 3
    assert in_force(tmp_path, "write_buffer_size") == {"123456"}
    store.close()


def test_the_block_cache_of_a_process_grows_and_shrinks(tmp_path: Path) -> None:
    blocks = BlockCache(1_000_000)
    store = RocksBackend(tmp_path, block_cache=blocks)

    assert not blocks.configure(settings(block_cache_size=2_000_000))
    assert store._db.property_int_value("rocksdb.block-cache-capacity") == 2_000_000
    assert not blocks.configure(settings())
    assert store._db.property_int_value("rocksdb.block-cache-capacity") == 1_000_000
    store.close()


def test_an_option_that_is_taken_away_asks_for_another_opening(tmp_path: Path) -> None:
    blocks = BlockCache(settings=settings(write_buffer_size=100_000, max_write_buffer_number=5))
    store = RocksBackend(tmp_path, block_cache=blocks)

    assert blocks.configure(settings(max_write_buffer_number=5))
    assert not blocks.configure(settings(max_write_buffer_number=5))

    store.close()
    store = RocksBackend(tmp_path, block_cache=blocks)
    assert in_force(tmp_path, "write_buffer_size") == {str(4 * 1024 * 1024)}
    assert in_force(tmp_path, "max_write_buffer_number") == {"5"}
    store.close()


def test_a_configuration_gives_them_by_their_names_in_any_spelling(tmp_path: Path) -> None:
    config = StreamsConfig.parse(
        {"application.id": "a", "rocksdb.write_buffer_size": "70000", "rocksdb.block.size": 2048}
    )

    assert config.rocksdb == settings(write_buffer_size=70_000, block_size=2_048)
    assert shared_blocks(config).settings == config.rocksdb


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"rocksdb.write_buffer_size": "64k"}, "expected a whole number, at least 65536"),
        ({"rocksdb.write_buffer_size": 5}, "at least 65536"),
        ({"rocksdb.max_write_buffer_number": True}, "at least 2"),
        ({"rocksdb.max_write_buffer_number": 5_000_000_000}, "at most 2147483647"),
        ({"rocksdb.write_buffer_size": "9" * 5_000}, "at most 68719476736"),
        (
            {"rocksdb.level0_file_num_compaction_trigger": 40},
            (
                "rocksdb.level0_slowdown_writes_trigger: 20 is less than 40; expected at least "
                "rocksdb.level0_file_num_compaction_trigger"
            ),
        ),
        (
            {"rocksdb.level0.stop.writes.trigger": 1},
            (
                "rocksdb.level0.stop.writes.trigger: 1 is less than 20; expected at least "
                "rocksdb.level0_slowdown_writes_trigger"
            ),
        ),
        ({"rocksdb.write_bufer_size": 70_000}, "did you mean rocksdb.write_buffer_size"),
        (
            {"rocksdb.write_buffer_size": 70_000, "rocksdb.write.buffer.size": 70_000},
            "given twice",
        ),
    ],
)
def test_what_is_no_option_or_no_number_is_named(options: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        StreamsConfig.parse({"application.id": "a", **options})


def test_live_settings_carry_those_that_an_open_store_takes() -> None:
    given = {"rocksdb.write_buffer_size": 70_000, "rocksdb.block_size": 2_048, "poll.ms": 5}

    live = live_options(given)

    assert live == LiveSettings(rocksdb="write_buffer_size=70000")
    assert with_live(given, LiveSettings(rocksdb="max_write_buffer_number=4")) == {
        "rocksdb.block_size": 2_048,
        "poll.ms": 5,
        "rocksdb.max_write_buffer_number": "4",
    }
