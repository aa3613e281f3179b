"""What a backfill says before it begins and after it has ended, for people."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headwater.ids import TaskId
    from headwater.model.backfill import Manifest
    from headwater.spark.work import TaskDone


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillPlan:
    """What would be done.

    Attributes:
        application_id: whose state.
        manifest: what would be read.
        goes_on: it is that of a backfill which has not finished.
        stages: the tasks in the order in which they would be computed.
        made_anew: internal topics that exist and would be deleted.
        frames: sub-topologies that would be computed as DataFrames.
    """

    application_id: str
    manifest: Manifest
    goes_on: bool
    stages: tuple[tuple[TaskId, ...], ...]
    made_anew: tuple[str, ...]
    frames: tuple[int, ...] = ()

    def lines(self) -> list[str]:
        """Return the plan as text."""
        manifest = self.manifest
        known = f"would go on ({manifest.state.value})" if self.goes_on else "would begin"
        said = [f"{self.application_id}: backfill {manifest.generation} {known}"]
        said += [
            f"  {partition}: offsets {manifest.start[partition]} to {end}"
            for partition, end in manifest.cut.items()
        ]
        said += [
            f"  stage {number}: {', '.join(map(str, tasks))}"
            for number, tasks in enumerate(self.stages, start=1)
        ]
        if self.frames:
            said.append(f"  as DataFrames: sub-topologies {', '.join(map(str, self.frames))}")
        said += [f"  deleted and made anew: {topic}" for topic in self.made_anew]
        return said


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillReport:
    """What was done.

    Attributes:
        application_id: whose state.
        manifest: as committed.
        tasks: those that this driver has run; others were done by an earlier one.
        earlier: of how many tasks something was committed before they ran here, by an earlier
            driver or a Python worker that was killed; nothing of that is in any count.
        took_s: how long this driver took.
    """

    application_id: str
    manifest: Manifest
    tasks: tuple[TaskDone, ...]
    earlier: int = 0
    took_s: float

    @property
    def records(self) -> int:
        """Offsets of the source topics that the state now contains."""
        manifest = self.manifest
        return sum(end - manifest.start[p] for p, end in manifest.cut.items())

    @property
    def keys(self) -> int:
        """How many keys the stores of the tasks hold."""
        return sum(task.keys for task in self.tasks)

    @property
    def dropped(self) -> int:
        """Records without a key, too late, or let go by a handler."""
        return sum(task.dropped for task in self.tasks)

    @property
    def dead_letters(self) -> int:
        """Records sent to dead-letter topics."""
        return sum(task.dead_letters for task in self.tasks)

    def lines(self) -> list[str]:
        """Return the report as text."""
        processed = sum(task.processed for task in self.tasks)
        name = f"{self.application_id}: backfill {self.manifest.generation}"
        lacking = (
            f"  not counted: what was done before in {self.earlier} tasks, by an earlier attempt "
            f"or a Python worker that was killed (this was attempt {self.manifest.attempt})"
        )
        return [
            f"{name} is committed; workers go on from its offsets",
            f"  source records: {self.records:,} ({len(self.manifest.cut)} partitions)",
            f"  this run: {processed:,} records, {len(self.tasks)} tasks, {self.took_s:.1f} s",
            *([lacking] if self.earlier else []),
            f"  keys in their stores: {self.keys:,}",
            f"  dropped (late, without a key, let go by a handler): {self.dropped:,}",
            f"  dead letters: {self.dead_letters:,}",
        ]
