"""The decision as a whole, along the life of an application."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from tests.unit.decide.cluster import REPORT, Cluster, make_app, running, task, writes

from headwater.errors import GroupInUseError
from headwater.ids import TopicPartition
from headwater.model.appstatus import AppStatus
from headwater.model.cluster import WorkerError, WorkerStatus, generation_of, make_epoch
from headwater.model.duties import (
    CreateTopics,
    DescribeGroup,
    DescribeTopics,
    DutyFailed,
    Fence,
    GroupMember,
    Reset,
)
from headwater.model.hangs import Hang
from headwater.model.lifecycle import ClientState
from headwater_operator.actions import (
    DeleteWorker,
    Reason,
    StartWorker,
    StopHow,
    StopWorker,
    WriteWorkerSpec,
    describe_action,
)
from headwater_operator.decide import Intent, Memory, ProcessState, decide
from headwater_operator.decide.limits import LOOK_SOONER_MS

JAVA = GroupMember(member_id="m-1", client_id="java-app", host="/10.0.0.1")


def test_the_first_decision_creates_and_starts_the_workers():
    cluster = Cluster()

    actions = cluster.decide().actions

    assert [describe_action(action) for action in actions] == [
        "wc-w-0: epoch 1.1, no tasks: the application needs another worker",
        "wc-w-1: epoch 1.2, no tasks: the application needs another worker",
        "wc-w-0: start: the application needs another worker",
        "wc-w-1: start: the application needs another worker",
    ]


def test_nothing_is_settled_between_the_wish_for_a_worker_and_its_tasks():
    cluster = running(replicas=1)
    assert cluster.decide().unsettled == ""
    cluster.app = cluster.app.with_replicas(2)

    said = []
    for _ in range(20):
        decision = cluster.decide()
        said.append(decision.unsettled)
        for action in decision.actions:
            cluster.act(action)
        cluster.follow()
        cluster.now_ms += 100

    settled = said.index("")
    assert said[0] == "wc-w-1 has yet to join"
    assert said[1] in ("wc-w-1 has yet to join", "2 tasks are to move to another worker")
    assert said[settled:] == [""] * (20 - settled)
    assert sorted(map(len, (cluster.held("wc-w-0"), cluster.held("wc-w-1")))) == [2, 2]


def test_a_warm_up_that_was_given_up_leaves_its_task_away():
    cluster = running(replicas=1, assignment={"warmupTimeout": "60s"})
    cluster.slow.add("wc-w-1")
    cluster.app = cluster.app.with_replicas(2)
    cluster.rounds()
    cluster.now_ms += 70_000
    cluster.rounds(3)

    assert cluster.spec("wc-w-1").warmup == ()
    assert cluster.decide().unsettled == "1 task is to move to another worker"


def test_topics_and_group_are_looked_at_before_topics_are_created_and_tasks_granted():
    cluster = Cluster()

    duties = [
        type(duty)
        for write in writes(cluster.rounds())
        for duty in write.spec.duties
        if duty.epoch == write.spec.epoch
    ]

    assert duties == [DescribeGroup, DescribeTopics, CreateTopics]
    assert cluster.topics == {"lines": 2, "wc-words-repartition": 2, "wc-counts-changelog": 2}
    assert cluster.held("wc-w-0") == ["0_0", "1_0"]
    assert cluster.held("wc-w-1") == ["0_1", "1_1"]
    assert cluster.status.state is ClientState.RUNNING
    assert cluster.status.reason == "all 4 tasks run"
    assert cluster.status.ready_replicas == 2


def test_a_look_whose_worker_ends_is_asked_of_another_one_at_once():
    cluster = Cluster()
    asked: list[str] = []
    ended_ms = 0
    while len(asked) < 2:
        for action in cluster.decide().actions:
            cluster.act(action)
            if isinstance(action, WriteWorkerSpec) and DescribeGroup in map(
                type, action.spec.duties
            ):
                asked.append(action.worker)
        if asked and not ended_ms:
            cluster.end(asked[0])  # before it answers
            ended_ms = cluster.now_ms
        cluster.follow()
        cluster.now_ms += 100
        assert not ended_ms or cluster.now_ms - ended_ms < LOOK_SOONER_MS

    assert asked[0] != asked[1]


def test_a_running_application_is_left_alone():
    cluster = running()

    assert cluster.round() == ()
    assert cluster.decide().again_after_ms == 1_000


def test_group_and_topics_are_looked_at_again_every_thirty_seconds():
    cluster = running()

    cluster.now_ms += 30_000
    cluster.follow()
    actions = cluster.round()

    assert [type(duty) for duty in writes(actions)[0].spec.duties] == [
        DescribeGroup,
        DescribeTopics,
    ]
    assert cluster.rounds(3) == []


def test_topics_are_looked_at_as_often_as_metadata_max_age_asks_for():
    cluster = running(config={"metadata.max.age.ms": 20_000})

    cluster.now_ms += 10_000
    cluster.follow()
    assert cluster.round() == ()
    cluster.now_ms += 10_000
    cluster.follow()

    assert DescribeTopics in [type(duty) for duty in writes(cluster.round())[0].spec.duties]


def test_partitions_that_do_not_fit_the_state_end_the_application_and_what_waits_is_counted():
    cluster = running()

    cluster.topics["lines"] = 3
    cluster.unread["lines"] = 30
    cluster.now_ms += 30_000
    cluster.follow()
    cluster.rounds()

    assert cluster.status.state is ClientState.REBALANCING, "records wait that nobody reads"
    assert cluster.status.failure is not None
    assert not cluster.status.failure.is_final

    cluster.now_ms += LOOK_SOONER_MS
    cluster.follow()
    cluster.rounds()

    assert cluster.status.state is ClientState.ERROR
    assert all(view.process is ProcessState.ENDED for view in cluster.views.values())
    assert cluster.status.unread_records == 30
    said = cluster.status.failure.message
    wanted = (
        "wc-words-repartition has 2 partitions, but the topology needs 3, as many as lines has",
        "Kafka cannot take partitions away",
        "30 records of lines wait there",
        "'headwater reset'",
    )
    assert [part for part in wanted if part not in said] == []


def test_foreign_members_are_waited_for_by_name():
    cluster = Cluster(members=(JAVA,))

    cluster.rounds()

    assert cluster.held("wc-w-0") == []
    assert cluster.status.state is ClientState.CREATED
    assert cluster.status.failure is not None
    assert not cluster.status.failure.is_final
    assert "java-app at /10.0.0.1" in cluster.status.failure.message

    cluster.members = ()
    cluster.now_ms += 5_000
    cluster.rounds()

    assert cluster.status.state is ClientState.RUNNING
    assert cluster.status.failure is None


def test_a_foreign_member_stops_an_application_that_runs():
    cluster = running()

    cluster.members = (JAVA,)
    cluster.now_ms += 30_000
    cluster.follow()
    cluster.rounds()

    assert cluster.status.state is ClientState.ERROR
    assert cluster.status.failure is not None
    assert cluster.status.failure.is_final
    assert cluster.status.failure.error == GroupInUseError.__name__
    assert all(view.process is ProcessState.ENDED for view in cluster.views.values())
    assert cluster.rounds(3) == []


def test_a_member_that_a_worker_has_seen_is_looked_up_at_once():
    cluster = running()
    cluster.members = (JAVA,)
    cluster.now_ms += LOOK_SOONER_MS
    cluster.rounds()
    assert cluster.status.state is ClientState.RUNNING, "the next look is not due yet"

    cluster.change("wc-w-0", group_in_use=True)
    cluster.rounds()

    assert cluster.status.state is ClientState.ERROR
    assert cluster.status.failure is not None
    assert cluster.status.failure.error == GroupInUseError.__name__


def test_a_final_failure_is_heeded_by_the_next_run_of_the_loop():
    cluster = running()
    cluster.members = (JAVA,)
    cluster.now_ms += 30_000
    cluster.follow()
    cluster.rounds()

    cluster.members, cluster.memory, cluster.generation = (), Memory(), 2
    cluster.rounds()

    assert cluster.status.state is ClientState.ERROR
    cluster.status = AppStatus()
    cluster.rounds(20)
    assert cluster.status.state is ClientState.RUNNING


def test_a_lost_worker_is_emptied_then_fenced_then_its_tasks_are_granted():
    cluster = running(assignment={"moveDelay": "0s"})
    cluster.end("wc-w-0")

    first = cluster.decide().actions
    for action in first:
        cluster.act(action)

    lost, fence = writes(first)
    assert lost.reason is Reason.WORKER_LOST
    assert (lost.spec.active, lost.spec.incarnation) == ((), "")
    assert lost.spec.revoking == (task("0_0"), task("1_0"))
    assert lost.spec.fencing_epoch == lost.spec.epoch
    assert fence.worker == "wc-w-1"
    assert fence.spec.duties == (
        Fence(
            id=f"fence-wc-w-0-{fence.spec.epoch}",
            epoch=fence.spec.epoch,
            worker="wc-w-0",
            transactional_ids=("wc-wc-w-0-0", "wc-wc-w-0-1"),
        ),
    )
    assert fence.spec.epoch > lost.spec.epoch
    assert isinstance(first[-1], StartWorker)

    assert cluster.decide().actions == ()  # Nothing until the fence is answered.
    cluster.follow_one("wc-w-1")
    assert [write.reason for write in writes(cluster.round())] == [Reason.WORKER_FENCED]
    cluster.rounds(6)
    assert cluster.status.state is ClientState.RUNNING


def test_the_tasks_of_a_dead_worker_wait_for_its_next_process():
    cluster = running()
    cluster.end("wc-w-0")

    cluster.rounds(8)

    assert cluster.held("wc-w-0") == ["0_0", "1_0"]
    assert cluster.held("wc-w-1") == ["0_1", "1_1"]


def test_the_tasks_of_a_dead_worker_do_not_wait_for_ever():
    cluster = running()
    cluster.end("wc-w-0")
    cluster.silent.add("wc-w-0")
    for _ in range(6):
        for action in cluster.decide().actions:
            if not isinstance(action, StartWorker):
                cluster.act(action)
        cluster.follow()
        cluster.now_ms += 10_000

    assert cluster.held("wc-w-1") == ["0_0", "0_1", "1_0", "1_1"]


def test_a_worker_that_dies_again_at_once_is_not_waited_for():
    cluster = running()
    for _ in range(2):
        cluster.end("wc-w-0")
        cluster.round()
        cluster.round()
        cluster.now_ms += 1_000
    cluster.end("wc-w-0")
    for _ in range(4):
        for action in cluster.decide().actions:
            if not isinstance(action, StartWorker):
                cluster.act(action)
        cluster.follow()

    assert len(cluster.held("wc-w-1")) == 4


def test_a_silent_worker_is_fenced_and_its_tasks_move_at_once():
    cluster = running()
    cluster.silent.add("wc-w-0")
    for _ in range(7):
        cluster.now_ms += 5_000
        cluster.round()
    cluster.rounds(4)

    assert cluster.views["wc-w-0"].process is ProcessState.RUNNING
    assert cluster.held("wc-w-0") == []
    assert len(cluster.held("wc-w-1")) == 4


def test_a_process_that_does_not_report_in_its_time_gives_the_next_one_twice_as_long():
    cluster = Cluster(app=make_app(replicas=1))
    lives_s: list[float] = []
    reports = False

    def go_on(starts: int) -> None:
        """Go on, second by second, until so many processes were killed."""
        began_ms = 0
        while len(lives_s) < starts:
            for action in cluster.decide().actions:
                cluster.act(action)
                if isinstance(action, StartWorker):
                    began_ms = cluster.now_ms
                    if not reports:
                        view = cluster.views[action.worker]
                        mute = replace(view.worker, status=WorkerStatus())
                        cluster.views[action.worker] = replace(view, worker=mute, lease=None)
                elif isinstance(action, StopWorker):
                    # That its Lease has gone may be seen a second later.
                    lives_s.append(round((cluster.now_ms - began_ms) / 1_000, -1))
            cluster.now_ms += 1_000

    go_on(6)
    assert lives_s == [60, 120, 240, 480, 960, 960]
    lives_s.clear()
    reports = True
    [name] = cluster.views
    while cluster.views[name].worker.status.incarnation == "":
        cluster.round()
    cluster.rounds()
    cluster.end(name)
    reports = False
    go_on(2)
    assert lives_s == [60, 120]


def test_a_worker_that_is_silent_for_long_is_killed_and_started_again():
    cluster = running()
    cluster.silent.add("wc-w-0")
    found: list[object] = []
    for _ in range(24):
        cluster.now_ms += 5_000
        found += cluster.round()

    stops = [action for action in found if isinstance(action, StopWorker)]
    assert stops == [StopWorker(worker="wc-w-0", how=StopHow.AT_ONCE, reason=Reason.SILENT)]
    cluster.rounds()
    assert len(cluster.held("wc-w-0")) == 2


def test_with_no_worker_alive_the_first_replacement_fences_before_it_gets_tasks():
    cluster = running()
    cluster.end("wc-w-0")
    cluster.end("wc-w-1")

    actions = cluster.rounds(10)

    reasons = [write.reason for write in writes(actions)]
    assert reasons[:2] == [Reason.WORKER_LOST, Reason.WORKER_LOST]
    assert reasons.index(Reason.FENCE_LOST_WORKER) < reasons.index(Reason.WORKER_FENCED)
    assert reasons.index(Reason.WORKER_FENCED) < reasons.index(Reason.TASKS_GRANTED)
    assert cluster.status.state is ClientState.RUNNING


def test_another_incarnation_holds_nothing_until_the_first_is_fenced():
    cluster = running()
    cluster.start("wc-w-0")  # As a container that was started again by somebody else.

    reasons = [write.reason for write in writes(cluster.rounds(8))]

    assert reasons == [
        Reason.WORKER_LOST,
        Reason.FENCE_LOST_WORKER,
        Reason.WORKER_FENCED,
        Reason.TASKS_GRANTED,
    ]
    assert cluster.spec("wc-w-0").incarnation == "i3"


def test_a_failed_fence_is_handed_out_again():
    cluster = running()
    cluster.end("wc-w-0")
    for action in cluster.decide().actions:
        cluster.act(action)
    (duty,) = cluster.spec("wc-w-1").duties
    failed = DutyFailed(id=duty.id, error="KafkaUnavailableError", message="no broker")
    cluster.change("wc-w-1", duty_results=(failed,))

    assert not any(write.worker == "wc-w-1" for write in writes(cluster.decide().actions))
    assert cluster.status.failure is not None
    cluster.now_ms += 1_000
    (again,) = writes(cluster.decide().actions)
    assert [one.id for one in again.spec.duties] == [f"fence-wc-w-0-{again.spec.epoch}"]


def test_a_fence_passes_to_another_worker_when_its_executor_dies():
    cluster = running(replicas=3)
    cluster.end("wc-w-2")
    for action in cluster.decide().actions:
        cluster.act(action)
    assert cluster.spec("wc-w-0").duties
    cluster.end("wc-w-0")

    found = writes(cluster.decide().actions)

    fenced = [
        duty.worker
        for write in found
        if write.worker == "wc-w-1"
        for duty in write.spec.duties
        if isinstance(duty, Fence)
    ]
    assert fenced == ["wc-w-0", "wc-w-2"]


def test_at_least_once_needs_no_fence():
    cluster = running(processingGuarantee="at_least_once")
    cluster.end("wc-w-0")

    reasons = [write.reason for write in writes(cluster.rounds(8))]

    assert reasons == [Reason.WORKER_LOST, Reason.WORKER_FENCED, Reason.TASKS_GRANTED]


def test_a_slot_fenced_by_accident_gets_its_tasks_again_under_a_new_epoch():
    cluster = running()
    before = cluster.spec("wc-w-0")
    cluster.change("wc-w-0", fenced_slots=(1,))

    (write,) = writes(cluster.round())

    assert write.reason is Reason.SLOT_FENCED
    assert write.spec == replace(before, epoch=write.spec.epoch, duties=())
    assert write.spec.epoch > before.epoch
    assert cluster.rounds(3) == []


def test_a_new_run_takes_every_worker_over_before_it_grants_anything():
    cluster = running()
    cluster.end("wc-w-0")
    cluster.generation, cluster.memory = 2, Memory()

    first = writes(cluster.round())

    assert {generation_of(write.spec.epoch) for write in first} == {2}
    assert [(write.worker, write.reason) for write in first] == [
        ("wc-w-0", Reason.WORKER_LOST),
        ("wc-w-1", Reason.ADOPTED),
    ]
    cluster.rounds(10)
    assert cluster.status.state is ClientState.RUNNING


def test_a_new_run_does_not_forget_the_tasks_of_a_lost_worker():
    cluster = running(processingGuarantee="at_least_once")
    cluster.end("wc-w-0")
    cluster.generation, cluster.memory = 2, Memory()

    statuses = []
    for number in range(12):
        if number < 6:
            # Kafka takes its time to answer.
            cluster.unanswered()
        cluster.round()
        statuses.append(cluster.status)

    # Fenced before the topics were looked up, they were in no spec for a while.
    assert {status.tasks.total for status in statuses} == {4}
    assert 2 in {status.tasks.unassigned for status in statuses}
    by_state = {(status.state, status.tasks.running) for status in statuses}
    assert by_state == {(ClientState.REBALANCING, 2), (ClientState.RUNNING, 4)}


def test_a_warm_up_does_not_hide_that_a_worker_has_yet_to_join():
    cluster = running(replicas=1)
    cluster.slow.add("wc-w-1")
    cluster.app = cluster.app.with_replicas(2)
    cluster.rounds()
    assert cluster.decide().status.tasks.warmup == 1
    assert cluster.decide().waits_for == ""
    cluster.app = cluster.app.with_replicas(3)

    decision = cluster.decide()

    assert decision.status.state is ClientState.RUNNING
    assert decision.status.tasks.warmup == 1
    assert decision.waits_for == "wc-w-2 has yet to join"


def test_a_leader_that_was_replaced_without_noticing_can_write_nothing_any_more():
    cluster = Cluster()
    late: list[WriteWorkerSpec] = []
    while not any(write.spec.active for write in late):
        cluster.round()
        decision = decide(cluster.observed(), cluster.memory, cluster.now_ms)
        late = writes(decision.actions)
    (late_grant,) = (write for write in late if write.worker == "wc-w-1")

    # The old leader freezes before it writes this; worker 1 is not heard of any more either.
    cluster.generation, cluster.memory = 2, Memory()
    cluster.silent.add("wc-w-1")
    for _ in range(20):
        cluster.now_ms += 3_000
        cluster.round()

    assert len(cluster.held("wc-w-0")) == 4
    assert cluster.spec("wc-w-1").epoch != late_grant.replaces
    assert cluster.spec("wc-w-1").epoch > late_grant.spec.epoch


def test_a_run_that_was_replaced_does_nothing():
    cluster = running()
    cluster.generation = 2
    cluster.round()
    cluster.generation = 1
    cluster.end("wc-w-0")

    assert cluster.decide().actions == ()


def test_scaling_up_moves_tasks_in_two_phases():
    cluster = running(replicas=1)
    assert len(cluster.held("wc-w-0")) == 4
    cluster.app = cluster.app.with_replicas(2)
    cluster.rounds(1)

    revoke = writes(cluster.decide().actions)
    for action in revoke:
        cluster.act(action)

    assert [(write.worker, write.reason, write.spec.warmup) for write in revoke] == [
        ("wc-w-0", Reason.TASKS_REVOKED, ()),  # 0_1 has no state
        ("wc-w-1", Reason.COPIES, (task("1_1"),)),
    ]
    assert writes(cluster.decide().actions) == []  # Nothing until the release is acknowledged.
    cluster.rounds()
    assert cluster.held("wc-w-0") == ["0_0", "1_0"]
    assert cluster.held("wc-w-1") == ["0_1", "1_1"]


def test_scaling_down_drains_before_it_stops():
    cluster = running()
    cluster.app = cluster.app.with_replicas(1)

    actions = cluster.rounds()

    assert [(action.worker, action.reason) for action in actions] == [
        ("wc-w-0", Reason.COPIES),
        ("wc-w-1", Reason.TASKS_REVOKED),  # 0_1, which has no state
        ("wc-w-0", Reason.TASKS_GRANTED),
        ("wc-w-1", Reason.TASKS_REVOKED),  # 1_1, which has caught up on w-0
        ("wc-w-0", Reason.TASKS_GRANTED),
        ("wc-w-1", Reason.DRAINED),
    ]
    assert cluster.spec("wc-w-1").drain
    assert cluster.views["wc-w-1"].process is ProcessState.ENDED
    assert len(cluster.held("wc-w-0")) == 4


def test_scaling_up_again_brings_back_the_worker_that_has_the_state():
    cluster = running()
    cluster.app = cluster.app.with_replicas(1)
    cluster.rounds()
    cluster.app = cluster.app.with_replicas(2)

    cluster.rounds()

    assert sorted(cluster.views) == ["wc-w-0", "wc-w-1"]
    assert cluster.held("wc-w-1") == ["0_1", "1_1"]


def test_scaling_down_deletes_the_worker_if_its_state_is_not_to_be_kept():
    cluster = running(state={"retention": {"whenScaled": "Delete"}})
    cluster.app = cluster.app.with_replicas(1)

    actions = cluster.rounds()

    (deleted,) = (action for action in actions if isinstance(action, DeleteWorker))
    assert deleted.worker == "wc-w-1"
    assert deleted.delete_state
    assert list(cluster.views) == ["wc-w-0"]


def test_no_replicas_run_nothing_and_keep_everything():
    cluster = running()
    cluster.app = cluster.app.with_replicas(0)

    cluster.rounds()

    assert cluster.status.state is ClientState.NOT_RUNNING
    assert sorted(cluster.views) == ["wc-w-0", "wc-w-1"]


def test_stopping_fences_a_dead_worker_before_the_application_counts_as_stopped():
    cluster = running()
    cluster.end("wc-w-0")
    cluster.intent = Intent.STOP

    actions = cluster.rounds()

    reasons = [write.reason for write in writes(actions)]
    assert reasons.index(Reason.WORKER_LOST) < reasons.index(Reason.WORKER_FENCED)
    assert cluster.status.state is ClientState.NOT_RUNNING
    assert cluster.status.reason == "stopped: every slot is closed or fenced"


def test_stopping_starts_a_worker_when_none_is_left_to_fence():
    cluster = running()
    cluster.end("wc-w-0")
    cluster.end("wc-w-1")
    cluster.intent = Intent.STOP

    actions = cluster.rounds()

    assert any(isinstance(action, StartWorker) for action in actions)
    assert not any(write.spec.active for write in writes(actions))
    assert cluster.status.state is ClientState.NOT_RUNNING


def test_deleting_stops_everything_first():
    cluster = running(state={"retention": {"whenDeleted": "Delete"}})
    cluster.intent = Intent.DELETE

    actions = cluster.rounds()

    deleted = [action for action in actions if isinstance(action, DeleteWorker)]
    assert [(action.worker, action.delete_state) for action in deleted] == [
        ("wc-w-0", True),
        ("wc-w-1", True),
    ]
    assert cluster.status.state is ClientState.NOT_RUNNING


def test_a_reset_runs_when_nothing_else_does_and_leaves_nothing():
    cluster = running()
    cluster.intent = Intent.RESET

    actions = cluster.rounds(20)

    reset_at = next(
        index
        for index, action in enumerate(actions)
        if any(duty.KIND == "Reset" for write in writes([action]) for duty in write.spec.duties)
    )
    assert not any(write.spec.active for write in writes(actions[reset_at:]))
    assert cluster.views == {}
    assert cluster.status.state is ClientState.NOT_RUNNING


def test_a_reset_says_where_to_begin():
    cluster = running()
    cluster.intent = Intent.RESET
    cluster.reset_to = "shift:-5"

    actions = cluster.rounds(20)

    duties = [duty for write in writes(actions) for duty in write.spec.duties]
    assert {duty.to for duty in duties if isinstance(duty, Reset)} == {"shift:-5"}
    assert cluster.views == {}


def test_a_missing_source_topic_is_named_and_waited_for():
    cluster = Cluster(topics={})

    cluster.rounds()

    assert cluster.status.failure is not None
    assert cluster.status.failure.error == "MissingTopicError"
    assert "source topic 'lines' does not exist" in cluster.status.reason
    cluster.topics["lines"] = 2
    cluster.now_ms += 5_000
    cluster.rounds()
    assert cluster.status.state is ClientState.RUNNING


def test_workers_that_run_different_code_get_nothing():
    cluster = Cluster()
    cluster.rounds(2)
    cluster.change("wc-w-1", topology=replace(REPORT, hash="two"))

    cluster.rounds(5)

    assert cluster.held("wc-w-0") == []
    assert cluster.status.failure is not None
    assert "wc-w-0, wc-w-1 differ" in cluster.status.failure.message


@pytest.mark.parametrize(
    ("error", "is_final"),
    [
        ("ImportPathError", True),
        ("DeserializationError", True),
        ("MissingTopicError", True),
        ("KafkaAuthError", True),
        ("DiskFullError", True),
        ("KafkaUnavailableError", False),
        ("StoreLockedError", False),
        ("ZeroDivisionError", False),
    ],
)
def test_only_failures_that_another_start_cannot_cure_end_the_application(error, is_final):
    cluster = running()
    cluster.change("wc-w-0", error=WorkerError(error=error, message="boom"))

    cluster.decide()

    assert cluster.status.failure is not None
    assert cluster.status.failure.is_final is is_final
    assert cluster.status.failure.worker == "wc-w-0"


def test_a_worker_that_is_to_shut_the_application_down_ends_it_whatever_its_error_is() -> None:
    cluster = running()
    error = WorkerError(error="KafkaUnavailableError", message="boom", shuts_down_application=True)
    cluster.change("wc-w-0", error=error)

    cluster.rounds(10)

    assert cluster.status.state is ClientState.ERROR
    assert cluster.status.failure is not None
    assert cluster.status.failure.is_final
    assert "boom" in cluster.status.reason


def test_a_function_that_hangs_is_told_until_it_is_over_and_everything_goes_on() -> None:
    cluster = running()
    here = Hang(task=task("0_1"), node="N", partition=TopicPartition("lines", 1), offset=7)
    there = Hang(task=task("1_1"), node="M", times=3)
    cluster.change("wc-w-0", hangs=(here, there))

    cluster.rounds(5)

    failure = cluster.status.failure
    assert failure is not None
    assert (failure.error, failure.worker) == ("FunctionHangsError", "wc-w-0")
    assert not failure.is_final
    assert "3 times in a row: task 1_1, node M, with no record under way" in failure.message
    assert "and 1 other task likewise" in failure.message
    assert cluster.status.state is ClientState.RUNNING

    cluster.change("wc-w-0", hangs=(here,))
    cluster.decide()
    assert cluster.status.failure is not None
    assert (
        "once: task 0_1, node N, topic lines partition 1 offset 7" in cluster.status.failure.message
    )
    cluster.change("wc-w-0", hangs=())
    cluster.decide()
    assert cluster.status.failure is None


def test_what_a_worker_said_before_this_run_is_not_held_against_it():
    cluster = running()
    cluster.change("wc-w-0", error=WorkerError(error="ImportPathError", message="boom"))
    cluster.end("wc-w-0")
    cluster.end("wc-w-1")
    cluster.memory, cluster.generation = Memory(), 2

    cluster.rounds(20)

    assert cluster.status.state is ClientState.RUNNING


def test_a_worker_that_keeps_dying_is_started_ever_more_slowly():
    cluster = running(assignment={"moveDelay": "0s"})
    starts = []
    for _ in range(300):
        if cluster.views["wc-w-0"].process is ProcessState.RUNNING:
            cluster.end("wc-w-0")
        starts += [cluster.now_ms for action in cluster.round() if isinstance(action, StartWorker)]

    gaps = [round(later - earlier, -3) for earlier, later in pairwise(starts)]
    assert gaps == [1_000, 2_000, 4_000, 8_000]


def test_tasks_wait_for_all_workers_at_first_but_not_for_ever():
    cluster = Cluster()
    cluster.rounds(1)
    cluster.end("wc-w-1")
    cluster.silent.add("wc-w-1")

    def without_the_second() -> None:
        for action in cluster.decide().actions:
            if not (isinstance(action, StartWorker) and action.worker == "wc-w-1"):
                cluster.act(action)
        cluster.follow()
        cluster.now_ms += 500

    for _ in range(6):
        without_the_second()
    assert cluster.held("wc-w-0") == []
    for _ in range(25):
        without_the_second()
    assert len(cluster.held("wc-w-0")) == 4


def test_deciding_twice_about_the_same_world_decides_the_same():
    cluster = running()
    cluster.end("wc-w-0")

    first, second = (decide(cluster.observed(), cluster.memory, cluster.now_ms) for _ in range(2))

    assert first == second
    assert first.actions


def test_epochs_only_grow_even_when_every_worker_was_deleted():
    cluster = running()
    cluster.intent = Intent.DELETE
    cluster.rounds()
    highest = cluster.status.assignment_epoch
    cluster.intent = Intent.RUN

    first = writes(cluster.decide().actions)[0]

    assert first.spec.epoch > highest >= make_epoch(1, 1)


def test_a_pause_is_written_to_every_worker_and_holds_when_all_have_paused():
    cluster = running()
    cluster.app = make_app(paused=True)
    told = writes(cluster.decide().actions)
    assert {write.reason for write in told} == {Reason.PAUSED}
    assert all(write.spec.paused for write in told)
    assert len(told) == len(cluster.views)

    cluster.rounds(3)
    decision = cluster.decide()
    assert decision.actions == ()
    assert not decision.status.paused
    assert "about to pause" in decision.status.reason

    for name in list(cluster.views):
        cluster.change(name, paused=True)
    status = cluster.decide().status
    assert status.paused
    assert status.state is ClientState.RUNNING
    assert "have paused" in status.reason

    cluster.app = make_app()
    assert {write.reason for write in writes(cluster.decide().actions)} == {Reason.RESUMED}
    assert not cluster.decide().status.paused


def test_more_threads_add_slots_and_fewer_keep_them():
    cluster = running()
    cluster.app = make_app(threadsPerWorker=3)
    cluster.rounds(3)
    assert cluster.spec("wc-w-0").slots == (0, 1, 2)
    assert cluster.spec("wc-w-0").running_slots == (0, 1, 2)

    cluster.app = make_app(threadsPerWorker=1)
    fewer = writes(cluster.decide().actions)
    assert {write.reason for write in fewer} == {Reason.THREADS}
    cluster.rounds(3)
    assert cluster.spec("wc-w-0").slots == (0, 1, 2)
    assert cluster.spec("wc-w-0").running_slots == (0,)
