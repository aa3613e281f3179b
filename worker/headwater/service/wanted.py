"""What the one worker of an embedded application is to do: its StreamThreads, its tasks, a pause.

A slot that was ever used is named in the owner topic for good: whoever takes the application over
has to fence it.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Final

from headwater.ids import SlotId, TopicPartition
from headwater.model.lifecycle import ThreadState
from headwater.model.threads import TaskMetadata, ThreadMetadata

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headwater.config import StreamsConfig
    from headwater.ids import TaskId
    from headwater.service.owner import OwnedCarrier, OwnerRecord
    from headwater.service.view import ThreadView, WorkerView
    from headwater.service.worker import Worker

log = logging.getLogger(__name__)

_LOOK_S: Final = 0.05


class Wanted:
    """The spec of an embedded worker, changed field by field. Threads may share it.

    Args:
        worker: the worker's name.
        config: the application's.
    """

    def __init__(self, worker: str, config: StreamsConfig) -> None:
        self.threads = config.num_stream_threads
        """How many StreamThreads there are to be."""
        self.is_paused = False
        self._worker = worker
        self._config = config
        self._slots_ever = self.threads
        self._tasks: tuple[TaskId, ...] = ()
        self._carrier: OwnedCarrier | None = None
        self._owner: OwnerRecord | None = None
        self._guard = threading.RLock()

    @property
    def transactional_ids(self) -> tuple[str, ...]:
        """Those of every slot that was ever used; none under at-least-once."""
        if not self._config.exactly_once:
            return ()
        return self.every_id

    @property
    def every_id(self) -> tuple[str, ...]:
        """The transactional ids that the slots have, or would have."""
        application_id = self._config.application_id
        slots = (SlotId(self._worker, number) for number in range(self._slots_ever))
        return tuple(slot.transactional_id(application_id) for slot in slots)

    def begin(
        self,
        carrier: OwnedCarrier,
        owner: OwnerRecord,
        *,
        epoch: int,
        app: str,
        incarnation: str,
        tasks: tuple[TaskId, ...],
    ) -> None:
        """Grant the first tasks; from now on every change is granted.

        Args:
            carrier: takes the spec to the worker.
            owner: our voice in the owner topic.
            epoch: of the first spec.
            app: the application's name.
            incarnation: of the worker.
            tasks: what it is to process.
        """
        with self._guard:
            self._carrier, self._owner, self._tasks = carrier, owner, tasks
            self._grant(epoch=epoch, app=app, incarnation=incarnation)

    def set_tasks(self, tasks: tuple[TaskId, ...]) -> None:
        """Have the worker process these tasks."""
        with self._guard:
            self._tasks = tasks
            self._grant()

    def add_thread(self) -> str:
        """Have one more StreamThread, of the lowest free number; return its name.

        Raises:
            KafkaUnavailableError: no broker has taken note of its slot; nothing has changed.
        """
        with self._guard:
            number = self.threads
            self._set_threads(number + 1)
        return SlotId(self._worker, number).thread_id

    def remove_thread(
        self, worker: Worker, ended: threading.Event, timeout_s: float | None
    ) -> str | None:
        """Have one StreamThread less, and wait until its process has ended.

        Args:
            worker: whose thread it is.
            ended: set when the application has ended.
            timeout_s: how long to wait; ``None`` for as long as it takes.

        Returns:
            its name; ``None`` if there is none.

        Raises:
            TimeoutError: it has not ended yet.
        """
        with self._guard:
            number = self.threads - 1
            if number < 0:
                log.warning("there is no StreamThread to remove; add_stream_thread() starts one")
                return None
            self._set_threads(number)
        name = SlotId(self._worker, number).thread_id
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while self._has_thread(worker, number):
            if deadline is not None and time.monotonic() > deadline:
                raise TimeoutError(f"{name} has not ended within {timeout_s:g} s; it will")
            if ended.wait(_LOOK_S):
                break
        return name

    def _has_thread(self, worker: Worker, number: int) -> bool:
        """Whether the process of a slot that is to end lives still, as far as is known."""
        if self.threads > number or self._carrier is None or self._carrier.spec is None:
            return False
        view = worker.view
        has_heard = view.epoch >= self._carrier.spec.epoch
        return not has_heard or any(thread.slot == number for thread in view.threads)

    def _set_threads(self, count: int) -> None:
        """Have so many StreamThreads: the first ones."""
        with self._guard:
            ever = self._slots_ever
            self._slots_ever = max(ever, count)
            if self._slots_ever > ever and self._owner is not None:
                try:
                    self._owner.cover(self.transactional_ids)
                except BaseException:
                    self._slots_ever = ever
                    raise
            self.threads = count
            self._grant()

    def set_paused(self, *, paused: bool) -> None:
        """Have nothing processed, or everything again."""
        with self._guard:
            self.is_paused = paused
            self._grant()

    def _grant(self, **more: object) -> None:
        if self._carrier is None:
            return
        # Without a thread no task can be held; a spec without slots has none that run.
        has_threads = self.threads > 0
        self._carrier.grant(
            slots=tuple(range(self._slots_ever)) if has_threads else (),
            threads=self.threads,
            active=self._tasks if has_threads else (),
            paused=self.is_paused,
            **more,
        )


def thread_metadata(view: WorkerView, config: StreamsConfig) -> frozenset[ThreadMetadata]:
    """Return what a view says of the StreamThreads that live, or are to.

    Args:
        view: of the worker.
        config: the application's.
    """
    return frozenset(
        _thread(view, thread, config)
        for thread in view.threads
        if thread.pid is not None or thread.state != ThreadState.DEAD
    )


def _thread(view: WorkerView, thread: ThreadView, config: StreamsConfig) -> ThreadMetadata:
    slot = SlotId(view.worker, thread.slot)
    client_id = f"{config.client_id or config.application_id}-{slot}"
    return ThreadMetadata(
        thread_name=slot.thread_id,
        thread_state=ThreadState(thread.state),
        pid=thread.pid,
        active_tasks=frozenset(
            TaskMetadata(task_id=task.task, committed_offsets=_by_partition(task.committed.items()))
            for task in view.tasks
            if task.slot == thread.slot
        ),
        main_consumer_client_id=f"{client_id}-consumer",
        restore_consumer_client_id=f"{client_id}-restore-consumer",
        producer_client_ids=frozenset({f"{client_id}-producer"}),
        admin_client_id=f"{client_id}-admin",
    )


def _by_partition(offsets: Iterable[tuple[str, int]]) -> dict[TopicPartition, int]:
    found = {}
    for name, offset in offsets:
        topic, _, number = name.rpartition("-")
        found[TopicPartition(topic, int(number))] = offset
    return found
