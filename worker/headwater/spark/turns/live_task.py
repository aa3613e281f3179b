"""One StreamTask of a continuous query: it lives from turn to turn, and commits at each one's end.

    first turn    initialise the transactional id ──► does the record still name our driver?
                  ──► restore ──► read from the committed offsets
    every turn    process everything before the turn's ends, and nothing beyond ──► commit

Each commit is one transaction of outputs, changelog entries and the group's offsets. Where a turn
begins is not asked: the task goes on from what is committed, so a turn that is run again, after
whatever failure, finds done what was done.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import ExitStack
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headwater import failpoints, privatefiles
from headwater.kafka.engine import EngineRecords
from headwater.kafka.manifest import ManifestGate
from headwater.kafka.settings import offset_reset
from headwater.model.metrics import TASK_PROCESS
from headwater.native.clock import SystemClock
from headwater.native.watching import TopicWatch
from headwater.spark.reader import TurnReader
from headwater.spark.single import SingleTask, for_a_task
from headwater.spark.turns.loop import TurnLoop, UpToTurnEnd
from headwater.spark.turns.messages import LateTurnError, TurnDone

if TYPE_CHECKING:
    from headwater.ids import TaskId, TopicPartition
    from headwater.model.engine import EngineRecord
    from headwater.native.clients import TaskClients
    from headwater.native.opening import RunningTask
    from headwater.spark.turns.messages import HostSettings, Turn
    from headwater.state import BlockCache

_POLL_MS: Final = 10
"""A turn with nothing to read is over soon."""


class LiveTask:
    """One task with its clients and stores.

    Args:
        told: what the driver has said.
        task: which.
        turn: for which it is opened; one that is over opens nothing.
        blocks: of RocksDB, shared by all tasks of the host; its own if not given.

    Raises:
        FencedError: another driver has taken over.
        LateTurnError: what is committed lies beyond the turn.
        HeadwaterError: as a StreamThread would end with. In any case nothing stays open.
    """

    def __init__(
        self,
        told: HostSettings,
        task: TaskId,
        turn: Turn | None = None,
        *,
        blocks: BlockCache | None = None,
    ) -> None:
        self.task = task
        self._is_new = True
        application = for_a_task(told.application, {"poll.ms": _POLL_MS})
        self._config = application.parsed()
        with ExitStack() as opened:
            directory = TaskDirectory(Path(told.state_dir), task)
            opened.callback(directory.release)
            self._record = told.record
            self._single = SingleTask(
                task,
                application=application,
                state_dir=str(directory.path),
                reader=TurnReader,
                policy=UpToTurnEnd,
                clock=SystemClock(),
                default_reset=offset_reset(self._config),
                check=partial(self._check, told.record),
                blocks=blocks,
            )
            opened.callback(self._single.close)
            self._running = self._open(turn)
            self._turn = TurnLoop(self._single.loop, self._single.policy, self._running)
            self._watch = self._watched(self._running)
            self._opened = opened.pop_all()

    def _open(self, turn: Turn | None) -> RunningTask:
        single = self._single
        single.clients.admin.check_reachable(self._config.request_timeout_ms / 1000)
        if turn is not None:
            self._check_not_over(turn)
        failpoints.hit("spark.before_init")
        return single.open(lambda: failpoints.hit("spark.task_initialized"))

    def _watched(self, running: RunningTask) -> TopicWatch:
        """Return who notices that a topic was made anew: then the state belongs to none."""
        clients = self._single.clients
        watch = TopicWatch(clients.admin, clients.connection)
        changelogs = {p.topic for p in running.changelogs.values()}
        topics = changelogs | {p.topic for p in running.start}
        watch.watch(self._single.opener.topic_ids(topics), changelogs)
        return watch

    def _check_not_over(self, turn: Turn) -> None:
        """A turn commits nothing beyond its ends: what is committed there is a later one's.

        Whoever took that one has the task, and is not to be fenced by a turn that nobody waits for.
        """
        for partition, found in self._single.opener.committed(list(turn.ends)).items():
            if found.offset > turn.ends[partition]:
                raise LateTurnError(
                    f"task {self.task}: turn {turn.number} comes too late: it ends at "
                    f"{turn.ends[partition]} of {partition}, and {found.offset} is committed; "
                    "nothing was done"
                )

    @staticmethod
    def _check(record: EngineRecord, clients: TaskClients[TurnReader]) -> None:
        """After the id was initialised: does the record still name our driver?"""
        EngineRecords(clients.access).check(record)
        ManifestGate(clients.access).check_backfill()

    def check_run(self) -> None:
        """Return if the record still names our driver; to be asked by a task that was fenced.

        Raises:
            FencedError: another driver has taken over.
            HeadwaterError: nobody knows.
        """
        self._check(self._record, self._single.clients)

    def has_passed(self, turn: Turn) -> bool:
        """Whether more was read than the turn allows, so that the task is to be opened anew."""
        reader: TurnReader = self._single.clients.consumer
        return reader.has_passed(turn.ends)

    def share_cache(self, tasks: int) -> None:
        """Keep to a fair share of the host's record cache, from the next turn on."""
        self._single.share_cache(tasks)

    def take(self, turn: Turn) -> TurnDone:
        """Process up to the turn's ends, call what is due by the clock, and commit.

        Raises:
            FencedError: another driver, or another host, has the task; nothing was committed.
            ChangelogLostError: a changelog was deleted, or made anew.
            MissingTopicError: an input was.
            HeadwaterError: as a StreamThread would end with; close the task.
        """
        counts, opened = self._single.counts, self._is_new
        before = counts.total
        self.begin(turn)
        while True:
            self.step()
            if self._turn.is_over and self.end():
                break
        failpoints.hit("spark.turn_committed")
        self._is_new = False
        return TurnDone(
            number=turn.number,
            task=self.task,
            processed=counts.total.processed - before.processed,
            dropped=counts.total.dropped - before.dropped,
            offsets=dict(self._running.committed),
            opened=opened,
        )

    def begin(self, turn: Turn) -> None:
        """Begin a turn: the part of ``take`` before any record."""
        self._turn.begin(turn.ends, turn.more)

    def step(self) -> None:
        """Work for some milliseconds.

        Raises:
            HeadwaterError: as ``take``.
        """
        self._watch.check()
        self._single.globals.update()
        self._turn.run_once()

    def end(self) -> bool:
        """Commit what the turn has done; return whether that was possible.

        Raises:
            HeadwaterError: as ``take``.
        """
        return self._turn.end()

    @property
    def inputs(self) -> frozenset[TopicPartition]:
        """The partitions that the task reads."""
        return frozenset(self._running.start)

    @property
    def processed(self) -> int:
        """How many records the task has processed, committed or not."""
        return self._running.task.statistics().total(TASK_PROCESS)

    def close(self) -> None:
        """Release everything, even if some of it fails; what is not committed is given up."""
        self._opened.close()


class TaskDirectory:
    """A directory of this process alone for the stores of one task.

    Who still has the one before may be frozen, and is not waited for: then it is another one, and
    what it lacks is restored.

    Args:
        root: of all tasks on this machine.
        task: whose.
    """

    def __init__(self, root: Path, task: TaskId) -> None:
        for number in count():
            self.path = root / str(task) / str(number)
            """The directory."""
            privatefiles.own_directory(root / str(task))
            privatefiles.own_directory(self.path)
            self._lock = privatefiles.open_lock(self.path / "lock")
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(self._lock)
            except BaseException:
                os.close(self._lock)
                raise
            else:
                return

    def release(self) -> None:
        """Let the next one in."""
        os.close(self._lock)
