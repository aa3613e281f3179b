"""A global store on a disk, seen by who writes it and by those who read it."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from headwater import Serdes, StoreKind, StoreSpec
from headwater.errors import StateError, StoreLockedError
from headwater.ids import TaskId
from headwater.state import BlockCache, LayeredStore, StateDirectory, open_store
from headwater.state.global_store import GlobalStoreFiles, GlobalStoreSight, TopicFacts, is_shared

SPEC = StoreSpec(name="places", key_serde=Serdes.string, value_serde=Serdes.string, logging=False)
ROOT = Path(__file__).parents[2]
NOW_MS = 1_000_000_000
DAY_MS = 86_400_000


def facts(*ends: int, topic_id: str = "id", starts: tuple[int, ...] = ()) -> TopicFacts:
    return TopicFacts(topic_id, starts or (0,) * len(ends), ends, DAY_MS)


class Writer:
    """What a GlobalStreamThread does with one store."""

    def __init__(self, path: Path) -> None:
        directory = StateDirectory(path, "app")
        directory.own()
        self.files = GlobalStoreFiles(SPEC, directory, "the writer", BlockCache())

    def opens(self, told: TopicFacts, now_ms: int = NOW_MS, *, keep: bool = True) -> Writer:
        self.files.open(told, now_ms, keep=keep)
        return self

    def puts(self, offset: int, **rows: str | None) -> Writer:
        self.files.move(0, offset)
        stamped = [
            (key.encode(), None if value is None else bytes(8) + value.encode())
            for key, value in rows.items()
        ]
        self.files.backend.write(stamped, self.files.position())
        self.files.publish()
        return self

    def fills(self) -> Writer:
        self.files.publish(filled=True)
        return self


class Reader:
    """What a StreamThread does with it."""

    def __init__(self, path: Path, name: str = "0") -> None:
        self.sight = GlobalStoreSight(SPEC, StateDirectory(path, "app"), name, BlockCache())
        self.store: LayeredStore = open_store(
            SPEC,
            task=TaskId(0, 0),
            changelog_topic="none",
            backend=self.sight.backend,
            cache=None,
            changelog_send=None,
            key_serde=Serdes.string,
            value_serde=Serdes.string,
        )

    @property
    def is_behind(self) -> bool:
        numbers = self.sight.numbers
        return numbers[1] != self.sight.batch or numbers[0] != self.sight.generation

    def renews(self) -> None:
        self.sight.renew(self.store)
        assert not self.is_behind

    def sees(self, *keys: str) -> list[str | None]:
        found = [self.store.get(key) for key in keys]
        return [None if one is None else one[0] for one in found]


def test_readers_see_what_was_written_once_they_look(tmp_path: Path) -> None:
    writer = Writer(tmp_path).opens(facts(2)).puts(2, a="1", b="1").fills()
    readers = [Reader(tmp_path, name) for name in ("0", "1")]
    assert [reader.sees("a", "b", "c") for reader in readers] == [["1", "1", None]] * 2
    assert not any(reader.is_behind for reader in readers)

    writer.puts(4, a="2", c="2").puts(5, b=None)
    for reader in readers:
        assert reader.is_behind
        assert reader.sees("a", "b") == ["1", "1"]
        reader.renews()
        assert reader.sees("a", "b", "c") == ["2", None, "2"]
        assert not reader.is_behind
        reader.sight.close()
    writer.files.close()


def test_a_store_cannot_be_read_before_it_is_filled(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="cannot be used"):
        Reader(tmp_path)
    writer = Writer(tmp_path).opens(facts(2)).puts(1, a="1")
    with pytest.raises(StateError, match="is not filled yet"):
        Reader(tmp_path)
    writer.files.close()


WRITER = """
import sys
from pathlib import Path
from tests.contract.test_global_store_files import Writer, facts

writer = Writer(Path(sys.argv[1])).opens(facts(9)).fills()
for line in sys.stdin:
    offset = int(line)
    writer.puts(offset, a=str(offset), b=str(offset))
    print(offset, flush=True)
"""


def test_readers_see_what_a_killed_writer_has_left_in_its_log(tmp_path: Path) -> None:
    program = [sys.executable, "-c", WRITER, str(tmp_path)]
    with subprocess.Popen(
        program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1, cwd=ROOT
    ) as killed:
        assert killed.stdin is not None
        assert killed.stdout is not None
        try:
            killed.stdin.write("1\n")
            assert killed.stdout.readline() == "1\n"
            reader = Reader(tmp_path)  # it has read a part of the log
            killed.stdin.write("2\n")
            assert killed.stdout.readline() == "2\n"
        finally:
            killed.kill()

    writer = Writer(tmp_path).opens(facts(9)).fills().puts(3, c="3")
    assert reader.sees("a", "b", "c") == ["1", "1", None]
    reader.renews()
    assert reader.sees("a", "b", "c") == ["2", "2", "3"]
    reader.sight.close()
    writer.files.close()


def test_the_next_writer_goes_on_where_the_last_one_was(tmp_path: Path) -> None:
    Writer(tmp_path).opens(facts(2, 1)).puts(2, a="1").fills().files.close()
    reader = Reader(tmp_path)

    writer = Writer(tmp_path).opens(facts(5, 1, 0))

    assert writer.files.offsets == [2, 0, 0]
    assert not writer.files.news
    writer.puts(5, a="2").fills()
    reader.renews()
    assert reader.sees("a") == ["2"]
    writer.files.close()


@pytest.mark.parametrize(
    ("told", "now_ms", "why"),
    [
        (facts(5, topic_id="other"), NOW_MS, "the topic was deleted and created again"),
        (facts(5, starts=(3,)), NOW_MS, "before the start of the topic"),
        (facts(1), NOW_MS, "after the end of the topic"),
        (facts(5), NOW_MS + 2 * DAY_MS, "tombstones"),
    ],
)
def test_readers_keep_what_they_see_until_a_store_that_is_made_anew_is_complete(
    tmp_path: Path, told: TopicFacts, now_ms: int, why: str
) -> None:
    Writer(tmp_path).opens(facts(2)).puts(2, a="old", b="old").fills().files.close()
    reader = Reader(tmp_path)

    writer = Writer(tmp_path).opens(told, now_ms)
    assert why in writer.files.news
    assert writer.files.offsets == list(told.starts)
    writer.puts(1, a="new")
    assert reader.is_behind
    reader.renews()
    assert reader.sees("a", "b") == ["old", "old"]
    with pytest.raises(StateError, match="is not filled yet"):
        Reader(tmp_path, "1")

    writer.files.close()  # killed before it was complete: the next one goes on
    writer = Writer(tmp_path).opens(told, now_ms)
    assert writer.files.offsets == [max(1, told.starts[0])]
    writer.fills()
    reader.renews()
    assert reader.sees("a", "b") == ["new", None]
    writer.files.close()


def test_one_in_memory_begins_anew_with_its_worker(tmp_path: Path) -> None:
    Writer(tmp_path).opens(facts(2)).puts(2, a="1").fills().files.close()

    writer = Writer(tmp_path).opens(facts(2), keep=False)

    assert writer.files.offsets == [0]
    assert not writer.files.news
    assert list(writer.files.backend.range(None, None)) == []
    writer.files.close()


def test_two_do_not_write_one_store(tmp_path: Path) -> None:
    writer = Writer(tmp_path).opens(facts(2))

    with pytest.raises(StoreLockedError, match=r"places, which is global, .* in use by the writer"):
        Writer(tmp_path).opens(facts(2))
    writer.files.close()


def test_only_plain_keys_and_values_are_kept_once_for_all() -> None:
    assert is_shared(SPEC)
    assert is_shared(replace(SPEC, kind=StoreKind.KEY_VALUE, persistent=False))
    assert not is_shared(replace(SPEC, kind=StoreKind.WINDOW))
    assert not is_shared(replace(SPEC, kind=StoreKind.VERSIONED))
    assert not is_shared(replace(SPEC, entries_max=10))
