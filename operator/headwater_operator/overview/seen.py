"""What a reader has found out about one worker: the input of the rows."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003  # a field of a dataclass
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headwater.model.metrics import Snapshot as Numbers
from headwater_operator.decide.observed import ProcessState

if TYPE_CHECKING:
    from headwater.ids import TaskId
    from headwater.model.cluster import StreamWorker


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenWorker:
    """One worker, as its resource, its process and its HTTP service tell of it.

    Attributes:
        worker: the resource.
        process: what is known about its process.
        has_reported: whether the status is of the process that runs.
        is_stopping: the process was told to end.
        was_stopped: the process has ended as it was told to.
        waits_for: what the process waits for before it can begin; empty once it has.
        ended: how the process has ended, if that is worth telling.
        pid: of the process; 0 if it is not on this machine.
        node: where it runs on a cluster.
        revision: of the specification that it was started from.
        is_ready: as Kubernetes counts it.
        lease_age_s: since it renewed its Lease; ``None`` without one.
        has_told: whether it has told its numbers just now.
        numbers: of the worker, its StreamThreads and its tasks.
        committed: of its active tasks: next offset of each input partition.
        state_bytes: of its active tasks: size of their stores.
    """

    worker: StreamWorker
    process: ProcessState = ProcessState.NONE
    has_reported: bool = True
    is_stopping: bool = False
    was_stopped: bool = False
    waits_for: str = ""
    ended: str = ""
    pid: int = 0
    node: str = ""
    revision: str = ""
    is_ready: bool = False
    lease_age_s: float | None = None
    has_told: bool = False
    numbers: Numbers = field(default_factory=Numbers)
    committed: Mapping[TaskId, Mapping[str, int]] = field(default_factory=dict)
    state_bytes: Mapping[TaskId, int] = field(default_factory=dict)

    @property
    def is_alive(self) -> bool:
        """Whether it has a process, as far as is known."""
        return self.process is ProcessState.RUNNING
