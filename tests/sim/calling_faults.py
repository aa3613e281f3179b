"""Planted faults of StreamThreads whose functions wait, for the laws to catch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headwater.processor.task import StreamTask
from tests.sim.calling import Calling, CallingTask, CallingThread, CallingWorker

if TYPE_CHECKING:
    from headwater.ids import TaskId
    from tests.sim.thread import RunningTask
    from tests.sim.world import Store


def stages_of(running: RunningTask) -> list[Any]:
    """The stages of a task."""
    assert isinstance(running, CallingTask)
    return running.task._stages._stages


class Unsettled(StreamTask):
    """Says that nothing waits in it, whatever does."""

    pending = 0

    def settle(self) -> bool:
        return True


class WaitsForNobody(CallingThread):
    task_type = Unsettled


class HurriedWorker(CallingWorker):
    thread_type = WaitsForNobody


class CommitBeforeCalls(Calling):
    """Its tasks are committed with calls in flight."""

    worker_type = HurriedWorker


class CommitsWhatIsFetched(CallingThread):
    """Takes what was read for what was processed."""

    def offset_of(self, running: CallingTask) -> int:
        return running.fetched


class GreedyWorker(CallingWorker):
    thread_type = CommitsWhatIsFetched


class CommitOfFetched(Calling):
    """Its commits cover records that wait in buffers."""

    worker_type = GreedyWorker


class WaitsForOne(CallingThread):
    """Takes one task that has settled for all of them."""

    def settles(self) -> bool:
        settled = [running.task.settle() for running in self.running]
        return any(settled)


class ImpatientWorker(CallingWorker):
    thread_type = WaitsForOne


class CommitOnceAnySettled(Calling):
    """Its commits begin as soon as one task has settled."""

    worker_type = ImpatientWorker


class KeepsNoOrder(CallingThread):
    order = "none"


class DisorderlyWorker(CallingWorker):
    thread_type = KeepsNoOrder


class OrderForgotten(Calling):
    """Its tasks forward results as they come."""

    worker_type = DisorderlyWorker


class StartsCallsAtOnce(CallingThread):
    """Starts the next call of a key before the one before has ended."""

    def opened(self, task: TaskId, committed: int, store: Store | None) -> RunningTask:
        running = super().opened(task, committed, store)
        for stage in stages_of(running):
            stage._overlaps = True
        return running


class EagerWorker(CallingWorker):
    thread_type = StartsCallsAtOnce


class CallsOverlap(Calling):
    """Its tasks call for one key several times at once."""

    worker_type = EagerWorker


class KeepsCalls(CallingThread):
    """Goes back to the last commit, and takes the results of calls from before nevertheless."""

    def opened(self, task: TaskId, committed: int, store: Store | None) -> RunningTask:
        running = super().opened(task, committed, store)
        for stage in stages_of(running):
            stage.renew = lambda: None
        return running


class NostalgicWorker(CallingWorker):
    thread_type = KeepsCalls


class CallsOfAbortedKept(Calling):
    """Its tasks keep calls of records that are processed again."""

    worker_type = NostalgicWorker
