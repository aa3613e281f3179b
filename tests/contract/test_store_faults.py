"""What a store survives: SIGKILL at any moment, a full disk, a damaged file."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

import pytest
from tests.support.store_child import SPEC, TASK, check, entries

from headwater import failpoints
from headwater.errors import DiskFullError, StoreCorruptedError
from headwater.ports import Position
from headwater.state import (
    ChangelogFacts,
    RocksBackend,
    StateDirectory,
    StoreRestorer,
    open_backend,
)
from headwater.state.position import Rebuild, RebuildReason

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.slow, pytest.mark.processes]

ROOT = Path(__file__).parents[2]


@contextmanager
def child(*arguments: str, armed: str = "") -> Iterator[subprocess.Popen[bytes]]:
    """Run a child that is gone in the end."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.support.store_child", *arguments],
        cwd=ROOT,
        env=os.environ | {failpoints.VARIABLE: armed},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as running:
        try:
            yield running
        finally:
            running.kill()


def read_commits(stream: IO[bytes] | None, count: int) -> int:
    """Read that many lines; return the last commit told, 0 at the end of the stream."""
    assert stream is not None
    last = 0
    for _ in range(count):
        last = int(stream.readline() or 0)
    return last


def newest_log(root: Path) -> Path:
    """Return RocksDB's current write-ahead log."""
    return max(root.glob("app/0_0/rocksdb/counts/db/*.log"))


def last_commit(stream: IO[bytes] | None, known: int) -> int:
    """Return the last commit told before the stream ended."""
    assert stream is not None
    return max([known, *[int(line) for line in stream if line.endswith(b"\n")]])


@pytest.mark.seeded(20)
@pytest.mark.parametrize("work", ["write", "restore"])
def test_a_process_killed_at_a_random_moment_leaves_data_and_position_in_step(
    tmp_path: Path, work: str, seed: str
) -> None:
    draw = random.Random(seed)
    told = 0
    for _ in range(2):
        with child(work, str(tmp_path)) as running:
            known = read_commits(running.stdout, draw.randrange(1, 60))
            running.kill()
            told = last_commit(running.stdout, known)

        held = check(tmp_path)

        # What was committed is there although nothing was synced; one more may have been written.
        assert told <= held <= told + 1
    assert told > 0


@pytest.mark.parametrize(
    ("point", "committed"),
    [
        ("rocks.opened", 0),
        ("rocks.write", 0),
        ("rocks.write@7", 6),
        ("rocks.written", 1),
        ("rocks.written@7", 7),
    ],
)
def test_a_process_killed_at_a_step_of_a_commit_leaves_data_and_position_in_step(
    tmp_path: Path, point: str, committed: int
) -> None:
    name, _, at_hit = point.partition("@")

    with child("write", str(tmp_path), armed=f"{name}=kill@{at_hit or 1}") as running:
        running.communicate(timeout=240)

    assert running.returncode == -signal.SIGKILL
    assert check(tmp_path) == committed


@pytest.mark.parametrize("work", ["fill", "quota"])
def test_a_full_disk_is_named_and_nothing_is_lost_or_half_written(
    tmp_path: Path, work: str
) -> None:
    with child(work, str(tmp_path), str(2 * 1024 * 1024)) as running:
        output, errors = running.communicate(timeout=240)

    assert errors.decode() == ""
    kind, commits, message = output.decode().strip().split("|")
    if os.environ.get("HEADWATER_REQUIRE_ALL"):
        assert kind == {"fill": "small disk", "quota": "file size limit"}[work]
    assert kind in {"small disk", "file size limit"}
    assert int(commits) > 10
    assert "is full; free space or enlarge the volume" in message
    assert str(tmp_path) in message


def test_a_write_refused_by_a_full_disk_changes_nothing(tmp_path: Path) -> None:
    backend = RocksBackend(tmp_path / "db", name="counts of task 0_0")
    backend.write([(b"a", b"1")], Position("id", 1, 1))
    failpoints.arm("rocks.write=disk_full")

    with pytest.raises(
        DiskFullError,
        match=r"counts of task 0_0 cannot be written: the disk that holds .*db is full",
    ):
        backend.write([(b"a", b"2")], Position("id", 2, 2))

    assert backend.get(b"a") == b"1"
    assert backend.position() == Position("id", 1, 1)
    failpoints.disarm()
    backend.write([(b"a", b"2")], Position("id", 2, 2))
    assert backend.get(b"a") == b"2"
    backend.close()


def test_a_log_cut_within_any_commit_holds_the_commits_before_it(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    directory = StateDirectory(whole, "app").store(TASK, "counts")
    backend = open_backend(SPEC, directory, holder="test")
    ends = [0]
    for commit in range(1, 21):
        backend.write(entries(commit), Position("id", commit, 1))
        ends.append(newest_log(whole).stat().st_size)
    draw = random.Random(1)
    cuts = {0: ends[1] - 10, 20: ends[20]}
    for commit in range(1, 20):
        start, end = ends[commit], ends[commit + 1]
        cuts[commit] = draw.choice([start, start + 60, end - 10, draw.randrange(start, end)])

    held = {}
    for commit, cut in cuts.items():
        torn = tmp_path / str(commit)
        shutil.copytree(whole, torn)
        with newest_log(torn).open("r+b") as file:
            file.truncate(cut)
        held[commit] = check(torn)
        shutil.rmtree(torn)

    assert held == {commit: commit for commit in cuts}
    backend.close()


@pytest.fixture
def damaged(tmp_path: Path) -> Iterator[RocksBackend]:
    backend = RocksBackend(tmp_path / "db", name="counts")
    for commit in range(1, 300):
        unique = [(key + b"-%d" % commit, value or b"") for key, value in entries(commit)]
        backend.write(unique, Position("id", commit, 1))
    backend.close()
    for number, table in enumerate(sorted((tmp_path / "db").glob("*.sst"))):
        with table.open("r+b") as file:
            file.seek(100 if number % 2 else table.stat().st_size // 2)
            file.write(b"\xde\xad" * 1000)
    opened = RocksBackend(tmp_path / "db", name="counts")
    yield opened
    opened.close()


DAMAGED = r"counts .* must be rebuilt from its changelog"


def test_a_damaged_block_is_reported_to_who_reads_a_key(damaged: RocksBackend) -> None:
    with pytest.raises(StoreCorruptedError, match=DAMAGED):
        [damaged.get(key + b"-%d" % n) for n in range(1, 300) for key, _ in entries(n)]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("bound", [None, b"key-2"])
def test_a_range_that_meets_a_damaged_block_does_not_just_end(
    damaged: RocksBackend, reverse: bool, bound: bytes | None
) -> None:
    with pytest.raises(StoreCorruptedError, match=DAMAGED):
        list(damaged.range(None if reverse else bound, bound if reverse else None, reverse=reverse))


def test_a_store_found_damaged_while_it_is_read_is_built_anew_when_it_is_opened_next(
    tmp_path: Path,
) -> None:
    directory = StateDirectory(tmp_path, "app").store(TASK, "counts")
    backend = open_backend(SPEC, directory, holder="test")
    for commit in range(1, 300):
        unique = [(key + b"-%d" % commit, value or b"") for key, value in entries(commit)]
        backend.write(unique, Position("id", commit, 1))
    backend.close()
    open_backend(SPEC, directory, holder="test").close()  # moves the log into tables
    for table in directory.database.glob("*.sst"):
        with table.open("r+b") as file:
            file.seek(table.stat().st_size // 2)
            file.write(b"\xde\xad" * 1000)
    damaged = open_backend(SPEC, directory, holder="test")
    with pytest.raises(StoreCorruptedError, match=DAMAGED):
        list(damaged.range(None, None))
    damaged.close()

    with pytest.raises(StoreCorruptedError, match="the database is damaged; it must be rebuilt"):
        open_backend(SPEC, directory, holder="test")
    facts = ChangelogFacts(topic_id="id", log_start=0, log_end=300, delete_retention_ms=1 << 40)
    rebuilt = StoreRestorer(SPEC, directory, facts, now_ms=2, holder="test")

    assert rebuilt.verdict == Rebuild(RebuildReason.DAMAGED, 0)
    rebuilt.close()
    assert not (directory.path / "damaged").exists()
