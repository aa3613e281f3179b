"""What the driver of a backfill does for units: chooses, describes the work, commits how far."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.errors import ConfigError
from headwater.ids import TopicPartition
from headwater.model.reporting import changelog_topic, decorate
from headwater.ports import PartitionOffsets
from headwater.spark.frames.choose import check_all_known, choose, tasks_only
from headwater.spark.frames.computing import UnitWork
from headwater.spark.frames.load import LoadWork
from headwater.spark.frames.reading import reading_group
from headwater.spark.frames.rows import PartitionWork
from headwater.spark.outputs import Outputs
from headwater.wire.offset_metadata import OffsetMetadata, encode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headwater.model.backfill import Manifest
    from headwater.spark.application import Application, BackfillSettings
    from headwater.spark.frames.computing import UnitDone
    from headwater.spark.frames.plan import Translation, Unit


def translation_of(application: Application, settings: BackfillSettings) -> Translation:
    """Return what is computed how.

    Raises:
        ConfigError: there is no such target.
        TopologyError: all is to be DataFrames, and something cannot.
    """
    if settings.target not in {"auto", "t1", "t2"}:
        raise ConfigError(f"target {settings.target!r}: expected auto, t1 or t2")
    if settings.target == "t1":
        return tasks_only(application.topology, "asked for")
    found = choose(
        application.topology,
        application.config,
        wants_outputs=settings.outputs is not Outputs.NONE,
    )
    if settings.target == "t2":
        check_all_known(found)
    return found


def units_of(translation: Translation, manifest: Manifest) -> tuple[Unit, ...]:
    """Return the units that the backfill was begun with and that have not fallen back."""
    kept = set(manifest.frames)
    return tuple(unit for unit in translation.units if kept.issuperset(unit.subtopologies))


def numbers_of(translation: Translation) -> tuple[int, ...]:
    """Return the sub-topologies that are computed as DataFrames."""
    return tuple(sorted(number for unit in translation.units for number in unit.subtopologies))


def work_of(
    unit: Unit,
    application: Application,
    settings: BackfillSettings,
    manifest: Manifest,
    cut: Mapping[TopicPartition, int],
) -> UnitWork:
    """Return all that whoever computes a unit is told."""
    plan = application.plan
    tasks = tuple(sorted(task for task in plan.tasks if task.subtopology in unit.subtopologies))
    reads = []
    for number, read in enumerate(unit.reads):
        topic = _name(application, read.topic)
        for task in tasks:
            partition = TopicPartition(topic, task.partition)
            if task.subtopology != read.subtopology or partition not in plan.inputs[task]:
                continue
            reads.append(
                PartitionWork(
                    read=read,
                    number=number,
                    only_counts=unit.only_counts(read),
                    partition=partition,
                    start=manifest.start.get(partition, 0),
                    cut=cut[partition],
                    config=settings.application.config,
                    group=reading_group(application.id, manifest.generation),
                )
            )
    topics = {
        topic: tuple(
            TopicPartition(_name(application, topic), task.partition)
            for task in tasks
            if task.subtopology == reader
            and TopicPartition(_name(application, topic), task.partition) in plan.inputs[task]
        )
        for topic, reader in unit.shuffles.items()
    }
    return UnitWork(
        unit=unit,
        partitions=tuple(reads),
        topics=topics,
        load=LoadWork(
            tasks=tasks,
            changelogs=tuple(
                changelog_topic(application.id, output.store) for output in unit.outputs
            ),
            config=settings.application.config,
            generation=manifest.generation,
            attempt=manifest.attempt,
        ),
    )


def offsets_of(done: UnitDone, cut: Mapping[TopicPartition, int]) -> list[PartitionOffsets]:
    """Return what tasks that have reached the cut would have committed."""
    return [
        PartitionOffsets(
            partition=partition,
            offset=cut[partition],
            metadata=encode(OffsetMetadata(partition_time=latest)),
        )
        for partition, latest in sorted(done.times.items())
    ]


def _name(application: Application, topic: str) -> str:
    is_internal = topic in application.topology.repartition_topics
    return decorate(application.id, topic) if is_internal else topic
