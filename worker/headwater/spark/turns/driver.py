"""The driver of an application that Spark runs continuously.

    gate ─► take-over: record, fences, gate again, record confirmed ─► internal topics ─► query ─► …
        ─► stop between turns

What is to be known after a crash is in Kafka: offsets, changelogs, and the record of who may write.
See ``docs/adr/0040-what-spark-runs-continuously.md``.
"""

from __future__ import annotations

import logging
import shutil
import threading
import uuid
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count
from typing import TYPE_CHECKING, Final

from headwater import failpoints
from headwater.errors import FencedError, GroupInUseError, HeadwaterError
from headwater.kafka.engine import EngineWriter, check_run
from headwater.kafka.manifest import ManifestGate
from headwater.model import partitions
from headwater.model.engine import spark_transactional_id
from headwater.model.streamapp import Engine
from headwater.service.duties import Duties
from headwater.service.takeover import TakeOver
from headwater.spark import gate
from headwater.spark.application import Application
from headwater.spark.causes import without_secrets
from headwater.spark.cluster import check_master
from headwater.spark.troubles import end
from headwater.spark.turns.claiming import TASKS, claim
from headwater.spark.turns.crew import crew_of
from headwater.spark.turns.matching import NEW_TOPICS_S, NewTopics
from headwater.spark.turns.messages import HostSettings, TurnNumber
from headwater.spark.turns.others import ANSWER_S, RECORD_LOOK_S, Others
from headwater.spark.turns.planner import PlannerSettings
from headwater.spark.turns.query import Query, TurnsFailedError, routes, session_of, spread_over
from headwater.spark.turns.slots import slots_of
from headwater.spark.turns.status import DriverStatus, State

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from pyspark.sql import SparkSession

    from headwater.kafka.admin import Admin
    from headwater.model.engine import EngineRecord
    from headwater.model.partitions import PartitionPlan
    from headwater.native.application import ApplicationSettings
    from headwater.spark.turns.crew import Crew

log = logging.getLogger(__name__)

IDLE_MS: Final = 1_000
"""How often a turn is taken without records: for punctuation by the wall clock."""
_POLL_S: Final = 0.1
_QUERIES: Final = 3
"""So many queries in a row that do nothing end the driver."""
_BATCH_S: Final = 120.0
"""How long a stop waits for the micro-batch that runs."""
_SHUT_OUT_S: Final = 10.0
"""How long that of a driver is waited for whose tasks write nothing more."""
_AGAIN: Final = "start it again"
"""What to do when nobody else runs the application any more."""
_CHECKPOINTS: Final = "checkpoint"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContinuousSettings:
    """What the driver is told.

    Attributes:
        application: its configuration and topology.
        master: of Spark.
        spark: options of Spark.
        trigger_ms: how long from one micro-batch to the next at the least.
        limit: how many offsets a micro-batch takes at most.
        state_dir: holds the stores of tasks and Spark's checkpoint.
        generation: written by a control loop for this driver; ``None``: take over.
        worker_ids: transactional ids of workers that there were; fenced by a take-over, with those
            that the engine record names.
    """

    application: ApplicationSettings
    master: str = "local[*]"
    spark: Mapping[str, str] = field(default_factory=dict)
    trigger_ms: int = 500
    limit: int = 100_000
    state_dir: Path
    generation: int | None = None
    worker_ids: tuple[str, ...] = ()


class Continuous:
    """One run of the driver.

    Args:
        settings: what it is told.
        status: told how it comes on.

    Raises:
        ConfigError: an option is wrong or missing, or the directory is another application's.
        ImportPathError: the topology cannot be had.
        TopologyError: the topology breaks a rule.
    """

    def __init__(self, settings: ContinuousSettings, status: DriverStatus) -> None:
        self._settings = settings
        self._status = status
        self._application = Application(settings.application)
        self._stopping = threading.Event()
        self._plan_made: PartitionPlan | None = None
        claim(settings.state_dir, self._application.id)

    def stop(self) -> None:
        """End after the micro-batch that runs; may be called by a signal handler."""
        self._stopping.set()

    def lag(self) -> int | None:
        """Count the committed records that no task has processed; ``None`` before the plan is made.

        Raises:
            HeadwaterError: nobody knows.
        """
        if self._plan_made is None:
            return None
        sources = sorted({p for found in self._plan_made.inputs.values() for p in found})
        ends = self._asks.end_offsets(sources, committed_only=True)
        committed = self._asks.committed(self._application.id, sources)
        begin = self._asks.earliest_offsets([p for p in sources if p not in committed])
        read = {**begin, **{p: found.offset for p, found in committed.items()}}
        return sum(max(0, ends[p] - read[p]) for p in sources)

    @cached_property
    def _asks(self) -> Admin:
        """Clients of their own for who looks on: they do not wait for long."""
        application = self._application
        client_id = f"{application.client_id}-lag"
        return Duties(application.config, client_id=client_id, timeout_s=ANSWER_S).admin

    def run(
        self,
        on_begin: Callable[[], None] = lambda: None,
        on_session: Callable[[], None] = lambda: None,
    ) -> None:
        """Run until ``stop``.

        Args:
            on_begin: called when the generation is known.
            on_session: called when Spark has started, which installs signal handlers of its own.

        Raises:
            GroupInUseError: somebody runs the application.
            InstanceRunningError: a program runs the application.
            BackfillUnfinishedError: its state is loaded only in part.
            FencedError, EngineError: another driver has taken over.
            ChangelogLostError: a changelog does not exist although its records were read.
            HeadwaterError: why the query cannot go on.
        """
        try:
            self._take_over_and_run(on_begin, on_session)
        except HeadwaterError as error:
            clean = self._clean(error)
            if clean == str(error):
                raise
            raise type(error)(clean) from None

    def _clean(self, error: HeadwaterError) -> str:
        """Return what an error says as anybody may see it."""
        return without_secrets(str(error), self._settings.application.config, self._settings.spark)

    def _take_over_and_run(
        self, on_begin: Callable[[], None], on_session: Callable[[], None]
    ) -> None:
        application = self._application
        check_master(self._settings.master)
        gate.check_calls(application)
        self._status.does(f"waiting for {application.config.bootstrap_servers}")
        application.admin.check_reachable(application.timeout_s)
        self._status.does("taking the application over")
        ManifestGate(application.access).check_backfill()
        self._check_nobody_runs()
        plan = self._first_plan()
        if self._stopping.is_set():
            return
        application.duties.check_changelogs(application.report, plan.internal_topics)
        record = self._take_over(plan)
        self._plan_made = plan
        self._status.begin(record.generation)
        on_begin()
        application.duties.create_topics(plan.internal_topics)
        failpoints.hit("spark.taken_over")
        if self._stopping.is_set():
            return
        self._run(plan, record, on_session)

    def _first_plan(self) -> PartitionPlan:
        """Plan what there is to run; wait for it if sources by pattern match nothing yet."""
        plan = self._plan()
        while not plan.tasks and not self._stopping.wait(NEW_TOPICS_S):
            self._status.does("waiting for a topic that matches")
            plan = self._plan()
        return plan

    def _plan(self) -> PartitionPlan:
        report = self._application.report
        topics = partitions.topics_to_describe(report)
        return partitions.plan(report, self._application.duties.partitions(topics))

    def _check_nobody_runs(self) -> None:
        gate.check_nobody_runs(self._application, _AGAIN)

    def _others(self, record: EngineRecord) -> tuple[Others, Others]:
        """Return who looks whether somebody else runs the application: the group, the record."""
        application = self._application
        # With clients of its own, which do not wait for long.
        duties = Duties(application.config, client_id=application.client_id, timeout_s=ANSWER_S)
        asks, said = duties.admin, ManifestGate(duties.access)
        return (
            Others(lambda: gate.check_group(asks, application.id, _AGAIN)),
            Others(
                lambda: check_run(record, said.check_backfill(), application.id),
                every_s=RECORD_LOOK_S,
            ),
        )

    def _take_over(self, plan: PartitionPlan) -> EngineRecord:
        """From here on nobody else begins to write; then make sure of who has begun."""
        application, generation = self._application, self._settings.generation
        if generation is None:
            # Whoever came to the group, or to the owner topic, before the record was there is seen
            # by the second look; whoever comes later reads the record.
            fence, look = application.duties.fence, self._check_nobody_runs
            return TakeOver(application.access, fence, look=look).carry_out(
                Engine.SPARK,
                worker_ids=self._settings.worker_ids,
                tasks=[str(task) for task in plan.tasks],
                replaces=None,
            )
        writer = EngineWriter(application.access)
        try:
            record = writer.begin_attempt(generation, plan.tasks)
        finally:
            writer.close()
        failpoints.hit("spark.recorded")
        application.duties.fence(
            [spark_transactional_id(application.id, task) for task in record.tasks]
        )
        return record

    def _run(
        self, plan: PartitionPlan, record: EngineRecord, on_session: Callable[[], None]
    ) -> None:
        settings = self._settings
        is_by_hand = settings.generation is None
        self._status.does("starting Spark")
        session = session_of(settings.master, settings.spark, len(plan.tasks), is_apart=is_by_hand)
        on_session()
        self._status.does(f"opening {len(plan.tasks)} task{'s' if len(plan.tasks) > 1 else ''}")
        try:
            told = HostSettings(
                application=settings.application,
                record=record,
                state_dir=str((settings.state_dir / TASKS).absolute()),
            )
            planner = PlannerSettings(
                config=settings.application.config,
                inputs=plan.inputs,
                routes=dict(zip(plan.tasks, routes(session, len(plan.tasks)), strict=True)),
                slots=slots_of(str(session.sparkContext.master), session.conf),
                limit=settings.limit,
                idle_s=max(IDLE_MS, settings.trigger_ms) / 1000,
                before=TurnNumber(record.generation, record.attempt, 0, 0),
            )
            self._query(session, planner, told)
        finally:
            end(session)

    def _query(self, session: SparkSession, planner: PlannerSettings, told: HostSettings) -> None:
        """Run the query until ``stop``; begin it anew when Spark has given it up.

        Raises:
            GroupInUseError: somebody else has come to the group.
            FencedError: another driver, or the workers, have taken over.
            TurnsFailedError: Spark gives it up again and again.
            KafkaUnavailableError: that is because no broker answers.
            HeadwaterError: what another attempt would meet as well.
        """
        failures, others = 0, self._others(told.record)
        come = NewTopics(self._application, self._asks, planner.inputs)
        for number in count(1):
            if self._stopping.is_set():
                return
            if come.are_there:
                planner, told = self._grown(session, planner, told)
                come = NewTopics(self._application, self._asks, planner.inputs)
            before, query = self._status.batches, None
            try:
                query = Query(
                    session,
                    planner=replace(planner, before=replace(planner.before, query=number)),
                    told=told,
                    checkpoint=_new_checkpoint(self._settings.state_dir),
                    trigger_ms=self._settings.trigger_ms,
                    on_begun=self._status.begun,
                    on_turns=self._status.took,
                )
                self._status.move(State.RUNNING)
                crew = crew_of(session)
                self._watch(query, crew, others, come)
                if crew is not None and crew.has_lost and not self._stopping.is_set():
                    continue  # The micro-batch that runs waits for them.
                if self._stopping.is_set():
                    self._status.move(State.STOPPING)
                query.drain(_BATCH_S)
            except (GroupInUseError, FencedError) as error:
                self._status.move(State.STOPPING)
                if query is not None:
                    # One that is shut out has nothing to end well, but Spark reports it at length.
                    query.drain(_BATCH_S if isinstance(error, GroupInUseError) else _SHUT_OUT_S)
                raise
            except TurnsFailedError as error:
                failures = 1 if self._status.batches > before else failures + 1
                if failures == _QUERIES:
                    # What Spark makes of an outage of Kafka does not name it.
                    self._application.admin.check_reachable(self._application.timeout_s)
                    raise
                self._stumble(error)
            finally:
                if query is not None:
                    query.stop()

    def _stumble(self, error: HeadwaterError) -> None:
        said = self._clean(error)
        log.warning("beginning the query anew: %s", said)
        self._status.stumbled(said)

    def _grown(
        self, session: SparkSession, planner: PlannerSettings, told: HostSettings
    ) -> tuple[PlannerSettings, HostSettings]:
        """Plan anew with the topics that have come to match; tasks that run stay open.

        Raises:
            FencedError: another driver, or the workers, have taken over.
            PartitionMismatchError: a topic has more partitions than the state has.
        """
        application, plan, record = self._application, self._plan(), told.record
        application.duties.check_changelogs(application.report, plan.internal_topics)
        if not {str(task) for task in plan.tasks} <= set(record.tasks):
            writer = EngineWriter(application.access)
            try:
                record = writer.add_tasks(record, plan.tasks)
            finally:
                writer.close()
        application.duties.create_topics(plan.internal_topics)
        self._plan_made = plan
        spread_over(session, len(plan.tasks))
        numbers = routes(session, len(plan.tasks))
        return (
            replace(
                planner, inputs=plan.inputs, routes=dict(zip(plan.tasks, numbers, strict=True))
            ),
            replace(told, record=record),
        )

    def _watch(
        self, query: Query, crew: Crew | None, others: Iterable[Others], come: NewTopics
    ) -> None:
        """Return when the query has ended, or is to end.

        Raises:
            GroupInUseError: somebody else has come to the group.
            FencedError: another driver, or the workers, have taken over.
            HeadwaterError: what has ended the query.
        """
        while not self._stopping.is_set() and not query.await_end(_POLL_S):
            for each in others:
                each.check()
            if crew is not None and crew.is_another():
                log.warning("executors have come or gone: beginning the query anew")
                return
            if come.look():
                log.info("topics match that no task reads yet: beginning the query anew")
                return


def _new_checkpoint(state_dir: Path) -> Path:
    """Return a new directory: where to go on is in Kafka, so what an earlier driver left goes."""
    root = state_dir.absolute() / _CHECKPOINTS
    shutil.rmtree(root, ignore_errors=True)
    return root / uuid.uuid4().hex
