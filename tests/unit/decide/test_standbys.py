"""Standby and warm-up tasks in the decision: where they are, when they are promoted."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.decide.cluster import Cluster, make_app, running, task, writes

from headwater.model.cluster import LAG_UNKNOWN, Role, StoredTask, TaskStatus, changelogs_digest
from headwater.model.lifecycle import TaskState
from headwater_operator.actions import Reason, StopWorker, describe_action, news_of
from headwater_operator.decide.scene import set_scene
from headwater_operator.decide.stores import usable

ZONE = "topology.kubernetes.io/zone"
T10, T11 = task("1_0"), task("1_1")


def test_each_task_with_state_has_its_standby_on_another_worker():
    cluster = running(assignment={"standbyReplicas": 1})

    assert cluster.held("wc-w-0") == ["0_0", "1_0"]
    assert cluster.spec("wc-w-0").standby == (T11,)
    assert cluster.spec("wc-w-1").standby == (T10,)
    counts = cluster.status.tasks
    assert (counts.standby, counts.caught_up, counts.warmup) == (2, 2, 0)
    assert cluster.round() == ()


def test_every_task_says_why_it_is_where_it_is():
    cluster = running(assignment={"standbyReplicas": 1})

    why = {str(one): said.reason for said in cluster.spec("wc-w-0").why for one in said.tasks}

    assert why == {
        "0_0": "the load is level so, and no state of it was anywhere nearer",
        "1_0": "the load is level so, and no state of it was anywhere nearer",
        "1_1": "as a standby: apart from the task and from its other copies, and level",
    }


def test_standbys_are_spread_over_zones():
    cluster = Cluster(app=make_app(replicas=3, assignment={"standbyReplicas": 1}))
    cluster.places = {
        "wc-w-0": {ZONE: "a"},
        "wc-w-1": {ZONE: "a"},
        "wc-w-2": {ZONE: "b"},
    }

    cluster.rounds()

    zones = {name: labels[ZONE] for name, labels in cluster.places.items()}
    for one in (T10, T11):
        active = [zones[name] for name in zones if one in cluster.spec(name).active]
        standby = [zones[name] for name in zones if one in cluster.spec(name).standby]
        assert sorted(active + standby) == ["a", "b"]


def test_the_standbys_of_a_lost_worker_are_promoted_once_it_is_fenced():
    cluster = running(replicas=3, assignment={"standbyReplicas": 1})
    lost = next(name for name in cluster.views if T10 in cluster.spec(name).active)
    heir = next(name for name in cluster.views if T10 in cluster.spec(name).standby)
    cluster.end(lost)

    found = writes(cluster.rounds(3))

    reasons = [write.reason for write in found]
    fenced = reasons.index(Reason.WORKER_FENCED)
    granted = [write for write in found[fenced:] if T10 in write.spec.active]
    assert [write.worker for write in granted] == [heir]
    why = {one: said.reason for said in cluster.spec(heir).why for one in said.tasks}
    assert why[T10] == "its copy here had caught up"
    assert not any(T10 in write.spec.active for write in found[:fenced] if write.worker != lost)


def test_a_task_without_a_caught_up_standby_waits_for_its_worker_to_come_back():
    cluster = running(replicas=2)
    cluster.end("wc-w-0")
    cluster.silent.add("wc-w-0")

    cluster.rounds(1)

    assert T10 not in cluster.spec("wc-w-1").active


def test_a_stateful_task_stays_until_its_warm_up_has_caught_up():
    cluster = running(replicas=1)
    cluster.slow.add("wc-w-1")
    cluster.app = cluster.app.with_replicas(2)

    cluster.rounds()

    assert cluster.held("wc-w-0") == ["0_0", "1_0", "1_1"]
    assert cluster.spec("wc-w-1").warmup == (T11,)
    assert cluster.status.tasks.warmup == 1
    cluster.slow.clear()
    cluster.follow()
    assert [write.worker for write in writes(cluster.round())] == ["wc-w-0"]
    assert [write.worker for write in writes(cluster.round())] == ["wc-w-1"]
    assert cluster.held("wc-w-1") == ["0_1", "1_1"]
    assert cluster.spec("wc-w-1").warmup == ()


def test_a_warm_up_without_progress_is_given_up_and_tried_again_later():
    cluster = running(replicas=1, assignment={"warmupTimeout": "60s"})
    cluster.slow.add("wc-w-1")
    cluster.app = cluster.app.with_replicas(2)
    cluster.rounds()

    seen = []
    for _ in range(15):
        cluster.now_ms += 10_000
        cluster.round()
        seen.append(bool(cluster.spec("wc-w-1").warmup))

    assert seen == [True] * 5 + [False] * 6 + [True] * 4
    assert T11 in cluster.spec("wc-w-0").active


def test_progress_keeps_a_warm_up():
    cluster = running(replicas=1, assignment={"warmupTimeout": "60s"})
    cluster.slow.add("wc-w-1")
    cluster.app = cluster.app.with_replicas(2)
    cluster.rounds()

    for lag in (10**9, 10**8, 10**7, 10**6):
        for _ in range(5):
            cluster.now_ms += 10_000
            cluster.follow()
            copy = replace(cluster.copies("wc-w-1")[0], lag=lag)
            held = cluster.views["wc-w-1"].worker.status.tasks
            active = tuple(one for one in held if one.task != T11)
            cluster.change("wc-w-1", tasks=(*active, copy))
            cluster.decide()

    assert cluster.spec("wc-w-1").warmup == (T11,)


def test_a_warm_up_has_caught_up_when_its_process_says_so_whatever_its_status_says():
    cluster = running(replicas=1)
    cluster.slow.add("wc-w-1")
    cluster.app = cluster.app.with_replicas(2)
    cluster.rounds()
    assert cluster.spec("wc-w-1").warmup == (T11,)

    cluster.lags = {"wc-w-1": {T11: 10_001}}
    cluster.rounds()
    assert T11 in cluster.spec("wc-w-0").active
    cluster.lags = {"wc-w-1": {T11: 10_000}}
    cluster.rounds()

    assert cluster.held("wc-w-1") == ["0_1", "1_1"]


def test_a_warm_up_that_fell_behind_since_its_last_status_is_not_promoted():
    cluster = running(replicas=1)
    cluster.lags = {"wc-w-1": {T11: 10_001}}
    cluster.app = cluster.app.with_replicas(2)

    cluster.rounds()

    copy = next(each for each in cluster.copies("wc-w-1") if each.task == T11)
    assert copy.caught_up
    assert cluster.spec("wc-w-1").warmup == (T11,)
    assert T11 in cluster.spec("wc-w-0").active
    cluster.lags = {}  # it does not answer any more: its status counts
    cluster.rounds()
    assert T11 in cluster.spec("wc-w-1").active


def test_standbys_that_have_caught_up_are_counted_by_their_exact_lags():
    cluster = running(assignment={"standbyReplicas": 1})
    assert cluster.status.tasks.caught_up == 2

    cluster.lags = {"wc-w-0": {T11: LAG_UNKNOWN}}
    cluster.rounds(1)

    assert cluster.status.tasks.caught_up == 1


def test_progress_within_a_bucket_keeps_a_warm_up_whose_worker_answers():
    cluster = running(replicas=1, assignment={"warmupTimeout": "60s"})
    cluster.slow.add("wc-w-1")
    cluster.app = cluster.app.with_replicas(2)
    cluster.rounds()

    for step in range(20):
        cluster.lags = {"wc-w-1": {T11: 9_000_000 - step}}
        cluster.now_ms += 50_000
        cluster.round()
        assert cluster.spec("wc-w-1").warmup == (T11,)


def test_a_worker_that_goes_keeps_its_state_until_it_is_elsewhere():
    cluster = running()
    cluster.slow.add("wc-w-0")
    cluster.app = cluster.app.with_replicas(1)

    cluster.rounds()

    assert cluster.held("wc-w-1") == ["1_1"]
    assert not cluster.spec("wc-w-1").drain
    cluster.slow.clear()
    actions = cluster.rounds()
    assert len(cluster.held("wc-w-0")) == 4
    assert isinstance(actions[-1], StopWorker)


def test_a_worker_that_goes_waits_no_longer_than_the_drain_timeout():
    cluster = running(scaleDown={"drainTimeout": "1m"})
    cluster.slow.add("wc-w-0")
    cluster.app = cluster.app.with_replicas(1)
    cluster.rounds()

    for _ in range(7):
        cluster.now_ms += 10_000
        cluster.round()
    cluster.rounds()

    assert len(cluster.held("wc-w-0")) == 4
    assert cluster.spec("wc-w-1").drain


def test_a_worker_that_was_started_again_follows_its_standbys_again():
    cluster = running(replicas=5, assignment={"standbyReplicas": 4})
    idle = next(name for name in cluster.views if not cluster.spec(name).active)
    assert cluster.spec(idle).standby == (T10, T11)
    cluster.end(idle)

    cluster.rounds()

    assert cluster.spec(idle).standby == (T10, T11)
    assert cluster.spec(idle).incarnation == cluster.views[idle].worker.status.incarnation
    assert cluster.status.tasks.caught_up == 8


def test_a_new_run_of_the_loop_takes_nothing_away():
    cluster = running(assignment={"standbyReplicas": 1})
    before = {name: view.worker.spec for name, view in cluster.views.items()}

    cluster.generation, cluster.memory = 2, type(cluster.memory)()
    wanted = set()
    for _ in range(12):
        cluster.round()
        wanted.add(cluster.status.tasks.standby)

    assert wanted == {2}
    for name, spec in before.items():
        after = cluster.spec(name)
        assert (after.active, after.standby, after.why) == (spec.active, spec.standby, spec.why)


def test_another_acceptable_lag_reaches_the_workers():
    cluster = running()
    cluster.app = make_app(assignment={"acceptableRecoveryLag": 5})

    found = writes(cluster.rounds())

    assert {write.reason for write in found} == {Reason.ACCEPTABLE_LAG}
    assert {write.spec.acceptable_lag for write in found} == {5}


def test_stores_that_will_be_thrown_away_count_as_empty():
    cluster = running()
    topic, hour = "wc-counts-changelog", 500_000
    cluster.topic_ids = {topic: "id-2"}
    cluster.delete_retention_ms = {topic: 24 * 3_600_000}
    cluster.hour = hour
    cluster.now_ms += 30_000
    cluster.follow()
    cluster.rounds()
    good, bad = (changelogs_digest({topic: uuid}) for uuid in ("id-2", "id-1"))
    cluster.change(
        "wc-w-0",
        stored=(
            StoredTask(task=T10, offset_bucket=10_000, changelogs=bad, saved_hour=hour),
            StoredTask(task=T11, offset_bucket=20_000, changelogs=good, saved_hour=hour - 22),
            StoredTask(task=task("9_9"), offset_bucket=30_000, changelogs=good, saved_hour=hour),
        ),
    )

    scene = set_scene(cluster.observed(), cluster.memory, cluster.now_ms)

    status = cluster.views["wc-w-0"].worker.status
    assert usable(scene, status) == {T11: 20_000}
    late = set_scene(replace(cluster.observed(), hour=hour + 1), cluster.memory, cluster.now_ms)
    assert usable(late, status) == {}


def test_a_copy_does_not_count_as_held():
    cluster = running()
    status = cluster.views["wc-w-0"].worker.status
    copy = TaskStatus(task=T11, state=TaskState.RUNNING, role=Role.STANDBY, lag=LAG_UNKNOWN)

    cluster.change("wc-w-0", tasks=(*status.tasks, copy))

    assert cluster.decide().actions == ()


def test_what_changes_is_told():
    cluster = running(replicas=1)
    cluster.slow.add("wc-w-1")
    cluster.app = cluster.app.with_replicas(2)
    cluster.rounds(1)
    before = cluster.spec("wc-w-1")

    found = [write for write in writes(cluster.rounds()) if write.spec.warmup]

    assert describe_action(found[0]).endswith(
        "no tasks, warm-up 1_1: standby and warm-up tasks go where they are to be"
    )
    assert news_of(before, found[0]) == "warms up 1_1"


def test_a_worker_that_wakes_after_its_fence_is_given_nothing_before_it_has_let_go():
    cluster = running(assignment={"standbyReplicas": 1})
    cluster.silent.add("wc-w-0")
    for _ in range(11):
        cluster.now_ms += 5_000
        cluster.round()
    assert len(cluster.held("wc-w-1")) == 4
    view = cluster.views["wc-w-0"]
    assert view.lease is not None
    assert view.worker.status.tasks  # of before
    cluster.views["wc-w-0"] = replace(view, lease=replace(view.lease, renewals=99))
    cluster.change("wc-w-0", acknowledged_epoch=view.worker.spec.epoch)

    found = writes(cluster.decide().actions)

    assert [write for write in found if write.worker == "wc-w-0"] == []
    cluster.silent.clear()
    cluster.rounds()
    assert len(cluster.held("wc-w-0")) == len(cluster.held("wc-w-1")) == 2
    assert cluster.status.tasks.caught_up == 2
