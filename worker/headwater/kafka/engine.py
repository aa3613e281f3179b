"""Reads and writes which engine runs an application, beside the manifest of backfills."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from headwater.errors import BackfillUnfinishedError, FencedError
from headwater.kafka.driver_topic import ENGINE_KEY, MANIFEST_KEY, DriverTopic, DriverVoice
from headwater.kafka.manifest import unfinished
from headwater.model import backfill
from headwater.model.engine import EngineRecord, decode
from headwater.model.lifecycle import Engine

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from headwater.kafka.access import Access


class EngineRecords:
    """Says which engine runs an application, as of now, uncached. See ``DriverTopic``."""

    def __init__(self, access: Access) -> None:
        self._application_id = access.config.application_id
        self._topic = DriverTopic(access)

    def read(self) -> EngineRecord:
        """Return the record; without one, the workers run it: generation 0.

        Raises:
            EngineError: it cannot be understood.
            KafkaUnavailableError: it cannot be read.
        """
        return self._record(self._topic.read())

    def read_to_take_over(self) -> EngineRecord:
        """Return the record, unless a backfill has begun since that was last looked at.

        To be asked by who holds the driver's id: no backfill begins while it does.

        Raises:
            BackfillUnfinishedError: one is under way, or was left.
            EngineError, KafkaUnavailableError: as ``read``.
        """
        said = self._topic.read()
        found = said.get(MANIFEST_KEY)
        if found is not None:
            manifest = backfill.decode(found, self._topic.partition.topic)
            if manifest.is_unfinished:
                raise BackfillUnfinishedError(unfinished(manifest, self._application_id))
        return self._record(said)

    def _record(self, said: Mapping[bytes, bytes]) -> EngineRecord:
        found = said.get(ENGINE_KEY)
        return EngineRecord() if found is None else decode(found, self._topic.partition.topic)

    def check(self, ours: EngineRecord) -> None:
        """Return if the tasks of ``ours`` may write.

        To be asked after each ``init_transactions`` of a task; nobody writes before.

        Raises:
            FencedError: somebody has taken over; asking again does not help.
            EngineError, KafkaUnavailableError: as ``read``.
        """
        check_run(ours, self.read(), self._application_id)


def check_run(ours: EngineRecord, now: EngineRecord, application_id: str) -> None:
    """Return if tasks of ``ours`` may write under the record ``now``. Pure.

    Raises:
        FencedError: somebody has taken over.
    """
    if not ours.is_same_run(now) or now.holder is None:
        raise FencedError(
            f"{ours.engine.value} of generation {ours.generation}, attempt {ours.attempt}, "
            f"does not run {application_id} any more: {now.engine.value} of generation "
            f"{now.generation}, attempt {now.attempt}, has taken over; this task writes "
            "nothing more, and its driver ends. If that was not wanted, end what has taken over, "
            "then start this driver again"
        )


class EngineWriter:
    """Takes an application over for an engine. Making one fences the driver before.

        take_over ──► the caller fences all ids of the engine that leaves ──► confirm

    Args:
        access: to the broker; creates the topic, and reads it.

    Raises:
        KafkaUnavailableError: nobody answered.
    """

    def __init__(self, access: Access) -> None:
        self._application_id = access.config.application_id
        self._records = EngineRecords(access)
        self._voice = DriverVoice(access)
        self._taken: EngineRecord | None = None

    def take_over(
        self,
        engine: Engine,
        tasks: Iterable[object] = (),
        *,
        workers: Iterable[str] = (),
        replaces: int | None = None,
    ) -> EngineRecord:
        """Write the next generation; from then on nothing of an earlier one begins to write.

        What has begun already is fenced by the caller *afterwards*: all ids of the engine that
        leaves. Nobody may run until it has confirmed that. Repeating it writes one more generation,
        whose predecessor nobody is to use.

        Args:
            engine: takes over.
            tasks: those that Spark will have.
            workers: the transactional ids of all workers that are known.
            replaces: the generation that there must be now; whatever there is if not given.

        Raises:
            FencedError: another driver has taken over meanwhile; nothing was written.
            BackfillUnfinishedError, EngineError, KafkaUnavailableError: as
                ``EngineRecords.read_to_take_over``; for the last, whether it was written is
                unknown.
        """
        found = self._records.read_to_take_over()
        if replaces not in (None, found.generation):
            raise FencedError(
                f"{self._application_id} was to be taken over from generation {replaces}, but "
                f"{found.engine.value} of generation {found.generation} has it by now; look again "
                "before taking it over"
            )
        self._taken = self._write(
            EngineRecord(
                engine=engine,
                generation=found.generation + 1,
                since_ms=time.time_ns() // 1_000_000,
                tasks=_and(found.tasks, tasks),
                workers=_and(found.workers, workers),
                is_fenced=False,
            )
        )
        return self._taken

    def confirm(self) -> EngineRecord:
        """Write that every id of the engine that leaves was fenced: the other one may run.

        Raises:
            FencedError: another driver has taken over meanwhile; nothing was written.
            KafkaUnavailableError: whether it was written is unknown.
        """
        assert self._taken is not None, "nothing was taken over"
        return self._write(replace(self._taken, is_fenced=True))

    def begin_attempt(self, generation: int, tasks: Iterable[object] = ()) -> EngineRecord:
        """Begin as a driver of a generation that somebody has written for it.

        Args:
            generation: the one that the driver was given.
            tasks: those that it has; there may be more than when the generation was written.

        Raises:
            FencedError: it is not this generation's turn, or not Spark's.
            BackfillUnfinishedError, EngineError, KafkaUnavailableError: as ``take_over``.
        """
        found = self._records.read_to_take_over()
        if (found.holder, found.generation) != (Engine.SPARK, generation):
            how = "runs" if found.is_fenced else "is about to take over"
            raise FencedError(
                f"this driver was given generation {generation}, but {found.engine.value} of "
                f"generation {found.generation} {how} {self._application_id}; it writes nothing. "
                "Start it without --generation to take the application over"
            )
        begun = replace(found, attempt=found.attempt + 1, tasks=_and(found.tasks, tasks))
        return self._write(begun)

    def add_tasks(self, ours: EngineRecord, tasks: Iterable[object]) -> EngineRecord:
        """Let a driver that runs have more tasks: whoever takes over then fences those, too.

        Args:
            ours: the record of the driver.
            tasks: those that it has now.

        Raises:
            FencedError: another driver, or the workers, have taken over.
            BackfillUnfinishedError, EngineError, KafkaUnavailableError: as ``take_over``.
        """
        found = self._records.read_to_take_over()
        check_run(ours, found, self._application_id)
        return self._write(replace(found, tasks=_and(found.tasks, tasks)))

    def _write(self, record: EngineRecord) -> EngineRecord:
        self._voice.write(ENGINE_KEY, record.encode())
        return record

    def close(self) -> None:
        """Release the client."""
        self._voice.close()


def _and(known: Iterable[str], more: Iterable[object]) -> tuple[str, ...]:
    return tuple(sorted({*known, *map(str, more)}))
