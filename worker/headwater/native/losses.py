"""Keeps what may be the last copy of a state: asks Kafka whether somebody has given it up.

A store is deleted only if its changelog has everything, or if somebody has computed it anew:

    a backfill made the changelog      its manifest names the topic's id   the store is deleted
    somebody accepts the loss          allow.lost.changelogs               it is set aside
    its task has read nothing          no committed offsets, as by reset   it is set aside
    anything else                      ChangelogLostError                  it is left as it is
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from headwater.errors import ChangelogLostError, KafkaUnavailableError
from headwater.ids import TopicPartition
from headwater.kafka.manifest import ManifestGate
from headwater.model import losses
from headwater.model.backfill import BackfillState
from headwater.state.position import Rebuild, fate

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from headwater.config import StreamsConfig
    from headwater.kafka.access import Access
    from headwater.model.topics import TopologyReport
    from headwater.model.topology import Topology
    from headwater.native.clients import TaskClients
    from headwater.state.position import Discard, RebuildReason
    from headwater.state.restore import ChangelogFacts, StoreRestorer

log = logging.getLogger(__name__)

_REMEMBERED_S: Final = 10.0
"""For so long an answer about offsets serves other tasks that are opened: only warnings need it."""


Offsets: TypeAlias = "Mapping[TopicPartition, tuple[int, str]]"
"""Committed offset and metadata by partition."""


class ChangelogGuard:
    """Decides whether a store may begin on a changelog that may have lost something.

    Args:
        access: to the broker; asked about topics and committed offsets.
        report: of the application's topology.
    """

    def __init__(self, access: Access, report: TopologyReport) -> None:
        self._config = access.config
        self._admin = access.admin
        self._above = losses.topics_above(report)
        self._inputs = losses.topics_read(report)
        self.gate = ManifestGate(access)
        """Asked whether a backfill made a changelog."""
        self._answers: dict[tuple[str, ...], tuple[float, Offsets]] = {}

    def check_missing(self, topics: Collection[str]) -> None:
        """Return if those of ``topics`` that do not exist may be created.

        Raises:
            ChangelogLostError: a changelog is missing although its records were read.
            KafkaUnavailableError: nobody answered.
        """
        wanted = [
            name
            for name in topics
            if name in self._above and name not in self._config.allow_lost_changelogs
        ]
        existing = self._admin.describe_topics(wanted) if wanted else {}
        for name in sorted(wanted):
            if name in existing:
                continue
            read = self._read_up_to(self._offsets(self._above[name]))
            if read is not None:
                raise ChangelogLostError(losses.missing(name, *read))

    def consent(
        self, changelog: TopicPartition, facts: ChangelogFacts, store: str, reason: RebuildReason
    ) -> Discard:
        """Say how a store may be replaced that may be the last copy of its state.

        Args:
            changelog: the store's changelog partition.
            facts: what the broker says about it.
            store: what messages call the store.
            reason: why the store cannot be continued.

        Raises:
            ChangelogLostError: nobody has given it up.
            BackfillError: the manifest cannot be understood.
            KafkaUnavailableError: nobody answered.
        """
        given_up = fate(
            reason,
            is_allowed=changelog.topic in self._config.allow_lost_changelogs,
            is_computed=self._was_computed(changelog, facts),
            is_read=self._task_read(changelog) is not None,
        )
        if given_up is None:
            why = f"{reason.value} ({changelog})"
            raise ChangelogLostError(losses.younger(changelog, store, why))
        return given_up

    def _was_computed(self, changelog: TopicPartition, facts: ChangelogFacts) -> bool:
        """Whether a backfill has made the changelog anew."""
        manifest = self.gate.read()
        return (
            manifest is not None
            and manifest.state is not BackfillState.ABORTED
            and manifest.topic_ids.get(changelog.topic) == facts.topic_id
        )

    def news(
        self, changelog: TopicPartition, facts: ChangelogFacts, name: str, restorer: StoreRestorer
    ) -> str | None:
        """Say what is worth a warning about a store that begins anew; ``None`` if nothing is.

        Args:
            changelog: the store's changelog partition.
            facts: what the broker says about it.
            name: the store's.
            restorer: has just been opened.
        """
        if not isinstance(restorer.verdict, Rebuild):
            return None
        is_empty = facts.log_end <= facts.log_start
        if restorer.is_replaced or not is_empty:
            text = f"{name}: {restorer.verdict.reason.value}"
            if restorer.is_replaced and is_empty:
                text += f"; {changelog} is empty, so the store begins empty"
            if restorer.kept is not None:
                text += (
                    f"; the store before was set aside as {restorer.kept}: delete it when nobody "
                    "needs it"
                )
            return text
        if facts.log_end:
            return f"{name}: {changelog} holds nothing any more, so the store begins empty"
        return self.never_held(changelog, name)

    def never_held(self, changelog: TopicPartition, name: str) -> str | None:
        """Say that a store begins empty although records were read; ``None`` if none were.

        Args:
            changelog: the store's changelog partition, which has never held a record.
            name: the store's.
        """
        try:
            read = self._task_read(changelog, is_remembered=True)
        except KafkaUnavailableError as error:
            log.info("cannot tell whether %s should hold something: %s", changelog, error)
            return None
        if read is None:
            return None
        return (
            f"{name}: {changelog} has never held a record although {read[0]} was read up to offset "
            f"{read[1]}; the store begins empty. That is right if nothing was ever put into it"
        )

    def _task_read(
        self, changelog: TopicPartition, *, is_remembered: bool = False
    ) -> tuple[TopicPartition, int] | None:
        """Return an input partition that the changelog's task has read, and up to where."""
        topics = self._inputs.get(changelog.topic, ())
        at, offsets = self._answers.get(topics, (-_REMEMBERED_S, {}))
        if not is_remembered or time.monotonic() - at >= _REMEMBERED_S:
            offsets = self._offsets(topics)
            self._answers[topics] = time.monotonic(), offsets
        own = {p: found for p, found in offsets.items() if p.partition == changelog.partition}
        return self._read_up_to(own)

    def _offsets(self, topics: Collection[str]) -> Offsets:
        """Return the committed offset and metadata of all partitions that have one."""
        described = self._admin.describe_topics(topics)
        partitions = [
            TopicPartition(name, number)
            for name, topic in sorted(described.items())
            for number in range(topic.partitions)
        ]
        committed = self._admin.committed(self._config.application_id, partitions)
        return {partition: (one.offset, one.metadata) for partition, one in committed.items()}

    def _read_up_to(self, offsets: Offsets) -> tuple[TopicPartition, int] | None:
        if not offsets:
            return None
        return losses.read_up_to(offsets, self._admin.earliest_offsets(offsets))


def guard_of(
    config: StreamsConfig, topology: Topology, clients: TaskClients[Any]
) -> ChangelogGuard:
    """Return the guard of whoever runs tasks with ``clients``."""
    return ChangelogGuard(clients.access, topology.report(config.application_id))
