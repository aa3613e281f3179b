"""The laws of the fleet: as many workers as wanted, none that was named, nobody back and forth."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.examples import examples

from headwater.ids import TaskId
from headwater.model.cluster import (
    Lease,
    StoredTask,
    StreamWorker,
    WorkerSpec,
    WorkerStatus,
    make_epoch,
)
from headwater.model.streamapp import StreamApp, parse
from headwater_operator.decide import Memory, Observed, ProcessState, WorkerView
from headwater_operator.decide.fleet import Fleet, plan_fleet
from headwater_operator.decide.recall import remember
from headwater_operator.decide.scene import set_scene

many = settings(max_examples=examples(200), deadline=None)

NAMES = [f"wc-w-{number}" for number in range(8)]


@st.composite
def workers(draw: st.DrawFn) -> WorkerView:
    """One worker but for its name: with or without a process, some state, maybe drained."""
    is_live = draw(st.booleans())
    stored = draw(st.integers(0, 4))
    return WorkerView(
        worker=StreamWorker(
            name="",
            spec=WorkerSpec(
                app="wc", epoch=make_epoch(1, 1), drain=draw(st.booleans()), incarnation="i"
            ),
            status=WorkerStatus(
                incarnation="i",
                stored=tuple(StoredTask(task=TaskId(1, number)) for number in range(stored)),
            ),
        ),
        process=ProcessState.RUNNING if is_live else ProcessState.ENDED,
        lease=Lease(worker="", holder="i", duration_ms=30_000, renewals=1) if is_live else None,
    )


@st.composite
def fleets(draw: st.DrawFn) -> tuple[StreamApp, tuple[WorkerView, ...]]:
    names = draw(st.lists(st.sampled_from(NAMES), unique=True))
    views = tuple(
        replace(view, worker=replace(view.worker, name=name))
        for name in names
        for view in (draw(workers()),)
    )
    app = parse(
        {
            "apiVersion": "headwater.dev/v1alpha1",
            "kind": "StreamApp",
            "metadata": {"name": "wc"},
            "spec": {
                "topology": {"module": "a:b"},
                "replicas": draw(st.integers(0, 6)),
                "scaleDown": {
                    "policy": draw(st.sampled_from(["LeastState", "Newest"])),
                    "workersToRemove": draw(st.lists(st.sampled_from(NAMES), unique=True)),
                },
            },
        }
    )
    return app, views


def plan(app: StreamApp, views: tuple[WorkerView, ...]) -> Fleet:
    observed = Observed(app=app, generation=1, workers=views)
    return plan_fleet(set_scene(observed, remember(observed, Memory(), 0), 0))


def carried_out(views: tuple[WorkerView, ...], fleet: Fleet) -> tuple[WorkerView, ...]:
    """The workers as they are once the plan was written."""
    kept = [
        replace(
            view,
            worker=replace(
                view.worker,
                spec=replace(view.worker.spec, drain=view.worker.name in fleet.unwanted),
            ),
        )
        for view in views
    ]
    made = [
        WorkerView(
            worker=StreamWorker(name=name, spec=WorkerSpec(app="wc", epoch=make_epoch(1, 1)))
        )
        for name in fleet.new
    ]
    return (*kept, *made)


@given(fleets())
@many
def test_there_are_as_many_workers_as_wanted_and_none_that_was_named(
    case: tuple[StreamApp, tuple[WorkerView, ...]],
) -> None:
    app, views = case
    fleet = plan(app, views)
    existing = {view.worker.name for view in views}
    named = set(app.spec.scale_down.workers_to_remove)

    assert len(fleet.wanted) + len(fleet.new) == app.wanted_workers
    assert fleet.wanted | fleet.unwanted == existing
    assert not fleet.wanted & fleet.unwanted
    assert not set(fleet.new) & (existing | named)
    assert not fleet.wanted & named


@given(fleets())
@many
def test_a_plan_that_was_carried_out_is_the_plan_again(
    case: tuple[StreamApp, tuple[WorkerView, ...]],
) -> None:
    app, views = case
    fleet = plan(app, views)

    again = plan(app, carried_out(views, fleet))

    assert again.new == ()
    assert again.wanted == fleet.wanted | set(fleet.new)


@given(fleets())
@many
def test_whoever_is_drained_lives_less_or_has_less_or_is_newer_than_those_who_stay(
    case: tuple[StreamApp, tuple[WorkerView, ...]],
) -> None:
    app, views = case
    fleet = plan(app, views)
    is_by_state = app.spec.scale_down.policy == "LeastState"
    named = set(app.spec.scale_down.workers_to_remove)

    def worth(view: WorkerView) -> tuple[bool, int, int]:
        name, state = view.worker.name, len(view.worker.status.stored) if is_by_state else 0
        return view.process is ProcessState.RUNNING, state, -int(name.rpartition("-")[2])

    there = [view for view in views if not view.worker.spec.drain and view.worker.name not in named]
    goes = [worth(view) for view in there if view.worker.name in fleet.unwanted]
    stays = [worth(view) for view in there if view.worker.name in fleet.wanted]
    assert not goes or not stays or max(goes) < min(stays)
