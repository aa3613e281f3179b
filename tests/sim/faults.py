"""Planted faults: one small mistake each, in a subclass of the model, for the laws to catch."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from headwater.ids import TopicPartition
from headwater.native.messages import Initialized, Paused
from headwater.service.decide.observations import ThreadSaid
from headwater.service.decide.values import SlotPhase
from headwater_operator.actions import Reason, WriteWorkerSpec
from tests.sim.broker import ProducerFencedError
from tests.sim.global_thread import GlobalThread
from tests.sim.loop import Loop
from tests.sim.thread import RunningTask, Thread, Updater
from tests.sim.worker import Worker
from tests.sim.world import CHANGELOG

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headwater.ids import TaskId
    from headwater.service.decide.observations import Observation
    from headwater_operator.decide import Decision, Memory, Observed
    from tests.sim.world import Store


class GrantBeforeFence(Loop):
    """Takes the tasks from a lost worker, and thinks that this is enough."""

    def decide(self, observed: Observed, memory: Memory, now_ms: int) -> Decision:
        return without_fences(super().decide(observed, memory, now_ms))


def without_fences(decision: Decision) -> Decision:
    """A decision that takes the tasks from lost workers, and does not wait for their fences."""
    actions = tuple(
        replace(action, spec=replace(action.spec, revoking=(), fencing_epoch=0))
        if isinstance(action, WriteWorkerSpec) and action.reason is Reason.WORKER_LOST
        else action
        for action in decision.actions
    )
    return replace(decision, actions=actions)


class GoesWithoutReading(Worker):
    """Tells a thread to go once it has its id, without reading its own StreamWorker."""

    def hear(self, observation: Observation) -> None:
        super().hear(observation)
        if isinstance(observation, ThreadSaid) and isinstance(observation.message, Initialized):
            self.table.slots[observation.slot].phase = SlotPhase.CONFIRMED


class InitWithoutReading(Loop):
    """Its workers do not read their StreamWorker after ``init_transactions``."""

    worker_type = GoesWithoutReading


class ForgetsToCommit(Thread):
    """Gives tasks back while their transaction is open, and commits it later."""

    def revoke(self, tasks: tuple[TaskId, ...], epoch: int) -> Iterator[int]:
        for task in tasks:
            self.close(task, epoch)
            yield 2


class ReleasesUncommitted(Worker):
    thread_type = ForgetsToCommit


class PausesUncommitted(Thread):
    """Says that it has paused, and leaves its transaction open."""

    def pause(self) -> Iterator[int]:
        self.is_paused = True
        self.say(Paused())
        yield 1


class CarelessWorker(Worker):
    thread_type = PausesUncommitted


class PauseWithoutCommit(Loop):
    """Its StreamThreads pause with what they have processed uncommitted."""

    worker_type = CarelessWorker


class WakesUp(Thread):
    """Processes again as soon as it is given a task."""

    def add(self) -> Iterator[int]:
        self.is_paused = self.is_paused and not self.adding
        yield from super().add()


class LightSleeper(Worker):
    thread_type = WakesUp


class PauseForgotten(Loop):
    """Its StreamThreads forget the pause when they are given tasks."""

    worker_type = LightSleeper


class ReleasesOpenStores(Thread):
    """Says that it has released a task, and closes its store a moment later."""

    def revoke(self, tasks: tuple[TaskId, ...], epoch: int) -> Iterator[int]:
        yield from self.commit()
        left = [running.store for task in tasks if (running := self.tasks.get(task)) is not None]
        for task in tasks:
            self.close(task, epoch)
        for store in filter(None, left):
            store.opened_by = self
        yield 300
        for store in filter(None, left):
            store.opened_by = None


class SlowCloser(Worker):
    thread_type = ReleasesOpenStores


class ReleasedTooEarly(Loop):
    """Its StreamThreads release tasks whose stores they have open still."""

    worker_type = SlowCloser


class SkippedCommit(Loop):
    """Its StreamThreads release tasks without having committed them."""

    worker_type = ReleasesUncommitted


class InitialisesAgain(Thread):
    """Fenced, it takes its transactional id again and goes on with the tasks it has."""

    def work(self) -> Iterator[int]:
        while True:
            try:
                yield from super().work()
            except ProducerFencedError:
                yield from self.start_again()
            else:
                return

    def start_again(self) -> Iterator[int]:
        """What a restart on the old assignment does: the last committed offsets, the own store."""
        yield 200
        for running in self.tasks.values():
            if running.store is not None:
                running.store.opened_by = None
        self.adding = [*self.adding, *self.tasks]
        self.tasks.clear()


class StubbornWorker(Worker):
    thread_type = InitialisesAgain


class DuplicateAfterInit(Loop):
    """Its fenced StreamThreads restart on their old assignment."""

    worker_type = StubbornWorker


class StopsEarly(Updater):
    """Restores up to what was stable when it began, instead of up to the end."""

    def goal(self, task: TaskId) -> int:
        return self.world.broker.stable_offset(TopicPartition(CHANGELOG, task.partition)) - 2


class ImpatientWorker(Worker):
    updater_type = StopsEarly


class RestoreStopsEarly(Loop):
    """Its StateUpdaters stop before the tail of the changelog."""

    worker_type = ImpatientWorker


class PositionFirst(Thread):
    """Writes the position when the changelog has the entries; the data follow with the commit."""

    def flush_changelog(self, running: RunningTask) -> None:
        super().flush_changelog(running)
        if running.store is not None and running.changelog_end is not None:
            running.store.position = running.changelog_end


class HastyWorker(Worker):
    thread_type = PositionFirst


class PositionAhead(Loop):
    """Its stores hold a position ahead of their data."""

    worker_type = HastyWorker


class SkipsTheTail(Updater):
    """Takes a copy for the whole store when it is promoted."""

    def goal_of_promoted(self, task: TaskId, _: Store) -> int:
        return 0


class HopefulWorker(Worker):
    updater_type = SkipsTheTail


class PromotedWithoutTail(Loop):
    """Its StateUpdaters hand a copy over as it is, without reading the tail."""

    worker_type = HopefulWorker


class StartsTasksEarly(Worker):
    """Takes a GlobalStreamThread that has begun for one that has filled its stores."""

    def hear(self, observation: Observation) -> None:
        super().hear(observation)
        if self.table.global_thread is not None and self.global_thread is not None:
            self.table.global_thread.filled = True


class TasksBeforeTheTable(Loop):
    """Its workers start tasks before the global table is filled."""

    worker_type = StartsTasksEarly


class GlobalPositionFirst(GlobalThread):
    """Writes the position, and then the rows."""

    def apply(self) -> Iterator[int]:
        records, position = self.read()
        self.table.position = position
        yield 20
        self.table.rows.update({str(record.key): int(str(record.value)) for record in records})


class TornWorker(Worker):
    global_type = GlobalPositionFirst


class GlobalTableTorn(Loop):
    """Its workers write rows and position of the global table one after the other."""

    worker_type = TornWorker


class SkipsGlobalTail(GlobalThread):
    """Goes on at the end of the topic when it is started again."""

    def begin(self, end: int) -> Iterator[int]:
        if self.table.position:
            self.table.position = end
        yield 1


class ForgetfulWorker(Worker):
    global_type = SkipsGlobalTail


class GlobalTailSkipped(Loop):
    """Its GlobalStreamThreads do not read what came while there was none."""

    worker_type = ForgetfulWorker
