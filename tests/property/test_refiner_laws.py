"""The laws of the refiner: a small world of workers that obey it, from any state."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.assignment_laws import given_up, shared_tasks
from tests.support.examples import examples

from headwater.assignor.group import Group, Member
from headwater.assignor.refine import Holder, Rules, Step, refine
from headwater.assignor.sticky import assign
from headwater.ids import TaskId

if TYPE_CHECKING:
    from random import Random

few = settings(max_examples=examples(50), deadline=None)

ACCEPTABLE = 2
ROUNDS = 200
FAULTS = 20


@dataclass
class Place:
    """One worker of the world.

    Attributes:
        held: tasks it holds, and whether it processes them by now.
        releasing: those that were asked back.
        copies: records to read, of every copy.
    """

    name: str
    threads: int
    labels: dict[str, str]
    held: dict[TaskId, bool] = field(default_factory=dict)
    releasing: set[TaskId] = field(default_factory=set)
    standby: set[TaskId] = field(default_factory=set)
    warmup: set[TaskId] = field(default_factory=set)
    copies: dict[TaskId, int] = field(default_factory=dict)
    stored: dict[TaskId, int] = field(default_factory=dict)
    is_leaving: bool = False
    stalled: frozenset[TaskId] = frozenset()

    def member(self) -> Member:
        return Member(
            name=self.name,
            threads=self.threads,
            active=frozenset(self.held),
            stored=self.stored,
            standby=frozenset(self.standby),
            lags=self.copies,
            caught_up=frozenset(task for task, lag in self.copies.items() if lag <= ACCEPTABLE),
            labels=self.labels,
        )

    def holder(self) -> Holder:
        return Holder(
            name=self.name,
            threads=self.threads,
            held=frozenset(self.held),
            releasing=frozenset(self.releasing),
            running=frozenset(task for task, runs in self.held.items() if runs),
            standby=frozenset(self.standby),
            warmup=frozenset(self.warmup),
            near=self.member().nearness(),
            stalled=self.stalled,
            is_leaving=self.is_leaving,
        )

    def obey(self, step: Step) -> None:
        """Do some of what is asked."""
        for task in self.releasing:
            del self.held[task]
            self.stored[task] = 90_000
        self.releasing = set(step.revoked) & self.held.keys()
        self.held = {**dict.fromkeys(self.held, True), **dict.fromkeys(step.granted, False)}
        self.standby, self.warmup = set(step.standby), set(step.warmup)
        wanted = self.standby | self.warmup
        for task in self.copies.keys() - wanted:
            self.stored[task] = 50_000
        self.copies = {
            task: self.copies.get(task, 8 - self.stored.get(task, 0) // 20_000) for task in wanted
        }

    def die(self) -> None:
        """Lose everything but the disk."""
        for task in {*self.held, *self.copies}:
            self.stored[task] = 50_000
        self.held, self.copies = {}, {}
        self.releasing, self.standby, self.warmup = set(), set(), set()

    def follow(self) -> None:
        """Read a record of every changelog."""
        self.copies = {task: max(0, lag - 1) for task, lag in self.copies.items()}


@dataclass
class World:
    """All workers, and what is wanted of them."""

    places: list[Place]
    tasks: frozenset[TaskId]
    in_memory: frozenset[TaskId]
    replicas: int
    max_warmups: int

    @property
    def group(self) -> Group:
        members = tuple(place.member() for place in self.places if not place.is_leaving)
        return Group(
            members=members,
            stateful=self.tasks,
            can_stand_by=self.tasks - self.in_memory,
            standby_replicas=self.replicas,
            topology_keys=("zone",),
        )

    def steps(self) -> dict[str, Step]:
        group = self.group
        rules = Rules(
            movable=group.can_stand_by,
            replicas=max(0, group.replicas),
            max_warmups=self.max_warmups,
        )
        holders = [place.holder() for place in self.places]
        steps = refine(assign(group), holders, rules)
        assert given_up(holders, steps, group.can_stand_by) == ()
        return steps

    def check(self, steps: dict[str, Step]) -> None:
        now = {name: {*step.hold, *step.revoked} for name, step in steps.items()}
        assert shared_tasks(now) == ()
        warmups = {(task, name) for name, step in steps.items() for task in step.warmup}
        before = {(task, place.name) for place in self.places for task in place.warmup}
        assert len(warmups) <= self.max_warmups or warmups <= before
        for name, step in steps.items():
            assert not now[name] & {*step.standby, *step.warmup}
            assert not {*step.standby} & {*step.warmup}
            assert not {*step.standby, *step.warmup} & self.in_memory

    def is_settled(self, steps: dict[str, Step]) -> bool:
        target = assign(self.group)
        return all(
            set(step.hold) == set(target.active.get(name, ()))
            and set(step.standby) == set(target.standby.get(name, ()))
            and not step.warmup
            and not step.granted
            and not step.revoked
            and not step.why
            for name, step in steps.items()
        )


@st.composite
def worlds(draw: st.DrawFn) -> World:
    sizes = draw(st.lists(st.integers(1, 5), min_size=1, max_size=3))
    every = [TaskId(sub, part) for sub, size in enumerate(sizes) for part in range(size)]
    some = st.sets(st.sampled_from(every), max_size=5)
    places = [
        Place(
            name=f"w-{number}",
            threads=draw(st.integers(1, 2)),
            labels={"zone": draw(st.sampled_from("ab"))},
            is_leaving=number > 0 and draw(st.booleans()),
        )
        for number in range(draw(st.integers(1, 5)))
    ]
    for task in every:
        place = draw(st.sampled_from([*places, None]))
        if place is not None:
            place.held[task] = draw(st.booleans())
            if draw(st.integers(0, 5)) == 0:
                place.releasing.add(task)
    for place in places:
        place.standby = draw(some) - place.held.keys()
        place.warmup = draw(some) - place.held.keys() - place.standby
        place.copies = {task: draw(st.integers(0, 9)) for task in place.standby | place.warmup}
        place.stored = draw(st.dictionaries(st.sampled_from(every), st.integers(0, 99_999)))
    return World(
        places=places,
        tasks=frozenset(every),
        in_memory=frozenset(task for task in every if task.subtopology == 2),
        replicas=draw(st.integers(0, 2)),
        max_warmups=draw(st.integers(1, 3)),
    )


@few
@given(worlds(), st.randoms(use_true_random=False))
def test_from_any_state_the_target_is_reached_and_no_warm_copy_is_given_up(
    world: World, random: Random
):
    for number in range(ROUNDS):
        steps = world.steps()
        world.check(steps)
        if number > FAULTS and world.is_settled(steps):
            return
        for place in world.places:
            # Somebody does nothing for a while, or follows without obeying.
            if random.random() < 0.8:
                place.obey(steps[place.name])
            place.follow()
        if number < FAULTS and random.random() < 0.2:
            random.choice(world.places).die()
    raise AssertionError(f"not settled after {ROUNDS} rounds: {steps}")


@few
@given(worlds())
def test_the_step_does_not_depend_on_the_order_of_workers(world: World):
    turned = replace(world, places=list(reversed(world.places)))

    assert turned.steps() == world.steps()


@few
@given(worlds())
def test_what_is_settled_stays_as_it_is(world: World):
    for _ in range(ROUNDS):
        steps = world.steps()
        if world.is_settled(steps):
            break
        for place in world.places:
            place.obey(steps[place.name])
            place.follow()

    again = world.steps()

    assert world.is_settled(again)
    assert all(not step.why for step in again.values())
