"""What is asked of the cluster and not of a partition: topics, offsets, group members, purges."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
)
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.admin._listoffsets import OffsetSpec
from confluent_kafka.cimpl import NewTopic

from headwater.errors import (
    EnvironmentProblemError,
    HeadwaterError,
    KafkaAuthError,
    KafkaUnavailableError,
)
from headwater.kafka.committed import CommittedOffset, CommittedReader
from headwater.kafka.errors import (
    MISSING,
    RETRIED,
    ClientError,
    Refusals,
    cause,
    error_of,
)
from headwater.kafka.groups import members
from headwater.kafka.listener import mismatch
from headwater.kafka.settings import refused_settings
from headwater.kafka.topics import TopicDescription, offset_of, ours
from headwater.model.patterns import is_pattern, matching

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping
    from concurrent.futures import Future

    from headwater.ids import TopicPartition
    from headwater.kafka.errors import Connection
    from headwater.model.duties import GroupMember
    from headwater.model.topics import InternalTopic

log = logging.getLogger(__name__)

_RETRY_S: Final = 0.1
_ATTEMPT_S: Final = 5.0
"""One attempt. A client that has lost its broker may wait for ever on a connection it gave up."""


class Admin:
    """An admin client. Every method waits for the answer and retries, for ``timeout_s`` in all.

    Each raises ``KafkaUnavailableError`` when nobody answers in time, and ``KafkaAuthError`` when
    the broker refuses; further errors are named at the method.

    Args:
        settings: from ``settings.admin_settings``.
        connection: told when the broker answers.
        timeout_s: for one method call.
    """

    def __init__(
        self, settings: Mapping[str, Any], connection: Connection, *, timeout_s: float = 30.0
    ) -> None:
        self._settings = dict(settings)
        self._admin = self._made()
        self._connection = connection
        self._timeout_s = timeout_s

    def _made(self) -> AdminClient:
        try:
            return AdminClient(self._settings)
        except ClientError as error:
            raise refused_settings("admin", error_of(error)) from cause(error)

    # -- topics ----------------------------------------------------------------------------------

    def describe_topics(self, names: Collection[str]) -> dict[str, TopicDescription]:
        """Describe the topics that exist; one that does not is not in the answer.

        In place of a pattern (``model.patterns``) those that match are described.
        """
        patterns = [name for name in names if is_pattern(name)]
        if patterns:
            names = {name for name in names if not is_pattern(name)} | self.matching(patterns)
        if not names:
            return {}
        wanted = TopicCollection(list(names))
        described: dict[str, TopicDescription] = {}

        def ask(left_s: float) -> None:
            futures = self._admin.describe_topics(wanted, request_timeout=left_s)
            with Refusals("describing", "Read, or Write if it is an output,") as refusals:
                for name, future in futures.items():
                    try:
                        found = future.result()
                    except ClientError as error:
                        if error_of(error).code() not in MISSING:
                            refusals.note(name, error)
                    else:
                        described[name] = TopicDescription.of(found)

        self._ask("describing topics", ask)
        return described

    def matching(self, patterns: Collection[str]) -> frozenset[str]:
        """Return the topics that match one of the patterns.

        Raises:
            KafkaUnavailableError: nobody answered.
        """
        found: set[str] = set()
        self._ask(
            "listing topics", lambda s: found.update(self._admin.list_topics(timeout=s).topics)
        )
        return matching(patterns, found)

    def describe_topics_later(
        self, names: Collection[str]
    ) -> Callable[[], dict[str, TopicDescription] | None]:
        """Ask for descriptions without waiting.

        Returns:
            A function that gives ``None`` until the answer is there, then what ``describe_topics``
            would have returned. A topic that could not be looked up is described as unknown:
            no partitions, no id.
        """
        futures = self._admin.describe_topics(
            TopicCollection(list(names)), request_timeout=self._timeout_s
        )

        def answer() -> dict[str, TopicDescription] | None:
            self._admin.poll(0)
            if not all(future.done() for future in futures.values()):
                return None
            described = {}
            for name, future in futures.items():
                try:
                    found = future.result()
                except ClientError as error:
                    if error_of(error).code() not in MISSING:
                        described[name] = TopicDescription(partitions=0, topic_id="")
                else:
                    described[name] = TopicDescription.of(found)
            return described

        return answer

    def create_topics(self, topics: Collection[InternalTopic]) -> None:
        """Create the topics that do not exist; those that do are left alone.

        Raises:
            EnvironmentProblemError: the broker refuses a topic or one of its settings.
        """
        if not topics:
            return
        wanted = {
            topic.name: NewTopic(
                topic.name, topic.partitions, topic.replication_factor, config=dict(topic.configs)
            )
            for topic in topics
        }

        def ask(left_s: float) -> None:
            futures = self._admin.create_topics(
                list(wanted.values()), operation_timeout=left_s, request_timeout=left_s
            )
            with Refusals("creating", "Create") as refusals:
                for name, future in futures.items():
                    try:
                        future.result()
                    except ClientError as error:
                        if error_of(error).code() != KafkaError.TOPIC_ALREADY_EXISTS:
                            refusals.note(name, error)
                    wanted.pop(name, None)

        self._ask(f"creating topics {', '.join(sorted(wanted))}", ask)

    def delete_topics(self, names: Collection[str]) -> tuple[str, ...]:
        """Delete topics; return those that existed."""
        if not names:
            return ()
        deleted: list[str] = []
        left = set(names)

        def ask(left_s: float) -> None:
            futures = self._admin.delete_topics(
                sorted(left), operation_timeout=left_s, request_timeout=left_s
            )
            with Refusals("deleting", "Delete") as refusals:
                for name, future in futures.items():
                    try:
                        future.result()
                        deleted.append(name)
                    except ClientError as error:
                        if error_of(error).code() not in MISSING:
                            refusals.note(name, error)
                    left.discard(name)

        self._ask("deleting topics", ask)
        return tuple(sorted(deleted))

    def topic_settings(self, names: Collection[str], setting: str) -> dict[str, str]:
        """Return the value of one setting for each topic, as it is in force.

        Raises:
            MissingTopicError: a topic does not exist.
        """
        values: dict[str, str] = {}
        if not names:
            return values
        resources = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in names]

        def ask(left_s: float) -> None:
            futures = self._admin.describe_configs(resources, request_timeout=left_s)
            with Refusals(f"looking up {setting} of", "DescribeConfigs") as refusals:
                for resource, future in futures.items():
                    try:
                        values[resource.name] = str(future.result()[setting].value)
                    except ClientError as error:
                        refusals.note(resource.name, error)

        self._ask(f"looking up {setting}", ask)
        return values

    # -- offsets of partitions -------------------------------------------------------------------

    def earliest_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the first offset that each partition still has.

        Raises:
            MissingTopicError: a topic does not exist.
        """
        return self._list_offsets(partitions, OffsetSpec.earliest())  # type: ignore[no-untyped-call]

    def end_offsets(
        self, partitions: Iterable[TopicPartition], *, committed_only: bool = False
    ) -> dict[TopicPartition, int]:
        """Return the offset of each partition's next record.

        Args:
            partitions: which.
            committed_only: stop before the first open transaction; otherwise it is counted.

        Raises:
            MissingTopicError: a topic does not exist.
        """
        latest: Any = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        return self._list_offsets(partitions, latest, committed_only=committed_only)

    def offsets_at(
        self, partitions: Iterable[TopicPartition], timestamp_ms: int
    ) -> dict[TopicPartition, int | None]:
        """Return the offset of each partition's first record of that time or later, if any.

        Raises:
            MissingTopicError: a topic does not exist.
        """
        at: Any = OffsetSpec.for_timestamp(timestamp_ms)
        found = self._list_offsets(partitions, at)
        return {partition: None if offset < 0 else offset for partition, offset in found.items()}

    def end_offsets_later(
        self, partitions: Collection[TopicPartition]
    ) -> Callable[[], dict[TopicPartition, int]]:
        """Ask for ``end_offsets`` now; the function returned waits for the answer."""
        futures: dict[ClientPartition, Future[Any]] = {}
        if partitions:
            latest: Any = OffsetSpec.latest()  # type: ignore[no-untyped-call]
            futures = self._admin.list_offsets(
                {ClientPartition(p.topic, p.partition): latest for p in partitions},
                isolation_level=IsolationLevel.READ_UNCOMMITTED,
                request_timeout=_ATTEMPT_S,
            )

        def answer() -> dict[TopicPartition, int]:
            try:
                return {ours(p): offset_of(future.result()) for p, future in futures.items()}
            except ClientError:
                return self.end_offsets(partitions)  # which tries again for a while

        return answer

    def ends_later(
        self, partitions: Collection[TopicPartition], *, committed_only: bool
    ) -> Callable[[], dict[TopicPartition, int] | None]:
        """Ask where partitions end without waiting: their last stable offsets, or all there is.

        Returns:
            A function that gives ``None`` until the answer is there. A partition about which
            nothing could be found out is not in it.
        """
        latest: Any = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        level = IsolationLevel.READ_COMMITTED if committed_only else IsolationLevel.READ_UNCOMMITTED
        futures = self._admin.list_offsets(
            {ClientPartition(p.topic, p.partition): latest for p in partitions},
            isolation_level=level,
            request_timeout=_ATTEMPT_S,
        )

        def answer() -> dict[TopicPartition, int] | None:
            if not all(future.done() for future in futures.values()):
                return None
            ends = {
                ours(partition): future.result().offset
                for partition, future in futures.items()
                if future.exception() is None and future.result().offset >= 0
            }
            if futures and not ends:
                # This client may be the one that is cut off.
                self._admin = self._made()
            return ends

        return answer

    def _list_offsets(
        self,
        partitions: Iterable[TopicPartition],
        spec: OffsetSpec,
        *,
        committed_only: bool = False,
    ) -> dict[TopicPartition, int]:
        level = IsolationLevel.READ_COMMITTED if committed_only else IsolationLevel.READ_UNCOMMITTED
        request = {ClientPartition(p.topic, p.partition): spec for p in partitions}
        offsets: dict[TopicPartition, int] = {}
        if not request:
            return offsets

        def ask(left_s: float) -> None:
            futures = self._admin.list_offsets(
                request, isolation_level=level, request_timeout=left_s
            )
            with Refusals("looking up offsets of", "Read") as refusals:
                for partition, future in futures.items():
                    try:
                        offsets[ours(partition)] = offset_of(future.result())
                    except ClientError as error:
                        refusals.note(partition.topic, error)

        self._ask("looking up offsets", ask)
        return offsets

    def delete_records(self, offsets: Mapping[TopicPartition, int]) -> list[Future[Any]]:
        """Ask the broker to delete all records below the offsets; does not wait.

        A failure is in the futures; whoever purges repeats it with the next offsets anyway.
        """
        if not offsets:
            return []
        request = [ClientPartition(p.topic, p.partition, o) for p, o in offsets.items()]
        return list(self._admin.delete_records(request).values())

    # -- the consumer group ----------------------------------------------------------------------

    def committed(
        self, group: str, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, CommittedOffset]:
        """Return the committed offsets; a partition without one is not in the answer.

        Stable ones only: offsets in an open transaction are waited for, because the answer
        before it ends may be wrong a moment later.
        """
        found: dict[TopicPartition, CommittedOffset] = {}
        if not partitions:
            return found
        reader = CommittedReader(self._settings, self._connection, group)
        try:
            self._ask(
                f"looking up the committed offsets of {group}",
                lambda left_s: found.update(reader.read(partitions, left_s)),
            )
        finally:
            reader.close()
        return found

    def alter_offsets(
        self, group: str, offsets: Mapping[TopicPartition, int | tuple[int, str]]
    ) -> None:
        """Set the committed offsets of a group without members, some with their metadata.

        Raises:
            GroupInUseError: the group has a live member.
        """
        if not offsets:
            return
        found = {p: o if isinstance(o, tuple) else (o,) for p, o in offsets.items()}
        positions = [ClientPartition(p.topic, p.partition, *o) for p, o in found.items()]
        request = [ConsumerGroupTopicPartitions(group, positions)]

        def ask(left_s: float) -> None:
            futures = self._admin.alter_consumer_group_offsets(request, request_timeout=left_s)
            for answer in futures[group].result().topic_partitions:
                if answer.error is not None:
                    raise KafkaException(answer.error)

        self._ask(f"setting the committed offsets of {group}", ask)

    def delete_group(self, group: str) -> bool:
        """Delete a group with all its committed offsets; ``False`` if there was none.

        Raises:
            GroupInUseError: the group has a live member.
        """
        existed = True

        def ask(left_s: float) -> None:
            nonlocal existed
            futures = self._admin.delete_consumer_groups([group], request_timeout=left_s)
            try:
                futures[group].result()
            except ClientError as error:
                if error_of(error).code() != KafkaError.GROUP_ID_NOT_FOUND:
                    raise
                existed = False

        self._ask(f"deleting the group {group}", ask)
        return existed

    def group_members(self, group: str) -> tuple[GroupMember, ...]:
        """Return the live members of a group, of whatever protocol; none without such a group."""
        found: list[GroupMember] = []

        def ask(left_s: float) -> None:
            found[:] = members(self._admin, self._settings, group, left_s)

        self._ask(f"describing the group {group}", ask)
        return tuple(found)

    # -- waiting ---------------------------------------------------------------------------------

    def check_reachable(self, timeout_s: float) -> None:
        """Return once a broker has answered.

        Raises:
            KafkaUnavailableError: none did within ``timeout_s``.
            KafkaAuthError: it refused us.
        """
        deadline, is_first = time.monotonic() + timeout_s, True
        while True:
            self._admin.poll(0)
            try:
                self._admin.list_topics(timeout=min(1.0, timeout_s))
            except ClientError as error:
                self._admin.poll(0)
                problem = self._connection.explain(error, "connecting")
                is_last = time.monotonic() >= deadline
                if (is_first or is_last) and (differs := mismatch(self._settings)):
                    problem = KafkaAuthError(differs)
                if is_last or not isinstance(problem, KafkaUnavailableError):
                    raise problem from cause(error)
                is_first = False
            else:
                self._connection.answered()
                return

    def _ask(self, doing: str, step: Callable[[float], None]) -> None:
        """Run a request, again while its failure may pass and time is left."""
        deadline = time.monotonic() + self._timeout_s
        while True:
            self._admin.poll(0)
            try:
                step(min(_ATTEMPT_S, max(1.0, deadline - time.monotonic())))
            except ClientError as exception:
                error = error_of(exception)
                self._admin.poll(0)
                problem = self._explained(error, doing)
                may_pass = error.code() in RETRIED or error.retriable()
                may_pass = may_pass and not isinstance(problem, KafkaAuthError)
                if not may_pass or time.monotonic() + _RETRY_S > deadline:
                    raise problem from cause(exception)
                time.sleep(_RETRY_S)
                if error.code() != KafkaError.UNSTABLE_OFFSET_COMMIT:
                    # Leaders and coordinators that the old one remembers may be no more.
                    self._admin = self._made()
            else:
                self._connection.answered()
                return

    def _explained(self, error: KafkaError, doing: str) -> HeadwaterError:
        if error.code() == KafkaError.UNSTABLE_OFFSET_COMMIT:
            return EnvironmentProblemError(
                f"an open transaction holds offsets back while {doing}; it ends by itself after "
                "its transaction.timeout.ms, then try again"
            )
        if error.code() == KafkaError._NOENT:  # noqa: SLF001
            return KafkaUnavailableError(
                f"nobody leads the partitions asked about while {doing}; check that all brokers "
                "run and that the topics exist"
            )
        return self._connection.explain(error, doing)
