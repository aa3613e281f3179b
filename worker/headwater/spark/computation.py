"""How the driver of a backfill brings tasks to the cut: stages, passes, DataFrames."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING

from headwater import failpoints
from headwater.errors import BackfillError
from headwater.kafka.driver_topic import GroupOffsets
from headwater.spark.frames import units
from headwater.spark.frames.reading import reading_group, with_reading
from headwater.spark.outputs import Outputs
from headwater.spark.passes import next_pass
from headwater.spark.progress import Committed, Watch
from headwater.spark.stages import check_passes, circles, stages
from headwater.spark.work import TaskWork, progress_group

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from headwater.ids import TaskId, TopicPartition
    from headwater.kafka.committed import CommittedOffset
    from headwater.model.backfill import Manifest
    from headwater.spark.application import Application, BackfillSettings
    from headwater.spark.driving import Cluster, Listener
    from headwater.spark.frames.plan import Unit
    from headwater.spark.manifests import ManifestWriter
    from headwater.spark.work import TaskDone

log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class Computed:
    """How far the tasks are.

    Attributes:
        manifest: the newest.
        done: the tasks that this driver has run.
        earlier: the tasks of which something was committed before, and is in no count.
    """

    manifest: Manifest
    done: dict[TaskId, TaskDone] = field(default_factory=dict)
    earlier: set[TaskId] = field(default_factory=set)

    def add(self, done: Iterable[TaskDone]) -> None:
        """Note what tasks have done, maybe not for the first time."""
        for each in done:
            before = self.done.get(each.task)
            self.done[each.task] = each if before is None else each.after(before)


class Computation:
    """Computes state on a cluster; what it has done is committed in a group of the backfill's own.

    Args:
        settings: what the backfill is told.
        application: which.
        cluster: runs the tasks.
        listener: hears how it comes on.

    Raises:
        ConfigError: there is no such target.
        TopologyError: all is to be DataFrames, and something cannot; or something cannot be
            computed at all.
    """

    def __init__(
        self,
        settings: BackfillSettings,
        application: Application,
        cluster: Cluster,
        listener: Listener,
    ) -> None:
        self._settings = settings
        self._application = application
        self._cluster = cluster
        self._listener = listener
        check_passes(application.report)
        self._stages = stages(application.report)
        self._in_circles = frozenset[int]().union(*circles(application.report))
        self._translation = units.translation_of(application, settings)

    @property
    def frames(self) -> tuple[int, ...]:
        """The sub-topologies that can be computed as DataFrames."""
        return units.numbers_of(self._translation)

    @property
    def tasks(self) -> tuple[tuple[TaskId, ...], ...]:
        """The tasks of each stage."""
        return tuple(self._tasks(stage) for stage in self._stages)

    def run(self, writer: ManifestWriter, manifest: Manifest) -> Computed:
        """Bring every task to the cut, stage after stage.

        What is computed as DataFrames is, once the last of its sub-topologies has its turn.

        Raises:
            BackfillError: it is not known any more how far it has come, or it comes no further.
            HeadwaterError: why a task cannot reach the cut.
        """
        found = Computed(manifest=manifest)
        for number, stage in enumerate(self._stages, start=1):
            self._run_stage(found, stage, f"stage {number} of {len(self._stages)}")
            later = frozenset[int]().union(*self._stages[number:])
            for unit in units.units_of(self._translation, found.manifest):
                if stage.intersection(unit.subtopologies) and later.isdisjoint(unit.subtopologies):
                    self._run_unit(writer, found, unit)
        return found

    def cut(self, manifest: Manifest, tasks: Collection[TaskId]) -> dict[TopicPartition, int]:
        """Return where the inputs of tasks end; repartition topics where they end now.

        Raises:
            KafkaUnavailableError: a transaction stays open.
        """
        inputs = {p for task in tasks for p in self._application.plan.inputs[task]}
        written = [p for p in inputs if p not in manifest.cut]
        return {
            **{p: manifest.cut[p] for p in inputs if p in manifest.cut},
            **self._application.settled_ends(written),
        }

    def progress(
        self, manifest: Manifest, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, CommittedOffset]:
        """Return how far the tasks of this backfill have come.

        Raises:
            BackfillError: it is not known any more.
        """
        group = progress_group(self._application.id, manifest.generation)
        found = self._application.admin.committed(group, partitions)
        missing = sorted(set(partitions) - found.keys())
        if missing:
            raise BackfillError(
                f"group {group} has no offset for {missing[0]}, so it is not known how far the "
                "backfill has come (offsets expire after offsets.retention.minutes); give it up "
                "with --abort and begin another one"
            )
        return found

    def check_complete(
        self, manifest: Manifest, cut: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, CommittedOffset]:
        """Return how far the tasks have come, which is the cut.

        Raises:
            BackfillError: it is not.
        """
        progress = self.progress(manifest, cut)
        behind = [p for p, found in progress.items() if found.offset != cut[p]]
        if behind:
            raise BackfillError(
                f"the tasks' group is not at the cut of {behind[0]} (and {len(behind) - 1} more): "
                "somebody else writes to the application's topics, or commits for the backfill; "
                "stop them, give it up with --abort and begin another one"
            )
        return progress

    def write_latest(self, manifest: Manifest) -> None:
        """Write the last outputs of all tasks, if that is what was asked for."""
        waiting = self._application.waiting
        if not waiting:
            return
        ends = self._application.settled_ends(waiting.values())
        committed = self.progress(manifest, ends)
        left = [
            replace(self._work(manifest, task), cut={p: ends[p]}, is_writing_latest=True)
            for task, p in waiting.items()
            if committed[p].offset < ends[p]
        ]
        if left:
            self._listener.step(f"writing the last outputs of {len(left)} tasks")
            with self._watch(manifest, ends):
                self._cluster.run(left)
            failpoints.hit("backfill.latest_written")

    # -- tasks -----------------------------------------------------------------------------------

    def _tasks(self, stage: Collection[int]) -> tuple[TaskId, ...]:
        return tuple(task for task in self._application.plan.tasks if task.subtopology in stage)

    def _run_stage(self, found: Computed, stage: Collection[int], name: str) -> None:
        numbers = set(stage).difference(found.manifest.frames)
        if tasks := self._tasks(numbers - self._in_circles):
            self._run_tasks(found, tasks, name)
        if tasks := self._tasks(numbers & self._in_circles):
            self._run_passes(found, tasks, name)

    def _run_tasks(self, found: Computed, tasks: Collection[TaskId], name: str) -> None:
        """Bring tasks to the cut."""
        manifest = found.manifest
        cut = self.cut(manifest, tasks)
        committed = self._offsets(manifest, cut)
        self._note_earlier(found, tasks, committed)
        waiting = self._waiting(tasks, committed, cut)
        self._listener.step(f"{name}: {len(waiting)} of {len(tasks)} tasks")
        if waiting:
            with self._watch(manifest, cut):
                found.add(self._cluster.run([self._work(manifest, task, cut) for task in waiting]))
            failpoints.hit("backfill.stage_computed")

    def _run_passes(self, found: Computed, tasks: Collection[TaskId], name: str) -> None:
        """Bring tasks that feed each other to the cut, in as many passes as it takes."""
        manifest, before = found.manifest, None
        inputs = self._application.plan.inputs
        numbers = {task.subtopology for task in tasks}
        # What another circle has written has come to its end, as a stage before this one.
        writers = (one for one in self._application.report.subtopologies if one.id in numbers)
        between = {topic for writer in writers for topic in writer.sink_topics}
        finished = {p for task in tasks for p in inputs[task] if p.topic not in between}
        for number in count(1):
            cut = self.cut(manifest, tasks)
            committed = self._offsets(manifest, cut)
            if before is None:
                self._note_earlier(found, tasks, committed)
            waiting = self._waiting(tasks, committed, cut)
            if not waiting:
                break
            if committed == before:
                raise BackfillError(
                    f"{name}: a pass of tasks that feed each other has committed nothing, and "
                    f"another one would not either ({waiting[0]} waits); this is a defect of "
                    "Headwater: give the backfill up with --abort, and let workers read everything"
                )
            before = committed
            one = next_pass(committed, cut, finished, self._settings.slice_records)
            works = [
                replace(
                    self._work(manifest, task, one.ends),
                    start=committed,
                    more=one.more.intersection(inputs[task]),
                )
                for task in waiting
            ]
            self._listener.step(f"{name}, pass {number}: {len(waiting)} of {len(tasks)} tasks")
            with self._watch(manifest, cut):
                found.add(self._cluster.run(works))
            failpoints.hit("backfill.pass_computed")

    def _waiting(
        self,
        tasks: Collection[TaskId],
        committed: Mapping[TopicPartition, int],
        cut: Mapping[TopicPartition, int],
    ) -> list[TaskId]:
        """Return the tasks that are not at the cut."""
        inputs = self._application.plan.inputs
        return [task for task in tasks if any(committed[p] < cut[p] for p in inputs[task])]

    def _offsets(
        self, manifest: Manifest, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, int]:
        return {p: found.offset for p, found in self.progress(manifest, partitions).items()}

    def _note_earlier(
        self,
        found: Computed,
        tasks: Collection[TaskId],
        committed: Mapping[TopicPartition, int],
    ) -> None:
        inputs, start = self._application.plan.inputs, found.manifest.start
        found.earlier.update(
            task for task in tasks if any(committed[p] > start.get(p, 0) for p in inputs[task])
        )

    def _run_unit(self, writer: ManifestWriter, found: Computed, unit: Unit) -> None:
        """Compute sub-topologies as DataFrames, else by their tasks."""
        application, manifest = self._application, found.manifest
        names = ", ".join(map(str, unit.subtopologies))
        tasks = self._tasks(unit.subtopologies)
        cut = self.cut(manifest, tasks)
        committed = self._offsets(manifest, cut)
        self._note_earlier(found, tasks, committed)
        if committed == cut:
            return
        self._listener.step(f"sub-topologies {names}: as DataFrames")
        work = units.work_of(unit, application, self._settings, manifest, cut)
        group = reading_group(application.id, manifest.generation)
        tell = self._listener.progress
        with with_reading(application.admin, group, work.partitions, tell) as tell_both:
            done = self._cluster.compute(work, tell_both)
        if not done.trouble:
            group = progress_group(application.id, manifest.generation)
            offsets = GroupOffsets(group, units.offsets_of(done, cut))
            writer.write(manifest, offsets=offsets)
            found.add(done.tasks)
            failpoints.hit("backfill.stage_computed")
            return
        self._listener.step(f"sub-topologies {names}: by their tasks after all: {done.trouble}")
        log.warning("sub-topologies %s are left to StreamTasks: %s", names, done.trouble)
        left = tuple(n for n in manifest.frames if n not in unit.subtopologies)
        found.manifest = writer.write(replace(manifest, frames=left))
        for stage in self._stages:
            members = stage.intersection(unit.subtopologies)
            if members:
                self._run_stage(found, members, f"sub-topologies {names}")

    def _watch(self, manifest: Manifest, cut: Mapping[TopicPartition, int]) -> Watch:
        def committed() -> dict[TopicPartition, int]:
            return self._offsets(manifest, cut)

        start = {p: manifest.start.get(p, 0) for p in cut}
        return Watch(Committed(committed, start=start, goal=cut), self._listener.progress)

    def _work(
        self, manifest: Manifest, task: TaskId, cut: Mapping[TopicPartition, int] | None = None
    ) -> TaskWork:
        return TaskWork(
            task=task,
            application=self._settings.application,
            generation=manifest.generation,
            attempt=manifest.attempt,
            clock_ms=manifest.begun_ms,
            cut={} if cut is None else {p: cut[p] for p in self._application.plan.inputs[task]},
            start=manifest.start,
            outputs=Outputs(manifest.outputs),
            waiting=self._application.waiting.get(task),
        )
