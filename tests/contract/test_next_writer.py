"""A reader that lives through the kill of a writer sees all that it and the next one have written.

The next writer puts what the first has left in its log into a table. A secondary that has read a
part of that log keeps this part in memory, and would show it instead of the table.
"""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from tests.support.store_child import SPEC, TASK, expected

from headwater.errors import StateError
from headwater.native.queries.secondaries import (
    DiskOpening,
    Pace,
    Secondaries,
    SecondaryStore,
)
from headwater.state import BlockCache
from headwater.state.backends.rocks_secondary import RocksSecondary
from headwater.state.directory import StateDirectory

if TYPE_CHECKING:
    from pathlib import Path

    from headwater.state.backends.secondary import StoreSecondary


class Writer:
    """A process that writes the store, and never closes it."""

    def __init__(self, path: Path) -> None:
        program = [sys.executable, "-m", "tests.support.store_child", "step", str(path)]
        self._process = subprocess.Popen(
            program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def begins_to_commit(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def commits(self) -> int:
        """Commit, and return the number of the commit."""
        assert self._process.stdout is not None
        self.begins_to_commit()
        return int(self._process.stdout.readline())

    def dies(self) -> None:
        """Be killed by SIGKILL."""
        self._process.kill()
        self._process.communicate()


def seen(store: SecondaryStore) -> int:
    """Compare all that a reader sees with what the store held then; return which commit it is."""
    with store.reading(is_newest=True) as (backend, _):
        position = backend.position()
        assert position is not None
        held = expected(position.offset)
        assert {key: backend.get(key) for key in held} == held
        assert dict(backend.range(None, None)) == held
        return position.offset


def test_queries_see_what_a_killed_writer_has_left_in_its_log(tmp_path: Path) -> None:
    store = Secondaries(StateDirectory(tmp_path, "app"), BlockCache()).store(TASK, SPEC)
    last = 0
    for _ in range(3):
        writer = Writer(tmp_path)
        try:
            assert writer.commits() > last
            assert seen(store) > last
            last = writer.commits()
            writer.begins_to_commit()  # is killed before, in or after it
        finally:
            writer.dies()
    writer = Writer(tmp_path)
    try:
        assert seen(store) == writer.commits() - 1
        assert seen(store) >= last + 1
    finally:
        writer.dies()


def test_a_secondary_says_that_it_is_to_be_opened_anew(tmp_path: Path) -> None:
    database = StateDirectory(tmp_path, "app").store(TASK, SPEC.name).database
    first = Writer(tmp_path)
    first.commits()
    secondary = RocksSecondary(database, tmp_path / "secondary")
    assert first.commits() == 2
    first.dies()
    assert secondary.catch_up(), "what was written last is read as long as nobody else writes"
    assert dict(secondary.range(None, None)) == expected(2)

    second = Writer(tmp_path)
    try:
        assert second.commits() == 3
        for _ in range(2):
            with pytest.raises(StateError, match="another process has begun to write it"):
                secondary.catch_up()
        secondary.close()
        secondary = RocksSecondary(database, tmp_path / "secondary")
        assert dict(secondary.range(None, None)) == expected(3)
        assert not secondary.catch_up()
    finally:
        second.dies()
    secondary.close()


class BusyOpening(DiskOpening):
    """Cannot open the store anew, as while the next process opens it, unless it may."""

    may_open = True

    def open(self) -> StoreSecondary:
        """Open it, or say why not."""
        if not self.may_open:
            raise StateError("the next process is opening it")
        return super().open()


def test_what_could_not_be_followed_is_not_read_until_it_is_opened_anew(tmp_path: Path) -> None:
    directory = StateDirectory(tmp_path, "app").store(TASK, SPEC.directory_name)
    opening = BusyOpening(SPEC, directory, BlockCache())
    store = SecondaryStore(opening, lambda _: None, Pace(stale_s=60))
    writer = Writer(tmp_path)
    try:
        writer.commits()
        seen(store)
        writer.commits()
    finally:
        writer.dies()
    writer = Writer(tmp_path)
    try:
        writer.commits()
        opening.may_open = False
        with pytest.raises(StateError, match="the next process is opening it"):
            store.refresh()

        for is_newest in (False, True):  # a moment ago is not good enough either
            with pytest.raises(StateError), store.reading(is_newest=is_newest):
                pass

        opening.may_open = True
        assert seen(store) == writer.commits() - 1
    finally:
        writer.dies()
