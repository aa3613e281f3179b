"""The driver of a backfill. Each step may be repeated, so a driver that is killed is run again.

    gate ─► Prepared: cut ─► clean ─► Prepared: topics ─► compute ─► Written ─► commit ─► Committed
            └────── a driver that finds one of these goes on from there ──────┘

See ``docs/adr/0039-what-a-backfill-is.md``.
"""

from __future__ import annotations

import logging
import time
import uuid
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

from headwater import failpoints
from headwater.errors import BackfillError, HeadwaterError
from headwater.kafka.driver_topic import GroupOffsets
from headwater.kafka.manifest import ManifestGate
from headwater.model.backfill import BackfillState, Manifest
from headwater.ports import PartitionOffsets
from headwater.spark import gate
from headwater.spark.aborting import give_up
from headwater.spark.application import BEGINNING, Application
from headwater.spark.computation import Computation, Computed
from headwater.spark.manifests import ManifestWriter
from headwater.spark.report import BackfillPlan, BackfillReport
from headwater.spark.work import progress_group, transactional_id
from headwater.wire.offset_metadata import OffsetMetadata, encode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headwater.ids import TopicPartition
    from headwater.spark.application import BackfillSettings
    from headwater.spark.driving import Cluster, Listener

log = logging.getLogger(__name__)


class Backfill:
    """One run of the driver.

    Args:
        settings: what it is told.
        cluster: runs the tasks.
        listener: hears how it comes on.

    Raises:
        ConfigError: an option is wrong or missing.
        ImportPathError: the topology cannot be had.
        TopologyError: the topology breaks a rule.
    """

    def __init__(self, settings: BackfillSettings, cluster: Cluster, listener: Listener) -> None:
        self._settings = settings
        self._cluster = cluster
        self._listener = listener
        self._application = Application(settings.application, outputs=settings.outputs)
        self.is_under_way = False
        """Whether there is an unfinished backfill, as far as this driver has come."""
        self._gate = ManifestGate(self._application.access)

    @cached_property
    def _computation(self) -> Computation:
        """What is not needed to give a backfill up, whatever has become of the topology."""
        return Computation(self._settings, self._application, self._cluster, self._listener)

    # -- what the command does -------------------------------------------------------------------

    def plan(self) -> BackfillPlan:
        """Check everything and say what would be done, without doing any of it.

        Raises:
            HeadwaterError: why it cannot be done.
        """
        application, computation = self._application, self._computation
        gate.check_calls(application)
        application.admin.check_reachable(application.timeout_s)
        gate.check_nobody_runs(application, fences=False)
        gate.check_workers_have_it(application)
        found = self._left()
        gate.check_outputs(application, self._settings.outputs)
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
            stages=computation.tasks,
            made_anew=() if found.topic_ids else tuple(sorted(existing)),
            frames=found.frames,
        )

    def run(self) -> BackfillReport:
        """Backfill, or go on with what an earlier driver has left.

        Raises:
            GroupInUseError: the application runs.
            BackfillError: it cannot begin, or cannot go on.
            FencedError: another driver has taken over.
            TopologyError: the topology cannot be backfilled.
            HeadwaterError: why a task cannot reach the cut.
        """
        began = time.monotonic()
        application, computation = self._application, self._computation
        gate.check_calls(application)
        self._listener.step("looking whether anybody runs the application")
        application.admin.check_reachable(application.timeout_s)
        gate.check_nobody_runs(application)
        record = gate.check_workers_have_it(application)
        left = self._left()
        gate.check_outputs(application, self._settings.outputs)
        if left is None or left.state is not BackfillState.WRITTEN:
            self._listener.step("starting Spark and making sure that tasks can run")
            self._cluster.prepare()
        new = None if left is not None and left.is_unfinished else self._new_manifest()
        writer = ManifestWriter(application.access)
        manifest = self._begin(writer, new)
        # Nobody begins any more; who has begun, and is frozen, is shut out.
        application.duties.fence({*self._settings.worker_ids, *record.workers})
        failpoints.hit("backfill.fenced")
        computed = Computed(manifest=manifest, earlier=set(application.plan.tasks))
        if manifest.state is BackfillState.PREPARED:
            if not manifest.topic_ids:
                manifest = self._clean(writer, manifest)
            computed = computation.run(writer, manifest)
            manifest = computed.manifest
            computation.write_latest(manifest)
            manifest = self._write_written(writer, manifest)
        # A task that begins from here on refuses; one that has begun, and is frozen, is shut out.
        application.duties.fence([transactional_id(application.id, t) for t in manifest.tasks])
        manifest, committed = self._commit(writer, manifest)
        self._tidy(manifest, committed)
        done = computed.done
        self.is_under_way = False
        return BackfillReport(
            application_id=application.id,
            manifest=manifest,
            tasks=tuple(done.values()),
            earlier=len(computed.earlier | {one.task for one in done.values() if one.went_on}),
            took_s=time.monotonic() - began,
        )

    def abort(self) -> bool:
        """Give up an unfinished backfill: the application begins as after a reset.

        Returns:
            Whether there was one.

        Raises:
            GroupInUseError: the application runs.
        """
        return give_up(self._application, self._gate, self._listener.step)

    # -- prepare ---------------------------------------------------------------------------------

    def _left(self) -> Manifest | None:
        """Read what an earlier driver has left; what that one reads by pattern stays as it is."""
        found = self._gate.read()
        if found is not None and found.is_unfinished:
            self._application.keep_to({partition.topic for partition in found.cut})
        return found

    def _new_manifest(self) -> Manifest:
        """Return what a backfill that begins now would read.

        Raises:
            BackfillError: its state would lack something.
        """
        application = self._application
        start = gate.first_offsets(application, self._settings)
        cut = gate.cut_offsets(application, self._settings, start)
        gate.check_not_empty(application, self._settings, start, cut)
        manifest = Manifest(
            generation=uuid.uuid4().hex[:12],
            attempt=1,
            state=BackfillState.PREPARED,
            topology=application.report.hash,
            begun_ms=time.time_ns() // 1_000_000,
            outputs=self._settings.outputs.value,
            start=start,
            cut=cut,
            tasks=tuple(sorted(map(str, application.plan.tasks))),
            frames=self._computation.frames,
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
            self.is_under_way = True
            manifest = writer.write(replace(found, attempt=found.attempt + 1))
            gate.check_workers_have_it(self._application)
            return manifest
        new = new or self._new_manifest()
        self._listener.step(f"beginning backfill {new.generation}")
        self.is_under_way = True
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
        frames = self._computation.frames
        gate.check_fits(self._application, self._settings, found, frames)
        if found.topic_ids:
            gate.check_topics(self._application, found)

    def _clean(self, writer: ManifestWriter, manifest: Manifest) -> Manifest:
        """Make all internal topics anew, so that nothing old is mixed with what is computed."""
        application = self._application
        names = application.internal_topics
        self._listener.step(f"making {len(names)} internal topics anew")
        # The old offsets mean nothing without the old state, so they go first.
        self._gate.check_driver(manifest.generation, manifest.attempt)
        application.admin.delete_group(application.id)
        before = application.admin.describe_topics(names)
        self._gate.check_driver(manifest.generation, manifest.attempt)
        application.delete_topics(names)
        made = application.duties.create_topics(application.topics_to_make)
        old = {topic.topic_id for topic in before.values()}
        kept = [name for name, topic in made.items() if topic.topic_id in old]
        if kept:
            raise BackfillError(
                f"topics {', '.join(kept)} were not deleted; run the backfill again"
            )
        begin = encode(OffsetMetadata())
        offsets = [
            PartitionOffsets(partition=p, offset=manifest.start.get(p, 0), metadata=begin)
            for p in (*application.inputs, *application.waiting.values())
        ]
        topic_ids = {name: topic.topic_id for name, topic in made.items()}
        return writer.write(
            replace(manifest, topic_ids=topic_ids),
            offsets=GroupOffsets(progress_group(application.id, manifest.generation), offsets),
            last_look=partial(failpoints.hit, "backfill.cleaned"),
        )

    # -- commit ----------------------------------------------------------------------------------

    def _write_written(self, writer: ManifestWriter, manifest: Manifest) -> Manifest:
        gate.check_partitions(self._application, manifest)
        gate.check_topics(self._application, manifest)
        # Before it is Written, a task that is not where it should be is run again.
        cut = self._computation.cut(manifest, self._application.plan.tasks)
        self._computation.check_complete(manifest, cut)
        ends = self._application.settled_ends(self._application.changelogs)
        written = writer.write(replace(manifest, state=BackfillState.WRITTEN, ends=ends))
        failpoints.hit("backfill.written")
        return written

    def _commit(
        self, writer: ManifestWriter, manifest: Manifest
    ) -> tuple[Manifest, dict[TopicPartition, int]]:
        """Commit the offsets of all partitions and say so, at once: from here on workers may go on.

        Returns:
            The manifest, and where workers go on.

        Raises:
            BackfillError: somebody has committed other offsets meanwhile.
            FencedError: another driver has taken over; nothing was committed.
            GroupInUseError: the group has members now.
        """
        application = self._application
        self._listener.step("committing the offsets")
        cut = self._computation.cut(manifest, application.plan.tasks)
        progress = self._computation.check_complete(manifest, cut)
        wanted = {p: (found.offset, found.metadata) for p, found in progress.items()}
        found = application.admin.committed(application.id, cut)
        committed = {p: (one.offset, one.metadata) for p, one in found.items()}
        if committed not in ({}, wanted):
            raise BackfillError(
                f"somebody has committed offsets of group {application.id} while the backfill ran, "
                "so its state may be mixed with theirs; stop every program that runs the "
                "application, give this backfill up with --abort and begin another one"
            )
        offsets = [
            PartitionOffsets(partition=p, offset=offset, metadata=metadata)
            for p, (offset, metadata) in wanted.items()
        ]

        def last_look() -> None:
            # Whoever joins the group after this has to wait for the offsets.
            gate.check_nobody_runs(application)
            failpoints.hit("backfill.offsets_added")

        written = writer.write(
            replace(manifest, state=BackfillState.COMMITTED),
            offsets=GroupOffsets(application.id, offsets),
            last_look=last_look,
        )
        failpoints.hit("backfill.committed")
        return written, cut

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
