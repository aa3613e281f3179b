"""Looks whether workers may run the application: no backfill, no other engine has it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from headwater.errors import BackfillUnfinishedError, EngineError, FencedError
from headwater.kafka.driver_topic import ENGINE_KEY, MANIFEST_KEY, DriverTopic
from headwater.model import backfill, engine
from headwater.model.backfill import BackfillState
from headwater.model.engine import EngineRecord
from headwater.model.lifecycle import Engine

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headwater.ids import TaskId
    from headwater.kafka.access import Access
    from headwater.model.backfill import Manifest


class ManifestGate:
    """Keeps workers from running what is loaded only in part, or what another engine runs.

    Args:
        access: to the broker; asked whether drivers have said anything.
    """

    def __init__(self, access: Access) -> None:
        self._config = access.config
        self._admin = access.admin
        self._topic = DriverTopic(access)
        self._seen: tuple[str, int] | None = None
        self._engine = EngineRecord()

    def read(self) -> Manifest | None:
        """Return the newest manifest, read to the topic's end; ``None`` without one.

        Raises:
            BackfillError: it cannot be understood.
            KafkaUnavailableError: it cannot be read.
        """
        return self._manifest(self._topic.read())

    def check(self) -> None:
        """Return if workers may run; that costs a request where there never was a driver.

        Raises:
            EngineError: the application runs on Spark, is being taken over, or that cannot be
                told.
            BackfillUnfinishedError, BackfillError: as ``check_backfill``.
        """
        record = self.check_backfill()
        if record.holder is not Engine.NATIVE:
            raise EngineError(runs_elsewhere(record, self._config.application_id))

    def check_backfill(self) -> EngineRecord:
        """Return which engine runs the application, if no backfill is under way.

        Raises:
            BackfillUnfinishedError: one is, or was left.
            BackfillError: as ``read``.
            EngineError: it cannot be told which engine.
        """
        partition = self._topic.partition
        topic = partition.topic
        described = self._admin.describe_topics([topic])
        if topic not in described:
            return EngineRecord()
        ends = self._admin.end_offsets([partition])
        seen = (described[topic].topic_id, ends[partition])
        if seen == self._seen:
            return self._engine
        said = self._topic.read()
        manifest = self._manifest(said)
        if manifest is not None and manifest.is_unfinished:
            raise BackfillUnfinishedError(unfinished(manifest, self._config.application_id))
        found = said.get(ENGINE_KEY)
        self._engine = EngineRecord() if found is None else engine.decode(found, topic)
        self._seen = seen
        return self._engine

    def check_task(self, task: TaskId, generation: str, attempt: int) -> None:
        """Return if a backfill's task may write; to be asked once its id was initialised.

        Args:
            task: which.
            generation: of the backfill that it belongs to.
            attempt: of that one's driver.

        Raises:
            FencedError: another driver has taken over since.
            BackfillError: as ``read``.
        """
        if not self._is_under_way(generation, attempt):
            raise FencedError(
                f"task {task}: backfill {generation}, attempt {attempt}, is not the one under way "
                "any more: another driver has taken over; this task writes nothing"
            )

    def check_driver(self, generation: str, attempt: int) -> None:
        """Return if the driver of a backfill may delete something, which no fence would hold back.

        Raises:
            FencedError: another driver has taken over since.
            BackfillError: as ``read``.
        """
        if not self._is_under_way(generation, attempt):
            raise FencedError(
                f"backfill {generation}, attempt {attempt}, is not the one under way any more: "
                "another driver has taken over; this one changes nothing more"
            )

    def _is_under_way(self, generation: str, attempt: int) -> bool:
        manifest = self.read()
        ours = (generation, attempt, BackfillState.PREPARED)
        return (
            manifest is not None and (manifest.generation, manifest.attempt, manifest.state) == ours
        )

    def _manifest(self, said: Mapping[bytes, bytes]) -> Manifest | None:
        found = said.get(MANIFEST_KEY)
        return None if found is None else backfill.decode(found, self._topic.partition.topic)


def unfinished(manifest: Manifest, application_id: str) -> str:
    """Say why nobody may run, and what to do."""
    begun = time_of(manifest.begun_ms)
    return (
        f"a backfill of {application_id}, begun at {begun}, has not finished "
        f"({manifest.state.value}): the state is loaded only in part. Run `headwater backfill` "
        "again to finish it, or with --abort to throw away what it has loaded"
    )


def runs_elsewhere(record: EngineRecord, application_id: str) -> str:
    """Say why workers may not run, and what to do."""
    if record.holder is None:
        return (
            f"{application_id} is being taken over for {record.engine.value} since "
            f"{time_of(record.since_ms)} (generation {record.generation}), and what ran it before "
            "is not yet fenced: nobody may run it. If that does not end, take it over again: under "
            "`headwater up`, which does so by itself, with KafkaStreams and takeover=True, or with "
            "`headwater spark`"
        )
    return (
        f"{application_id} runs on {record.engine.value} since {time_of(record.since_ms)} "
        f"(generation {record.generation}): workers would process the same records. To go on with "
        "workers, stop that driver; then set spec.engine to Native under `headwater up`, or start "
        "KafkaStreams with takeover=True"
    )


def time_of(at_ms: int) -> str:
    """Return a wall-clock time for people, with its zone."""
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(at_ms / 1000))
