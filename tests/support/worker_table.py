"""A worker's table, driven with scripted children: what ``service.decide`` does, step by step."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from headwater.ids import TaskId
from headwater.model.cluster import Role, WorkerSpec
from headwater.model.lifecycle import TaskState
from headwater.native.messages import (
    Initialized,
    Restored,
    TaskRunning,
)
from headwater.service.decide import reconcile
from headwater.service.decide.actions import (
    End,
    KillGlobalThread,
    KillThread,
    KillUpdater,
    ReadSpec,
    TellThread,
    TellUpdater,
)
from headwater.service.decide.observations import (
    GlobalThreadEnded,
    LeaseKept,
    SpecRead,
    ThreadEnded,
    ThreadSaid,
    UpdaterEnded,
    UpdaterSaid,
)
from headwater.service.decide.observe import observe
from headwater.service.decide.report import status_of
from headwater.service.decide.values import LEASE_MS, SlotPhase, Table

T0, T1, T2, T3 = (TaskId(0, partition) for partition in range(4))
ME = "incarnation-1"
LEASE_LIMIT_MS = LEASE_MS * 2 // 3


def spec(epoch: int, *active: TaskId, **fields: Any) -> WorkerSpec:
    fields = {"incarnation": ME, "slots": (0, 1)} | fields
    return WorkerSpec(app="orders", epoch=epoch, active=active, **fields)


class Worker:
    """The table with a shell that does as it is told: reads succeed and kills are awaited."""

    def __init__(
        self, *, exactly_once: bool = True, threads: int = 2, stateful: bool = True
    ) -> None:
        self.table = Table(
            worker="orders-w-0",
            incarnation=ME,
            exactly_once=exactly_once,
            hung_ms=300_000,
            cores=2,
            stateful=frozenset({0} if stateful else ()),
        )
        self.now_ms = 1_000_000
        self.threads = threads
        self.stored: WorkerSpec | None = None
        self.readable = True
        self.leased = True
        self.done: list[Any] = []

    def sees(self, *observations: Any) -> list[Any]:
        """Observe, then decide and act until nothing is left to do; return the actions."""
        for observation in observations:
            observe(self.table, observation, self.now_ms)
        done: list[Any] = []
        for _ in range(50):
            if not (actions := self.turn()):
                break
            done += actions
            if any(isinstance(action, End) for action in actions):
                break
            if all(isinstance(action, ReadSpec) for action in actions) and not self.readable:
                break
        self.done += done
        return done

    def turn(self) -> list[Any]:
        if self.leased and self.table.lease_ms != self.now_ms:
            observe(self.table, LeaseKept(at_ms=self.now_ms), self.now_ms)
        actions = reconcile.decide(self.table, self.now_ms)
        for action in actions:
            match action:
                case ReadSpec() if self.readable:
                    observe(self.table, SpecRead(spec=self.stored), self.now_ms)
                case KillThread(slot=slot):
                    observe(self.table, ThreadEnded(slot=slot, exit_code=-9), self.now_ms)
                case KillUpdater(updater=updater):
                    observe(self.table, UpdaterEnded(updater=updater, exit_code=-9), self.now_ms)
                case KillGlobalThread():
                    observe(self.table, GlobalThreadEnded(exit_code=-9), self.now_ms)
                case _:
                    pass
        return actions

    def gets(self, wanted: WorkerSpec) -> list[Any]:
        self.stored = replace(wanted, threads=wanted.threads or self.threads)
        return self.sees(SpecRead(spec=self.stored))

    def said(self, slot: int, *messages: Any) -> list[Any]:
        return self.sees(*(ThreadSaid(slot=slot, message=message) for message in messages))

    def updater_said(self, updater: int, *messages: Any) -> list[Any]:
        return self.sees(*(UpdaterSaid(updater=updater, message=message) for message in messages))

    def passes(self, milliseconds: int) -> list[Any]:
        self.now_ms += milliseconds
        return self.sees()

    def run(self, *tasks: TaskId, epoch: int = 1, **fields: Any) -> None:
        """Bring ``tasks`` to RUNNING under ``epoch``."""
        self.sees()
        self.gets(spec(epoch, *tasks, **fields))
        for slot in self.table.slots.values():
            if slot.phase is SlotPhase.STARTING:
                self.said(slot.number, Initialized())
        for task in list(self.table.tasks.values()):
            if task.updater >= 0:
                self.updater_said(task.updater, Restored(task=task.id, records=0))
        for task in list(self.table.tasks.values()):
            self.said(task.slot, TaskRunning(task=task.id))
        held = status_of(self.table).tasks
        active = {task.state for task in held if task.role is Role.ACTIVE}
        assert active <= {TaskState.RUNNING}


def told_threads(actions: list[Any]) -> list[Any]:
    return [action.message for action in actions if isinstance(action, TellThread)]


def told_updaters(actions: list[Any]) -> list[Any]:
    return [action.message for action in actions if isinstance(action, TellUpdater)]
