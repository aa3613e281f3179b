"""What an embedded application runs: planned from its topics at the start, and again later.

A control loop has its workers look the topics up now and then; a program looks by itself. Java does
so in a rebalance, which ``metadata.max.age.ms`` brings about.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from headwater.errors import GroupInUseError, MissingTopicError, PartitionMismatchError
from headwater.model import partitions

if TYPE_CHECKING:
    from headwater.ids import TaskId
    from headwater.model.topics import TopologyReport
    from headwater.service.duties import Duties

log = logging.getLogger(__name__)

_MISSING_ANSWERS: Final = 2
"""A broker that has just started may not know all topics yet: believe the second answer."""


class TopicPlan:
    """The tasks of an application, as its topics have them.

    Args:
        duties: asked about topics.
        report: of the topology.
    """

    def __init__(self, duties: Duties, report: TopologyReport) -> None:
        self._duties = duties
        self._report = report
        self._missing = 0
        self.tasks: tuple[TaskId, ...] = ()
        """Every task there is, sorted."""

    def prepare(self) -> None:
        """Plan for the first time, and create the internal topics that do not exist.

        Raises:
            MissingTopicError: a source topic does not exist.
            ChangelogLostError: a changelog does not exist although its records were read.
            PartitionMismatchError: topics do not have the partitions that the topology needs.
        """
        found = self._duties.partitions(partitions.topics_to_describe(self._report))
        plan = partitions.plan(self._report, found)
        missing = plan.missing_topics(found)
        self._duties.check_changelogs(self._report, missing)
        self._duties.create_topics(missing)
        self.tasks = plan.tasks

    def look_again(self) -> bool:
        """Plan again; return whether there are more tasks now.

        Tasks are never taken away: a broker may answer from before partitions were added. Of a
        topic that was deleted, the StreamThreads that use it tell.

        Raises:
            MissingTopicError: a source topic does not exist any more.
            PartitionMismatchError: topics do not have the partitions that the topology needs any
                more; the records that wait in unread partitions are counted.
        """
        found = self._duties.partitions(partitions.topics_to_describe(self._report))
        try:
            plan = partitions.plan(self._report, found)
        except MissingTopicError:
            self._missing += 1
            if self._missing >= _MISSING_ANSWERS:
                raise
            return False
        except PartitionMismatchError as error:
            waiting = self._duties.unread(partitions.external_topics(self._report))
            raise PartitionMismatchError(partitions.with_unread(str(error), waiting)) from error
        self._missing = 0
        added = sorted(set(plan.tasks) - set(self.tasks))
        if added:
            self.tasks = tuple(sorted({*self.tasks, *added}))
            log.info("partitions were added; new tasks: %s", ", ".join(map(str, added)))
        return bool(added)


def partitions_of(duties: Duties, report: TopologyReport) -> dict[int, int]:
    """Return how many partitions, and so tasks, each sub-topology has.

    Raises:
        KafkaUnavailableError: no broker answers.
        MissingTopicError: a source topic does not exist.
        PartitionMismatchError: topics do not have the partitions that the topology needs.
    """
    found = duties.partitions(partitions.topics_to_describe(report))
    counts: dict[int, int] = {}
    for task in partitions.plan(report, found).tasks:
        counts[task.subtopology] = max(counts.get(task.subtopology, 0), task.partition + 1)
    return counts


def check_group(duties: Duties, group: str) -> None:
    """Make sure that nobody is a member of the consumer group.

    Raises:
        GroupInUseError: somebody is.
        BackfillUnfinishedError: a backfill has loaded the state only in part.
        EngineError: the application runs on Spark.
    """
    members = duties.members(group)
    if members:
        raise GroupInUseError(
            f"the consumer group {group} has members: {', '.join(map(str, members))}; stop that "
            "application (Java stays a member for up to 45 s after its end), then start again"
        )
