"""Nodes where records wait: for calls that overlap, or until a batch is full.

    submit ─► waiting ─► in flight ─► over ─► forwarded, in the order that is asked for
                 ▲            │ error, time-out: again after a pause, or the handler decides
                 └────────────┘

Everything here happens in the thread of the task, between records; ``calls`` only runs functions.
A result is forwarded with the record under way being the one that it was made of. Before a commit
the task takes no more records until nothing waits (``StreamTask.settle``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from headwater.errors import TopologyError

if TYPE_CHECKING:
    from headwater.processor.callers import Callers


class Stage(Protocol):
    """A node where records wait."""

    @property
    def pending(self) -> int:
        """How many records wait here, in whatever state."""
        ...

    @property
    def room(self) -> int:
        """How many more may come; a record from the buffer may bring several."""
        ...

    def advance(self) -> None:
        """Forward what is over and start what may begin.

        Raises:
            HeadwaterError: a record could not be handled.
        """
        ...

    def flush(self) -> None:
        """Hold nothing back that could be started."""
        ...


class Stages:
    """All stages of a task.

    Args:
        callers: run the functions that are waited for; ``None`` if nobody does.
    """

    def __init__(self, callers: Callers | None = None) -> None:
        self._stages: list[Stage] = []
        self._callers = callers

    def __bool__(self) -> bool:
        return bool(self._stages)

    def add(self, stage: Stage) -> None:
        """Add a stage; those below it have been added before."""
        self._stages.insert(0, stage)

    def callers_for(self, node: str) -> Callers:
        """Return who calls the function of ``node``.

        Raises:
            TopologyError: nobody does.
        """
        if self._callers is None:
            raise TopologyError(f"node {node}: this task cannot call functions that wait")
        return self._callers

    @property
    def pending(self) -> int:
        """How many records wait."""
        return sum(stage.pending for stage in self._stages)

    @property
    def room(self) -> int:
        """How many more records the task may take; there is a stage."""
        return min(stage.room for stage in self._stages)

    def advance(self) -> None:
        """Forward what is over and start what may begin.

        Raises:
            HeadwaterError: a record could not be handled.
        """
        for stage in self._stages:
            stage.advance()

    def flush(self) -> None:
        """As ``advance``, and hold nothing back that could be started.

        Raises:
            HeadwaterError: a record could not be handled.
        """
        for stage in self._stages:
            stage.flush()
            stage.advance()

    def wait(self, timeout_s: float) -> None:
        """Wait until a call is over, of this task or another of the process."""
        if self._callers is not None:
            self._callers.wait(timeout_s)
