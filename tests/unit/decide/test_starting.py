"""Workers whose process has not begun: it imports, did not hear, or is known not to begin."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.decide.cluster import Cluster, make_app, running

from headwater.model.cluster import WorkerStatus
from headwater_operator.actions import Action, Reason, StartWorker, StopHow, StopWorker
from headwater_operator.decide import ProcessState
from headwater_operator.decide.limits import IMPORT_SLACK_MS, MOUNT_AGAIN_MS, UNHEARD_STOP_MS

W0, W1 = "wc-w-0", "wc-w-1"


def importing(cluster: Cluster, name: str) -> None:
    """The newest process of a worker says that it imports; it renews no Lease."""
    view = cluster.views[name]
    status = WorkerStatus(incarnation=view.worker.status.incarnation, importing=True)
    cluster.views[name] = replace(view, worker=replace(view.worker, status=status))
    cluster.silent.add(name)


def unheard(cluster: Cluster, name: str) -> None:
    """The newest process of a worker has not said a word yet."""
    importing(cluster, name)
    cluster.change(name, incarnation="", importing=False)


def stops(actions: list[Action] | tuple[Action, ...]) -> list[StopWorker]:
    return [action for action in actions if isinstance(action, StopWorker)]


def test_a_worker_that_imports_is_told_with_its_limit_and_not_taken_for_silent() -> None:
    cluster = Cluster(app=make_app(topology={"module": "a:b", "importTimeout": "400s"}))
    cluster.round()
    importing(cluster, W0)
    importing(cluster, W1)

    decision = cluster.decide()
    cluster.now_ms += 400_000 + IMPORT_SLACK_MS - 1_000
    ended = stops(cluster.decide().actions)

    said = f"{W0} and {W1} import the topology a:b, which may take 400 s"
    assert decision.importing == f"{said} (spec.topology.importTimeout)"
    assert cluster.status.reason == decision.importing
    assert ended == []


def test_one_that_imports_on_and_on_is_killed_with_the_limit_as_the_reason() -> None:
    cluster = Cluster(app=make_app(replicas=1))
    cluster.round()
    importing(cluster, W0)
    cluster.decide()
    cluster.now_ms += 300_000 + IMPORT_SLACK_MS + 1_000

    [ended] = stops(cluster.decide().actions)

    assert (ended.how, ended.reason) == (StopHow.AT_ONCE, Reason.IMPORT_TIMED_OUT)
    assert "spec.topology.importTimeout" in ended.reason


def test_one_that_imports_is_given_nothing_and_the_others_go_on() -> None:
    cluster = running()
    cluster.app = make_app(replicas=3)
    cluster.round()
    importing(cluster, "wc-w-2")

    cluster.rounds()

    assert cluster.held("wc-w-2") == []
    assert cluster.status.tasks.running == 4
    assert "wc-w-2 imports the topology a:b" in cluster.decide().unsettled


def test_one_that_imported_runs_as_any_other() -> None:
    cluster = Cluster(app=make_app(replicas=1))
    cluster.round()
    importing(cluster, W0)
    cluster.rounds(3)
    cluster.start(W0)

    cluster.rounds()

    assert cluster.status.tasks.running == 4
    assert cluster.decide().importing == ""


def test_one_that_has_not_begun_is_not_asked_before_it_is_stopped() -> None:
    for begin in (importing, unheard):
        cluster = running()
        cluster.app = make_app(replicas=3)
        cluster.round()
        begin(cluster, "wc-w-2")
        cluster.rounds(3)
        cluster.app = make_app()

        ended = stops(cluster.rounds(3))

        assert [(each.worker, each.how) for each in ended] == [("wc-w-2", StopHow.GRACEFULLY)]


def test_one_that_did_not_hear_that_it_is_to_end_is_killed_if_it_has_nothing() -> None:
    cluster = running()
    cluster.app = make_app(replicas=3)
    cluster.round()
    unheard(cluster, "wc-w-2")
    cluster.views["wc-w-2"] = replace(cluster.views["wc-w-2"], is_stopping=True)
    # One that has begun takes the time it needs.
    cluster.views[W0] = replace(cluster.views[W0], is_stopping=True)
    cluster.rounds(2)
    cluster.now_ms += UNHEARD_STOP_MS

    ended = stops(cluster.decide().actions)
    again = stops(cluster.decide().actions)

    assert [(each.worker, each.how) for each in ended] == [("wc-w-2", StopHow.AT_ONCE)]
    assert again == []


def test_the_tasks_of_a_worker_that_cannot_begin_move_at_once_after_the_fence() -> None:
    """A dead one is waited for; one whose image cannot be had is not."""
    cluster = running()
    moved = cluster.held(W0)
    assert moved
    cluster.end(W0)
    cluster.rounds(1)
    view = cluster.views[W0]
    cluster.views[W0] = replace(
        view,
        process=ProcessState.RUNNING,
        lease=None,
        waits_for="ErrImagePull",
        problem="ErrImagePull",
        is_hopeless=True,
        worker=replace(view.worker, status=WorkerStatus()),
    )
    cluster.silent.add(W0)

    cluster.rounds()

    assert cluster.held(W0) == []
    assert cluster.status.tasks.running == 4
    # 12 rounds are 1.2 s: nothing was waited for.
    assert sorted(cluster.held(W1)) == ["0_0", "0_1", "1_0", "1_1"]


def test_the_first_tasks_do_not_wait_for_a_worker_that_cannot_begin() -> None:
    cluster = Cluster()
    cluster.round()
    importing(cluster, W0)
    cluster.change(W0, incarnation="", importing=False)
    cluster.views[W0] = replace(
        cluster.views[W0], waits_for="ErrImagePull", problem="ErrImagePull", is_hopeless=True
    )

    cluster.rounds()

    assert cluster.status.tasks.running == 4


def without_secret(cluster: Cluster, name: str) -> None:
    """The newest process of a worker waits for a Secret that its kubelet did not find."""
    unheard(cluster, name)
    view = cluster.views[name]
    said = "its container to be created"
    cluster.views[name] = replace(view, waits_for=said, lacks_file=True, lease=None)


def test_a_pod_that_waits_for_a_secret_is_made_anew_and_no_early_death_is_counted() -> None:
    cluster = Cluster(app=make_app(replicas=1))
    cluster.round()
    for _ in range(3):
        without_secret(cluster, W0)
        cluster.rounds(2)
        assert stops(cluster.decide().actions) == []
        cluster.now_ms += MOUNT_AGAIN_MS

        [ended] = stops(cluster.decide().actions)
        assert (ended.how, ended.reason) == (StopHow.AT_ONCE, Reason.MOUNT_AGAIN)
        assert stops(cluster.decide().actions) == []

        cluster.end(W0)
        [started] = [a for a in cluster.decide().actions if isinstance(a, StartWorker)]
        assert started.reason is Reason.MOUNT_AGAIN
        assert cluster.memory.workers[W0].early_deaths == 0
        cluster.start(W0)


def test_a_pod_that_waits_for_anything_else_is_left_alone() -> None:
    cluster = Cluster(app=make_app(replicas=1))
    cluster.round()
    without_secret(cluster, W0)
    cluster.views[W0] = replace(cluster.views[W0], lacks_file=False)
    cluster.rounds(2)
    cluster.now_ms += 10 * MOUNT_AGAIN_MS

    assert stops(cluster.decide().actions) == []
