"""The parts of the decision, by table."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.decide.cluster import REPORT, make_app, task

from headwater.model.cluster import (
    Lease,
    StoredTask,
    StreamWorker,
    TaskStatus,
    WorkerError,
    WorkerSpec,
    WorkerStatus,
    make_epoch,
)
from headwater.model.duties import DescribeGroup, Fence, IdsFenced
from headwater.model.lifecycle import TaskState
from headwater_operator.actions import Reason, StopHow, StopWorker, describe_action
from headwater_operator.decide import Memory, Observed, ProcessState, WorkerView
from headwater_operator.decide.duties import executor, is_fenced, kept_duties
from headwater_operator.decide.failures import is_final
from headwater_operator.decide.fleet import plan_fleet
from headwater_operator.decide.judge import held_tasks, judge
from headwater_operator.decide.limits import pause_ms
from headwater_operator.decide.memory import WorkerMemory
from headwater_operator.decide.recall import remember
from headwater_operator.decide.scene import Scene, set_scene

A, B, C = task("0_0"), task("0_1"), task("0_2")
E = make_epoch(1, 5)


def spec(**fields: object) -> WorkerSpec:
    return WorkerSpec(app="wc", **{"epoch": E, "incarnation": "i1", **fields})  # type: ignore[arg-type]  # a test's shorthand


def status(*held: object, **fields: object) -> WorkerStatus:
    tasks = tuple(TaskStatus(task=one, state=TaskState.RUNNING) for one in held)  # type: ignore[arg-type]
    return WorkerStatus(
        **{
            "incarnation": "i1",
            "acknowledged_epoch": E,
            "tasks": tasks,
            "topology": REPORT,
            **fields,
        }  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(
    ("spec_", "status_", "held"),
    [
        (spec(), status(), set()),
        (spec(active=(A,)), status(), {A}),
        (spec(active=(A,), revoking=(B,)), status(A, B), {A, B}),
        (spec(active=(A,), revoking=(B,)), status(A), {A}),
        (spec(revoking=(B,)), status(acknowledged_epoch=E - 1), {B}),
        (spec(revoking=(B,)), status(incarnation="i2"), {B}),
        (spec(), status(C), {C}),
        (spec(incarnation=""), status(C), set()),
        (spec(revoking=(A, B), fencing_epoch=E), status(), {A, B}),
    ],
    ids=[
        "nothing",
        "granted",
        "being revoked",
        "released",
        "not acknowledged",
        "acknowledged by another process",
        "listed only",
        "listed by a process that was fenced",
        "being fenced",
    ],
)
def test_what_a_worker_may_hold(spec_, status_, held):
    assert held_tasks(spec_, status_) == held


def view_of(
    spec_: WorkerSpec,
    status_: WorkerStatus,
    *,
    process: ProcessState = ProcessState.RUNNING,
    holder: str = "i1",
    name: str = "wc-w-0",
) -> WorkerView:
    return WorkerView(
        worker=StreamWorker(name=name, spec=spec_, status=status_),
        process=process,
        lease=Lease(worker=name, holder=holder),
    )


@pytest.mark.parametrize(
    ("view", "memory", "is_live", "is_lost"),
    [
        (view_of(spec(active=(A,)), status(A)), WorkerMemory(), True, False),
        (
            view_of(spec(active=(A,)), status(A), process=ProcessState.ENDED),
            WorkerMemory(),
            False,
            True,
        ),
        (
            view_of(spec(), status(), process=ProcessState.ENDED),
            WorkerMemory(),
            False,
            False,
        ),
        (view_of(spec(active=(A,)), status(A)), WorkerMemory(lease_ms=-30_000), False, True),
        (
            view_of(spec(active=(A,)), status(incarnation="i2"), holder="i2"),
            WorkerMemory(),
            True,
            True,
        ),
        (view_of(spec(active=(A,)), status(A), holder="i0"), WorkerMemory(), False, False),
        (view_of(spec(active=(A,)), status(A)), WorkerMemory(dead="i1"), False, True),
        (
            view_of(spec(active=(A,)), status(A, error=WorkerError(error="X", message="m"))),
            WorkerMemory(),
            False,
            False,
        ),
        (
            view_of(spec(revoking=(A,), fencing_epoch=E, incarnation=""), status()),
            WorkerMemory(),
            True,
            False,
        ),
        (
            view_of(spec(active=(A,)), status(A), process=ProcessState.UNKNOWN),
            WorkerMemory(),
            True,
            False,
        ),
    ],
    ids=[
        "live",
        "ended with tasks",
        "ended without tasks",
        "silent",
        "another process reports",
        "the lease is not its own yet",
        "its end was seen",
        "it is about to end",
        "lost before",
        "its node does not answer, its lease does",
    ],
)
def test_who_is_live_and_who_is_lost(view, memory, is_live, is_lost):
    judged = judge(view, memory, 0)

    assert (judged.is_live, judged.is_lost) == (is_live, is_lost)


def scene_of(*views: WorkerView, replicas: int = 2, now_ms: int = 0) -> Scene:
    observed = Observed(app=make_app(replicas=replicas), generation=1, workers=views)
    return set_scene(observed, remember(observed, Memory(), now_ms), now_ms)


def worker(ordinal: int, *, stored: int = 0, live: bool = True, **fields: object) -> WorkerView:
    name = f"wc-w-{ordinal}"
    return view_of(
        spec(**fields),
        status(stored=tuple(StoredTask(task=task(f"1_{number}")) for number in range(stored))),
        process=ProcessState.RUNNING if live else ProcessState.ENDED,
        name=name,
    )


@pytest.mark.parametrize(
    ("views", "replicas", "wanted", "new"),
    [
        ([], 2, set(), ("wc-w-0", "wc-w-1")),
        ([worker(0), worker(1)], 2, {0, 1}, ()),
        ([worker(0), worker(1), worker(2)], 2, {0, 1}, ()),
        ([worker(0), worker(1, stored=2), worker(2, stored=3)], 1, {2}, ()),
        ([worker(0, live=False), worker(1)], 1, {1}, ()),
        ([worker(0), worker(1, drain=True), worker(2, drain=True, stored=1)], 2, {0, 2}, ()),
        ([worker(0), worker(3)], 4, {0, 3}, ("wc-w-1", "wc-w-2")),
        ([worker(0), worker(1)], 0, set(), ()),
        ([worker(0, revoking=(A,), fencing_epoch=E, live=False), worker(1)], 0, {1}, ()),
        ([worker(0, revoking=(A,), fencing_epoch=E, live=False, drain=True)], 0, {0}, ()),
    ],
    ids=[
        "all are new",
        "as it should be",
        "the newest leaves",
        "the one with the least state leaves",
        "the one without a process leaves",
        "the one with state comes back",
        "gaps are filled",
        "nobody",
        "one hand to fence",
        "the first replacement fences",
    ],
)
def test_which_workers_there_are_to_be(views, replicas, wanted, new):
    fleet = plan_fleet(scene_of(*views, replicas=replicas))

    assert fleet.wanted == {f"wc-w-{ordinal}" for ordinal in wanted}
    assert fleet.new == new
    assert fleet.takes_tasks is (replicas > 0)


@pytest.mark.parametrize(
    ("views", "replicas", "scale_down", "wanted", "new"),
    [
        ([worker(0), worker(1, stored=2)], 1, {"policy": "Newest"}, {0}, ()),
        ([worker(0, live=False), worker(1)], 1, {"policy": "Newest"}, {1}, ()),
        ([worker(0), worker(1)], 1, {"workersToRemove": ["wc-w-0"]}, {1}, ()),
        ([worker(0, stored=2), worker(1)], 1, {"workersToRemove": ["wc-w-0"]}, {1}, ()),
        ([worker(0), worker(1)], 2, {"workersToRemove": ["wc-w-0"]}, {1}, ("wc-w-2",)),
        ([worker(0), worker(1, drain=True)], 1, {"workersToRemove": ["wc-w-0"]}, {1}, ()),
        ([worker(0)], 2, {"workersToRemove": ["wc-w-1"]}, {0}, ("wc-w-2",)),
        ([worker(0), worker(1)], 0, {"workersToRemove": ["wc-w-0"]}, set(), ()),
        (
            [worker(0, revoking=(A,), fencing_epoch=E, live=False), worker(1)],
            0,
            {"workersToRemove": ["wc-w-1"]},
            {1},
            (),
        ),
    ],
    ids=[
        "the newest leaves, whatever its state",
        "the one without a process leaves all the same",
        "a named one leaves before the newest",
        "a named one leaves before the one with the least state",
        "another one takes the place of a named one",
        "one that was drained takes the place of a named one",
        "nobody new gets the name of one to remove",
        "all go",
        "the last hand stays until it has fenced, named or not",
    ],
)
def test_who_goes_when_the_streamapp_says_who(views, replicas, scale_down, wanted, new):
    app = make_app(replicas=replicas, scaleDown=scale_down)
    observed = Observed(app=app, generation=1, workers=tuple(views))

    fleet = plan_fleet(set_scene(observed, remember(observed, Memory(), 0), 0))

    assert fleet.wanted == {f"wc-w-{ordinal}" for ordinal in wanted}
    assert fleet.new == new


def fence(epoch: int, *ids: str) -> Fence:
    return Fence(id=f"fence-{epoch}", epoch=epoch, worker="wc-w-0", transactional_ids=ids)


IDS = ("wc-wc-w-0-0", "wc-wc-w-0-1")


@pytest.mark.parametrize(
    ("duty", "is_answered", "expected"),
    [
        (fence(E + 1, *IDS), True, True),
        (fence(E + 1, *IDS), False, False),
        (fence(E - 1, *IDS), True, False),
        (fence(E + 1, IDS[0]), True, False),
    ],
    ids=["answered", "not answered", "of an earlier loss", "not for every slot"],
)
def test_when_a_worker_counts_as_fenced(duty, is_answered, expected):
    results = (IdsFenced(id=duty.id),) if is_answered else ()
    scene = scene_of(
        worker(0, revoking=(A,), fencing_epoch=E, slots=(0, 1), live=False),
        view_of(spec(duties=(duty,)), status(duty_results=results), name="wc-w-1"),
    )

    assert is_fenced(scene, scene.workers[0]) is expected


def test_a_fence_of_an_earlier_loss_is_withdrawn():
    late = fence(E - 1, *IDS)
    scene = scene_of(
        worker(0, active=(A,), slots=(0, 1)),
        view_of(spec(duties=(late,)), status(), name="wc-w-1"),
    )

    assert kept_duties(scene, scene.workers[1]) == ()


def test_duties_of_an_earlier_run_are_withdrawn():
    old = DescribeGroup(id="g", epoch=make_epoch(0, 7), group="wc")
    new = DescribeGroup(id="h", epoch=make_epoch(1, 7), group="wc")
    scene = scene_of(view_of(spec(duties=(old, new)), status()))

    assert kept_duties(scene, scene.workers[0]) == (new,)


def test_a_worker_lost_just_now_carries_out_no_duty():
    lost_but_back = view_of(spec(active=(A,)), status(incarnation="i2"), holder="i2", name="wc-w-0")
    scene = scene_of(lost_but_back, worker(1))

    hand = executor(scene, frozenset({"wc-w-0", "wc-w-1"}))

    assert hand is not None
    assert hand.name == "wc-w-1"


def test_a_lease_is_judged_by_the_observers_own_clock():
    view = view_of(spec(active=(A,)), status(A))
    observed = Observed(app=make_app(), generation=1, workers=(view,))

    memory = remember(observed, Memory(), 1_000)
    memory = remember(observed, memory, 30_000)
    assert judge(view, memory.of("wc-w-0"), 30_000).is_live
    assert not judge(view, memory.of("wc-w-0"), 31_000).is_live

    assert view.lease is not None
    renewed = replace(view, lease=replace(view.lease, renewals=1))
    memory = remember(replace(observed, workers=(renewed,)), memory, 40_000)
    assert judge(renewed, memory.of("wc-w-0"), 69_000).is_live


@pytest.mark.parametrize(
    ("error", "early_deaths", "expected"),
    [
        ("SpecError", 0, True),
        ("ProcessingError", 0, True),
        ("KafkaUnavailableError", 99, False),
        ("StateError", 4, False),
        ("StateError", 5, True),
        ("ZeroDivisionError", 4, False),
        ("ZeroDivisionError", 5, True),
    ],
)
def test_when_an_application_is_given_up(error, early_deaths, expected):
    assert is_final(error, early_deaths=early_deaths) is expected


@pytest.mark.parametrize(
    ("early_deaths", "expected"),
    [(0, 0), (1, 0), (2, 1_000), (3, 2_000), (7, 32_000), (8, 60_000), (99, 60_000)],
)
def test_pauses_between_starts_double(early_deaths, expected):
    assert pause_ms(early_deaths) == expected


def test_an_action_is_one_line_for_the_log():
    action = StopWorker(worker="w", how=StopHow.AT_ONCE, reason=Reason.SILENT)

    assert describe_action(action) == (
        "w: stop AtOnce: the worker has not renewed its Lease for too long"
    )
