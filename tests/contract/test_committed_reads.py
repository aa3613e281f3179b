"""What is read beside the process that writes a store equals what the store itself says.

Every kind of store, on disk as a secondary and in memory, against the view a processor has of it.
"""

from __future__ import annotations

import fcntl
import os
import random
import struct
import subprocess
import sys
import textwrap
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.custom_stores import in_own_store

from headwater.ids import TaskId
from headwater.model.stores import StoreKind, StoreSpec
from headwater.model.windows import Window, Windowed
from headwater.native.queries.secondaries import NotOnDiskError, Pace, Secondaries
from headwater.ports import Position
from headwater.processor.environment import Current
from headwater.processor.views import view
from headwater.serde import Serdes
from headwater.state import BlockCache, open_store
from headwater.state.asks import AllWindows, AsOf, Count, Get, Prefix, Range, Versions, Windows
from headwater.state.committed import answer, may_ask, row_key_of
from headwater.state.directory import StateDirectory
from headwater.state.keys import SESSION_SUFFIX, WINDOW_SUFFIX
from headwater.state.making import memory_backend
from headwater.state.restore import open_backend

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

TASK = TaskId(0, 0)
MINUTE = 60_000
KEYS = ["", "a", "aa", "b", "ba", "c", "\U0001f600"]
LONG = struct.Struct(">q")


class Opened:
    """A store that is written here, and what others may read of it."""

    def __init__(self, spec: StoreSpec, path: Path) -> None:
        self.spec = spec
        directory = StateDirectory(path, "app")
        self._commits = 0
        if spec.persistent:
            backend = open_backend(spec, directory.store(TASK, spec.directory_name), holder="test")
        else:
            backend = memory_backend(spec)
        self.store = open_store(
            spec,
            task=TASK,
            changelog_topic="changelog",
            backend=backend,
            cache=None,
            changelog_send=None,
            key_serde=Serdes.string,
            value_serde=Serdes.long,
        )
        self.view: Any = view(spec.kind, self.store, Current())
        self._secondaries = Secondaries(directory, BlockCache())

    def commit(self) -> None:
        self._commits += 1
        self.store.flush_changelog()
        self.store.commit(Position("topic", self._commits, 1))

    def rows(self, ask: Any) -> list[tuple[Any, ...]]:
        assert may_ask(self.spec, ask)
        if not self.spec.persistent:
            return list(answer(self.spec, self.store.committed, ask))
        with self._secondaries.store(TASK, self.spec).reading(is_newest=True) as (backend, _):
            return list(answer(self.spec, backend, ask))

    def found(self, ask: Any) -> list[tuple[Any, ...]]:
        size = 1 if self.spec.kind.keeps_headers else 0  # of no headers
        return [
            (key.decode(), LONG.unpack(value[size:])[0], *rest)
            for key, value, *rest in self.rows(ask)
        ]


@pytest.fixture(params=["on disk", "in memory", "of the user's own"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., Opened]]:
    made: list[Opened] = []

    def make(kind: StoreKind, **options: Any) -> Opened:
        spec = StoreSpec(name="store", kind=kind, persistent=request.param == "on disk", **options)
        is_own = request.param == "of the user's own"
        made.append(Opened(in_own_store(spec) if is_own else spec, tmp_path))
        return made[-1]

    yield make
    for one in made:
        one.store.close()


@pytest.mark.parametrize(
    "kind",
    [
        StoreKind.KEY_VALUE,
        StoreKind.TIMESTAMPED_KEY_VALUE,
        StoreKind.TIMESTAMPED_KEY_VALUE_WITH_HEADERS,
    ],
)
def test_keys_and_values(opened: Callable[..., Opened], kind: StoreKind) -> None:
    one = opened(kind)
    chance = random.Random(7)
    for time in range(40):
        value = None if chance.random() < 0.3 else time
        one.store.put(chance.choice(KEYS), value, time)
        if time % 10 == 9:
            one.commit()
    expected = list(one.store.range(None, None))
    assert expected

    assert [row[:3] for row in one.found(Range())] == expected
    assert [row[:3] for row in one.found(Range(reverse=True))] == expected[::-1]
    for low, high in [("a", "b"), ("aa", "aa"), ("b", "a")]:
        wanted = list(one.store.range(low, high))
        assert [row[:3] for row in one.found(Range(low.encode(), high.encode()))] == wanted
    for key in KEYS:
        found = [row[1:3] for row in one.found(Get(key.encode()))]
        stored = one.store.get(key)
        assert found == ([] if stored is None else [stored])
        assert one.rows(Prefix(key.encode())) == [
            row for row in one.rows(Range()) if row[0].startswith(key.encode())
        ]
    every = one.rows(Range())
    for reverse in (False, True):
        rows = one.rows(Range(reverse=reverse))
        for at, row in enumerate(rows):
            assert one.rows(Range(reverse=reverse, after=row[0])) == rows[at + 1 :]
    assert one.rows(Count())[0][2] >= len(every)


def test_what_waits_for_a_commit_is_not_seen(opened: Callable[..., Opened]) -> None:
    one = opened(StoreKind.TIMESTAMPED_KEY_VALUE)
    one.store.put("a", 1, 5)
    one.commit()
    one.store.put("a", 2, 6)
    one.store.put("b", 1, 6)
    one.store.flush_changelog()

    assert one.found(Range()) == [("a", 1, 5, 0, 0)]

    one.commit()
    assert one.found(Range()) == [("a", 2, 6, 0, 0), ("b", 1, 6, 0, 0)]


@pytest.mark.parametrize(
    "kind",
    [
        StoreKind.WINDOW,
        StoreKind.TIMESTAMPED_WINDOW,
        StoreKind.TIMESTAMPED_WINDOW_WITH_HEADERS,
    ],
)
def test_windows(opened: Callable[..., Opened], kind: StoreKind) -> None:
    one = opened(kind, retention_ms=10 * MINUTE, window_size_ms=MINUTE)
    chance = random.Random(11)
    for step in range(200):
        start = max(0, step // 8 - chance.randrange(6)) * MINUTE
        value = None if chance.random() < 0.2 else step
        one.store.append(chance.choice(KEYS), start, value, start + step)
        if step % 25 == 24:
            one.commit()
            check_windows(one, WINDOW_SUFFIX)


@pytest.mark.parametrize("kind", [StoreKind.SESSION, StoreKind.SESSION_WITH_HEADERS])
def test_sessions(opened: Callable[..., Opened], kind: StoreKind) -> None:
    one = opened(kind, retention_ms=10 * MINUTE)
    chance = random.Random(13)
    for step in range(200):
        start = max(0, step // 8 - chance.randrange(6)) * MINUTE
        session = Windowed(chance.choice(KEYS), Window(start, start + chance.randrange(MINUTE)))
        one.view.put(session, None if chance.random() < 0.2 else step)
        if step % 25 == 24:
            one.commit()
            check_windows(one, SESSION_SUFFIX)


def check_windows(one: Opened, suffix: struct.Struct) -> None:
    for key in KEYS:
        for reverse in (False, True):
            wanted = one.store.fetch(key, 0, 2**62, reverse=reverse)
            found = one.found(Windows(key.encode(), 0, 2**62, reverse=reverse))
            assert [(row[3], row[4], row[1], row[2]) for row in found] == wanted
        for time, other, value, timestamp in one.store.fetch(key, 0, 2**62):
            place = key.encode() + suffix.pack(time, other)
            assert one.found(Get(place)) == [(key, value, timestamp, time, other)]
    for first, last in [(0, 2**62), (5 * MINUTE, 12 * MINUTE)]:
        for low, high in [(None, None), ("a", "b")]:
            for reverse in (False, True):
                ask = AllWindows(
                    first,
                    last,
                    None if low is None else low.encode(),
                    None if high is None else high.encode(),
                    reverse,
                )
                wanted = list(one.store.fetch_all(first, last, low=low, high=high, reverse=reverse))
                rows = one.rows(ask)
                found = [(k, a, b, v, t) for k, v, t, a, b in one.found(ask)]
                assert found == wanted
                for at, row in enumerate(rows[::7]):
                    after = row_key_of(one.spec, row)
                    behind = AllWindows(first, last, ask.low, ask.high, reverse, after)
                    assert one.rows(behind) == rows[at * 7 + 1 :]


def test_versions(opened: Callable[..., Opened]) -> None:
    one = opened(StoreKind.VERSIONED, retention_ms=5_000)
    chance = random.Random(17)
    for step in range(120):
        time = max(0, step * 100 - chance.randrange(3_000))
        one.store.put_version(chance.choice(KEYS), None if step % 5 == 0 else step, time)
        if step % 30 == 29:
            one.commit()
            for key in KEYS:
                newest = one.store.get(key)
                found = one.found(AsOf(key.encode()))
                assert [row[1:3] for row in found] == ([] if newest is None else [newest])
                for as_of in range(0, 12_000, 250):
                    wanted = one.store.get_as_of(key, as_of)
                    found = one.found(AsOf(key.encode(), as_of))
                    assert [row[1:3] for row in found] == ([] if wanted is None else [wanted])
    times = {row[2]: row[3] for row in one.found(Versions(b"a", 0, 2**62))}
    assert list(times) == sorted(times, reverse=True)
    ends = list(times.values())
    assert all(end == -1 or end > time for time, end in times.items())
    assert ends == sorted(ends, key=lambda end: 2**62 if end < 0 else end, reverse=True)
    rows = one.rows(Versions(b"a", 0, 2**62))
    assert one.rows(Versions(b"a", 0, 2**62, ascending=True)) == rows[::-1]


def test_a_store_that_is_not_there_yet_says_so(tmp_path: Path) -> None:
    every = Secondaries(StateDirectory(tmp_path, "app"), BlockCache())
    store = every.store(TASK, StoreSpec(name="store"))
    with pytest.raises(NotOnDiskError, match="store of task 0_0 is not open yet"), store.reading():
        pass


def test_a_store_that_is_made_anew_is_read_anew(tmp_path: Path) -> None:
    spec = StoreSpec(name="store")
    one = Opened(spec, tmp_path)
    one.store.put("a", 1, 1)
    one.commit()
    assert one.found(Get(b"a")) == [("a", 1, 1, 0, 0)]
    one.store.close()
    directory = StateDirectory(tmp_path, "app").store(TASK, spec.name)
    directory.acquire(holder="test")
    directory.wipe()
    directory.release()

    another = Opened(spec, tmp_path)
    another.store.put("b", 2, 2)
    another.commit()

    assert one.found(Range()) == [("b", 2, 2, 0, 0)]
    another.store.close()


def test_a_commit_that_is_taken_in_quickly_is_seen_by_who_asks_next(
    tmp_path: Path,
) -> None:
    always = Pace(stale_s=3_600.0, share=0, quick_s=3_600.0)
    one = Opened(StoreSpec(name="store"), tmp_path)
    every = Secondaries(StateDirectory(tmp_path, "app"), BlockCache(), always)
    store = every.store(TASK, one.spec)
    for number in range(1, 50):
        one.store.put("a", number, 1)
        one.store.put("b", number, 1)
        one.commit()
        with store.reading() as (backend, _):
            (found,) = answer(one.spec, backend, Get(b"a"))
            assert LONG.unpack(found[1]) == (number,)
            (count,) = answer(one.spec, backend, Count())
            assert count[2] == 2
    one.store.close()


WRITER = """
    import itertools, struct, sys
    from pathlib import Path
    from headwater.model.stores import StoreSpec
    from headwater.ids import TaskId
    from headwater.ports import Position
    from headwater.state.backends.rocks import RocksOptions
    from headwater.state.directory import StateDirectory
    from headwater.state.restore import open_backend

    directory = StateDirectory(Path(sys.argv[1]), "app").store(TaskId(0, 0), "store")
    options = RocksOptions(write_buffer_bytes=128 * 1024)
    backend = open_backend(
        StoreSpec(name="store"), directory, holder="writer", options=options
    )
    for number in itertools.count(1):
        if number > 10 and not sys.stdin.buffer.read(1_024):
            break
        value = struct.pack(">qq", number, number) + bytes(2_000)
        keys = (b"%d" % key for key in range(500) if key % 10 == number % 10)
        backend.write(((key, value) for key in keys), Position("t", number, 0))
        if number == 10:
            print("ready", flush=True)
"""


GO_ON = bytes(1_024)
"""What the writer reads before it commits again."""


class Reads:
    """Reads beside a writer that flushes and deletes logs all the time, and what they find wrong.

    Each commit writes a tenth of the keys. So a commit that is shown without the one before it has
    keys that are too old. The writer is at most a few commits ahead of the reads: one that is far
    ahead leaves a slow reader no whole commit.

    Args:
        path: where the store lies.
        most: so many reads, or until one is wrong.
        is_checked: what is read while a commit is taken in is checked.
    """

    def __init__(self, path: Path, most: int, *, is_checked: bool) -> None:
        every = Secondaries(StateDirectory(path, "app"), BlockCache())
        self._store = every.store(TASK, StoreSpec(name="store"))
        self._most = most
        self._is_checked = is_checked
        self.wrong: list[str] = []
        self.seen: set[int] = set()
        self._done = 0
        program = [sys.executable, "-c", textwrap.dedent(WRITER), str(path)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        with subprocess.Popen(program, bufsize=0, **pipes) as writer:
            try:
                assert writer.stdin is not None
                assert writer.stdout is not None
                self._writer = writer.stdin.fileno()
                fcntl.fcntl(self._writer, fcntl.F_SETPIPE_SZ, 4 * len(GO_ON))
                os.set_blocking(self._writer, False)
                assert writer.stdout.readline() == b"ready\n"
                threads = [threading.Thread(target=self._read) for _ in range(3)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
            finally:
                writer.kill()

    def _read(self) -> None:
        last = 0
        chance = random.Random(threading.get_ident())
        while (self._done < self._most or len(self.seen) < 6) and not self.wrong:
            with suppress(BlockingIOError):  # the writer has enough to do
                os.write(self._writer, GO_ON)
            with self._store.reading() as (backend, before):
                position = backend.position()
                key = chance.randrange(500)
                (row,) = answer(StoreSpec(name="store"), backend, Get(b"%d" % key))
                is_one = backend.position() == position
                if self._is_checked:
                    is_one = is_one and self._store.is_whole(backend, before)
            if not is_one:
                self._store.refresh()
                continue
            assert position is not None
            if row[2] != position.offset - (position.offset - key) % 10:
                self.wrong.append(f"{key} of {row[2]} at {position}")
            if position.offset < last:
                self.wrong.append(f"{position} after {last}")
            last = position.offset
            self.seen.add(last)
            self._done += 1


@pytest.mark.processes
def test_each_read_is_of_one_commit_and_none_goes_back_while_another_process_writes(
    tmp_path: Path,
) -> None:
    reads = Reads(tmp_path, 6_000, is_checked=True)
    assert not reads.wrong
    assert len(reads.seen) > 5


@pytest.mark.processes
def test_the_proof_catches_reads_that_are_not_checked(tmp_path: Path) -> None:
    assert Reads(tmp_path, 500_000, is_checked=False).wrong
