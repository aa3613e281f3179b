"""What the driver of a backfill needs: where tasks run, and who hears how it comes on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headwater.spark.frames.computing import UnitDone, UnitWork
    from headwater.spark.progress import Shown
    from headwater.spark.work import TaskDone, TaskWork


class Cluster(Protocol):
    """Where tasks run: Spark, or this process."""

    def prepare(self) -> None:
        """Make sure that tasks can run, while nothing is touched.

        Raises:
            HeadwaterError: why they cannot.
        """
        ...

    def run(self, works: Sequence[TaskWork]) -> Sequence[TaskDone]:
        """Run every task up to its cut, again while it fails for a reason that may pass.

        Raises:
            HeadwaterError: why a task cannot.
        """
        ...

    def compute(self, work: UnitWork, tell: Callable[[Shown], None]) -> UnitDone:
        """Compute sub-topologies as DataFrames and load their state, unless that cannot be.

        Args:
            work: the sub-topologies.
            tell: told now and then how far it is, from another thread.

        Raises:
            HeadwaterError: it failed; state may be loaded in part, another attempt overwrites it.
        """
        ...


class Listener(Protocol):
    """Hears how a backfill comes on."""

    def step(self, text: str) -> None:
        """A step begins."""
        ...

    def progress(self, progress: Shown) -> None:
        """So far are the tasks of the step; called from another thread."""
        ...
