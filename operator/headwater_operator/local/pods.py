"""What the control loop asks the supervisor to run, and what the supervisor says of it.

    control loop ──pod.json: attempt 4, Run──► supervisor
    control loop ◄──process.json: attempt 4, Running, pid── supervisor

An attempt is one process; it is started at most once. It has *ended* when its main process was
awaited and no process of its group is left: that is the proof of death on which tasks are given to
others.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from headwater.model.codec import decode, encode_object

DEFAULT_GRACE_MS = 30_000


class Wish(StrEnum):
    """What is to become of an attempt."""

    RUN = "Run"
    STOP = "Stop"
    """Terminate: the worker commits, closes and ends; killed when its grace is over."""
    KILL = "Kill"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """Which process a worker should have.

    Attributes:
        attempt: tells the worker's processes apart; greater than that of any before.
        wish: what is to become of it.
        command: program and arguments.
        import_path: directories from which a Python program imports before all others.
        grace_ms: how long it may take to stop.
        generation: of a driver: the take-over that it is started for.
        executors: of a driver: how many it is started with.
    """

    attempt: int
    wish: Wish = Wish.RUN
    command: tuple[str, ...] = ()
    import_path: tuple[str, ...] = ()
    grace_ms: int = DEFAULT_GRACE_MS
    generation: int = 0
    executors: int = 0

    def to_dict(self) -> dict[str, object]:
        """Return the pod as JSON values."""
        return encode_object(self)

    @classmethod
    def from_dict(cls, data: object, *, path: str) -> Pod:
        """Read what :meth:`to_dict` wrote.

        Raises:
            SpecError: the file is damaged.
        """
        return decode(cls, data, path=path, strict=False)


class Phase(StrEnum):
    """Whether an attempt lives."""

    RUNNING = "Running"
    ENDED = "Ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodProcess:
    """Which process a worker has, or had last.

    Attributes:
        attempt: which.
        phase: how far it is.
        pid: its number; 0 if it was stopped before it was started.
        started: see ``processes.ProcessId``.
        exit_code: when ended: what it ended with; the negative number of the signal that killed it.
    """

    attempt: int
    phase: Phase
    pid: int
    started: str
    exit_code: int = 0

    def to_dict(self) -> dict[str, object]:
        """Return the process as JSON values."""
        return encode_object(self)

    @classmethod
    def from_dict(cls, data: object, *, path: str) -> PodProcess:
        """Read what :meth:`to_dict` wrote.

        Raises:
            SpecError: the file is damaged.
        """
        return decode(cls, data, path=path, strict=False)


class Step(StrEnum):
    """What the supervisor does next with one worker."""

    NOTHING = "nothing"
    START = "start"
    NEVER_START = "never start"
    """Record that an attempt which is no longer wanted has ended before it began."""
    TERMINATE = "terminate"
    KILL = "kill"


def next_step(pod: Pod | None, process: PodProcess | None, *, stopping_ms: int | None) -> Step:
    """Tell what to do with a worker's process.

    Args:
        pod: what the control loop wants; ``None`` wants nothing.
        process: the attempt that runs or ran last; ``None`` if there was none.
        stopping_ms: for how long it has been asked to terminate; ``None`` if it has not been.
    """
    if process is not None and process.phase is Phase.RUNNING:
        return _step_of_running(pod, process, stopping_ms)
    if pod is None or (process is not None and process.attempt >= pod.attempt):
        return Step.NOTHING
    return Step.START if pod.wish is Wish.RUN else Step.NEVER_START


def _step_of_running(pod: Pod | None, process: PodProcess, stopping_ms: int | None) -> Step:
    if pod is None or pod.attempt != process.attempt or pod.wish is Wish.KILL:
        return Step.KILL
    if pod.wish is Wish.RUN:
        return Step.NOTHING
    if stopping_ms is None:
        return Step.TERMINATE
    return Step.KILL if stopping_ms >= pod.grace_ms else Step.NOTHING
