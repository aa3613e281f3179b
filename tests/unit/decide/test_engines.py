"""Hand-over between engines: nothing is given to one before the other has been fenced."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.unit.decide.cluster import Cluster, make_app, running

from headwater.model.appstatus import EngineStatus
from headwater.model.cluster import Role
from headwater.model.duties import DutyFailed, TakeEngine
from headwater.model.lifecycle import ClientState, Engine
from headwater.model.streamapp import ProcessingGuarantee, SparkSpec
from headwater_operator.actions import (
    Action,
    Reason,
    StartDriver,
    StartWorker,
    StopDriver,
    StopHow,
    WriteWorkerSpec,
)
from headwater_operator.decide import DriverView, Intent, Memory, ProcessState, decide
from headwater_operator.decide.limits import (
    DRIVER_SILENCE_MS,
    DRIVER_STALLED_MS,
    DRIVER_START_MS,
    HEALTHY_MS,
    RESTARTS_MAX,
    STOP_AGAIN_MS,
)
from headwater_operator.decide.progress import stalled_ms

ALL_IDS = {f"wc-wc-w-{worker}-{slot}" for worker in (0, 1) for slot in (0, 1)}


def switch(cluster: Cluster, engine: Engine, **more: Any) -> None:
    """Edit the StreamApp."""
    spec = replace(cluster.app.spec, engine=engine, **more)
    cluster.app = replace(cluster.app, spec=spec)


def on_spark(**spec: object) -> Cluster:
    cluster = running(**spec)
    switch(cluster, Engine.SPARK)
    cluster.rounds(20)
    assert cluster.status.state is ClientState.RUNNING, cluster.status
    assert cluster.driver.is_running
    return cluster


def duties(cluster: Cluster) -> list[TakeEngine]:
    return [
        duty
        for view in cluster.views.values()
        for duty in view.worker.spec.duties
        if isinstance(duty, TakeEngine)
    ]


def granted(actions: list[Action] | tuple[Action, ...]) -> list[WriteWorkerSpec]:
    return [a for a in actions if isinstance(a, WriteWorkerSpec) and a.spec.active]


def holds_anything(cluster: Cluster) -> bool:
    return any(
        view.worker.spec.active
        or any(task.role is Role.ACTIVE for task in view.worker.status.tasks)
        for view in cluster.views.values()
        if view.process is ProcessState.RUNNING
    )


def check_one_engine(cluster: Cluster) -> None:
    """The law: whoever may write is of the engine and generation that Kafka has."""
    if not cluster.driver.process.is_proof_of_end:
        assert not holds_anything(cluster), "workers hold tasks while a driver runs"
        assert cluster.engine_fenced, "a driver runs before everything else is fenced"
    if holds_anything(cluster):
        assert cluster.engine is Engine.NATIVE, "workers hold tasks, but Spark has the application"
        assert cluster.engine_fenced, "workers hold tasks before Spark's are fenced"


def go(cluster: Cluster, rounds: int = 20) -> list[Action]:
    actions: list[Action] = []
    for _ in range(rounds):
        actions += cluster.round()
        check_one_engine(cluster)
    return actions


def test_workers_release_everything_before_spark_takes_over() -> None:
    cluster = running()
    switch(cluster, Engine.SPARK)
    while not duties(cluster):
        for action in cluster.decide().actions:
            cluster.act(action)
        if found := duties(cluster):
            break
        cluster.follow()
        cluster.now_ms += 100
    [duty] = found

    assert not holds_anything(cluster)
    assert duty.engine is Engine.SPARK
    assert set(duty.transactional_ids) == ALL_IDS
    assert set(duty.engine_tasks) == {"0_0", "0_1", "1_0", "1_1"}


def test_workers_that_ran_exactly_once_are_fenced_whatever_the_guarantee_is_now() -> None:
    cluster = running()
    switch(cluster, Engine.SPARK, processing_guarantee=ProcessingGuarantee.AT_LEAST_ONCE)
    while not (found := duties(cluster)):
        cluster.round()
    [duty] = found

    assert set(duty.transactional_ids) == ALL_IDS


def test_the_driver_is_started_once_spark_has_the_application_and_the_workers_end() -> None:
    cluster = running()
    switch(cluster, Engine.SPARK)

    go(cluster)

    assert cluster.history == ["taken Spark 1", "driver 1"]
    assert {view.process for view in cluster.views.values()} == {ProcessState.ENDED}
    status = cluster.status
    assert status.state is ClientState.RUNNING
    assert status.engine == EngineStatus(name=Engine.SPARK, generation=1, driver="RUNNING")
    assert (status.tasks.total, status.tasks.running) == (4, 4)
    assert (status.replicas, status.ready_replicas) == (2, 2)


def test_what_the_engine_has_is_written_before_the_driver_is_started() -> None:
    cluster = running()
    switch(cluster, Engine.SPARK)
    for _ in range(20):
        decision = cluster.decide()
        if any(isinstance(action, StartDriver) for action in decision.actions):
            break
        for action in decision.actions:
            cluster.act(action)
        cluster.follow()
        cluster.now_ms += 100

    assert decision.status.engine == EngineStatus(name=Engine.SPARK, generation=1)


def test_workers_get_their_tasks_once_the_driver_has_ended_and_its_ids_are_fenced() -> None:
    cluster = on_spark()
    cluster.stubborn = True
    switch(cluster, Engine.NATIVE)

    go(cluster)

    assert cluster.driver.is_stopping
    assert not holds_anything(cluster)
    assert cluster.engine is Engine.SPARK
    assert "the driver finishes its micro-batch" in cluster.status.reason
    cluster.end_driver()
    go(cluster)
    assert cluster.history == ["taken Spark 1", "driver 1", "taken Native 2"]
    assert cluster.status.tasks.running == 4
    assert cluster.status.state is ClientState.RUNNING
    assert cluster.status.engine == EngineStatus(name=Engine.NATIVE, generation=2)


def test_a_record_of_somebody_elses_spark_is_taken_over_before_tasks_are_granted() -> None:
    cluster = Cluster(engine=Engine.SPARK, engine_generation=7)

    go(cluster)

    assert cluster.history == ["taken Native 8"]
    assert cluster.status.tasks.running == 4


def test_a_new_application_begins_on_spark_with_one_worker_for_the_duties() -> None:
    cluster = Cluster(app=make_app(engine="Spark"))

    actions = go(cluster)

    assert [a.worker for a in actions if isinstance(a, StartWorker)] == ["wc-w-0"]
    assert granted(actions) == []
    assert cluster.history == ["taken Spark 1", "driver 1"]
    assert cluster.status.state is ClientState.RUNNING


def test_a_run_that_finds_the_driver_running_leaves_it_alone() -> None:
    cluster = on_spark()
    cluster.generation, cluster.memory = 2, Memory()

    actions = go(cluster)

    assert [a for a in actions if isinstance(a, StartDriver | StopDriver | StartWorker)] == []
    assert cluster.status.state is ClientState.RUNNING


def test_a_driver_that_ends_is_started_again_at_growing_intervals_then_given_up() -> None:
    cluster = on_spark()
    starts: list[int] = []
    for _ in range(RESTARTS_MAX - 1):
        cluster.end_driver("exit code 1: error: no such number")
        ended_ms = cluster.now_ms
        for _ in range(1_000):
            if any(isinstance(action, StartDriver) for action in cluster.round()):
                break
        starts.append(cluster.now_ms - ended_ms)

    assert starts == sorted(starts)
    assert starts[-1] >= 4_000
    cluster.end_driver("exit code 1: error: no such number")
    go(cluster)
    assert cluster.status.state is ClientState.ERROR
    assert cluster.status.failure is not None
    assert "no such number" in cluster.status.failure.message
    assert cluster.status.failure.is_final


def test_a_driver_that_cannot_ever_work_is_given_up_at_once() -> None:
    cluster = on_spark()
    cluster.end_driver("exit code 2: error: no such module")
    cluster.driver = replace(cluster.driver, is_hopeless=True)

    actions = go(cluster)

    assert [a for a in actions if isinstance(a, StartDriver)] == []
    assert cluster.status.state is ClientState.ERROR


def test_a_driver_that_was_shut_out_is_replaced_by_one_of_a_new_take_over() -> None:
    cluster = on_spark()
    cluster.engine_generation = 5
    cluster.end_driver("exit code 5: error: another driver has taken over")
    cluster.driver = replace(cluster.driver, is_fenced=True)

    go(cluster, 40)

    assert cluster.history[2:] == ["taken Spark 6", "driver 6"]
    assert cluster.status.state is ClientState.RUNNING


@pytest.mark.parametrize("known_as", ["RUNNING", "STOPPING", ""])
def test_a_driver_that_falls_silent_is_killed_and_started_again(known_as: str) -> None:
    cluster = on_spark()
    cluster.driver = replace(cluster.driver, has_answered=False, state=known_as)
    cluster.now_ms += DRIVER_SILENCE_MS - 5_000
    assert [a for a in go(cluster, 3) if isinstance(a, StopDriver)] == []
    cluster.now_ms += 5_000

    actions = go(cluster)

    stops = [a for a in actions if isinstance(a, StopDriver)]
    assert [(a.how, a.reason) for a in stops] == [(StopHow.AT_ONCE, Reason.DRIVER_SILENT)]
    assert cluster.driver.is_running


def test_a_driver_that_does_not_answer_is_shown_as_it_was_with_for_how_long() -> None:
    cluster = on_spark()
    cluster.driver = replace(cluster.driver, has_answered=False, last_batch=899)
    said = []
    for _ in range(5):
        cluster.decide()
        said.append(cluster.status.reason)
        assert cluster.status.state is ClientState.RUNNING
        assert (cluster.status.tasks.total, cluster.status.tasks.running) == (4, 4)
        assert (cluster.status.engine.driver, cluster.status.engine.last_batch) == ("RUNNING", 899)
        cluster.now_ms += 20_000

    # A status that changed with every look would be written for ever.
    assert said[0] == said[1] == "all 4 tasks run on Spark"
    assert "has not answered for 30 s, and is killed after 120 s" in said[2]
    assert "has not answered for 60 s" in said[3]
    assert said[3] == said[4]
    cluster.driver = replace(cluster.driver, has_answered=True)
    cluster.decide()
    assert cluster.status.reason == "all 4 tasks run on Spark"


def test_a_driver_that_is_being_killed_as_silent_runs_nothing() -> None:
    cluster = on_spark()
    cluster.driver = replace(cluster.driver, has_answered=False, process=ProcessState.UNKNOWN)
    cluster.now_ms += DRIVER_SILENCE_MS
    cluster.decide()

    cluster.decide()

    assert cluster.status.state is ClientState.REBALANCING
    assert cluster.status.tasks.running == 0
    assert cluster.status.reason == "Spark's driver did not answer, and is being killed"


def test_an_application_runs_on_spark_from_the_first_micro_batch_on() -> None:
    cluster = on_spark()
    cluster.driver = replace(cluster.driver, batches=0)
    go(cluster, 3)
    assert cluster.status.state is ClientState.REBALANCING
    assert "executors start and restore state" in cluster.status.reason
    assert (cluster.status.tasks.running, cluster.status.tasks.restoring) == (0, 4)

    cluster.driver = replace(cluster.driver, batches=1)
    go(cluster)

    assert cluster.status.state is ClientState.RUNNING
    assert (cluster.status.tasks.running, cluster.status.tasks.restoring) == (4, 0)


def test_a_driver_that_ends_no_micro_batch_is_killed_and_started_again() -> None:
    cluster = on_spark()
    limit_ms = stalled_ms(cluster.app.spec.spark)
    assert limit_ms >= DRIVER_STALLED_MS
    for batches in range(2, 5):  # it takes long, but gets on
        cluster.driver = replace(cluster.driver, batches=batches)
        cluster.round()
        cluster.now_ms += limit_ms - 5_000
        assert [a for a in go(cluster, 3) if isinstance(a, StopDriver)] == []
    cluster.now_ms += 5_000

    actions = go(cluster)

    stops = [a for a in actions if isinstance(a, StopDriver)]
    assert [(a.how, a.reason) for a in stops] == [(StopHow.AT_ONCE, Reason.DRIVER_STALLED)]
    assert cluster.history == ["taken Spark 1", "driver 1", "driver 1"]
    # It has not failed by itself, and the next one has all its time.
    assert cluster.memory.driver.early_deaths == 0
    assert [a for a in go(cluster, 3) if isinstance(a, StopDriver)] == []


def test_that_a_driver_was_killed_as_it_ended_no_micro_batch_is_told_until_the_next_one_has() -> (
    None
):
    cluster = on_spark()
    cluster.batches = 0
    cluster.end_driver("exit code 1: error: no such number")
    go(cluster, 1_000)
    deaths = cluster.memory.driver.early_deaths
    assert deaths == 1
    for _ in range(2):
        cluster.driver = replace(cluster.driver, batches=0)
        cluster.round()
        cluster.now_ms += stalled_ms(cluster.app.spec.spark)

        go(cluster)

        failure = cluster.status.failure
        assert failure is not None
        assert "killed, because no micro-batch had ended for 11 minutes" in failure.message
        assert not failure.is_final
        # What has ended the one before it has not been found over.
        assert cluster.memory.driver.early_deaths == deaths

    cluster.driver = replace(cluster.driver, batches=1)
    go(cluster)

    assert cluster.status.failure is None


def test_a_driver_with_a_long_interval_has_longer_for_a_micro_batch() -> None:
    short = SparkSpec(trigger_interval_ms=500, max_offsets_per_trigger=1)
    long = SparkSpec(trigger_interval_ms=3_600_000, max_offsets_per_trigger=10_000_000)
    assert stalled_ms(short) < 2 * DRIVER_STALLED_MS
    assert stalled_ms(long) > 3_600_000 + 10_000_000


def test_a_driver_whose_pod_waits_has_its_time_from_when_it_can_begin() -> None:
    cluster = on_spark()
    cluster.driver = replace(
        cluster.driver, state="", has_answered=False, waits_for="a node", attempt=77
    )
    cluster.now_ms += 10 * DRIVER_START_MS

    assert [a for a in go(cluster, 3) if isinstance(a, StopDriver)] == []


@pytest.mark.parametrize(
    "end",
    [
        {"process": ProcessState.NONE},
        {"process": ProcessState.ENDED, "end": "exit code 137", "is_stopping": True},
        {"process": ProcessState.ENDED, "end": "Evicted", "was_disrupted": True},
    ],
    ids=["gone", "deleted", "evicted"],
)
def test_an_end_that_is_not_its_own_doing_is_never_counted(end: dict[str, Any]) -> None:
    cluster = on_spark()

    for _ in range(RESTARTS_MAX + 2):
        cluster.driver = replace(cluster.driver, state="", has_answered=False, **end)
        actions = go(cluster, 3)
        assert [type(a) for a in actions if isinstance(a, StartDriver)] == [StartDriver]

    assert cluster.memory.driver.early_deaths == 0
    assert cluster.status.failure is None


def test_what_a_driver_is_started_from_has_changed_so_another_is_started() -> None:
    cluster = on_spark()
    cluster.started_from = "another"

    actions = go(cluster)

    stops = [a for a in actions if isinstance(a, StopDriver)]
    assert [(a.how, a.reason) for a in stops] == [(StopHow.GRACEFULLY, Reason.DRIVER_CHANGED)]
    assert cluster.driver.started_from == "another"
    assert cluster.driver.is_running


def test_executors_are_counted_where_they_can_be_seen() -> None:
    cluster = on_spark()
    cluster.driver = replace(cluster.driver, executors_there=3, executors_ready=1)

    cluster.round()

    assert (cluster.status.replicas, cluster.status.ready_replicas) == (3, 1)


@pytest.mark.parametrize(
    ("says", "has_master"),
    [("", True), ("STARTING", False)],
    ids=["silent with a master", "starting without one"],
)
def test_a_driver_that_never_comes_to_run_is_killed_and_started_again_for_as_long_as_it_takes(
    says: str, has_master: bool
) -> None:
    cluster = running()
    switch(cluster, Engine.SPARK, spark=SparkSpec(master="local[2]" if has_master else None))
    cluster.driver_log = "a person finds its log here"
    cluster.hangs = says
    go(cluster)
    assert cluster.status.engine.driver == "STARTING"
    for number in range(2, RESTARTS_MAX + 4):
        # It goes on to answer all the time.
        for _ in range(DRIVER_START_MS // 60_000):
            assert [a for a in go(cluster, 3) if isinstance(a, StopDriver)] == []
            cluster.now_ms += 59_000
        cluster.now_ms += 5_000
        actions = cluster.rounds(1_000)

        stops = [a for a in actions if isinstance(a, StopDriver)]
        assert [(a.how, a.reason) for a in stops] == [(StopHow.AT_ONCE, Reason.DRIVER_SILENT)]
        assert cluster.driver.attempt == number
        failure = cluster.status.failure
        assert failure is not None
        assert not failure.is_final
        for words in ("within 5 minutes", "; a person finds its log here"):
            assert words in cluster.status.reason
        assert ("spec.spark.master" in cluster.status.reason) is has_master
        cluster.memory = replace(
            cluster.memory, driver=replace(cluster.memory.driver, heard_ms=cluster.now_ms)
        )

    cluster.driver = replace(cluster.driver, has_answered=True, state="RUNNING")
    cluster.round()

    assert cluster.status.failure is None
    assert cluster.status.state is ClientState.RUNNING


@pytest.mark.parametrize(
    "error",
    ["KafkaUnavailableError", "BackfillUnfinishedError", "EngineError", "GroupInUseError"],
)
def test_a_driver_that_ends_of_what_passes_is_started_again_for_as_long_as_it_takes(
    error: str,
) -> None:
    cluster = on_spark()
    for _ in range(RESTARTS_MAX + 2):
        cluster.end_driver("no broker at here:9092 answers", error)
        for _ in range(700):  # more than the longest pause
            if any(isinstance(action, StartDriver) for action in cluster.round()):
                break

        assert cluster.driver.is_running, cluster.status
        cluster.round()
        assert cluster.status.failure is None
    cluster.end_driver("exit code 1: error: no such number")
    cluster.round()

    failure = cluster.status.failure
    assert failure is not None
    assert not failure.is_final, "what has passed is not held against it"


def test_the_failure_of_a_driver_bears_the_name_and_the_words_of_its_cause() -> None:
    cluster = on_spark()
    cluster.end_driver("no broker at here:9092 answers", "KafkaUnavailableError")
    cluster.hangs = "STARTING"
    for _ in range(2):  # also while the next one starts
        cluster.round()

        failure = cluster.status.failure
        assert failure is not None
        assert failure.error == "KafkaUnavailableError"
        assert "no broker at here:9092 answers" in cluster.status.reason


def end_after(cluster: Cluster, lived_ms: int, end: str, error: str = "") -> None:
    """Have the driver live, then end; see what is made of it."""
    cluster.round()
    cluster.now_ms += lived_ms
    cluster.round()
    cluster.end_driver(end, error)
    cluster.round()


def await_driver(cluster: Cluster) -> None:
    for _ in range(700):  # more than the longest pause
        if cluster.driver.is_running:
            return
        cluster.round()
    raise AssertionError(cluster.status)


@pytest.mark.parametrize(
    "error",
    ["DeserializationError", "OffsetsExpiredError", "MissingTopicError", "KafkaAuthError"],
)
@pytest.mark.parametrize("lived_ms", [0, 2 * HEALTHY_MS], ids=["early", "late"])
def test_what_is_final_for_workers_is_for_a_driver_at_once(error: str, lived_ms: int) -> None:
    cluster = on_spark()

    end_after(cluster, lived_ms, "cannot decode the record at lines-0@17", error)

    assert [a for a in go(cluster) if isinstance(a, StartDriver)] == []
    assert cluster.status.state is ClientState.ERROR
    failure = cluster.status.failure
    assert failure is not None
    assert (failure.error, failure.is_final) == (error, True)


def test_drivers_that_live_long_but_end_no_micro_batch_are_given_up() -> None:
    cluster = running()
    switch(cluster, Engine.SPARK)
    cluster.batches = 0
    for number in range(RESTARTS_MAX):
        assert cluster.status.state is not ClientState.ERROR, number
        await_driver(cluster)
        end_after(cluster, 2 * HEALTHY_MS, "exit code 1: error: no such number")

    go(cluster)

    assert cluster.status.state is ClientState.ERROR


def test_a_life_that_has_done_something_is_not_blamed_for_those_before() -> None:
    cluster = on_spark()
    for _ in range(2 * RESTARTS_MAX):
        end_after(cluster, 2 * HEALTHY_MS, "exit code 1: error: no such number")
        await_driver(cluster)

    assert (cluster.memory.driver.early_deaths, cluster.memory.driver.blamed) == (1, 1)


def test_an_eviction_does_not_excuse_the_ends_before_it() -> None:
    cluster = on_spark()
    for _ in range(RESTARTS_MAX - 1):
        end_after(cluster, 0, "exit code 1: error: no such number")
        await_driver(cluster)
    cluster.driver = replace(cluster.driver, was_disrupted=True, state="", has_answered=False)
    end_after(cluster, 0, "Evicted")
    await_driver(cluster)

    end_after(cluster, 0, "exit code 1: error: no such number")
    go(cluster)

    assert cluster.status.state is ClientState.ERROR


def test_a_driver_that_finds_members_in_the_group_waits_until_they_have_gone() -> None:
    cluster = on_spark()
    for _ in range(2 * RESTARTS_MAX):
        end_after(cluster, 0, "the consumer group wc has members", "GroupInUseError")

        failure = cluster.status.failure
        assert failure is not None
        assert (failure.error, failure.is_final) == ("GroupInUseError", False)
        await_driver(cluster)

    assert cluster.memory.driver.blamed == 0
    cluster.round()
    assert cluster.status.state is ClientState.RUNNING


def test_a_topic_that_has_got_partitions_ends_a_driver_and_the_next_one_has_tasks_for_them() -> (
    None
):
    cluster = on_spark()
    end_after(cluster, 0, "topic lines has 3 partitions and had 2", "PartitionMismatchError")
    await_driver(cluster)
    assert cluster.status.state is not ClientState.ERROR

    # Its repartition topics have the old count: that is for somebody to decide.
    cluster.driver = replace(cluster.driver, state="STARTING", batches=0)
    end_after(cluster, 0, "counts-changelog has 2 and is to have 3", "PartitionMismatchError")
    go(cluster)

    assert cluster.status.state is ClientState.ERROR


def test_what_ended_a_driver_is_told_until_the_next_one_has_done_a_micro_batch() -> None:
    cluster = on_spark()
    cluster.batches = 0
    end_after(cluster, 0, "no broker at here:9092 answers", "KafkaUnavailableError")
    await_driver(cluster)
    cluster.round()
    assert cluster.status.engine.driver == "RUNNING"
    assert "no broker at here:9092 answers" in cluster.status.reason

    cluster.driver = replace(cluster.driver, batches=1)
    cluster.round()

    assert cluster.status.failure is None
    assert cluster.status.state is ClientState.RUNNING


def test_another_number_of_replicas_is_another_number_of_executors() -> None:
    cluster = on_spark()
    cluster.app = cluster.app.with_replicas(3)

    actions = go(cluster)

    starts = [a for a in actions if isinstance(a, StartDriver)]
    assert [(a.generation, a.executors) for a in starts] == [(1, 3)]


@pytest.mark.parametrize("how", ["suspend", "stop"])
def test_a_suspended_application_has_no_driver_and_goes_on_without_a_take_over(how: str) -> None:
    cluster = on_spark()
    running_app = cluster.app
    if how == "suspend":
        cluster.app = make_app(engine="Spark", suspend=True)
    else:
        cluster.intent = Intent.STOP
    go(cluster)
    assert cluster.driver.process is ProcessState.ENDED
    assert cluster.status.state is ClientState.NOT_RUNNING

    cluster.app, cluster.intent = running_app, Intent.RUN
    go(cluster)

    assert cluster.history == ["taken Spark 1", "driver 1", "driver 1"]


def test_a_deleted_application_has_no_driver_before_it_is_forgotten() -> None:
    cluster = on_spark()
    cluster.stubborn = True
    cluster.intent = Intent.DELETE

    go(cluster)

    assert cluster.views != {}
    assert cluster.status.state is ClientState.PENDING_SHUTDOWN
    cluster.end_driver()
    go(cluster)
    assert cluster.views == {}
    assert cluster.status.state is ClientState.NOT_RUNNING


def test_a_reset_takes_the_application_from_spark_first() -> None:
    cluster = on_spark()
    cluster.intent = Intent.RESET

    go(cluster, 30)

    assert cluster.memory.reset_done
    assert cluster.history == ["taken Spark 1", "driver 1", "taken Native 2"]


def test_a_frozen_worker_is_fenced_before_spark_gets_anything() -> None:
    cluster = running()
    cluster.silent.add("wc-w-1")
    switch(cluster, Engine.SPARK)
    go(cluster)
    assert cluster.history == []
    cluster.now_ms += 31_000

    go(cluster, 30)

    assert cluster.history == ["taken Spark 1", "driver 1"]


def test_a_told_driver_is_told_again_only_after_a_while() -> None:
    cluster = on_spark()
    cluster.stubborn = True
    switch(cluster, Engine.NATIVE)
    first = [a for a in go(cluster, 5) if isinstance(a, StopDriver)]
    assert [a.reason for a in first] == [Reason.ENGINE_LEAVES]
    cluster.now_ms += STOP_AGAIN_MS

    assert len([a for a in go(cluster, 5) if isinstance(a, StopDriver)]) == 1


@pytest.mark.parametrize("to", [Engine.SPARK, Engine.NATIVE])
@pytest.mark.parametrize("step", range(24))
def test_a_control_loop_killed_between_any_two_steps_is_followed_by_one_that_goes_on(
    step: int, to: Engine
) -> None:
    """Each write of the status and each action is a step; the next run has no memory."""
    cluster = running() if to is Engine.SPARK else on_spark()
    switch(cluster, to)
    left = step
    while left >= 0:
        observed, memory = cluster.observed(), cluster.memory
        decision = decide(observed, memory, cluster.now_ms)
        steps: list[Action | None] = [None, *decision.actions]
        for action in steps:
            if left == 0:
                break
            left -= 1
            if action is None:
                cluster.status = decision.status
            else:
                cluster.act(action)
        else:
            cluster.memory = decision.memory
            cluster.follow()
            cluster.now_ms += 100
            check_one_engine(cluster)
            continue
        break
    cluster.generation, cluster.memory = 2, Memory()
    cluster.follow()
    check_one_engine(cluster)

    go(cluster, 40)

    assert cluster.status.state is ClientState.RUNNING, cluster.status
    assert cluster.engine is to
    assert cluster.driver.is_running is (to is Engine.SPARK)
    assert cluster.status.engine.generation == cluster.engine_generation


def test_a_hand_that_dies_in_a_take_over_is_replaced_and_the_late_one_does_nothing() -> None:
    cluster = running()
    switch(cluster, Engine.SPARK)
    while not duties(cluster):
        for action in cluster.decide().actions:
            cluster.act(action)
        if not duties(cluster):
            cluster.follow()
            cluster.now_ms += 100
    [late] = duties(cluster)
    [hand] = [name for name, view in cluster.views.items() if late in view.worker.spec.duties]
    cluster.views[hand] = replace(cluster.views[hand], process=ProcessState.ENDED)

    go(cluster, 40)
    before = cluster.engine_generation
    cluster.take(late)

    assert cluster.engine_generation == before
    assert cluster.driver.is_running


@pytest.mark.parametrize("to", [Engine.SPARK, Engine.NATIVE])
def test_a_take_over_that_was_broken_off_before_its_fences_is_nobodys(to: Engine) -> None:
    cluster = running() if to is Engine.SPARK else on_spark()
    switch(cluster, to)
    while not duties(cluster):
        for action in cluster.decide().actions:
            cluster.act(action)
        if not duties(cluster):
            cluster.follow()
            cluster.now_ms += 100
    [broken_off] = duties(cluster)
    [hand] = [name for name, view in cluster.views.items() if broken_off in view.worker.spec.duties]
    cluster.write_record(broken_off)
    cluster.views[hand] = replace(cluster.views[hand], process=ProcessState.ENDED)
    taken = cluster.engine_generation

    go(cluster, 60)

    assert cluster.engine_fenced
    assert cluster.history.count(f"taken {to} {taken + 1}") == 1
    assert cluster.status.state is ClientState.RUNNING
    assert cluster.status.engine.generation == taken + 1


def test_after_a_take_over_that_failed_nothing_is_granted_before_a_look() -> None:
    cluster = running(replicas=1)  # or it would wait for the others to start
    switch(cluster, Engine.SPARK)
    cluster.is_cut_off = True
    for _ in range(30):
        cluster.round()
        if cluster.taken:
            break
    assert all(isinstance(result, DutyFailed) for result in cluster.taken.values())
    assert (cluster.engine, cluster.engine_fenced) == (Engine.SPARK, False)

    # Whoever has asked for Spark thinks better of it.
    switch(cluster, Engine.NATIVE)
    cluster.is_cut_off = False
    go(cluster, 40)

    assert cluster.history == ["taken Native 2"]
    assert cluster.status.tasks.running == 4


@pytest.mark.parametrize("engine", [Engine.SPARK, Engine.NATIVE])
@pytest.mark.parametrize("wanted", [Engine.SPARK, Engine.NATIVE])
def test_a_run_that_knows_nothing_takes_over_what_was_left_unfenced(
    engine: Engine, wanted: Engine
) -> None:
    cluster = Cluster(
        app=make_app(engine=wanted.value),
        engine=engine,
        engine_generation=7,
        engine_fenced=False,
    )

    go(cluster, 40)

    assert cluster.history[0] == f"taken {wanted} 8"
    assert cluster.status.state is ClientState.RUNNING
    assert cluster.status.engine.generation == 8


def test_without_a_driver_a_view_says_that_there_is_none() -> None:
    assert DriverView().process.is_proof_of_end
