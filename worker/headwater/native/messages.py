"""What the worker's main process and its children say to each other, as values over a pipe.

    main ──► StreamThread    Go  AddTasks  RevokeTasks  Pause  Resume  LeaseRenewed  ShareCache
                             Configure  AskTask  Locate  Stop
    StreamThread ──► main    Initialized  TaskRunning  Released  Paused  TaskAnswered  Stats
                             Located  Failed
                             StoreRestore  Stopped
    main ──► StateUpdater    Restore  Follow  CancelRestore  Configure  Stop
    StateUpdater ──► main    RestoreProgress  Restored  Following  UpdaterStats  Cancelled  Failed
                             StoreRestore  Stopped
    main ──► GlobalStreamThread    Configure  Locate  Stop
    GlobalStreamThread ──► main    GlobalProgress  StoreRestore  Located  Failed  Stopped

A StreamThread never touches Kafka output before ``Go``: main sends it only after it has read its
own StreamWorker again, *after* the thread's ``init_transactions`` (``Initialized``). End of file on
the pipe means the other side is gone: a child then exits at once without committing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

from headwater.logsettings import LogSettings
from headwater.rocksdb_settings import RocksSettings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headwater.ids import TaskId, TopicPartition
    from headwater.metrics_settings import RecordingLevel
    from headwater.model.metrics import Snapshot
    from headwater.model.restoring import RestoreStep
    from headwater.native.application import ApplicationSettings
    from headwater.native.queries.values import AskTask, TaskAnswered

FULL_COMMIT_INTERVAL_S: Final = 6 * 3_600.0
"""How often every offset is committed: a group without members loses those not renewed in time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildSettings:
    """Everything a child process needs to start; it is pickled, so it holds plain values."""

    application_id: str
    worker: str
    slot: int
    application: ApplicationSettings
    state_dir: str
    cache_bytes: int
    """This StreamThread's share of ``statestore_cache_max_bytes``."""
    logs: LogSettings = field(default_factory=LogSettings)
    """What it logs, if the topology's module does not say so itself."""
    full_commit_interval_s: float = FULL_COMMIT_INTERVAL_S
    """How often a StreamThread commits every offset, changed or not."""
    tells_restores: bool = False
    """Whether it sends ``StoreRestore``, because somebody listens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Go:
    """The StreamWorker was read after ``init_transactions`` and still grants what it did: begin."""

    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AddTasks:
    """Open these tasks' stores (restored before, closed by the StateUpdater) and run them."""

    tasks: tuple[TaskId, ...]
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RevokeTasks:
    """Commit, close these tasks and say ``Released``."""

    tasks: tuple[TaskId, ...]
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRenewed:
    """Sent at least every few seconds under at-least-once, where no broker fences a zombie.

    A thread that looks at its clock (``CLOCK_BOOTTIME``, which goes on while the machine sleeps or
    the process is frozen) and finds it past ``until_boot_ms`` must not send or commit anything any
    more: it exits at once. Until the first of these there is no limit.
    """

    until_boot_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareCache:
    """The worker has so many StreamThreads now: each has its part of the record cache."""

    threads: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Configure:
    """These settings hold from now on; a child that does not know them yet takes them over."""

    levels: Mapping[str, str]
    """What the configuration says of loggers."""
    metrics_level: RecordingLevel
    rocksdb: RocksSettings = field(default_factory=RocksSettings)
    """What it says of RocksDB's options."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """Commit, say ``Paused``, and process nothing until ``Resume``; polls and commits go on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resume:
    """Process again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Locate:
    """Say where the thread is; answered by another thread, because this one may hang."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Restore:
    """Bring this task's stores to the end of their changelogs, then close them.

    A task that this StateUpdater follows goes on from where it is.
    """

    task: TaskId
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Follow:
    """Keep this task's stores up with their changelogs (standby, warm-up) until told otherwise."""

    task: TaskId
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelRestore:
    """Stop restoring or following this task and close its stores."""

    task: TaskId


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """Commit (StreamThread), close everything, say ``Stopped`` and exit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Initialized:
    """The thread's producer has its transactional id (or is ready, under at-least-once)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRunning:
    """The task processes records."""

    task: TaskId


@dataclass(frozen=True, slots=True, kw_only=True)
class Released:
    """The task is committed and closed.

    ``offsets`` are the final committed ones by ``topic-partition``.
    """

    task: TaskId
    offsets: Mapping[str, int]
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Paused:
    """Everything processed is committed, no transaction is open, and nothing more is processed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Located:
    """Where the thread is: no sign of life of the thread itself."""

    task: TaskId | None = None
    node: str = ""
    """Whose function is called; empty if that cannot be told."""
    partition: TopicPartition | None = None
    """Where the record under way was read; ``None`` if there is none."""
    offset: int = -1
    stack: str = ""
    """The user's frames, the innermost last, as in a traceback."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """Sent about once a second by a StreamThread."""

    numbers: Snapshot
    """Of the thread and of its tasks, counted since it started, or took them."""
    tree: Snapshot | None = None
    """Of nodes, topics, stores and the user's sensors, every few seconds."""
    committed: Mapping[TaskId, Mapping[str, int]] = field(default_factory=dict)
    """What it runs: committed offsets by task and ``topic-partition``."""
    busy_s: Mapping[TaskId, float] = field(default_factory=dict)
    """For how long the records of each task were processed since it was opened, in seconds."""
    problem: str = ""
    """What keeps the thread from working although it goes on trying, for example a lost broker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreProgress:
    """How far a restore is, summed over the task's changelogs."""

    task: TaskId
    restored: int
    """Records applied in this restore."""
    remaining: int
    """Offsets still to read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreRestore:
    """What has become of the restore of one store, for a ``StateRestoreListener``."""

    step: RestoreStep
    partition: TopicPartition
    """The changelog."""
    store: str
    numbers: tuple[int, ...]
    """What else the listener's method is given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """The task's stores hold their changelogs up to the end and are closed."""

    task: TaskId
    records: int
    """Records read and applied."""
    from_scratch: tuple[str, ...] = ()
    """Stores that were thrown away first, with the reason.

    As in ``"counts-store: the changelog topic was re-created"``.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Following:
    """Sent about twice a second by a StateUpdater that follows tasks, all of them in one."""

    lags: Mapping[TaskId, int]
    """Changelog offsets still to read, uncommitted ones counted, summed over a task's stores."""
    applied: int
    """Records that this StateUpdater has applied to stores it follows, since it started."""
    problem: str = ""
    """What keeps it from following although it goes on trying, for example a lost broker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdaterStats:
    """Sent about once a second by a StateUpdater that has, or has just had, something to do."""

    numbers: Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancelled:
    """Answers ``CancelRestore``: the task's stores are closed, at a consistent position."""

    task: TaskId


@dataclass(frozen=True, slots=True, kw_only=True)
class GlobalProgress:
    """Sent about once a second by a GlobalStreamThread, and once its stores are filled."""

    records: int
    """Records that it has applied since it started."""
    remaining: int
    """Offsets still to read before the stores are filled."""
    filled: bool
    """Every global store has reached the end of its topic: tasks may start."""
    problem: str = ""
    """What keeps it from following although it goes on trying, for example a lost broker."""
    tree: Snapshot | None = None
    """Of its nodes, topics, stores and the user's sensors, every few seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The child, or one task of it, cannot go on.

    ``error`` is the class name in ``headwater.errors``.
    """

    error: str
    message: str
    task: TaskId | None = None
    fenced: bool = False
    following: bool = False
    """It is a copy (standby, warm-up) that cannot be kept up just now."""
    traceback: str = ""
    """Empty for errors that are the user's to fix."""
    cause: bytes = b""
    """What user code has raised, pickled; empty if nothing, or if it cannot be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """Everything is committed and closed."""


ToThread: TypeAlias = (
    "Go | AddTasks | RevokeTasks | Pause | Resume | LeaseRenewed | ShareCache | Configure "
    "| AskTask | Locate | Stop"
)
FromThread: TypeAlias = (
    "Initialized | TaskRunning | Released | Paused | Stats | TaskAnswered | Located | Failed "
    "| StoreRestore | Stopped"
)
ToUpdater: TypeAlias = Restore | Follow | CancelRestore | Configure | Stop
FromUpdater: TypeAlias = (
    RestoreProgress
    | Restored
    | StoreRestore
    | Following
    | UpdaterStats
    | Cancelled
    | Failed
    | Stopped
)
ToGlobals: TypeAlias = Configure | Locate | Stop
FromGlobals: TypeAlias = GlobalProgress | StoreRestore | Located | Failed | Stopped
