"""Rolling changes by the decision: one worker at a time, halted by a revision that is no good."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.unit.decide.cluster import REPORT, Cluster, make_app

from headwater.model.appstatus import AppStatus, Revision
from headwater.model.cluster import WorkerError, WorkerStatus
from headwater.model.lifecycle import ClientState
from headwater_operator.actions import Reason, StartWorker, StopWorker
from headwater_operator.decide import Memory, ProcessState, decide
from headwater_operator.decide.observed import Intent

if TYPE_CHECKING:
    from headwater.model.topics import TopologyReport

OLD, NEW, NEWER = "aaaa", "bbbb", "cccc"
WORKERS = ["wc-w-0", "wc-w-1", "wc-w-2"]
MINUTE = 60_000
IMPORT = WorkerError(error="ImportPathError", message="a:b: No module named 'a'")


def serving(**spec: object) -> Cluster:
    """Three workers of the old revision that run all tasks; a minute has passed since."""
    cluster = Cluster(app=make_app(replicas=3, **spec), revision=OLD)
    cluster.rounds()
    cluster.now_ms += MINUTE
    cluster.rounds()
    assert revisions(cluster) == {OLD}
    assert is_whole(cluster)
    return cluster


def revisions(cluster: Cluster) -> set[str]:
    return {view.revision for view in cluster.views.values()}


def is_whole(cluster: Cluster) -> bool:
    """Whether every task runs on one worker and no two have the same."""
    tasks = [task for name in cluster.views for task in cluster.held(name)]
    return sorted(tasks) == ["0_0", "0_1", "1_0", "1_1"]


def topology(**changes: object) -> TopologyReport:
    """The topology with another second sub-topology."""
    first, second = REPORT.subtopologies
    return replace(REPORT, hash="two", subtopologies=(first, replace(second, **changes)))


def replaced(cluster: Cluster, rounds: int) -> list[str]:
    """Go on for some rounds; return who was replaced, and see that nobody else was away then."""
    found = []
    for _ in range(rounds):
        there = {
            name
            for name, view in cluster.views.items()
            if view.worker.status.tasks or not cluster.held(name)
        }
        for action in cluster.round():
            if isinstance(action, StopWorker):
                assert action.reason is Reason.NEW_REVISION
                assert there == set(WORKERS)
                found.append(action.worker)
    return found


def test_without_a_new_revision_nobody_is_replaced() -> None:
    cluster = serving()

    assert replaced(cluster, 20) == []
    assert cluster.decide().roll.outdated == ()


@pytest.mark.parametrize("standbys", [0, 1])
def test_workers_are_replaced_one_after_the_other(standbys: int) -> None:
    cluster = serving(assignment={"standbyReplicas": standbys})

    cluster.revision = NEW
    found = replaced(cluster, 120)

    assert sorted(found) == WORKERS
    assert revisions(cluster) == {NEW}
    assert is_whole(cluster)
    assert cluster.status.state is ClientState.RUNNING


def test_a_worker_waits_for_standbys_of_its_tasks_to_catch_up() -> None:
    cluster = serving(assignment={"standbyReplicas": 1})
    cluster.slow = set(WORKERS)
    cluster.rounds(1)

    cluster.revision = NEW

    stateful = {name for name in WORKERS if any("1_" in task for task in cluster.held(name))}
    assert not stateful & set(replaced(cluster, 60))
    assert "caught-up standby" in cluster.decide().roll.waits_for
    cluster.slow = set()
    assert set(replaced(cluster, 120)) >= stateful
    assert revisions(cluster) == {NEW}


def test_a_new_revision_that_cannot_run_halts_and_the_old_workers_serve() -> None:
    cluster = serving()
    cluster.broken[NEW] = IMPORT

    cluster.revision = NEW
    found = replaced(cluster, 200)

    assert len(found) == 1
    assert sorted(revisions(cluster)) in (["", OLD], [OLD, NEW])
    assert "No module named 'a'" in cluster.decide().roll.halted
    assert is_whole(cluster)
    assert cluster.status.state is ClientState.RUNNING
    assert cluster.status.failure is not None
    assert not cluster.status.failure.is_final
    # Corrected: it goes on where it got stuck, at once.
    [stuck] = [name for name, view in cluster.views.items() if view.revision != OLD]
    assert cluster.memory.workers[stuck].early_deaths > 1
    cluster.end(stuck)
    cluster.revision = NEWER
    assert StartWorker(worker=stuck, reason=Reason.NO_PROCESS) in cluster.round()
    assert len(replaced(cluster, 200)) == 2
    assert revisions(cluster) == {NEWER}
    assert is_whole(cluster)


def test_a_failure_of_the_only_revision_is_final_as_ever() -> None:
    cluster = Cluster(app=make_app(), revision=OLD)
    cluster.broken[OLD] = IMPORT

    cluster.rounds(20)

    assert cluster.status.failure is not None
    assert cluster.status.failure.is_final
    assert cluster.decide().roll.outdated == ()


def test_a_replaced_worker_that_does_not_become_ready_halts_after_its_time() -> None:
    cluster = serving(upgrade={"readyTimeout": "20s"})
    cluster.restoring = {NEW}

    cluster.revision = NEW
    cluster.rounds(20)

    (late,) = (name for name, view in cluster.views.items() if view.revision == NEW)
    assert cluster.decide().roll.waits_for == f"{late} is not ready yet"
    for _ in range(25):
        cluster.now_ms += 1_000
        cluster.round()

    assert "did not become ready within 20 s" in cluster.decide().roll.halted
    assert [view.revision for view in cluster.views.values()].count(OLD) == 2
    cluster.restoring = set()
    cluster.rounds(80)
    assert revisions(cluster) == {NEW}


def test_a_topology_with_the_same_tasks_is_rolled_out() -> None:
    cluster = serving()
    cluster.reports[NEW] = topology(sink_topics=("elsewhere",))

    cluster.revision = NEW
    found = []
    for _ in range(120):
        found += replaced(cluster, 1)
        assert cluster.status.failure is None

    assert sorted(found) == WORKERS
    assert cluster.status.topology_hash == "two"
    assert is_whole(cluster)


def test_a_topology_with_other_tasks_halts_and_says_why() -> None:
    cluster = serving()
    cluster.reports[NEW] = topology(stores=("counts", "more"))

    cluster.revision = NEW
    found = replaced(cluster, 60)

    assert len(found) == 1
    halted = cluster.decide().roll.halted
    assert "sub-topology 1: its stores gain 'more'" in halted
    assert "spec.suspend" in halted
    assert cluster.held(found[0]) == []
    assert is_whole(cluster)
    assert cluster.status.state is ClientState.RUNNING
    # Taken back: the one that does not fit is replaced at once.
    cluster.revision = OLD
    assert replaced(cluster, 60) == found
    assert revisions(cluster) == {OLD}
    assert is_whole(cluster)


def test_a_run_that_takes_over_does_not_begin_with_a_second_worker() -> None:
    cluster = serving()
    cluster.revision = NEW
    stopping = cluster.decide().roll.next
    # Told to stop, and still there; the next run of the control loop knows nothing of it.
    cluster.views[stopping] = replace(cluster.views[stopping], is_stopping=True)
    cluster.memory, cluster.generation = Memory(), 2

    actions = cluster.rounds(20)

    assert not [each for each in actions if isinstance(each, StopWorker)]
    assert cluster.decide().roll.waits_for == f"{stopping} is not ready yet"


def test_a_run_that_takes_over_replaces_nobody_while_tasks_of_a_lost_worker_do_not_run() -> None:
    cluster = serving(processingGuarantee="at_least_once")
    lost = next(name for name in WORKERS if cluster.held(name))
    cluster.end(lost)
    cluster.revision, cluster.generation, cluster.memory = NEW, 2, Memory()

    for number in range(20):
        if number < 6:
            cluster.unanswered()
        was_whole = is_whole(cluster)
        stops = [each for each in cluster.round() if isinstance(each, StopWorker)]
        assert was_whole or not stops

    assert revisions(cluster) == {NEW}


def test_no_revision_no_rolling_change() -> None:
    cluster = serving()
    cluster.revision, cluster.status = "", AppStatus()

    assert replaced(cluster, 20) == []


def test_the_first_of_a_new_revision_is_ready_for_a_while_before_others_follow() -> None:
    cluster = serving(upgrade={"canary": "30s"})

    cluster.revision = NEW
    found = replaced(cluster, 100)

    assert len(found) == 1, "100 rounds take ten seconds"
    assert f"{found[0]} is the first of the new revision" in cluster.decide().roll.waits_for
    assert "30 s (spec.upgrade.canary)" in cluster.decide().roll.waits_for
    assert is_whole(cluster)
    assert len(replaced(cluster, 500)) == 2
    assert revisions(cluster) == {NEW}


def test_a_canary_that_fails_while_it_is_watched_halts_the_roll_out() -> None:
    cluster = serving(upgrade={"canary": "30s"})
    cluster.revision = NEW
    [canary] = replaced(cluster, 100)

    cluster.broken[NEW] = IMPORT
    cluster.end(canary)

    assert replaced(cluster, 600) == []
    assert "No module named 'a'" in cluster.decide().roll.halted
    assert is_whole(cluster)


def test_a_slow_worker_of_a_revision_that_is_rolled_back_is_replaced_without_a_canary() -> None:
    cluster = serving(upgrade={"canary": "1h"})
    cluster.restoring = {NEW}
    cluster.revision = NEW
    [slow] = replaced(cluster, 60)
    assert cluster.views[slow].revision == NEW

    cluster.revision, cluster.failed_revision = OLD, NEW
    assert replaced(cluster, 200) == [slow]

    assert revisions(cluster) == {OLD}
    assert is_whole(cluster)


def test_what_ended_a_process_that_was_rolled_back_does_not_end_the_application() -> None:
    cluster = serving()
    cluster.broken[NEW] = IMPORT
    cluster.revision = NEW
    replaced(cluster, 200)

    cluster.revision, cluster.failed_revision = OLD, NEW
    [stuck] = [name for name, view in cluster.views.items() if view.worker.status.error]
    cluster.end(stuck)
    cluster.decide()
    # Its next process has not reported yet.
    began = replace(cluster.views[stuck], process=ProcessState.RUNNING, revision=OLD)
    cluster.views[stuck] = began
    status = cluster.decide().status
    assert status.failure is not None
    assert not status.failure.is_final
    assert status.state is ClientState.RUNNING
    cluster.end(stuck)
    cluster.rounds(200)

    assert cluster.status.failure is None
    assert revisions(cluster) == {OLD}
    assert is_whole(cluster)


def halted_by_a_late_worker() -> Cluster:
    """A roll-out whose first worker has not become ready in its time."""
    cluster = serving(upgrade={"readyTimeout": "60s"})
    cluster.restoring = {NEW}
    cluster.revision = NEW
    replaced(cluster, 60)
    cluster.now_ms += 2 * MINUTE
    cluster.rounds(20)
    assert "did not become ready within 60 s" in cluster.decide().roll.halted
    return cluster


@pytest.mark.parametrize("wanted", [NEWER, OLD], ids=["a correction", "the one before"])
def test_a_roll_out_that_halted_because_a_worker_was_late_goes_on_with(wanted: str) -> None:
    cluster = halted_by_a_late_worker()

    cluster.revision = wanted
    cluster.rounds(300)

    assert revisions(cluster) == {wanted}
    assert is_whole(cluster)


def go_on_unhalted(cluster: Cluster, rounds: int) -> None:
    """Go on for some rounds with a revision that may be rolled back, and see that none is."""
    upgrade = {"readyTimeout": "60s", "onFailure": "RollBack"}
    cluster.app = make_app(replicas=3, upgrade=upgrade)
    revision = Revision(current=OLD, update=cluster.revision, last_stable=OLD)
    for _ in range(rounds):
        cluster.status = replace(cluster.status, revision=revision)
        assert decide(cluster.observed(), cluster.memory, cluster.now_ms).roll.halted == ""
        cluster.round()


@pytest.mark.parametrize("begun", [0, 40], ids=["changed meanwhile", "on trial before"])
def test_the_time_that_an_application_was_suspended_is_nobody_s_start(begun: int) -> None:
    cluster = serving()
    if begun:
        cluster.restoring, cluster.revision = {NEW}, NEW
        go_on_unhalted(cluster, begun)
        assert revisions(cluster) == {OLD, NEW}
    cluster.intent = Intent.STOP
    cluster.rounds(10)
    cluster.now_ms += 5 * MINUTE
    cluster.rounds(5)

    cluster.intent, cluster.revision = Intent.RUN, NEW
    cluster.restoring = set()
    go_on_unhalted(cluster, 40)

    assert revisions(cluster) == {NEW}
    assert is_whole(cluster)


def test_a_correction_has_the_whole_time_to_become_ready_from_its_own_start() -> None:
    cluster = halted_by_a_late_worker()

    [late] = [name for name, view in cluster.views.items() if view.revision == NEW]
    cluster.revision = NEWER
    while cluster.views[late].revision != NEWER:
        go_on_unhalted(cluster, 1)
    started = cluster.views[late]
    silent = replace(started.worker, status=WorkerStatus())
    for _ in range(3):
        # Its process has not reported yet.
        cluster.views[late] = replace(started, worker=silent)
        go_on_unhalted(cluster, 1)
    cluster.views[late] = started
    go_on_unhalted(cluster, 300)

    assert revisions(cluster) == {NEWER}


def test_a_worker_that_was_drained_has_the_whole_time_when_it_returns() -> None:
    cluster = serving(upgrade={"readyTimeout": "60s"})
    cluster.app = make_app(replicas=2)
    cluster.rounds(20)
    [drained] = [name for name in WORKERS if name in cluster.views and not cluster.held(name)]
    cluster.now_ms += 5 * MINUTE
    cluster.rounds(5)

    cluster.revision = NEW
    go_on_unhalted(cluster, 120)

    assert drained in cluster.views
    assert revisions(cluster) == {NEW}


def test_a_worker_that_is_started_anew_by_chance_does_not_end_the_canary() -> None:
    cluster = serving(upgrade={"canary": "1h"})
    cluster.revision = NEW
    [canary] = replaced(cluster, 100)

    cluster.end(next(name for name in WORKERS if name != canary))
    cluster.rounds(300)

    assert [view.revision for view in cluster.views.values()].count(OLD) == 1
    assert "has to be ready for 3600 s" in cluster.decide().roll.waits_for
