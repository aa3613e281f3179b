"""Who goes and who comes back, by the state that workers have."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from tests.unit.decide.cluster import REPORT, make_app, task

from headwater.model.cluster import (
    Lease,
    Role,
    StoredTask,
    StreamWorker,
    TaskStatus,
    WorkerSpec,
    WorkerStatus,
    make_epoch,
)
from headwater.model.lifecycle import TaskState
from headwater_operator.decide import Memory, Observed, ProcessState, WorkerView
from headwater_operator.decide.fleet import plan_fleet
from headwater_operator.decide.recall import remember
from headwater_operator.decide.scene import set_scene
from headwater_operator.decide.stores import only_there

if TYPE_CHECKING:
    from collections.abc import Mapping

E = make_epoch(1, 5)
PARTITIONS = {"lines": 8, "wc-words-repartition": 8, "wc-counts-changelog": 8}
MEMORY = Memory(
    partitions=PARTITIONS,
    topic_ids={"wc-counts-changelog": "new"},
    delete_retention_ms={"wc-counts-changelog": 86_400_000},
)


def worker(
    ordinal: int,
    *active: str,
    stored: Mapping[str, int] | None = None,
    copies: Mapping[str, int] | None = None,
    stale: bool = False,
    has_process: bool = True,
    drain: bool = False,
) -> WorkerView:
    """A worker: what it runs, how far what it stores reaches, the lags of its standbys."""
    name, copies = f"wc-w-{ordinal}", copies or {}
    running = tuple(TaskStatus(task=task(one), state=TaskState.RUNNING) for one in active)
    followed = tuple(
        TaskStatus(
            task=task(one),
            state=TaskState.RUNNING,
            role=Role.STANDBY,
            lag=lag,
            caught_up=not lag,
        )
        for one, lag in copies.items()
    )
    spec = WorkerSpec(
        app="wc",
        epoch=E,
        incarnation=f"i{ordinal}",
        active=tuple(task(one) for one in active),
        standby=tuple(task(one) for one in copies),
        drain=drain,
    )
    status = WorkerStatus(
        incarnation=f"i{ordinal}",
        acknowledged_epoch=E,
        topology=REPORT,
        tasks=(*running, *followed),
        stored=tuple(
            StoredTask(task=task(one), offset_bucket=offset, changelogs="of old" if stale else "")
            for one, offset in (stored or {}).items()
        ),
    )
    return WorkerView(
        worker=StreamWorker(name=name, spec=spec, status=status),
        process=ProcessState.RUNNING if has_process else ProcessState.ENDED,
        lease=Lease(worker=name, holder=f"i{ordinal}") if has_process else None,
    )


def wanted(*views: WorkerView, replicas: int) -> set[int]:
    observed = Observed(app=make_app(replicas=replicas), generation=1, workers=views)
    fleet = plan_fleet(set_scene(observed, remember(observed, MEMORY, 0), 0))
    assert fleet.new == ()
    return {int(name.removeprefix("wc-w-")) for name in fleet.wanted}


def gone(ordinal: int, **stored: int) -> WorkerView:
    """One that was scaled away; its volume stores tasks of sub-topology 1 by partition."""
    by_task = {f"1_{number.removeprefix('p')}": offset for number, offset in stored.items()}
    return worker(ordinal, stored=by_task, has_process=False, drain=True)


def test_tasks_without_state_do_not_keep_a_worker() -> None:
    few_with_state = worker(0, "1_0", "1_1")
    many_without = worker(1, "0_0", "0_1", "0_2", "1_2")

    assert wanted(few_with_state, many_without, worker(2, "1_3", "1_4"), replicas=2) == {0, 2}


def test_of_balanced_workers_the_one_whose_tasks_have_the_least_state_goes() -> None:
    # How much it is, is known from one that was scaled away and has stored it.
    keeps = gone(3, p0=10_000, p1=500_000, p2=500_000)

    assert wanted(worker(0, "1_0"), worker(1, "1_1"), worker(2, "1_2"), keeps, replicas=2) == {1, 2}


def test_state_that_another_worker_has_a_copy_of_counts_less() -> None:
    copied = worker(0, "1_0", "1_1")
    alone = worker(1, "1_2")
    standby = worker(2, "1_3", "1_4", copies={"1_0": 0, "1_1": 0})

    assert wanted(copied, alone, standby, replicas=2) == {1, 2}


def test_the_lag_of_the_copy_is_what_would_have_to_be_restored() -> None:
    sizes = {"1_0": 1_000_000, "1_1": 1_000_000}
    far = worker(0, "1_0", copies={"1_1": 100_000})
    near = worker(1, "1_1", copies={"1_0": 1_000})
    keeps = gone(2, p0=sizes["1_0"], p1=sizes["1_1"])

    # The copy of what the first one runs is the nearer one.
    assert wanted(far, near, keeps, replicas=1) == {1}


def test_of_two_that_have_copies_of_each_other_only_one_goes() -> None:
    first = worker(0, "1_0", copies={"1_1": 0})
    second = worker(1, "1_1", copies={"1_0": 0})
    third = worker(2, "1_2")
    fourth = worker(3, "1_3")

    assert wanted(first, second, third, fourth, replicas=2) == {0, 2}


def test_where_state_is_equal_the_newest_goes() -> None:
    assert wanted(*(worker(each, f"1_{each}") for each in range(4)), replicas=3) == {0, 1, 2}


def test_the_volume_with_the_most_state_comes_back_not_that_with_the_most_tasks() -> None:
    running = worker(0, "0_0")

    assert wanted(
        running, gone(1, p0=10_000, p1=10_000, p2=10_000), gone(2, p3=900_000), replicas=2
    ) == {0, 2}


def test_the_volume_with_state_that_nobody_has_comes_back() -> None:
    running = worker(0, "1_0", "1_1")

    assert wanted(running, gone(1, p0=900_000, p1=900_000), gone(2, p2=10_000), replicas=2) == {
        0,
        2,
    }


def test_of_two_that_come_back_the_second_has_what_the_first_has_not() -> None:
    first = gone(0, p0=900_000, p1=900_000)
    same, other = gone(1, p0=890_000, p1=890_000), gone(2, p2=50_000)

    assert wanted(first, same, other, replicas=2) == {0, 2}


def test_state_that_would_be_thrown_away_is_none() -> None:
    stale = worker(1, stored={"1_0": 900_000}, stale=True, has_process=False, drain=True)

    assert wanted(worker(0), stale, gone(2, p0=10_000), replicas=2) == {0, 2}


@pytest.mark.parametrize("seed", range(20))
def test_what_is_only_there_is_what_the_others_lack(seed: int) -> None:
    chance = random.Random(seed)
    state = {
        f"w-{each}": {
            task(f"1_{number}"): chance.randrange(5) for number in range(6) if chance.random() < 0.6
        }
        for each in range(4)
    }

    found = only_there(state)

    for name, own in state.items():
        others = [tasks for other, tasks in state.items() if other != name]
        assert found[name] == sum(
            max(0, size - max(other.get(one, 0) for other in others)) for one, size in own.items()
        )


@pytest.mark.parametrize("seed", range(20))
def test_the_answer_does_not_depend_on_the_order_in_which_workers_are_listed(seed: int) -> None:
    chance = random.Random(seed)
    tasks = [f"1_{number}" for number in range(8)]
    views = [
        worker(each, *tasks[2 * each : 2 * each + 2], stored={chance.choice(tasks): 10_000})
        for each in range(4)
    ]
    expected = wanted(*views, replicas=2)
    chance.shuffle(views)

    assert wanted(*views, replicas=2) == expected
