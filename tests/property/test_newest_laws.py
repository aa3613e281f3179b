"""A store that is given only the newest change of each key is the one that got all of them.

Random changelogs (repeated keys, tombstones, null keys, gaps as markers leave them) taken in by
runs of random length and written at random moments. Whenever something was written, and whenever
the process was lost with what it had not written, the store holds what a replay up to its position
gives: not a record less, and none from behind it.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.runs import RUNS

from headwater.ids import TaskId, TopicPartition
from headwater.model.topology import StoreKind, StoreSpec
from headwater.native.restoration import Changelog
from headwater.state import ChangelogFacts, StateDirectory, StoreRestorer, open_backend

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from headwater.kafka.newest import ChangelogRun
    from headwater.ports import Headers, RawRecord
    from headwater.state.directory import StoreDirectory

    RunOf = Callable[[Sequence[RawRecord]], ChangelogRun]

START_MS = 1_700_000_000_000
both_paths = pytest.mark.parametrize("run_of", RUNS.values(), ids=RUNS)
NAMES = ["", "h", "caf\u00e9", "n" * 200]
KEYS = [None, b"", b"a", b"b", b"ab", b"\xff" * 8, b"\xff" * 9, *(b"key-%d" % n for n in range(9))]


def records(random_: random.Random, count: int) -> list[RawRecord]:
    found: list[RawRecord] = []
    offset = 0
    for _ in range(count):
        offset += random_.choice([1, 1, 1, 2, 5])
        value = random_.choice([None, b"", random_.randbytes(random_.randrange(1, 40))])
        timestamp = random_.choice([1, 2, random_.randrange(2**40)])
        found.append((offset, timestamp, random_.choice(KEYS), value, headers(random_)))
    return found


def headers(random_: random.Random) -> Headers:
    if random_.random() < 0.5:
        return random_.choice([None, []])
    return [
        (random_.choice(NAMES), random_.choice([None, b"", random_.randbytes(100)]))
        for _ in range(random_.choice([1, 2, 70]))
    ]


def replayed(changes: list[RawRecord], before: int, *, timestamped: bool) -> dict[bytes, bytes]:
    held: dict[bytes, bytes] = {}
    for offset, timestamp, key, value, _ in changes:
        if key is None or offset >= before:
            continue
        if value is None:
            held.pop(key, None)
        else:
            time = timestamp.to_bytes(8, "big") if timestamped else b""
            held[key] = time + value
    return held


class Follower:
    """What a StateUpdater has of one store."""

    def __init__(self, spec: StoreSpec, directory: StoreDirectory, log_end: int) -> None:
        self._spec = spec
        self._directory = directory
        self._facts = ChangelogFacts(
            topic_id="id", log_start=0, log_end=log_end, delete_retention_ms=86_400_000
        )
        self.changelog = self._opened()

    def _opened(self) -> Changelog:
        restorer = StoreRestorer(
            self._spec, self._directory, self._facts, now_ms=START_MS, holder="test"
        )
        return Changelog(TopicPartition("t", 0), restorer, self._facts.log_end, 0, 0)

    def is_lost(self) -> None:
        """Open the store as the next process would, without what was not written."""
        self.changelog.restorer.close()
        self.changelog = self._opened()

    def stored(self) -> tuple[dict[bytes, bytes], int]:
        self.changelog.restorer.close()
        backend = open_backend(self._spec, self._directory, holder="test")
        held, position = dict(backend.range(None, None)), backend.position()
        backend.close()
        return held, 0 if position is None else position.offset


@both_paths
@pytest.mark.seeded(12)
@pytest.mark.parametrize("kind", [StoreKind.TIMESTAMPED_KEY_VALUE, StoreKind.KEY_VALUE])
def test_the_store_holds_what_a_replay_up_to_its_position_gives(
    seed: int, kind: StoreKind, run_of: RunOf, tmp_path: Path
) -> None:
    random_ = random.Random(seed)
    spec = StoreSpec(name="counts", kind=kind)
    timestamped = kind.timestamped
    changes = records(random_, random_.randrange(1, 300))
    end = changes[-1][0] + 3
    directory = StateDirectory(tmp_path, "app").store(TaskId(0, 0), "counts")
    follower = Follower(spec, directory, end)

    def is_exact() -> None:
        held, position = follower.stored()
        assert position == follower.changelog.restorer.offset
        assert held == replayed(changes, position, timestamped=timestamped)
        follower.is_lost()

    while follower.changelog.offset < end:
        offset = follower.changelog.offset
        waiting = [change for change in changes if change[0] >= offset]
        taken = waiting[: random_.randrange(1, 40)]
        if taken:
            run = run_of(taken)
            follower.changelog.take(run)
            follower.changelog.move(run.next_offset)
        else:
            follower.changelog.move(end)  # a marker
        if random_.random() < 0.3:
            follower.changelog.write()
        if random_.random() < 0.1:
            is_exact()

    follower.changelog.close()
    held, position = follower.stored()
    assert (held, position) == (replayed(changes, end, timestamped=timestamped), end)


@both_paths
def test_a_run_is_cut_below_an_offset_and_ends_behind_its_last_record(run_of: RunOf) -> None:
    run = run_of(records(random.Random(1), 20))
    last = run.next_offset - 1

    assert len(run.before(last)) == 19
    assert len(run.before(last).before(last + 1)) == 19
    assert len(run.before(last + 1)) == 20
    assert len(run.before(0)) == 0
    assert run.before(last).next_offset <= last


@both_paths
def test_what_waits_counts_by_its_keys_and_the_size_of_their_values(run_of: RunOf) -> None:
    one = run_of([(0, 1, b"key", b"v", None)])
    small, large = one.newest(), one.newest()
    assert (len(small), small.size_bytes) == (0, 0)

    for number in range(100):
        key = b"key-%d" % (number % 10)
        small.add(run_of([(number, 1, key, b"v", None)]))
        large.add(run_of([(number, 1, key, b"v" * 10_000, None)]))

    assert len(small) == len(large) == 10
    assert small.size_bytes < 10_000
    assert 100_000 < large.size_bytes < 110_000


@pytest.mark.seeded(12)
@pytest.mark.parametrize(("headers", "versions"), [(False, False), (True, False), (False, True)])
def test_both_paths_hold_the_same_records(seed: int, headers: bool, versions: bool) -> None:
    random_ = random.Random(seed)
    changes = records(random_, random_.randrange(1, 600))
    held: dict[str, Any] = {}
    for name, run_of in RUNS.items():
        newest = run_of(changes).newest(headers=headers, versions=versions)
        rest, cut = changes, random.Random(seed)
        while rest:
            length = cut.randrange(1, 50)
            run, rest = run_of(rest[:length]), rest[length:]
            newest.add(run.before(run.next_offset))
        entries = [] if headers or versions else newest.entries(timestamped=True)
        held[name] = sorted(newest.rows(), key=repr), sorted(entries, key=repr)

    assert held["in C"] == held["of messages"]


@pytest.mark.seeded(3)
def test_many_keys_are_told_apart(seed: int) -> None:
    """More than any table begins with, of all lengths; the newest of each is the one held."""
    random_ = random.Random(seed)
    keys = [random_.randbytes(random_.randrange(40)) for _ in range(5_000)]
    changes: list[RawRecord] = [
        (offset, offset, random_.choice(keys), random_.randbytes(random_.randrange(60)), None)
        for offset in range(20_000)
    ]
    expected = {key: (timestamp, value) for _, timestamp, key, value, _ in changes}
    run = RUNS["in C"](changes)
    newest = run.newest()
    newest.add(run)

    assert {key: (timestamp, value) for key, timestamp, value in newest.rows()} == expected
    assert len(newest) == len(expected)
    stored = newest.entries(timestamped=False)
    assert stored == sorted((key, value) for key, (_, value) in expected.items())
