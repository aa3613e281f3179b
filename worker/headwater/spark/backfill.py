"""The driver of a backfill. Each step may be repeated, so a driver that is killed is run again.

    gate ─► Prepared: cut ─► clean ─► Prepared: topics ─► compute ─► Written ─► commit ─► Committed
            └────── a driver that finds one of these goes on from there ──────┘

See ``docs/adr/0039-what-a-backfill-is.md``.
"""

from __future__ import annotations

import logging
import time
import uuid
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from headwater import failpoints
from headwater.errors import BackfillError, HeadwaterError
from headwater.kafka.manifest import ManifestGate
from headwater.model.backfill import BackfillState, Manifest
from headwater.ports import PartitionOffsets
from headwater.spark import gate, units
from headwater.spark.aborting import give_up
from headwater.spark.application import BEGINNING, Application
from headwater.spark.manifests import ManifestWriter
from headwater.spark.outputs import Outputs
from headwater.spark.progress import Committed, Watch
from headwater.spark.reading import reading_group, with_reading
from headwater.spark.report import BackfillPlan, BackfillReport
from headwater.spark.stages import stages
from headwater.spark.work import TaskWork, progress_group
from headwater.wire.offset_metadata import OffsetMetadata, encode

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from headwater.ids import TaskId, TopicPartition
    from headwater.kafka.committed import CommittedOffset
    from headwater.spark.application import BackfillSettings
    from headwater.spark.driving import Cluster, Listener
    from headwater.spark.translate.plan import Unit
    from headwater.spark.work import TaskDone

log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class _Computed:
    """How far the tasks are.

    Attributes:
        manifest: the newest.
        done: the tasks that this driver has run.
        earlier: the tasks of which something was committed before, and is in no count.
    """

    manifest: Manifest
    done: list[TaskDone] = field(default_factory=list)
    earlier: set[TaskId] = field(default_factory=set)


class Backfill:
    """One run of the driver.

    Args:
        settings: what it is told.
        cluster: runs the tasks.
        listener: hears how it comes on.

    Raises:
        ConfigError: an option is wrong or missing.
        ImportPathError: the topology cannot be had.
        TopologyError: the topology cannot be backfilled.
    """

    def __init__(self, settings: BackfillSettings, cluster: Cluster, listener: Listener) -> None:
        self._settings = settings
        self._cluster = cluster
        self._listener = listener
        self._application = Application(settings)
        self._stages = stages(self._application.report)
        self._translation = units.translation_of(self._application, settings)
        self._gate = ManifestGate(
            self._application.config,
            self._application.connection,
            self._application.admin,
            client_id=self._application.client_id,
        )

    # -- what the command does -------------------------------------------------------------------

    def plan(self) -> BackfillPlan:
        """Check everything and say what would be done, without doing any of it.

        Raises:
            HeadwaterError: why it cannot be done.
        """
        application = self._application
        application.admin.check_reachable(application.timeout_s)
        gate.check_nobody_runs(application, fences=False)
        gate.check_workers_have_it(application)
        gate.check_outputs(application, self._settings.outputs)
        found = self._gate.read()
        goes_on = found is not None and found.is_unfinished
        if found is not None and goes_on:
            self._check_fits(found)
        else:
            found = self._new_manifest()
        existing = application.admin.describe_topics(application.internal_topics)
        return BackfillPlan(
            application_id=application.id,
            manifest=found,
            goes_on=goes_on,
            stages=tuple(self._tasks(stage) for stage in self._stages),
            made_anew=() if found.topic_ids else tuple(sorted(existing)),
            frames=found.frames,
        )

    def run(self) -> BackfillReport:
        """Backfill, or go on with what an earlier driver has left.

        Raises:
            GroupInUseError: the application runs.
            BackfillError: it cannot begin, or cannot go on.
            FencedError: another driver has taken over.
            HeadwaterError: why a task cannot reach the cut.
        """
        began = time.monotonic()
        application = self._application
        self._listener.step("looking whether anybody runs the application")
        application.admin.check_reachable(application.timeout_s)
        gate.check_nobody_runs(application)
        record = gate.check_workers_have_it(application)
        gate.check_outputs(application, self._settings.outputs)
        left = self._gate.read()
        if left is None or left.state is not BackfillState.WRITTEN:
            self._listener.step("making sure that tasks can run")
            self._cluster.prepare()
        new = None if left is not None and left.is_unfinished else self._new_manifest()
        writer = ManifestWriter(
            application.config, application.duties, client_id=application.client_id
        )
        manifest = self._begin(writer, new)
        # Nobody begins any more; who has begun, and is frozen, is shut out.
        application.duties.fence({*self._settings.worker_ids, *record.workers})
        failpoints.hit("backfill.fenced")
        computed = _Computed(manifest=manifest, earlier=set(application.plan.tasks))
        if manifest.state is BackfillState.PREPARED:
            if not manifest.topic_ids:
                manifest = self._clean(writer, manifest)
            computed = self._compute(writer, manifest)
            manifest = computed.manifest
            self._write_latest(manifest)
            manifest = self._write_written(writer, manifest)
        committed = self._commit(manifest)
        failpoints.hit("backfill.offsets_committed")
        manifest = writer.write(replace(manifest, state=BackfillState.COMMITTED))
        self._tidy(manifest, committed)
        return BackfillReport(
            application_id=application.id,
            manifest=manifest,
            tasks=tuple(computed.done),
            earlier=len(computed.earlier | {one.task for one in computed.done if one.went_on}),
            took_s=time.monotonic() - began,
        )

    def abort(self) -> bool:
        """Give up an unfinished backfill: the application begins as after a reset.

        Returns:
            Whether there was one.

        Raises:
            GroupInUseError: the application runs.
        """
        return give_up(self._application, self._gate)

    # -- prepare ---------------------------------------------------------------------------------

    def _new_manifest(self) -> Manifest:
        """Return what a backfill that begins now would read.

        Raises:
            BackfillError: its state would lack something.
        """
        application = self._application
        start = gate.first_offsets(application, self._settings)
        manifest = Manifest(
            generation=uuid.uuid4().hex[:12],
            attempt=1,
            state=BackfillState.PREPARED,
            topology=application.report.hash,
            begun_ms=time.time_ns() // 1_000_000,
            outputs=self._settings.outputs.value,
            start=start,
            cut=gate.cut_offsets(application, self._settings, start),
            tasks=tuple(sorted(map(str, application.plan.tasks))),
            frames=units.numbers_of(self._translation),
            since=BEGINNING if self._settings.since is None else self._settings.since,
            until=self._settings.until,
        )
        gate.check_read_again(application, manifest)
        return manifest

    def _begin(self, writer: ManifestWriter, new: Manifest | None) -> Manifest:
        """Go on with what an earlier driver has left, else begin.

        Raises:
            GroupInUseError, InstanceRunningError, EngineError: somebody has come first.
            BackfillError: it cannot be gone on with.
        """
        found = self._gate.read()
        if found is not None and found.is_unfinished:
            self._check_fits(found)
            self._listener.step(
                f"going on with backfill {found.generation}, which is {found.state.value}"
            )
            manifest = writer.write(replace(found, attempt=found.attempt + 1))
            gate.check_workers_have_it(self._application)
            return manifest
        new = new or self._new_manifest()
        self._listener.step(f"beginning backfill {new.generation}")
        manifest = writer.write(new)
        failpoints.hit("backfill.prepared")
        try:
            # Whoever started before the manifest was there is seen now, whoever starts sees it;
            # and so it is with who has taken over for Spark.
            gate.check_nobody_runs(self._application)
            gate.check_workers_have_it(self._application)
        except HeadwaterError:
            # Nothing has been touched yet.
            writer.write(replace(manifest, state=BackfillState.ABORTED))
            raise
        return manifest

    def _check_fits(self, found: Manifest) -> None:
        frames = units.numbers_of(self._translation)
        gate.check_fits(self._application, self._settings, found, frames)
        if found.topic_ids:
            gate.check_topics(self._application, found)

    def _clean(self, writer: ManifestWriter, manifest: Manifest) -> Manifest:
        """Make all internal topics anew, so that nothing old is mixed with what is computed."""
        application = self._application
        names = application.internal_topics
        self._listener.step(f"making {len(names)} internal topics anew")
        # The old offsets mean nothing without the old state, so they go first.
        application.admin.delete_group(application.id)
        before = application.admin.describe_topics(names)
        application.delete_topics(names)
        made = application.duties.create_topics(application.topics_to_make)
        old = {topic.topic_id for topic in before.values()}
        kept = [name for name, topic in made.items() if topic.topic_id in old]
        if kept:
            raise BackfillError(
                f"topics {', '.join(kept)} were not deleted; run the backfill again"
            )
        begin = encode(OffsetMetadata())
        application.commit(
            progress_group(application.id, manifest.generation),
            [
                PartitionOffsets(partition=p, offset=manifest.start.get(p, 0), metadata=begin)
                for p in (*application.inputs, *application.waiting.values())
            ],
        )
        failpoints.hit("backfill.cleaned")
        topic_ids = {name: topic.topic_id for name, topic in made.items()}
        return writer.write(replace(manifest, topic_ids=topic_ids))

    # -- compute ---------------------------------------------------------------------------------

    def _tasks(self, stage: Collection[int]) -> tuple[TaskId, ...]:
        return tuple(task for task in self._application.plan.tasks if task.subtopology in stage)

    def _compute(self, writer: ManifestWriter, manifest: Manifest) -> _Computed:
        """Bring every task to the cut, stage after stage.

        What is computed as DataFrames is, once the last of its sub-topologies has its turn.
        """
        found = _Computed(manifest=manifest)
        for number, stage in enumerate(self._stages, start=1):
            self._run_tasks(found, stage, f"stage {number} of {len(self._stages)}")
            later = frozenset[int]().union(*self._stages[number:])
            for unit in units.units_of(self._translation, found.manifest):
                if stage.intersection(unit.subtopologies) and later.isdisjoint(unit.subtopologies):
                    self._run_unit(writer, found, unit)
        return found

    def _run_tasks(self, found: _Computed, stage: Collection[int], name: str) -> None:
        tasks = self._tasks(set(stage).difference(found.manifest.frames))
        if not tasks:
            return
        cut = self._cut(found.manifest, tasks)
        committed = self._progress(found.manifest, cut)
        self._note_earlier(found, tasks, committed)
        waiting = [
            task
            for task in tasks
            if any(committed[p].offset < cut[p] for p in self._application.plan.inputs[task])
        ]
        self._listener.step(f"{name}: {len(waiting)} of {len(tasks)} tasks")
        if not waiting:
            return
        with self._watch(found.manifest, cut):
            found.done += self._cluster.run(
                [self._work(found.manifest, task, cut) for task in waiting]
            )
        failpoints.hit("backfill.stage_computed")

    def _note_earlier(
        self,
        found: _Computed,
        tasks: Collection[TaskId],
        committed: Mapping[TopicPartition, CommittedOffset],
    ) -> None:
        inputs, start = self._application.plan.inputs, found.manifest.start
        found.earlier.update(
            task
            for task in tasks
            if any(committed[p].offset > start.get(p, 0) for p in inputs[task])
        )

    def _run_unit(self, writer: ManifestWriter, found: _Computed, unit: Unit) -> None:
        """Compute sub-topologies as DataFrames, else by their tasks."""
        application, manifest = self._application, found.manifest
        names = ", ".join(map(str, unit.subtopologies))
        tasks = self._tasks(unit.subtopologies)
        cut = self._cut(manifest, tasks)
        committed = self._progress(manifest, cut)
        self._note_earlier(found, tasks, committed)
        if all(committed[p].offset == cut[p] for p in cut):
            return
        self._listener.step(f"sub-topologies {names}: as DataFrames")
        work = units.work_of(unit, application, self._settings, manifest, cut)
        group = reading_group(application.id, manifest.generation)
        tell = self._listener.progress
        with with_reading(application.admin, group, work.partitions, tell) as tell_both:
            done = self._cluster.compute(work, tell_both)
        if not done.trouble:
            application.commit(
                progress_group(application.id, manifest.generation), units.offsets_of(done, cut)
            )
            found.done += done.tasks
            failpoints.hit("backfill.stage_computed")
            return
        self._listener.step(f"sub-topologies {names}: by their tasks after all: {done.trouble}")
        log.warning("sub-topologies %s are left to StreamTasks: %s", names, done.trouble)
        left = tuple(n for n in manifest.frames if n not in unit.subtopologies)
        found.manifest = writer.write(replace(manifest, frames=left))
        for stage in self._stages:
            members = stage.intersection(unit.subtopologies)
            if members:
                self._run_tasks(found, members, f"sub-topologies {names}")

    def _cut(self, manifest: Manifest, tasks: Collection[TaskId]) -> dict[TopicPartition, int]:
        """Where the inputs of tasks end; repartition topics where their writers have left them."""
        inputs = {p for task in tasks for p in self._application.plan.inputs[task]}
        written = [p for p in inputs if p not in manifest.cut]
        return {
            **{p: manifest.cut[p] for p in inputs if p in manifest.cut},
            **self._application.settled_ends(written),
        }

    def _progress(
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

    def _watch(self, manifest: Manifest, cut: Mapping[TopicPartition, int]) -> Watch:
        def committed() -> dict[TopicPartition, int]:
            return {p: found.offset for p, found in self._progress(manifest, cut).items()}

        start = {p: manifest.start.get(p, 0) for p in cut}
        return Watch(Committed(committed, start=start, goal=cut), self._listener.progress)

    def _work(
        self, manifest: Manifest, task: TaskId, cut: Mapping[TopicPartition, int] | None = None
    ) -> TaskWork:
        return TaskWork(
            task=task,
            config=self._settings.config,
            topology=self._settings.topology,
            import_path=self._settings.import_path,
            generation=manifest.generation,
            attempt=manifest.attempt,
            clock_ms=manifest.begun_ms,
            cut={} if cut is None else {p: cut[p] for p in self._application.plan.inputs[task]},
            start=manifest.start,
            outputs=Outputs(manifest.outputs),
            waiting=self._application.waiting.get(task),
        )

    def _write_latest(self, manifest: Manifest) -> None:
        """Write the last outputs of all tasks, if that is what was asked for."""
        waiting = self._application.waiting
        if not waiting:
            return
        ends = self._application.settled_ends(waiting.values())
        committed = self._progress(manifest, ends)
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

    # -- commit ----------------------------------------------------------------------------------

    def _write_written(self, writer: ManifestWriter, manifest: Manifest) -> Manifest:
        gate.check_partitions(self._application, manifest)
        ends = self._application.settled_ends(self._application.changelogs)
        written = writer.write(replace(manifest, state=BackfillState.WRITTEN, ends=ends))
        failpoints.hit("backfill.written")
        return written

    def _commit(self, manifest: Manifest) -> dict[TopicPartition, int]:
        """Commit the offsets of all partitions at once: from here on workers may go on.

        Returns:
            Where they go on.

        Raises:
            BackfillError: somebody has committed other offsets meanwhile.
            GroupInUseError: the group has members now.
        """
        application = self._application
        self._listener.step("committing the offsets")
        cut = self._cut(manifest, application.plan.tasks)
        progress = self._progress(manifest, cut)
        wanted = {p: (found.offset, found.metadata) for p, found in progress.items()}
        behind = [p for p, (offset, _) in wanted.items() if offset != cut[p]]
        if behind:
            raise BackfillError(
                f"the tasks' group is not at the cut of {behind[0]} (and {len(behind) - 1} more): "
                "somebody else writes to the application's topics, or commits for the backfill; "
                "stop them, give it up with --abort and begin another one"
            )
        found = application.admin.committed(application.id, cut)
        committed = {p: (one.offset, one.metadata) for p, one in found.items()}
        if committed == wanted:
            return cut
        if committed:
            raise BackfillError(
                f"somebody has committed offsets of group {application.id} while the backfill ran, "
                "so its state may be mixed with theirs; stop whoever runs the application, give "
                "this backfill up with --abort and begin another one"
            )
        gate.check_nobody_runs(application)
        application.commit(
            application.id,
            [
                PartitionOffsets(partition=p, offset=offset, metadata=metadata)
                for p, (offset, metadata) in wanted.items()
            ],
        )
        return cut

    def _tidy(self, manifest: Manifest, committed: Mapping[TopicPartition, int]) -> None:
        """Delete what nobody needs any more; what fails here costs a little space only.

        Workers may have begun: what lies beyond the committed offsets is theirs.
        """
        application = self._application
        read = {p: at for p, at in committed.items() if p.topic in application.repartition_topics}
        try:
            for purge in application.admin.delete_records(read):
                purge.exception(application.timeout_s)
            application.admin.delete_topics({p.topic for p in application.waiting.values()})
            application.admin.delete_group(progress_group(application.id, manifest.generation))
        except (HeadwaterError, TimeoutError) as error:
            log.warning("tidying up after backfill %s: %s", manifest.generation, error)
