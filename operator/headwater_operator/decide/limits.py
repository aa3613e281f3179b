"""How long the control loop waits for what, in milliseconds."""

from __future__ import annotations

from typing import Final

LOOK_AGAIN_MS: Final = 30_000
"""Topics and group members are looked up this often."""

LOOK_AGAIN_ON_A_CLUSTER_MS: Final = 300_000
"""The same on Kubernetes, where a look is a dozen requests to the API server; as often as Java
looks for new partitions (``metadata.max.age.ms``). For foreign members a worker looks by itself
every 30 s, and what it finds is looked up at once (docs/adr/0038).
"""

LOOK_SOONER_MS: Final = 5_000
"""The same while foreign members or missing topics keep the application from starting."""

RETRY_DUTY_MS: Final = 1_000
"""A duty that failed is handed out again after this long."""

FIRST_WAIT_MS: Final = 10_000
"""Before the first tasks are granted, workers that are still starting are waited for this long."""

START_LIMIT_MS: Final = 60_000
"""A process that has not reported this long after its start is killed and started again. The next
one gets twice the time, and so on: see ``start_limit_ms``."""

_START_DOUBLINGS_MAX: Final = 4

IMPORT_SLACK_MS: Final = 30_000
"""A process that imports its topology for so much longer than it may is killed: it ends by itself
when the time is over, unless a library does not let it."""

UNHEARD_STOP_MS: Final = 5_000
"""A process that was told to stop so long ago, and has never reported, is killed: it holds nothing,
and may not have heard."""

MOUNT_AGAIN_MS: Final = 20_000
"""A pod that has waited so long, and for a Secret or ConfigMap that is missing, is made anew: a
kubelet mounts what was missing after growing pauses, up to two minutes."""

SILENCE_LIMIT_MS: Final = 60_000
"""A process whose Lease is stale, and whose slots are fenced, is killed after this long."""

STOP_AGAIN_MS: Final = 10_000
"""A process that was told to stop and still runs is told again this often."""

HEALTHY_MS: Final = 60_000
"""A process that lived this long did not die of its start."""

DRIVER_START_MS: Final = 300_000
"""A driver that says nothing, or not that it runs, for so long is killed and started again."""

DRIVER_SILENCE_MS: Final = 120_000
"""The same for one that has run."""

DRIVER_BELIEVED_MS: Final = 30_000
"""A driver that does not answer is said to be silent after so long, and again after so long."""

DRIVER_STALLED_MS: Final = 600_000
"""The same for one that runs and tells of itself, but ends no micro-batch; see ``progress``."""

RESTARTS_MAX: Final = 5
"""After so many early deaths in a row with an error, the application is given up."""

LONGEST_PAUSE_MS: Final = 60_000
"""Between two starts of the same worker."""

SOON_MS: Final = 100
"""The next decision after one that did something."""

LATER_MS: Final = 1_000
"""The next decision after one that did nothing: leases and processes are looked at again."""


def pause_ms(early_deaths: int) -> int:
    """Return how long to wait before a worker is started again: 0, 1 s, 2 s, 4 s ... 60 s."""
    if early_deaths <= 1:
        return 0
    return int(min(LONGEST_PAUSE_MS, 1_000 << min(early_deaths - 2, 16)))


def start_limit_ms(unheard: int) -> int:
    """Return how long a process may take to report: 60 s, 120 s, 240 s ... 16 minutes.

    Where a cluster is so busy that starts take longer than the limit, starting all of them anew
    with the same limit would keep it busy for ever.

    Args:
        unheard: how many processes before it, in a row, have not reported.
    """
    return START_LIMIT_MS << min(unheard, _START_DOUBLINGS_MAX)
