"""Duties: what needs a Kafka client and is done by a worker on behalf of the control loop.

A duty stands in ``StreamWorker.spec.duties`` until its result stands in
``StreamWorker.status.duty_results`` under the same id. A worker carries out a duty once per id, and
re-reads its own StreamWorker just before: a duty that is no longer there is dropped. A result says
what was found, never what to do about it. A duty that could not be carried out yields
:class:`DutyFailed`; the control loop hands out a new one.
"""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003  # read by the codec
from dataclasses import dataclass, field
from typing import ClassVar, Final, TypeAlias

from headwater.model.fields import meta
from headwater.model.lifecycle import Engine
from headwater.model.topics import TOPICS, InternalTopic

_BY_TOPIC: Final = meta(max_items=10_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeTopics:
    """Look up how many partitions ``topics`` have. Answered by :class:`TopicsDescribed`.

    Attributes:
        id: names the duty; its result has the same.
        epoch: of the write that handed it out.
        topics: which.
        inputs: of which the records are counted that lie in partitions without a committed offset.
    """

    KIND: ClassVar[str] = "DescribeTopics"
    id: str
    epoch: int
    topics: tuple[str, ...] = field(metadata=TOPICS)
    inputs: tuple[str, ...] = field(default=(), metadata=TOPICS)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopics:
    """Create the topics that do not exist, leave others alone. Answer: :class:`TopicsCreated`.

    Attributes:
        id: names the duty; its result has the same.
        epoch: of the write that handed it out.
        topics: which, complete.
    """

    KIND: ClassVar[str] = "CreateTopics"
    id: str
    epoch: int
    topics: tuple[InternalTopic, ...] = field(metadata=meta(json="create", max_items=10_000))


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence:
    """Run ``init_transactions`` once for every id, so that whoever used it can write no more.

    Answered by :class:`IdsFenced` only when *all* ids are initialised. The producers are closed
    afterwards.

    Attributes:
        id: names the duty; its result has the same.
        epoch: of the write that handed it out.
        worker: the worker whose slots these were.
        transactional_ids: every id this worker ever had.
    """

    KIND: ClassVar[str] = "Fence"
    id: str
    epoch: int
    worker: str
    transactional_ids: tuple[str, ...] = field(metadata=meta(max_items=10_000))


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeGroup:
    """Look up the members of consumer group ``group``. Answered by :class:`GroupDescribed`.

    Attributes:
        id: names the duty; its result has the same.
        epoch: of the write that handed it out.
        group: its id.
    """

    KIND: ClassVar[str] = "DescribeGroup"
    id: str
    epoch: int
    group: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reset:
    """Reset the application as ``kafka-streams-application-reset`` does; only when nothing runs.

    Delete the internal topics and the group's committed offsets of ``input_topics`` (so that the
    next start begins at ``auto.offset.reset``). If ``to`` names offsets, create the internal topics
    anew then, and commit the offsets. Answered by :class:`ResetDone`.

    Attributes:
        id: names the duty; its result has the same.
        epoch: of the write that handed it out.
        application_id: the consumer group and the prefix of internal topics.
        internal_topics: those to delete; missing ones are passed over.
        input_topics: external source topics.
        to: where the application begins (``model.resetting``).
        request: names the reset, unlike any other of the application, however often it is tried.
    """

    KIND: ClassVar[str] = "Reset"
    id: str
    epoch: int
    application_id: str
    internal_topics: tuple[str, ...] = field(metadata=TOPICS)
    input_topics: tuple[str, ...] = field(metadata=TOPICS)
    to: str = field(default="now", metadata=meta(max_length=262_144))
    request: str = field(default="", metadata=meta(max_length=63))


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeEngine:
    """Take the application over for an engine. Answered by :class:`EngineTaken`.

    Write that ``engine`` takes it over, in the next generation; *then* fence every transactional id
    of the engine that leaves; then make sure that nobody is a member of the group; then write that
    ``engine`` may run. Repeating it writes one more generation.

    Attributes:
        id: names the duty; its result has the same.
        epoch: of the write that handed it out.
        engine: that takes over.
        replaces: the generation that this was decided from; if there is another by now, nothing
            is done.
        transactional_ids: every id that any worker ever had; fenced if ``engine`` is not Native,
            and remembered for who takes over without knowing of them.
        engine_tasks: the names of the topology's tasks. Spark's ids bear them, and those of all
            tasks that it ever had; they are fenced if ``engine`` is Native.
    """

    KIND: ClassVar[str] = "TakeEngine"
    id: str
    epoch: int
    engine: Engine
    replaces: int = field(default=0, metadata=meta(minimum=0))
    transactional_ids: tuple[str, ...] = field(default=(), metadata=meta(max_items=10_000))
    engine_tasks: tuple[str, ...] = field(default=(), metadata=meta(max_items=20_000))


Duty: TypeAlias = DescribeTopics | CreateTopics | Fence | DescribeGroup | Reset | TakeEngine


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsDescribed:
    """The topics that exist, with their partition counts; one not named does not exist.

    Attributes:
        id: the duty's.
        partitions: counts by topic.
        topic_ids: UUIDs by topic.
        delete_retention_ms: ``delete.retention.ms`` of the application's changelogs among them; a
            copy of a store that was last committed longer ago is of no use any more. Empty if the
            broker does not let us see topic settings.
        unread: how many records of each of ``DescribeTopics.inputs`` lie in partitions without a
            committed offset; one that could not be counted is not named.
    """

    KIND: ClassVar[str] = "TopicsDescribed"
    id: str
    partitions: Mapping[str, int] = field(metadata=_BY_TOPIC)
    topic_ids: Mapping[str, str] = field(default_factory=dict, metadata=_BY_TOPIC)
    delete_retention_ms: Mapping[str, int] = field(default_factory=dict, metadata=_BY_TOPIC)
    unread: Mapping[str, int] = field(default_factory=dict, metadata=_BY_TOPIC)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsCreated:
    """All topics of the duty exist now; their partition counts as the broker has them.

    Attributes:
        id: the duty's.
        partitions: counts by topic.
        topic_ids: UUIDs by topic.
        delete_retention_ms: ``delete.retention.ms`` of the application's changelogs among them; a
            copy of a store that was last committed longer ago is of no use any more. Empty if the
            broker does not let us see topic settings.
    """

    KIND: ClassVar[str] = "TopicsCreated"
    id: str
    partitions: Mapping[str, int] = field(metadata=_BY_TOPIC)
    topic_ids: Mapping[str, str] = field(default_factory=dict, metadata=_BY_TOPIC)
    delete_retention_ms: Mapping[str, int] = field(default_factory=dict, metadata=_BY_TOPIC)


@dataclass(frozen=True, slots=True, kw_only=True)
class IdsFenced:
    """Every transactional id of the duty was initialised.

    Attributes:
        id: the duty's.
    """

    KIND: ClassVar[str] = "IdsFenced"
    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMember:
    """One live member of the consumer group, as the broker describes it.

    Attributes:
        member_id: given by the broker.
        client_id: that the member calls itself.
        host: where it connects from.
    """

    member_id: str
    client_id: str = ""
    host: str = ""

    def __str__(self) -> str:
        return f"{self.client_id or self.member_id} at {self.host or 'an unknown host'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDescribed:
    """The members of the consumer group; none for a group that is empty, dead or does not exist.

    Attributes:
        id: the duty's.
        members: those that live.
        engine: runs the application, as Kafka has it.
        engine_generation: counts the take-overs.
        engine_fenced: the take-over was finished; before, nobody may run the application.
    """

    KIND: ClassVar[str] = "GroupDescribed"
    id: str
    members: tuple[GroupMember, ...] = field(default=(), metadata=meta(max_items=10_000))
    engine: Engine = Engine.NATIVE
    engine_generation: int = 0
    engine_fenced: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineTaken:
    """The application was taken over: the engine before can write nothing more.

    Attributes:
        id: the duty's.
        engine: runs the application.
        engine_generation: of this take-over; what belongs to an earlier one writes nothing.
    """

    KIND: ClassVar[str] = "EngineTaken"
    id: str
    engine: Engine
    engine_generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetDone:
    """The reset is complete.

    Attributes:
        id: the duty's.
        deleted_topics: the topics that were deleted.
    """

    KIND: ClassVar[str] = "ResetDone"
    id: str
    deleted_topics: tuple[str, ...] = field(default=(), metadata=TOPICS)


@dataclass(frozen=True, slots=True, kw_only=True)
class DutyFailed:
    """The duty was tried and could not be carried out.

    Attributes:
        id: the duty's.
        error: the class name in ``headwater.errors``.
        message: what happened and what to do next.
    """

    KIND: ClassVar[str] = "DutyFailed"
    id: str
    error: str
    message: str = field(metadata=meta(max_length=32_768, clip=True))


DutyResult: TypeAlias = (
    TopicsDescribed
    | TopicsCreated
    | IdsFenced
    | GroupDescribed
    | EngineTaken
    | ResetDone
    | DutyFailed
)
