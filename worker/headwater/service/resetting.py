"""Carries out a reset: reads the offsets, deletes what the application has, commits new offsets.

    read offsets and choose ─► delete group ─► delete topics ─► create topics ─► commit offsets

It may be killed between any two steps and is then carried out again from the beginning. All that
does not depend on committed offsets comes out the same. Shifted offsets are committed with a mark,
all at once: whoever finds it is done. A shift without offsets to begin with is refused
(``model.resetting``).
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Final

from headwater import failpoints
from headwater.errors import KafkaUnavailableError, MissingTopicError, ResetError
from headwater.ids import TopicPartition
from headwater.model import resetting
from headwater.model.partitions import external_topics
from headwater.model.partitions import plan as plan_of
from headwater.model.patterns import is_pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from headwater.kafka.admin import Admin
    from headwater.model.duties import Reset
    from headwater.model.resetting import Beginning, PlannedOffset
    from headwater.model.topics import InternalTopic, TopologyReport

log = logging.getLogger(__name__)

_PROPAGATION_S: Final = 0.05


def carry_out(
    admin: Admin,
    duty: Reset,
    report: TopologyReport | None,
    create: Callable[[Collection[InternalTopic]], object],
    *,
    timeout_s: float,
) -> tuple[str, ...]:
    """Reset an application as a duty says; return the topics that were deleted.

    Args:
        admin: to the broker.
        duty: what to do.
        report: of the topology; only needed if offsets are to be committed.
        create: creates topics, and returns when the broker shows them.
        timeout_s: for what was deleted to be gone.

    Raises:
        ResetError: the offsets cannot be chosen; nothing was changed.
        TopicError: an input topic does not exist, or the input topics do not fit the topology;
            nothing was changed.
        GroupInUseError: the group has a live member.
        KafkaUnavailableError: Kafka still has some of it after ``timeout_s``.
    """
    beginning = resetting.parse(duty.to)
    plan: tuple[PlannedOffset, ...] = ()
    topics: tuple[InternalTopic, ...] = ()
    if beginning.commits:
        # Beside committed offsets, nobody creates a changelog that is missing: it may be lost.
        topics = _internal_topics(admin, report)
        mark = resetting.mark_of(duty.request)
        plan = offsets_planned(admin, duty.application_id, beginning, duty.input_topics, mark)
        if any(each.is_shifted for each in plan):
            log.info("reset to %s: it was done, and nobody has heard of it", beginning)
            return ()
        for line in resetting.table(plan):
            log.info("reset to %s: %s", beginning, line)
    deadline = time.monotonic() + timeout_s
    admin.delete_group(duty.application_id)
    failpoints.hit("reset.group_deleted")
    deleted = admin.delete_topics(duty.internal_topics)
    while left := _left_of(admin, duty):
        if time.monotonic() > deadline:
            raise KafkaUnavailableError(
                f"the reset is not done: the broker deleted {left}, and has it still; see its log"
            )
        time.sleep(_PROPAGATION_S)
    if plan:
        create(topics)
        failpoints.hit("reset.topics_created")
        commit(admin, duty.application_id, plan)
    failpoints.hit("reset.committed")
    return deleted


def offsets_planned(
    admin: Admin, group: str, beginning: Beginning, inputs: Collection[str], mark: str = ""
) -> tuple[PlannedOffset, ...]:
    """Ask Kafka what it takes, and choose the offset of every input partition.

    Args:
        admin: to the broker.
        group: the application id.
        beginning: what is asked for.
        inputs: the application's input topics, or patterns.
        mark: of this reset.

    Raises:
        ResetError: an offset cannot be chosen.
        MissingTopicError: a topic does not exist.
    """
    described = admin.describe_topics(inputs)
    missing = sorted({name for name in inputs if not is_pattern(name)} - described.keys())
    if missing:
        raise MissingTopicError(
            f"input topic {missing[0]} does not exist, so no offset of it can be committed; create "
            "it first"
        )
    partitions = [
        TopicPartition(name, number)
        for name, topic in sorted(described.items())
        for number in range(topic.partitions)
    ]
    first, end = admin.earliest_offsets(partitions), admin.end_offsets(partitions)
    committed = admin.committed(group, partitions)
    at_ms = beginning.time_ms(int(time.time() * 1000))
    at_time = {} if at_ms is None else admin.offsets_at(partitions, at_ms)
    facts = {
        partition: resetting.PartitionFacts(
            first=first[partition],
            end=end[partition],
            committed=committed[partition].offset if partition in committed else None,
            metadata=committed[partition].metadata if partition in committed else "",
            at_time=at_time.get(partition),
        )
        for partition in partitions
    }
    return resetting.planned(beginning, facts, mark)


def commit(admin: Admin, group: str, plan: Collection[PlannedOffset]) -> None:
    """Commit the offsets of a plan.

    Raises:
        GroupInUseError: the group has a live member.
    """
    admin.alter_offsets(
        group,
        {
            each.partition: (each.offset, each.metadata) if each.metadata else each.offset
            for each in plan
            if each.offset is not None
        },
    )


def _internal_topics(admin: Admin, report: TopologyReport | None) -> tuple[InternalTopic, ...]:
    """Return the internal topics as the input topics ask for them now."""
    if report is None:
        raise ResetError("the topology is not known here: reset the application by its workers")
    described = admin.describe_topics(external_topics(report))
    return plan_of(
        report, {name: found.partitions for name, found in described.items()}
    ).internal_topics


def _left_of(admin: Admin, duty: Reset) -> str:
    # Who asks to delete a group is told whether there is one: that is the surest question.
    if admin.delete_group(duty.application_id):
        return f"the group {duty.application_id}"
    return ", ".join(sorted(admin.describe_topics(duty.internal_topics)))
