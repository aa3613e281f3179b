"""What workers process and what waits, asked for where autoscaling decides from it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from headwater_operator.decide.autoscaling.verdict import is_sample_due
from headwater_operator.decide.observed import Intent, ProcessState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headwater.ids import TaskId
    from headwater_operator.decide.autoscaling.load import Reading
    from headwater_operator.decide.autoscaling.verdict import ScalingMemory
    from headwater_operator.decide.observed import Observed
    from headwater_operator.observe.numbers import NumbersSource

_AT_ONCE: Final = 32


def with_loads(
    observed: Observed,
    endpoints: Mapping[str, str],
    source: NumbersSource,
    memory: ScalingMemory,
    now_ms: int,
) -> Observed:
    """Return a snapshot with the load of all workers, if autoscaling wants to know it now.

    Args:
        observed: the snapshot, read just now.
        endpoints: ``host:port`` by worker.
        source: who is asked.
        memory: of autoscaling.
        now_ms: of the control loop's monotonic clock.
    """
    policy = observed.app.spec.autoscaling
    is_idle = observed.intent is not Intent.RUN or observed.app.wanted_workers == 0
    if policy is None or is_idle or not is_sample_due(policy, memory, now_ms):
        return observed
    processes = {
        view.worker.name: view.worker.status.incarnation
        for view in observed.workers
        if view.process is ProcessState.RUNNING and view.worker.status.incarnation
    }
    names = [name for name in sorted(processes) if endpoints.get(name)]
    loads: dict[str, Mapping[TaskId, Reading]] = {}
    for first in range(0, len(names), _AT_ONCE):
        asked = {name: endpoints[name] for name in names[first : first + _AT_ONCE]}
        for name, answer in source.ask(asked).items():
            if answer.incarnation == processes[name]:
                loads[name] = answer.readings
    return replace(observed, loads=loads)
