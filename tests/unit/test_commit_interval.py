"""The commit interval counts from one beginning to the next, and bounds what is processed ahead."""

from __future__ import annotations

import time
from concurrent.futures import Future
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.tasks import TaskRig

from headwater.ids import TopicPartition
from headwater.native.interval import AHEAD_S, CommitInterval
from headwater.native.loop import ProcessingLoop
from headwater.native.opening import RunningTask
from headwater.testing.memory import MemoryClients, MemoryCommitter, MemoryOffsets

if TYPE_CHECKING:
    from collections.abc import Generator

IN = TopicPartition("in", 0)
RECORD_S = 0.002
INTERVAL_S = 0.1
MANY = 2_000
"""Records that take 4 seconds: forty intervals."""
TRIES = 20
FAR_APART_S = 10 * INTERVAL_S


class WaitingCommitter(MemoryCommitter):
    """Each commit but the first waits for an answer, which comes when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.answer: Future[Any] | None = None
        self.began: list[float] = []

    def commit(self, *given: Any, **options: Any) -> Generator[Future[Any], None, None]:
        """Commit, once there is an answer."""
        if self.began:
            self.answer = Future()
            yield self.answer
        self.began.append(time.monotonic())
        yield from super().commit(*given, **options)


class LoadedLoop:
    """A loop with one slow task that always has records."""

    def __init__(self, records: int) -> None:
        def slow(value: str) -> str:
            until = time.monotonic() + RECORD_S
            while time.monotonic() < until:
                pass
            return value

        self.rig = TaskRig(
            lambda builder: builder.stream("in").map_values(slow).to("out"),
            initialize=False,
            commit_interval_ms=int(INTERVAL_S * 1_000),
        )
        self.committer = WaitingCommitter()
        clients = MemoryClients({})
        self.loop = ProcessingLoop(
            config=self.rig.config,
            clock=self.rig.clock,
            clients=clients,
            committer=self.committer,
            opener=MemoryOffsets(),
        )
        task = RunningTask(task=self.rig.task, stores=self.rig.stores, changelogs={}, start={IN: 0})
        self.loop.add([task])
        self.loop.run_once()  # the first commit comes before any record
        for number in range(records):
            clients.consumer.append(IN, b"k", str(number).encode(), number, None)

    def processed(self) -> int:
        return len(self.rig.sent())

    def run_until_a_commit_waits(self) -> None:
        while not self.loop.is_committing:
            self.loop.run_once()

    def run_until_nothing_is_processed(self) -> int:
        """Return how many records were processed before twenty turns had none."""
        before, idle = self.processed(), 0
        while idle < 20:
            known = self.processed()
            self.loop.run_once()
            idle = idle + 1 if self.processed() == known else 0
            assert self.processed() < MANY, "processing goes on for as long as a commit waits"
        return self.processed() - before

    def answer(self) -> None:
        assert self.committer.answer is not None
        self.committer.answer.set_result(None)
        self.loop.run_once()
        assert not self.loop.is_committing


def test_nothing_is_processed_ahead_once_the_next_commit_is_due() -> None:
    loaded = LoadedLoop(MANY)
    loaded.run_until_a_commit_waits()

    for _ in range(TRIES):
        if loaded.run_until_nothing_is_processed():
            return
        loaded.answer()  # the machine had no time for us before the next commit was due
        loaded.run_until_a_commit_waits()
    pytest.fail("nothing is processed while a commit waits")


def test_a_commit_that_took_longer_than_the_interval_is_followed_by_the_next() -> None:
    loaded = LoadedLoop(MANY)
    loaded.run_until_a_commit_waits()
    loaded.run_until_nothing_is_processed()

    loaded.answer()
    at_the_answer = loaded.processed()
    loaded.loop.run_once()

    assert loaded.loop.is_committing  # after one turn, not an interval later
    assert loaded.processed() > at_the_answer


@pytest.mark.parametrize(
    ("prepared_s", "now_s", "may"),
    [
        pytest.param(0.03, 0.099, True, id="not due yet"),
        pytest.param(0.03, 0.101, False, id="due"),
        pytest.param(0.30, 0.301, True, id="prepared for longer than an interval"),
        pytest.param(0.30, 0.301 + AHEAD_S, False, id="and then waited for long"),
    ],
)
def test_records_are_processed_ahead_until_the_next_commit_is_due(
    prepared_s: float, now_s: float, may: bool
) -> None:
    interval = CommitInterval(-1.0, INTERVAL_S)
    interval.restart(0.0, INTERVAL_S)
    interval.wait(prepared_s)

    assert interval.may_work_ahead(now_s) is may
    assert interval.due == INTERVAL_S


def test_a_commit_wanted_soon_is_due_at_once() -> None:
    interval = CommitInterval(0.0, 30.0)

    assert interval.due == 30.0
    interval.hasten(3.0)
    assert interval.due == 3.0


def spans(work_s: float, per_record: float, wait_s: float, commits: int) -> list[float]:
    """How far apart commits begin, if each takes a share of what was processed for it, and a wait.

    Args:
        work_s: how long records were processed before the first commit.
        per_record: how long a commit prepares for each second of processing.
        wait_s: how long the broker is waited for, per second of processing.
        commits: how many.
    """
    now, begun = 0.0, []
    interval = CommitInterval(now, INTERVAL_S)
    for _ in range(commits):
        begun.append(now)
        interval.restart(now, INTERVAL_S)
        now += work_s * per_record
        interval.wait(now)
        answer = now + 0.01 + work_s * wait_s
        ahead = now
        while ahead < answer and interval.may_work_ahead(ahead):
            ahead += 0.001
            assert ahead - now < FAR_APART_S, "each commit has more to do than the one before it"
        work_s = ahead - now
        now = max(answer, ahead)
        rest = max(interval.due - now, 0.01)  # one round at least
        work_s += rest
        now += rest
    return [second - first for first, second in pairwise(begun)]


@pytest.mark.parametrize("wait_s", [0.2, 0.9, 1.5])
def test_a_slow_broker_does_not_drive_commits_apart(wait_s: float) -> None:
    apart = spans(work_s=3.0, per_record=0.9, wait_s=wait_s, commits=40)[10:]

    assert max(apart) < 3 * INTERVAL_S
