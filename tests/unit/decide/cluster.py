"""A small cluster of values for decision tests: workers that do at once what their specs say."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from headwater.ids import TaskId
from headwater.model.appstatus import AppStatus
from headwater.model.cluster import (
    LAG_UNKNOWN,
    Lease,
    StreamWorker,
    TaskStatus,
    WorkerError,
    WorkerSpec,
    WorkerStatus,
)
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
from headwater.model.lifecycle import Engine, TaskState
from headwater.model.streamapp import StreamApp, parse
from headwater.model.topics import (
    ChangelogTopic,
    RepartitionTopic,
    SubtopologyReport,
    TopologyReport,
)
from headwater_operator.actions import (
    Action,
    DeleteWorker,
    StartDriver,
    StartWorker,
    StopDriver,
    StopHow,
    StopWorker,
    WriteWorkerSpec,
)
from headwater_operator.decide import (
    Decision,
    DriverView,
    Intent,
    Memory,
    Observed,
    ProcessState,
    WorkerView,
    decide,
)

if TYPE_CHECKING:
    from headwater_operator.decide.autoscaling.load import Reading

REPORT = TopologyReport(
    hash="one",
    subtopologies=(
        SubtopologyReport(id=0, source_topics=("lines",), sink_topics=("wc-words-repartition",)),
        SubtopologyReport(
            id=1,
            repartition_sources=(RepartitionTopic(name="wc-words-repartition"),),
            changelogs=(ChangelogTopic(name="wc-counts-changelog", store="counts"),),
            stores=("counts",),
        ),
    ),
)


def make_app(**spec: object) -> StreamApp:
    """A StreamApp named wc, exactly-once, with two workers of two threads unless said otherwise."""
    return parse(
        {
            "apiVersion": "headwater.dev/v1alpha1",
            "kind": "StreamApp",
            "metadata": {"name": "wc"},
            "spec": {
                "topology": {"module": "a:b"},
                "replicas": 2,
                "threadsPerWorker": 2,
                "processingGuarantee": "exactly_once_v2",
                **spec,
            },
        }
    )


def task(text: str) -> TaskId:
    return TaskId.parse(text)


@dataclass
class Cluster:
    """The world as the control loop sees it, changed by hand and by ``act``."""

    app: StreamApp = field(default_factory=make_app)
    generation: int = 1
    intent: Intent = Intent.RUN
    views: dict[str, WorkerView] = field(default_factory=dict)
    status: AppStatus = field(default_factory=AppStatus)
    memory: Memory = field(default_factory=Memory)
    now_ms: int = 1_000
    topics: dict[str, int] = field(default_factory=lambda: {"lines": 2})
    members: tuple[GroupMember, ...] = ()
    incarnations: int = 0
    silent: set[str] = field(default_factory=set)
    """Workers that do nothing of what their specs say, and do not renew."""
    slow: set[str] = field(default_factory=set)
    """Workers whose copies do not catch up."""
    lags: dict[str, dict[TaskId, int]] = field(default_factory=dict)
    """Exact lags by worker, as their processes tell when they are asked."""
    places: dict[str, dict[str, str]] = field(default_factory=dict)
    """Labels by worker."""
    topic_ids: dict[str, str] = field(default_factory=dict)
    unread: dict[str, int] = field(default_factory=dict)
    """Records in partitions without a committed offset, by topic."""
    delete_retention_ms: dict[str, int] = field(default_factory=dict)
    hour: int = 0
    minute: int = 0
    failed_revision: str = ""
    loads: dict[str, dict[TaskId, Reading]] | None = None
    """What workers tell of their load; ``None`` while nobody is asked."""
    scaled_by: str = ""
    reset_to: str = "now"
    revision: str = ""
    """Of the processes that are started now."""
    reports: dict[str, TopologyReport] = field(default_factory=dict)
    """What the processes of a revision report, if not ``REPORT``."""
    broken: dict[str, WorkerError] = field(default_factory=dict)
    """Why the processes of a revision end as soon as they have started."""
    restoring: set[str] = field(default_factory=set)
    """Revisions whose processes restore for ever."""

    driver: DriverView = field(default_factory=DriverView)
    started_from: str = ""
    """Digest of what a driver is started from now."""
    driver_log: str = ""
    engine: Engine = Engine.NATIVE
    """As Kafka has it."""
    engine_generation: int = 0
    engine_fenced: bool = True
    """Whether the take-over was finished."""
    is_cut_off: bool = False
    """Whether a take-over fails once its record is written."""
    hangs: str | None = None
    """What a driver that is started says for ever; empty if it is silent."""
    batches: int = 1
    """How many micro-batches a driver that is started has soon done."""
    stubborn: bool = False
    """Whether the driver does not end when it is told to."""
    taken: dict[str, DutyResult] = field(default_factory=dict)
    history: list[str] = field(default_factory=list)
    """What was given to whom, in order: take-overs, fences, tasks, drivers."""

    def observed(self) -> Observed:
        return Observed(
            app=self.app,
            generation=self.generation,
            intent=self.intent,
            workers=tuple(
                replace(view, labels=self.places.get(name, {}), lags=self.lags.get(name, {}))
                for name, view in self.views.items()
            ),
            status=self.status,
            driver=self.driver,
            revision=self.revision,
            failed_revision=self.failed_revision,
            started_from=self.started_from,
            hour=self.hour,
            minute=self.minute,
            loads=self.loads,
            scaled_by=self.scaled_by,
            reset_to=self.reset_to,
            driver_log=self.driver_log,
        )

    def decide(self) -> Decision:
        """Decide once; remember; do nothing."""
        decision = decide(self.observed(), self.memory, self.now_ms)
        self.memory, self.status = decision.memory, decision.status
        return decision

    def round(self) -> tuple[Action, ...]:
        """Decide, act, and let every worker follow its spec."""
        actions = self.decide().actions
        for action in actions:
            self.act(action)
        self.follow()
        self.now_ms += 100
        return actions

    def rounds(self, count: int = 12) -> list[Action]:
        """Several rounds; return all their actions."""
        return [action for _ in range(count) for action in self.round()]

    def spec(self, name: str) -> WorkerSpec:
        return self.views[name].worker.spec

    def held(self, name: str) -> list[str]:
        return [str(one) for one in self.spec(name).active]

    def act(self, action: Action) -> None:
        match action:
            case WriteWorkerSpec(worker=name, spec=spec, replaces=replaces):
                view = self.views.get(name, WorkerView(worker=StreamWorker(name=name, spec=spec)))
                assert replaces == (view.worker.spec.epoch if name in self.views else 0)
                assert spec.epoch > replaces
                self.views[name] = replace(view, worker=replace(view.worker, spec=spec))
            case StartWorker(worker=name):
                self.start(name)
            case StopWorker(worker=name, how=how):
                self.end(name, gracefully=how is StopHow.GRACEFULLY)
            case DeleteWorker(worker=name):
                del self.views[name]
            case StartDriver(generation=generation, executors=executors):
                self.start_driver(generation, executors)
            case StopDriver(how=how):
                if how is StopHow.AT_ONCE or not self.stubborn:
                    self.end_driver()
                else:
                    self.driver = replace(self.driver, is_stopping=True)

    def start_driver(self, generation: int, executors: int) -> None:
        assert self.driver.process.is_proof_of_end
        self.history.append(f"driver {generation}")
        attempt = self.driver.attempt + 1
        holder = self.engine if self.engine_fenced else None
        if (holder, self.engine_generation) != (Engine.SPARK, generation):
            self.driver = DriverView(
                process=ProcessState.ENDED,
                generation=generation,
                executors=executors,
                attempt=attempt,
                end="exit code 5",
                is_fenced=True,
            )
            return
        self.driver = DriverView(
            process=ProcessState.RUNNING,
            generation=generation,
            executors=executors,
            attempt=attempt,
            started_from=self.started_from,
            has_answered=self.hangs != "",
            state="RUNNING" if self.hangs is None else self.hangs,
            batches=self.batches,
            tasks=4,
        )

    def end_driver(self, end: str = "", error: str = "") -> None:
        self.driver = replace(
            self.driver,
            process=ProcessState.ENDED,
            state="",
            has_answered=False,
            end=end,
            error=error,
        )

    def start(self, name: str) -> None:
        """A process starts and reports."""
        self.incarnations += 1
        view = self.views[name]
        incarnation = f"i{self.incarnations}"
        report = self.reports.get(self.revision, REPORT)
        status = WorkerStatus(incarnation=incarnation, topology=report)
        self.views[name] = WorkerView(
            worker=replace(view.worker, status=status),
            process=ProcessState.RUNNING,
            lease=Lease(worker=name, holder=incarnation),
            revision=self.revision,
        )
        if error := self.broken.get(self.revision):
            self.change(name, error=error, topology=None)
        self.silent.discard(name)

    def end(self, name: str, *, gracefully: bool = False) -> None:
        """A process ends; a graceful one has released everything before."""
        view = self.views[name]
        if gracefully:
            self.follow_one(name)
            assert not (self.spec(name).drain and self.views[name].worker.status.tasks)
            self.change(name, tasks=())
            view = self.views[name]
        self.views[name] = replace(view, process=ProcessState.ENDED, revision="")

    def follow(self) -> None:
        for name, view in self.views.items():
            if view.process is ProcessState.RUNNING and name not in self.silent:
                if view.worker.status.error is not None:
                    self.end(name)
                else:
                    self.follow_one(name)

    def follow_one(self, name: str) -> None:
        """Acknowledge, hold what is granted, answer duties, renew."""
        view = self.views[name]
        spec, status = view.worker.spec, view.worker.status
        held = spec.active_for(status.incarnation)
        is_slow = view.revision in self.restoring
        state = TaskState.RESTORING if is_slow else TaskState.RUNNING
        status = replace(
            status,
            acknowledged_epoch=spec.epoch,
            tasks=(
                *(TaskStatus(task=one, state=state) for one in held),
                *self.copies(name),
            ),
            duty_results=tuple(self.answer(duty) for duty in spec.duties),
            fenced_slots=(),
        )
        assert view.lease is not None
        self.views[name] = replace(
            view,
            worker=replace(view.worker, status=status),
            lease=replace(view.lease, renewals=view.lease.renewals + 1),
        )

    def copies(self, name: str) -> list[TaskStatus]:
        """What a worker that follows its spec says of its copies: they catch up at once."""
        worker = self.views[name].worker
        is_slow = name in self.slow
        return [
            TaskStatus(
                task=one,
                state=TaskState.RESTORING if is_slow else TaskState.RUNNING,
                role=role,
                lag=LAG_UNKNOWN if is_slow else 0,
                caught_up=not is_slow,
            )
            for one, role in sorted(worker.spec.copies_for(worker.status.incarnation).items())
        ]

    def change(self, name: str, **status: object) -> None:
        """Change what a worker reports."""
        view = self.views[name]
        changed = replace(view.worker.status, **status)  # type: ignore[arg-type]  # a test's shorthand
        self.views[name] = replace(view, worker=replace(view.worker, status=changed))

    def unanswered(self) -> None:
        """Take back what workers have said about their duties: they are still at it."""
        for name in self.views:
            self.change(name, duty_results=())

    def answer(self, duty: Duty) -> DutyResult:
        match duty:
            case DescribeTopics(id=id_, topics=topics, inputs=inputs):
                found = {name: self.topics[name] for name in topics if name in self.topics}
                return TopicsDescribed(
                    id=id_,
                    partitions=found,
                    topic_ids=self.topic_ids,
                    delete_retention_ms=self.delete_retention_ms,
                    unread={name: self.unread[name] for name in inputs if name in self.unread},
                )
            case CreateTopics(id=id_, topics=topics):
                created = {topic.name: topic.partitions for topic in topics}
                self.topics.update(created)
                return TopicsCreated(id=id_, partitions=created)
            case Fence(id=id_):
                return IdsFenced(id=id_)
            case DescribeGroup(id=id_):
                return GroupDescribed(
                    id=id_,
                    members=self.members,
                    engine=self.engine,
                    engine_generation=self.engine_generation,
                    engine_fenced=self.engine_fenced,
                )
            case TakeEngine():
                return self.take(duty)
            case Reset(id=id_, internal_topics=topics):
                return ResetDone(id=id_, deleted_topics=topics)

    def take(self, duty: TakeEngine) -> DutyResult:
        known = self.taken.get(duty.id)
        if known is not None:
            return known
        if duty.replaces != self.engine_generation:
            found: DutyResult = DutyFailed(id=duty.id, error="FencedError", message="too late")
        elif self.is_cut_off:
            self.write_record(duty)
            found = DutyFailed(id=duty.id, error="KafkaUnavailableError", message="no broker")
        else:
            self.write_record(duty)
            self.engine_fenced = True
            self.history.append(f"taken {duty.engine} {self.engine_generation}")
            found = EngineTaken(
                id=duty.id, engine=self.engine, engine_generation=self.engine_generation
            )
        self.taken[duty.id] = found
        return found

    def write_record(self, duty: TakeEngine) -> None:
        """Do the first half of a take-over: nothing is fenced yet."""
        self.engine, self.engine_generation = duty.engine, self.engine_generation + 1
        self.engine_fenced = False


def running(**spec: object) -> Cluster:
    """A cluster in which all tasks run."""
    cluster = Cluster(app=make_app(**spec))
    cluster.rounds()
    assert cluster.status.tasks.running == cluster.status.tasks.total == 4, cluster.status
    return cluster


def writes(actions: list[Action] | tuple[Action, ...]) -> list[WriteWorkerSpec]:
    return [action for action in actions if isinstance(action, WriteWorkerSpec)]
