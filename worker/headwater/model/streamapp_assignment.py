"""The StreamApp's ``spec.assignment``: where copies of tasks are, and how tasks move."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from headwater.model.fields import meta
from headwater.model.movewindows import MoveWindow  # noqa: TC001  # read by the codec

HOSTNAME_KEY: Final = "kubernetes.io/hostname"
"""The label that names the node itself."""

_LABEL_KEY: Final = meta(
    pattern=r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?",
    meaning="the key of a label such as topology.kubernetes.io/zone",
    max_length=316,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentPolicy:
    """Where copies of tasks are, and how tasks move between workers.

    Attributes:
        standby_replicas: how many copies of each task with state on disk are kept on other workers
            (Kafka Streams' num.standby.replicas).
        acceptable_recovery_lag: a copy with at most so many changelog records to read has caught
            up: it can take its task over (Kafka Streams' acceptable.recovery.lag).
        max_warmup_replicas: how many further copies there may be at a time, of tasks or standbys
            that are to move (Kafka Streams' max.warmup.replicas).
        warmup_timeout_ms: a warm-up that makes no progress for so long is given up, so that others
            get their turn; later it is tried again. Progress is any lag lower than before; of a
            worker that does not answer by HTTP it is seen in powers of ten only.
        move_delay_ms: how long the tasks of a worker whose process ended wait for its replacement,
            which has their state, before they go elsewhere. Tasks with a standby do not wait.
        move_windows: when tasks may move for balance alone; left out: at any time. Moves that are
            needed never wait: of a worker that is lost, that goes, or that has just been added.
        topology_keys: labels of nodes over whose values the copies of a task are spread, the most
            important first.
    """

    standby_replicas: int = field(default=0, metadata=meta(minimum=0, maximum=100))
    acceptable_recovery_lag: int = field(
        default=10_000, metadata=meta(minimum=0, maximum=1_000_000_000_000)
    )
    max_warmup_replicas: int = field(default=2, metadata=meta(minimum=1, maximum=10_000))
    warmup_timeout_ms: int = field(
        default=600_000, metadata=meta(json="warmupTimeout", duration=True)
    )
    move_delay_ms: int = field(default=30_000, metadata=meta(json="moveDelay", duration=True))
    move_windows: tuple[MoveWindow, ...] = field(default=(), metadata=meta(max_items=20))
    topology_keys: tuple[str, ...] = field(
        default=("topology.kubernetes.io/zone", HOSTNAME_KEY),
        metadata=meta(each=_LABEL_KEY, unique=True, max_items=5),
    )
