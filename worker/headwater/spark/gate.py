"""What must be true before a backfill begins: nobody runs, and all that is to be read is there."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from headwater.errors import (
    BackfillError,
    ConfigError,
    EngineError,
    GroupInUseError,
    InstanceRunningError,
)
from headwater.kafka.engine import EngineRecords
from headwater.kafka.manifest import runs_elsewhere, time_of
from headwater.kafka.settings import consumer_settings
from headwater.model.lifecycle import Engine
from headwater.model.nodes import ProcessorNode
from headwater.model.operators.asynchronous import (
    ForEachAsync,
    MapValuesAsync,
    ProcessValuesAsync,
)
from headwater.processor.operators.asynchronous import check_transaction
from headwater.service.owner import OwnerRecord, owner_topic, where
from headwater.spark.again import gaps, read_again
from headwater.spark.application import BEGINNING, EARLIEST
from headwater.spark.outputs import Outputs
from headwater.spark.reader import ReaderToCut

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from headwater.ids import TopicPartition
    from headwater.kafka.admin import Admin
    from headwater.model.backfill import Manifest
    from headwater.model.engine import EngineRecord
    from headwater.spark.again import Gap
    from headwater.spark.application import Application, BackfillSettings

_CALLING: Final = (MapValuesAsync, ProcessValuesAsync, ForEachAsync)
_POLL_S: Final = 0.1


def check_nobody_runs(
    application: Application, again: str = "run the backfill again", *, fences: bool = True
) -> None:
    """Make sure that neither a member of the group nor an embedded instance is there.

    Args:
        application: which.
        again: what to do when nobody runs it any more.
        fences: what an embedded instance that has ended may have left behind is fenced.

    Raises:
        GroupInUseError: the group has members.
        InstanceRunningError: a program runs the application.
    """
    check_group(application.admin, application.id, again)
    topic = owner_topic(application.id)
    if topic not in application.admin.describe_topics([topic]):
        return
    record = OwnerRecord(application.config, client_id=application.client_id, transactional_ids=())
    try:
        owner = record.read()
        if owner is None:
            return
        if not record.has_ended(owner):
            raise InstanceRunningError(
                f"a program runs {application.id} ({where(owner)}); close it, then {again}"
            )
        if fences:
            application.duties.fence(owner.transactional_ids)
    finally:
        record.close()


def check_group(admin: Admin, group: str, again: str) -> None:
    """Make sure that nobody is in the consumer group.

    Args:
        admin: asks the broker.
        group: whose id is the application's.
        again: what to do when nobody is there any more.

    Raises:
        GroupInUseError: somebody is.
        KafkaUnavailableError: nobody knows.
    """
    members = admin.group_members(group)
    if members:
        raise GroupInUseError(
            f"the consumer group {group} has members: {', '.join(map(str, members))}; "
            "stop that application (Java stays a member for up to 45 s after its end), then "
            f"{again}"
        )


def check_workers_have_it(application: Application) -> EngineRecord:
    """Make sure that the application is the workers', who are to go on after the backfill.

    Returns:
        What Kafka says about it; there are workers' ids in it that are to be fenced.

    Raises:
        EngineError: it runs on Spark, or is being taken over, as far as Kafka knows.
    """
    record = EngineRecords(application.access).read()
    if refusal := refusal_of(record, application.id):
        raise EngineError(refusal)
    return record


def refusal_of(record: EngineRecord, application_id: str) -> str:
    """Return why no backfill begins under a record, and what to do; empty if one may. Pure."""
    if record.holder is Engine.NATIVE:
        return ""
    if record.holder is None:
        return runs_elsewhere(record, application_id)
    return (
        f"no backfill of {application_id}: {record.engine.value} has had it since "
        f"{time_of(record.since_ms)} (generation {record.generation}), and workers are to go on "
        "after a backfill. End its driver if one still runs; start `headwater up` with spec.engine "
        "Native, which takes it back; when it is RUNNING, end that, too, and run the backfill again"
    )


def check_calls(application: Application) -> None:
    """Refuse functions that wait longer than a transaction: every task of Spark has one.

    Asked before anything is changed; a worker without transactions lets such calls take their time.

    Raises:
        ConfigError: a node may wait longer.
    """
    for node in application.topology.nodes.values():
        if isinstance(node, ProcessorNode) and isinstance(node.operator, _CALLING):
            check_transaction(node.operator.calls, node.name, application.config)


def check_outputs(application: Application, outputs: Outputs) -> None:
    """Refuse to write what the application would then read.

    Raises:
        ConfigError: a topic that it writes to is one of its sources.
    """
    if outputs is Outputs.NONE:
        return
    read = {partition.topic for partition in application.sources}
    both = sorted(
        read & {topic for found in application.report.subtopologies for topic in found.sink_topics}
    )
    if both:
        raise ConfigError(
            f"--outputs {outputs.value}: {application.id} reads {', '.join(both)}, which it writes "
            "to as well, so what the backfill writes there would be counted again; use "
            "--outputs none"
        )


def check_read_again(application: Application, manifest: Manifest) -> None:
    """Make sure that what is read of the application's own outputs is what the state needs.

    To be asked before a backfill begins: it deletes the offsets of the workers.

    Raises:
        BackfillError: outputs that are read again would be missing, or be made twice.
        KafkaUnavailableError: nobody knows.
    """
    behind = read_again(application.matched)
    topics = frozenset[str]().union(*behind.values())
    partitions = [p for p in application.inputs if p.topic in topics]
    if not partitions:
        return
    internal = [p for p in partitions if p not in manifest.cut]
    there = application.admin.describe_topics({p.topic for p in internal})
    ends = {
        **manifest.cut,
        **dict.fromkeys(internal, 0),
        **application.admin.end_offsets([p for p in internal if p.topic in there]),
    }
    found = application.admin.committed(application.id, partitions)
    committed = {p: one.offset for p, one in found.items()}
    for topic, sources in behind.items():
        chosen = [p for p in partitions if p.topic in sources]
        for gap in gaps(chosen, committed=committed, start=manifest.start, ends=ends):
            if gap.processed > gap.end or _holds_records(application, gap):
                raise BackfillError(
                    f"{application.id} writes to {topic} and reads it again, but outputs are not "
                    f"written: {_told(gap, topic, until=manifest.until)}"
                )


def _holds_records(application: Application, gap: Gap) -> bool:
    """Look whether there is anything but the ends of transactions, as its workers would."""
    earliest = application.admin.earliest_offsets([gap.partition])[gap.partition]
    access = application.access
    consumer = ReaderToCut(
        consumer_settings(access.config, access.connection, client_id=f"{access.client_id}-look"),
        access.connection,
        cut={gap.partition: gap.end},
    )
    try:
        consumer.assign({gap.partition: max(gap.processed, earliest)})
        deadline = time.monotonic() + application.timeout_s
        while not consumer.poll(_POLL_S):
            if consumer.is_at_cut:
                return False
            if time.monotonic() > deadline:
                raise access.connection.problem(f"reading {gap.partition}")
        return True
    finally:
        consumer.close()


def _told(gap: Gap, topic: str, *, until: int | None) -> str:
    """Say what is wrong with an output that is read again, and what to do."""
    if gap.processed > gap.end:
        made_anew = f"{gap.partition.topic} was made anew, so reset the application"
        return (
            f"workers have processed {gap.partition} up to offset {gap.processed}, the backfill "
            f"would end at {gap.end}, and workers would then write to {topic} once more what comes "
            f"of the records between; {made_anew if until is None else 'leave out --to'}"
        )
    return (
        f"workers have processed {gap.partition} up to offset {gap.processed}, the backfill would "
        f"end at {gap.end}, and what comes of the records between would never be in {topic}, nor "
        "in the state that is made of it. Run the workers until they have read everything, end "
        f"them, and run the backfill again; or let an application of its own write to {topic}, so "
        "that this one only reads it"
    )


def check_partitions(application: Application, manifest: Manifest) -> None:
    """Make sure that no partition has come that the backfill does not read.

    Raises:
        BackfillError: one has; workers would read it without the state that belongs to it.
    """
    topics = {partition.topic for partition in manifest.cut}
    for topic, count in application.duties.partitions(topics).items():
        known = sum(partition.topic == topic for partition in manifest.cut)
        if count != known:
            raise BackfillError(
                f"topic {topic} has {count} partitions, and had {known} when backfill "
                f"{manifest.generation} of {application.id} began; keys may be in other partitions "
                "now. Give it up with --abort and begin another one"
            )


def first_offsets(
    application: Application, settings: BackfillSettings
) -> dict[TopicPartition, int]:
    """Return where each source partition is read from.

    Where nothing else is asked for, ``auto.offset.reset`` by duration says how far to look back, as
    it does for workers that have committed nothing.

    Raises:
        BackfillError: it is to be read from the beginning, and the beginning is gone.
    """
    sources = application.sources
    earliest = application.admin.earliest_offsets(sources)
    if settings.since == EARLIEST:
        return earliest
    if settings.since is None or settings.since == BEGINNING:
        durations = {} if settings.since == BEGINNING else application.durations_ms
        recent = _since_durations(application, durations)
        gone = [f"{p} begins at {earliest[p]}" for p in sources if earliest[p] and p not in recent]
        if gone:
            raise BackfillError(
                f"retention has deleted the first records: {', '.join(gone)}; the state would lack "
                "them. Give --from earliest to build it from what is left"
            )
        return earliest | recent
    return _since(application, sources, int(settings.since))


def _since_durations(
    application: Application, durations: Mapping[str, int]
) -> dict[TopicPartition, int]:
    """Return where the partitions of topics begin of which only so many milliseconds count."""
    now_ms = time.time_ns() // 1_000_000
    found: dict[TopicPartition, int] = {}
    for topic, duration_ms in durations.items():
        partitions = [p for p in application.sources if p.topic == topic]
        found |= _since(application, partitions, max(0, now_ms - duration_ms))
    return found


def _since(
    application: Application, partitions: Collection[TopicPartition], time_ms: int
) -> dict[TopicPartition, int]:
    """Return the first records of a time or a later one; the ends where there are none."""
    found = application.admin.offsets_at(partitions, time_ms)
    ends = application.admin.end_offsets(partitions)
    return {p: ends[p] if (offset := found[p]) is None else offset for p in partitions}


def cut_offsets(
    application: Application, settings: BackfillSettings, start: dict[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Return up to where each source partition is read: what is committed now, or what is older."""
    ends = application.admin.end_offsets(application.sources, committed_only=True)
    if settings.until is not None:
        found = application.admin.offsets_at(application.sources, settings.until)
        ends = {p: min(end, end if (at := found[p]) is None else at) for p, end in ends.items()}
    return {partition: max(end, start[partition]) for partition, end in ends.items()}


def check_not_empty(
    application: Application,
    settings: BackfillSettings,
    start: Mapping[TopicPartition, int],
    cut: Mapping[TopicPartition, int],
) -> None:
    """Refuse a range without records of sources that have some: it would empty the state.

    Raises:
        BackfillError: there is no record in the range that the user names.
    """
    is_chosen = isinstance(settings.since, int) or settings.until is not None
    if not is_chosen or any(cut[p] > start[p] for p in start):
        return
    earliest = application.admin.earliest_offsets(start)
    ends = application.admin.end_offsets(list(start), committed_only=True)
    if any(ends[p] > earliest[p] for p in start):
        since = BEGINNING if settings.since is None else settings.since
        until = "" if settings.until is None else f" --to {_where(settings.until)}"
        raise BackfillError(
            f"no record of {application.id} lies within --from {_where(since)}{until}: the state "
            "would be empty; give times that have records between them, or leave both out"
        )


def check_fits(
    application: Application,
    settings: BackfillSettings,
    found: Manifest,
    frames: Collection[int],
) -> None:
    """Make sure that what an earlier driver has left can be gone on with.

    Args:
        application: as it is now.
        settings: what is wanted now.
        found: what was left.
        frames: sub-topologies that can be computed as DataFrames now.

    Raises:
        BackfillError: the topology, the topics or what is wanted have changed.
    """
    changed = ""
    if found.topology != application.report.hash:
        changed = "the topology is another one"
    elif found.cut.keys() != set(application.sources):
        changed = "a source topic has other partitions"
    elif found.outputs != settings.outputs:
        changed = f"it was begun with --outputs {found.outputs}"
    elif not set(found.frames) <= set(frames):
        numbers = ", ".join(map(str, found.frames))
        changed = (
            f"sub-topologies {numbers} were begun as DataFrames, which --target or the "
            "topology now rules out"
        )
    else:
        changed = _other_range(settings, found)
    if changed:
        raise BackfillError(
            f"backfill {found.generation} of {application.id} has not finished, and cannot be "
            f"gone on with: {changed}. Go back to what it was begun with, or give it up with "
            "--abort and begin another one"
        )


def _other_range(settings: BackfillSettings, found: Manifest) -> str:
    """Say what is asked for that is not what was begun; what is not given is as it was begun."""
    if found.since is None:
        # Begun by a version that did not write it down.
        return ""
    if settings.since not in {None, found.since}:
        return (
            f"it was begun with --from {_where(found.since)}, and is now asked for "
            f"--from {_where(settings.since)}"
        )
    if settings.until not in {None, found.until}:
        begun = "without --to" if found.until is None else f"with --to {_where(found.until)}"
        return f"it was begun {begun}, and is now asked for --to {_where(settings.until)}"
    return ""


def _where(given: str | int | None) -> str:
    if not isinstance(given, int):
        return str(given)
    return datetime.fromtimestamp(given / 1000, UTC).isoformat().replace("+00:00", "Z")


def check_topics(application: Application, manifest: Manifest) -> None:
    """Make sure that the internal topics are those that were made for this backfill.

    Raises:
        BackfillError: one is gone, or another one.
    """
    found = application.admin.describe_topics(manifest.topic_ids)
    for name, topic_id in manifest.topic_ids.items():
        if name not in found or found[name].topic_id != topic_id:
            raise BackfillError(
                f"topic {name} is not the one that backfill {manifest.generation} has made: "
                "somebody has deleted it. Give the backfill up with --abort and begin another one"
            )
