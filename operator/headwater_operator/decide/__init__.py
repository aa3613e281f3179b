"""What the control loop does next: pure, values in and values out.

    loop       decide(): observed, memory, now -> Decision
    observed   what is seen, what is decided        memory     what one run remembers
    recall     observed -> memory                   limits     how long is waited for what
    judge      one worker: live, lost, what it holds
    scene      all workers, topology, plan, failure  failures   which of them are final
    autoscaling  how many workers there are to be, by lag
    fleet      which workers there are to be         processes  starts, stops, deletions
    rolling    whose process is replaced by one of a new revision
    stores     what stored state is worth
    engines    which engine has the application, what its driver is to do
    progress   whether its driver gets on
    placing    which task may be held where now      duties     what is asked of workers
    writing    the specs to write, in the safe order
    status     what is reported
    streamactions  what StreamActions ask for, and how far they have come

May import the pure floor of ``headwater`` and ``actions``.
"""

from headwater_operator.decide.loop import decide
from headwater_operator.decide.memory import Memory
from headwater_operator.decide.observed import (
    Decision,
    DriverView,
    Intent,
    Observed,
    ProcessState,
    WorkerView,
)

__all__ = [
    "Decision",
    "DriverView",
    "Intent",
    "Memory",
    "Observed",
    "ProcessState",
    "WorkerView",
    "decide",
]
