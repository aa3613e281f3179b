"""The laws of the assignor, one per test, over random groups."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.assignment_laws import breaches, moves, shared_tasks, standby_moves
from tests.support.examples import examples

from headwater.assignor.group import Group, Member
from headwater.assignor.refine import next_step
from headwater.assignor.sticky import assign
from headwater.assignor.threads import assign_to_slots
from headwater.ids import TaskId

few = settings(max_examples=examples(60), deadline=None)


@st.composite
def groups(
    draw: st.DrawFn, *, equal: bool = False, stateful_only: bool = False, standbys: int = 2
) -> Group:
    sizes = draw(st.lists(st.integers(1, 9), min_size=1, max_size=4))
    kinds = [True if stateful_only else draw(st.booleans()) for _ in sizes]
    every = [TaskId(sub, part) for sub, size in enumerate(sizes) for part in range(size)]
    names = [f"w-{n}" for n in range(draw(st.integers(1, 5)))]
    threads = draw(st.integers(1, 3))
    owners = draw(st.lists(st.sampled_from([*names, ""]), min_size=len(every), max_size=len(every)))
    members = tuple(
        Member(
            name=name,
            threads=threads if equal else draw(st.integers(1, 4)),
            active=frozenset(
                task for task, owner in zip(every, owners, strict=True) if owner == name
            ),
            stored=draw(st.dictionaries(st.sampled_from(every), st.integers(0, 9), max_size=5)),
            standby=draw(st.frozensets(st.sampled_from(every), max_size=6)),
            lags=draw(st.dictionaries(st.sampled_from(every), st.integers(0, 9), max_size=4)),
            caught_up=draw(st.frozensets(st.sampled_from(every), max_size=4)),
            labels=draw(PLACES),
        )
        for name in names
    )
    stateful = frozenset(task for task in every if kinds[task.subtopology])
    return Group(
        members=members,
        stateful=stateful,
        stateless=frozenset(task for task in every if not kinds[task.subtopology]),
        can_stand_by=stateful,
        standby_replicas=draw(st.integers(0, standbys)),
        topology_keys=draw(st.sampled_from([(), ("zone",), ("zone", "node"), ("node", "zone")])),
    )


PLACES = st.sampled_from([(zone, node) for zone in "abc" for node in "12"]).map(
    lambda place: {"zone": place[0], "node": "".join(place)}
)
"""Where a worker may run: two nodes in each of three zones."""


def settled(group: Group) -> Group:
    """The group as it is after its assignment was carried out."""
    found = assign(group)
    return replace(
        group,
        members=tuple(
            replace(
                member,
                active=frozenset(found.active[member.name]),
                standby=frozenset(found.standby.get(member.name, ())),
                caught_up=frozenset(found.standby.get(member.name, ())),
                lags={},
            )
            for member in group.members
        ),
    )


def actives(group: Group) -> dict[str, frozenset[TaskId]]:
    return {member.name: member.active for member in group.members}


@few
@given(groups())
def test_every_task_is_given_to_exactly_one_worker_and_loads_are_level(group: Group):
    assert breaches(group, assign(group)) == ()


@few
@given(groups())
def test_the_answer_does_not_depend_on_the_order_of_members(group: Group):
    turned = replace(group, members=tuple(reversed(group.members)))

    assert assign(turned) == assign(group)


@few
@given(groups(), st.data())
def test_a_preferred_worker_has_the_task_at_no_cost_of_level_loads(
    group: Group, data: st.DataObject
):
    calm = settled(group)
    task = data.draw(st.sampled_from(sorted(calm.tasks)))
    name = data.draw(st.sampled_from([member.name for member in calm.members]))
    asked = replace(calm, preferred={task: name})

    found = assign(asked)

    assert breaches(asked, found) == ()
    alike = calm.stateful if task in calm.stateful else calm.stateless
    assert found.owners()[task] == name or not alike & set(found.active[name])
    # Once it is there it stays, whoever prefers what.
    there = settled(asked)
    assert moves(actives(there), assign(replace(there, preferred={}))) == 0


@few
@given(groups())
def test_nothing_moves_without_need(group: Group):
    calm = settled(group)

    after = assign(calm)

    assert moves(actives(calm), after) == 0
    assert standby_moves({m.name: m.standby for m in calm.members}, after) == 0


@few
@given(groups())
def test_copies_of_a_task_are_in_as_many_zones_as_there_are(group: Group):
    group = replace(group, topology_keys=("zone", "node"))
    zones = {member.name: member.labels["zone"] for member in group.members}

    found = assign(group)

    owners = found.owners()
    for task in group.can_stand_by if group.replicas > 0 else ():
        places = {
            zones[owners[task]],
            *(zones[n] for n, its in found.standby.items() if task in its),
        }
        assert len(places) == min(group.replicas + 1, len(set(zones.values())))


@few
@given(groups(stateful_only=True))
def test_tasks_of_a_lost_worker_go_to_their_standbys_as_far_as_these_have_room(group: Group):
    group = replace(group, standby_replicas=1)
    before = settled(group)
    if len(before.members) < 3:
        return
    lost, *rest = before.members

    after = assign(replace(before, members=tuple(rest)))

    with_standby = {task: m.name for m in rest for task in m.caught_up & lost.active}
    owners = after.owners()
    for task, name in with_standby.items():
        taken = set(after.active[name]) - next(m.active for m in rest if m.name == name)
        assert owners[task] == name or taken <= with_standby.keys()


@few
@given(groups(equal=True, stateful_only=True))
def test_a_new_worker_takes_no_more_than_its_fair_share(group: Group):
    before = settled(group)
    threads = before.members[0].threads
    grown = replace(before, members=(*before.members, Member(name="w-new", threads=threads)))

    after = assign(grown)

    fair = -(-len(group.tasks) // len(grown.members))
    moved = moves(actives(before), after)
    assert moved <= fair
    assert moved == len(after.active["w-new"])


@few
@given(groups(stateful_only=True))
def test_when_a_worker_leaves_only_its_tasks_move(group: Group):
    before = settled(group)
    left = before.members[1:]
    if not left:
        return

    after = assign(replace(before, members=left))

    for member in left:
        assert member.active <= set(after.active[member.name])


@few
@given(groups(), groups())
def test_two_phase_moves_never_share_a_task_and_arrive(old: Group, new: Group):
    target = assign(new)
    held = {name: frozenset(its) & new.tasks for name, its in assign(old).active.items()}
    releasing: dict[str, frozenset[TaskId]] = {}

    for _ in range(3):
        steps = next_step(target, held, releasing)
        now = {name: set(step.hold) | set(step.revoked) for name, step in steps.items()}
        assert shared_tasks(now) == ()
        held = {name: frozenset(step.hold) for name, step in steps.items()}

    assert {name: its for name, its in held.items() if name in target.active} == {
        name: frozenset(its) for name, its in target.active.items()
    }


@few
@given(
    st.sets(st.builds(TaskId, st.integers(0, 2), st.integers(0, 5)), max_size=15),
    st.integers(1, 4),
    st.data(),
)
def test_slots_share_a_workers_tasks_evenly(its: set[TaskId], count: int, data: st.DataObject):
    owned = (
        data.draw(st.dictionaries(st.sampled_from(sorted(its)), st.integers(0, 5))) if its else {}
    )

    split = assign_to_slots(its, slots=range(count), owned=owned)

    sizes = [len(tasks) for tasks in split.values()]
    assert sorted(task for tasks in split.values() for task in tasks) == sorted(its)
    assert max(sizes) - min(sizes) <= 1
