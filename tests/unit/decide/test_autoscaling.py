"""The number of workers as a part of the whole decision: who owns it, when it changes."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pytest
from tests.unit.decide.cluster import REPORT, Cluster, make_app, running, task

from headwater.errors import SpecError
from headwater.model.streamapp import parse
from headwater_operator.decide import Memory, ProcessState
from headwater_operator.decide.autoscaling.load import Reading
from headwater_operator.decide.autoscaling.owner import news_of, wanted_workers

if TYPE_CHECKING:
    from headwater.ids import TaskId
    from headwater.model.appstatus import AutoscalingStatus

AUTO = {
    "mode": "Auto",
    "minReplicas": 1,
    "maxReplicas": 4,
    "targetCatchUp": "2m",
    "behavior": {
        "scaleUp": {"stabilizationWindow": "20s"},
        "scaleDown": {"stabilizationWindow": "1m"},
    },
}
CAPACITY = 100
"""Records per second of a StreamThread."""


@dataclass
class Fed:
    """A cluster whose tasks are fed evenly; every sample takes five seconds."""

    cluster: Cluster
    lag: dict[TaskId, int] = field(default_factory=lambda: defaultdict(int))
    done: dict[TaskId, int] = field(default_factory=lambda: defaultdict(int))
    mute: set[str] = field(default_factory=set)
    """Workers that do not answer."""
    cut_off: set[str] = field(default_factory=set)
    """Workers that hear nothing of the brokers."""

    def sample(self, rate: int) -> AutoscalingStatus:
        """Let five seconds pass in which so many records per second come in for each task."""
        loads: dict[str, dict[TaskId, Reading]] = {}
        for name, view in self.cluster.views.items():
            active = view.worker.spec.active
            each = CAPACITY * 5 // max(1, len(active))
            told: dict[TaskId, Reading] = {}
            for one in active:
                waits = self.lag[one] + rate * 5
                processed = min(waits, each)
                self.lag[one], self.done[one] = waits - processed, self.done[one] + processed
                lag = None if name in self.cut_off else self.lag[one]
                told[one] = Reading(
                    thread=name, processed=self.done[one], lag=lag, busy=processed / each
                )
            if view.process is ProcessState.RUNNING and name not in self.mute:
                loads[name] = told
        self.cluster.loads = loads
        self.cluster.round()
        self.cluster.loads = None
        self.cluster.rounds(6)
        self.cluster.now_ms += 4_300
        return self.said

    def samples(self, rate: int, count: int) -> AutoscalingStatus:
        """Several of them."""
        for _ in range(count):
            self.sample(rate)
        return self.said

    @property
    def said(self) -> AutoscalingStatus:
        """What the status says."""
        said = self.cluster.status.autoscaling
        assert said is not None
        return said


def fed(replicas: int = 2, **autoscaling: object) -> Fed:
    """A cluster with four tasks and one StreamThread per worker, in mode Auto."""
    policy = {**AUTO, **autoscaling}
    return Fed(running(replicas=replicas, threadsPerWorker=1, autoscaling=policy))


def holders(cluster: Cluster) -> int:
    return sum(bool(view.worker.spec.active) for view in cluster.views.values())


def test_what_waits_brings_further_workers_and_the_specification_stays_as_it_is():
    run = fed()

    said = run.samples(80, 12)

    assert (said.replicas, said.desired, said.spec_replicas) == (4, 4, 2)
    assert holders(run.cluster) == 4
    assert run.cluster.app.spec.replicas == 2
    assert said.lag
    assert said.capacity_per_worker == CAPACITY
    assert wanted_workers(run.cluster.app, run.cluster.status) == 4


def test_what_can_be_processed_by_fewer_is_after_the_window():
    run = fed(replicas=4)

    run.samples(80, 12)
    assert run.said.replicas == 4
    run.samples(10, 9)
    assert run.said.replicas == 4
    said = run.samples(10, 40)

    assert said.replicas == 1
    assert holders(run.cluster) == 1


def test_nothing_comes_in_and_the_least_number_stays():
    said = fed(replicas=3, minReplicas=2).samples(0, 30)

    assert said.replicas == 2


def test_no_worker_is_added_while_one_does_not_run():
    run = fed()
    run.samples(80, 2)
    run.cluster.end("wc-w-1")
    run.cluster.silent.add("wc-w-1")
    run.cluster.broken[""] = None  # type: ignore[assignment]  # its process ends whenever it starts
    before = run.said.replicas
    run.cluster.views["wc-w-1"] = replace(run.cluster.views["wc-w-1"], is_hopeless=True)

    for _ in range(20):
        run.cluster.end("wc-w-1")
        run.sample(80)

    assert run.said.replicas == before


def test_advice_is_given_and_the_specification_counts():
    run = fed(mode="Advise")

    said = run.samples(80, 12)

    assert (said.replicas, said.desired) == (2, 4)
    assert "4 workers are needed" in said.reason
    assert len(run.cluster.views) == 2
    run.cluster.app = run.cluster.app.with_replicas(3)
    assert run.samples(80, 2).replicas == 3


def test_another_number_in_the_specification_is_a_new_beginning():
    run = fed()
    run.samples(80, 12)

    run.cluster.app = run.cluster.app.with_replicas(3)
    said = run.sample(80)
    assert (said.replicas, said.spec_replicas) == (3, 3)
    # From there it goes on.
    assert run.samples(80, 14).replicas == 4


def test_with_another_autoscaler_the_specification_counts_and_the_status_says_so():
    run = fed()
    run.cluster.scaled_by = "kube-controller-manager"

    said = run.samples(80, 14)

    assert (said.replicas, said.desired) == (2, 4)
    assert "kube-controller-manager writes it" in said.reason


def test_no_replicas_means_none():
    run = fed()
    run.samples(80, 3)

    run.cluster.app = run.cluster.app.with_replicas(0)
    said = run.samples(80, 3)

    assert said.replicas == 0
    assert all(view.process.is_proof_of_end for view in run.cluster.views.values())


def test_a_lag_that_cannot_be_read_leaves_the_number_and_is_said():
    run = fed()
    run.samples(30, 3)
    run.mute = {"wc-w-1"}

    said = run.samples(80, 20)

    assert said.replicas == 2
    assert said.lag is None
    assert "the lag cannot be read: wc-w-1 does not answer; look in its log" in said.reason
    run.mute, run.cut_off = set(), {"wc-w-0"}
    said = run.samples(80, 20)
    assert (said.replicas, said.lag) == (2, None)
    assert "wc-w-0 does not know that of 0_0; look in its log" in said.reason
    run.cut_off = set()
    assert run.samples(80, 12).replicas == 4


def test_tasks_whose_state_no_copy_can_follow_are_not_moved_for_a_number():
    sub = REPORT.subtopologies[1]
    changelog = replace(sub.changelogs[0], persistent=False)
    cluster = Cluster(app=make_app(replicas=2, threadsPerWorker=1, autoscaling=AUTO))
    subtopologies = (REPORT.subtopologies[0], replace(sub, changelogs=(changelog,)))
    cluster.reports[""] = replace(REPORT, subtopologies=subtopologies)
    cluster.rounds()

    said = Fed(cluster).samples(80, 12)

    assert said.replicas == 2
    assert "no copy can follow the state of 1_0 1_1" in said.reason


def test_no_worker_is_added_that_would_have_no_task():
    run = fed(replicas=4, maxReplicas=9)

    said = run.samples(300, 14)

    assert said.replicas == 4
    assert "than one StreamThread can process" in said.reason


def test_a_worker_that_goes_for_the_load_waits_for_copies_for_ever():
    run = fed(replicas=4)
    run.samples(80, 12)
    everybody = set(run.cluster.views)
    run.cluster.slow = everybody
    run.samples(10, 30)
    assert run.said.replicas < 4

    run.cluster.now_ms += 2 * run.cluster.app.spec.scale_down.drain_timeout_ms
    run.cluster.rounds()
    stateful = {
        one for name in everybody for one in run.cluster.spec(name).active if str(one)[0] == "1"
    }
    assert stateful == {task("1_0"), task("1_1")}
    assert run.cluster.status.tasks.running == 4

    run.cluster.slow = set()
    run.samples(10, 4)
    assert holders(run.cluster) == run.said.replicas


def test_another_run_of_the_control_loop_goes_on_with_the_number():
    run = fed()
    run.samples(80, 12)
    run.cluster.memory = Memory()
    run.cluster.generation += 1

    run.cluster.rounds()

    assert run.said.replicas == 4
    assert holders(run.cluster) == 4
    assert run.samples(80, 2).capacity_per_worker == CAPACITY


def test_the_status_is_not_written_with_every_sample():
    run = fed()
    run.samples(20, 12)
    written = [run.sample(20 + number % 3) for number in range(12)]

    assert len({(said.arrival_rate, said.reason) for said in written}) <= 2


def test_a_schedule_has_bounds_of_its_own_and_one_that_never_comes_is_said():
    noon = 12 * 60 + 1_440 * 20_000
    schedule = [
        {"name": "noon", "start": "0 12 * * *", "end": "0 13 * * *", "minReplicas": 3},
        {"name": "never", "start": "0 12 31 2 *", "end": "0 13 31 2 *", "minReplicas": 4},
    ]
    run = fed(replicas=1, schedule=schedule)
    run.cluster.minute = noon - 1
    run.samples(10, 3)
    assert (run.said.replicas, run.said.min_replicas) == (1, 1)

    run.cluster.minute = noon
    said = run.sample(10)

    assert (said.replicas, said.min_replicas) == (3, 3)
    assert said.since == "2024-10-04T12:00:00Z"
    run.cluster.now_ms += 60_000
    assert "'never' is passed over" in run.sample(10).reason
    assert news_of(run.cluster.status, run.cluster.status) is None


def test_a_change_of_the_number_is_news():
    run = fed()
    before = run.cluster.status
    run.samples(80, 12)

    news = news_of(replace(before, autoscaling=replace(run.said, replicas=2)), run.cluster.status)

    assert news is not None
    assert news.startswith("autoscaling, from 2 to 4 workers: ")


@pytest.mark.parametrize(
    ("autoscaling", "message"),
    [
        ({"maxReplicas": 2, "targetLag": 5, "minReplicas": 3}, "minReplicas is greater"),
        ({"maxReplicas": 2}, "set one target"),
        ({"maxReplicas": 2, "targetLag": 5, "targetCatchUp": "1m"}, "set one target"),
        ({"targetLag": 5}, "maxReplicas: required"),
        ({"maxReplicas": 2, "targetLag": 5, "mode": "On"}, "expected Advise, Auto"),
        (
            {
                "maxReplicas": 2,
                "targetLag": 5,
                "schedule": [{"name": "a", "start": "at noon", "end": "0 13 * * *"}],
            },
            "five fields of cron",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused(autoscaling: dict[str, object], message: str):
    with pytest.raises(SpecError, match=message):
        parse(
            make_app().to_dict()
            | {"spec": {"topology": {"module": "a:b"}, "autoscaling": autoscaling}}
        )
