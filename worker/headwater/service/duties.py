"""Carries out duties: what needs a Kafka client, done by a worker on behalf of the control loop.

Each is safe to repeat. A result says what was found, never what to do about it.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial
from typing import TYPE_CHECKING, Final, assert_never

from headwater.errors import HeadwaterError, KafkaAuthError, KafkaUnavailableError
from headwater.ids import TopicPartition
from headwater.kafka.access import Access
from headwater.kafka.fencing import fence
from headwater.kafka.manifest import ManifestGate
from headwater.kafka.settings import producer_settings
from headwater.model.duties import (
    CreateTopics,
    DescribeGroup,
    DescribeTopics,
    Duty,
    DutyFailed,
    DutyResult,
    EngineTaken,
    Fence,
    GroupDescribed,
    GroupMember,
    IdsFenced,
    Reset,
    ResetDone,
    TakeEngine,
    TopicsCreated,
    TopicsDescribed,
)
from headwater.native.losses import ChangelogGuard
from headwater.service import resetting
from headwater.service.takeover import TakeOver

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from headwater.config import StreamsConfig
    from headwater.kafka.admin import Admin
    from headwater.kafka.topics import TopicDescription
    from headwater.model.engine import EngineRecord
    from headwater.model.lifecycle import Engine
    from headwater.model.topics import InternalTopic, TopologyReport

log = logging.getLogger(__name__)

_FENCES_AT_ONCE: Final = 8
_PROPAGATION_S: Final = 0.05


class Duties:
    """A worker's Kafka clients for duties; made when first needed.

    Args:
        config: the application's.
        client_id: shown in the broker's logs.
        timeout_s: for one question to the broker; ``request.timeout.ms`` if that is less.
        report: of the topology, for the duty that creates internal topics.
    """

    def __init__(
        self,
        config: StreamsConfig,
        *,
        client_id: str,
        timeout_s: float = 30.0,
        report: TopologyReport | None = None,
    ) -> None:
        self._config = config
        self._report = report
        self._client_id = client_id
        self._timeout_s = min(timeout_s, config.request_timeout_ms / 1000)

    @cached_property
    def access(self) -> Access:
        """The admin client, and what further clients are made with."""
        return Access.of(self._config, client_id=self._client_id, timeout_s=self._timeout_s)

    @property
    def admin(self) -> Admin:
        """The admin client."""
        return self.access.admin

    @cached_property
    def _gate(self) -> ManifestGate:
        return ManifestGate(self.access)

    def carry_out(self, duty: Duty) -> DutyResult:
        """Do what the duty says; a failure is a result as well."""
        try:
            return self._carry_out(duty)
        except HeadwaterError as error:
            log.warning("duty %s (%s) failed: %s", duty.id, duty.KIND, error)
            return DutyFailed(id=duty.id, error=type(error).__name__, message=str(error))

    def _carry_out(self, duty: Duty) -> DutyResult:
        match duty:
            case DescribeTopics():
                found = self.admin.describe_topics(duty.topics)
                return TopicsDescribed(
                    id=duty.id,
                    partitions=_partitions(found),
                    topic_ids=_topic_ids(found),
                    delete_retention_ms=self._delete_retention_ms(found),
                    unread=self.unread(duty.inputs),
                )
            case CreateTopics():
                if self._report is not None:
                    self.check_changelogs(self._report, duty.topics)
                found = self.create_topics(duty.topics)
                return TopicsCreated(
                    id=duty.id,
                    partitions=_partitions(found),
                    topic_ids=_topic_ids(found),
                    delete_retention_ms=self._delete_retention_ms(found),
                )
            case Fence():
                self.fence(duty.transactional_ids)
                return IdsFenced(id=duty.id)
            case DescribeGroup():
                return self._describe_group(duty)
            case Reset():
                return ResetDone(id=duty.id, deleted_topics=self.reset(duty))
            case TakeEngine():
                record = self.take_engine(
                    duty.engine,
                    worker_ids=duty.transactional_ids,
                    tasks=duty.engine_tasks,
                    replaces=duty.replaces,
                )
                return EngineTaken(
                    id=duty.id, engine=record.engine, engine_generation=record.generation
                )
            case _:
                assert_never(duty)

    def reset(self, duty: Reset) -> tuple[str, ...]:
        """Reset the application; return the topics that were deleted (``service.resetting``)."""
        return resetting.carry_out(
            self.admin, duty, self._report, self.create_topics, timeout_s=self._timeout_s
        )

    def _describe_group(self, duty: DescribeGroup) -> GroupDescribed:
        # Another engine is no obstacle to a control loop: it takes over.
        record = self._gate.check_backfill()
        return GroupDescribed(
            id=duty.id,
            members=self.admin.group_members(duty.group),
            engine=record.engine,
            engine_generation=record.generation,
            engine_fenced=record.is_fenced,
        )

    def members(self, group: str) -> tuple[GroupMember, ...]:
        """Return the live members of the application's group.

        Raises:
            BackfillUnfinishedError, EngineError: whoever asks wants to run the application, and
                must not.
        """
        self._gate.check()
        return self.admin.group_members(group)

    def engine(self) -> EngineRecord:
        """Return which engine runs the application.

        Raises:
            BackfillUnfinishedError: a backfill has not ended.
        """
        return self._gate.check_backfill()

    def take_engine(
        self,
        engine: Engine,
        *,
        worker_ids: Collection[str] = (),
        tasks: Collection[str] = (),
        replaces: int | None = None,
    ) -> EngineRecord:
        """Take the application over for an engine, as the duty :class:`TakeEngine` says.

        Raises:
            FencedError: somebody else has taken over meanwhile.
            GroupInUseError: the group has a member.
            KafkaUnavailableError: at least one id is not fenced.
        """
        return TakeOver(self.access, self.fence).carry_out(
            engine,
            worker_ids=worker_ids,
            tasks=tasks,
            replaces=replaces,
        )

    def check_changelogs(self, report: TopologyReport, topics: Collection[InternalTopic]) -> None:
        """Return if those of ``topics`` that do not exist may be created.

        Raises:
            ChangelogLostError: one is a changelog, and the application has read what its state was
                made of: a new one would lack that.
            KafkaUnavailableError: nobody answered.
        """
        guard = ChangelogGuard(self.access, report)
        guard.check_missing([topic.name for topic in topics])

    def create_topics(self, topics: Collection[InternalTopic]) -> dict[str, TopicDescription]:
        """Create what does not exist; return the topics as the broker has them then.

        Raises:
            KafkaUnavailableError: the topics are not known to the broker in time.
        """
        self.admin.create_topics(topics)
        names = [topic.name for topic in topics]
        deadline = time.monotonic() + self._timeout_s
        # A broker that has just accepted a topic may not have heard of it from its controller yet.
        while len(described := self.admin.describe_topics(names)) < len(names):
            if time.monotonic() > deadline:
                missing = ", ".join(sorted(set(names) - described.keys()))
                raise KafkaUnavailableError(
                    f"the broker does not show {missing} although it created it; see its log"
                )
            time.sleep(_PROPAGATION_S)
        return described

    def partitions(self, topics: Collection[str]) -> dict[str, int]:
        """Return the partition counts of the topics that exist."""
        return _partitions(self.admin.describe_topics(topics))

    def unread(self, topics: Collection[str]) -> dict[str, int]:
        """Count the records in partitions for which the group has no committed offset, by topic.

        What cannot be found out is left out.
        """
        try:
            found = self.admin.describe_topics(topics)
            every = [
                TopicPartition(name, number)
                for name, topic in found.items()
                for number in range(topic.partitions)
            ]
            committed = self.admin.committed(self._config.application_id, every)
            unread = [partition for partition in every if partition not in committed]
            first = self.admin.earliest_offsets(unread)
            end = self.admin.end_offsets(unread, committed_only=self._config.exactly_once)
        except HeadwaterError as error:
            log.info("cannot count the records that wait unread: %s", error)
            return {}
        counts: Counter[str] = Counter()
        for partition in unread:
            counts[partition.topic] += end[partition] - first[partition]
        return dict(counts)

    def _delete_retention_ms(self, topics: Iterable[str]) -> dict[str, int]:
        """Return for how long the changelogs among ``topics`` keep tombstones."""
        prefix = f"{self._config.application_id}-"
        changelogs = sorted(
            name for name in topics if name.startswith(prefix) and name.endswith("-changelog")
        )
        try:
            found = self.admin.topic_settings(changelogs, "delete.retention.ms")
        except KafkaAuthError as error:
            log.info("cannot see for how long changelogs keep tombstones: %s", error)
            return {}
        return {name: int(value) for name, value in sorted(found.items())}

    def fence(self, transactional_ids: Collection[str]) -> None:
        """Initialise every id once, several at a time: their former owners can commit no more.

        Raises:
            KafkaUnavailableError: at least one id is not fenced.
            KafkaAuthError: an id is not allowed.
        """
        if not transactional_ids:
            return
        one = partial(self._fence_one, self.access)
        with ThreadPoolExecutor(min(_FENCES_AT_ONCE, len(transactional_ids))) as pool:
            list(pool.map(one, transactional_ids))

    def _fence_one(self, access: Access, transactional_id: str) -> None:
        settings = producer_settings(
            access.config,
            access.connection,
            client_id=f"{access.client_id}-fence",
            transactional_id=transactional_id,
        )
        fence(settings, access.connection, timeout_s=self._timeout_s)
        log.info("fenced %s", transactional_id)


def _partitions(described: Mapping[str, TopicDescription]) -> dict[str, int]:
    return {name: topic.partitions for name, topic in sorted(described.items())}


def _topic_ids(described: Mapping[str, TopicDescription]) -> dict[str, str]:
    return {name: topic.topic_id for name, topic in sorted(described.items())}


class DutyRunner:
    """Carries duties out one after the other, in a thread of its own.

    Args:
        duties: who does them.
        done: called from that thread with each result.
    """

    def __init__(self, duties: Duties, done: Callable[[DutyResult], None]) -> None:
        self._duties = duties
        self._done = done
        self._queue: queue.SimpleQueue[Duty | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def begin(self, duty: Duty) -> None:
        """Queue a duty."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="duties", daemon=True)
            self._thread.start()
        self._queue.put(duty)

    def close(self, timeout_s: float) -> None:
        """Take no more; wait for the duty under way."""
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join(timeout_s)

    def _run(self) -> None:
        while (duty := self._queue.get()) is not None:
            self._done(self._duties.carry_out(duty))
