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
from confluent_kafka import Message

from headwater.ids import TaskId, TopicPartition
from headwater.kafka.newest import Newest, Run
from headwater.model.topology import StoreKind, StoreSpec
from headwater.native.restoration import Changelog
from headwater.state import ChangelogFacts, StateDirectory, StoreRestorer, open_backend

if TYPE_CHECKING:
    from pathlib import Path

    from headwater.state.directory import StoreDirectory

START_MS = 1_700_000_000_000
KEYS = [None, b"", b"a", b"b", b"ab", b"\xff" * 8, b"\xff" * 9, *(b"key-%d" % n for n in range(9))]


def records(random_: random.Random, count: int) -> list[Message[Any, Any]]:
    found, offset = [], 0
    for _ in range(count):
        offset += random_.choice([1, 1, 1, 2, 5])
        found.append(
            Message(
                topic="t",
                partition=0,
                offset=offset,
                key=random_.choice(KEYS),
                value=random_.choice([None, b"", random_.randbytes(random_.randrange(1, 40))]),
                timestamp=(1, random_.randrange(2**40)),
            )
        )
    return found


def replayed(
    changes: list[Message[Any, Any]], before: int, *, timestamped: bool
) -> dict[bytes, bytes]:
    held: dict[bytes, bytes] = {}
    for change in changes:
        key, value, offset = change.key(), change.value(), change.offset()
        assert offset is not None
        if key is None or offset >= before:
            continue
        if value is None:
            held.pop(key, None)
        else:
            time = change.timestamp()[1].to_bytes(8, "big") if timestamped else b""
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


@pytest.mark.seeded(12)
@pytest.mark.parametrize("kind", [StoreKind.TIMESTAMPED_KEY_VALUE, StoreKind.KEY_VALUE])
def test_the_store_holds_what_a_replay_up_to_its_position_gives(
    seed: int, kind: StoreKind, tmp_path: Path
) -> None:
    random_ = random.Random(seed)
    spec = StoreSpec(name="counts", kind=kind)
    timestamped = kind.timestamped
    changes = records(random_, random_.randrange(1, 300))
    end = (changes[-1].offset() or 0) + 3
    directory = StateDirectory(tmp_path, "app").store(TaskId(0, 0), "counts")
    follower = Follower(spec, directory, end)

    def is_exact() -> None:
        held, position = follower.stored()
        assert position == follower.changelog.restorer.offset
        assert held == replayed(changes, position, timestamped=timestamped)
        follower.is_lost()

    while follower.changelog.offset < end:
        offset = follower.changelog.offset
        waiting = [change for change in changes if (change.offset() or 0) >= offset]
        run = waiting[: random_.randrange(1, 40)]
        if run:
            follower.changelog.take(Run(run))
            follower.changelog.move(Run(run).next_offset)
        else:
            follower.changelog.move(end)  # a marker
        if random_.random() < 0.3:
            follower.changelog.write()
        if random_.random() < 0.1:
            is_exact()

    follower.changelog.close()
    held, position = follower.stored()
    assert (held, position) == (replayed(changes, end, timestamped=timestamped), end)


def test_a_run_is_cut_below_an_offset_and_ends_behind_its_last_record() -> None:
    run = Run(records(random.Random(1), 20))
    last = run.next_offset - 1

    assert len(run.before(last)) == 19
    assert len(run.before(last + 1)) == 20
    assert len(run.before(0)) == 0


def test_what_waits_counts_by_its_keys_and_the_size_of_their_values() -> None:
    small, large = Newest(), Newest()
    assert (len(small), small.size_bytes) == (0, 0)

    for number in range(100):
        key = b"key-%d" % (number % 10)
        small.add(Run([Message(offset=number, key=key, value=b"v")]))
        large.add(Run([Message(offset=number, key=key, value=b"v" * 10_000)]))

    assert len(small) == len(large) == 10
    assert small.size_bytes < 10_000
    assert 100_000 < large.size_bytes < 110_000
