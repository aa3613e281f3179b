"""How long assignor and refiner take, and how that grows, in seconds of one core.

    python -m benchmarks.assignor [--rounds 3]

10^2, 10^3 and 10^4 stateful tasks on 10, 10^2 and 10^3 workers in three zones, two workers a node,
one standby each; and 10^5 tasks on those 10^3 workers. Every answer is checked by the laws
(``tests.support.assignment_laws``). Writes ``benchmarks/ASSIGNOR.md``.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.assignment_laws import breaches, given_up

from benchmarks.report import measured, verdict
from headwater.assignor.group import Group, GroupAssignment, Member
from headwater.assignor.refine import Holder, Rules, refine
from headwater.assignor.sticky import assign
from headwater.ids import TaskId

if TYPE_CHECKING:
    from collections.abc import Callable

TABLE = Path(__file__).parent / "ASSIGNOR.md"
SIZES = ((100, 10), (1_000, 100), (10_000, 1_000))
LARGEST = (100_000, 1_000)
GOAL_S, FLOOR_S = 1.0, 5.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    rows = {situation.__name__: [] for situation in SITUATIONS}
    for tasks, workers in (*SIZES, LARGEST):
        for situation in SITUATIONS:
            group = situation(tasks, workers)
            rows[situation.__name__].append(min(_seconds(group) for _ in range(options.rounds)))
            print(f"{tasks:,} {_said(situation)}: {rows[situation.__name__][-1]:.2f} s", flush=True)
    TABLE.write_text(_page(rows))
    return 0


def empty(tasks: int, workers: int) -> Group:
    """Nothing is assigned yet."""
    every = frozenset(TaskId(sub, part) for sub in range(4) for part in range(tasks // 4))
    members = tuple(
        Member(
            name=f"w-{number}",
            threads=2,
            labels={"zone": f"zone-{number % 3}", "node": f"node-{number // 2}"},
        )
        for number in range(workers)
    )
    return Group(
        members=members,
        stateful=every,
        can_stand_by=every,
        standby_replicas=1,
        topology_keys=("zone", "node"),
    )


def settled(tasks: int, workers: int) -> Group:
    """Everything is where it belongs."""
    return _carried_out(empty(tasks, workers))


def a_zone_lost(tasks: int, workers: int) -> Group:
    """A third of the workers, a whole zone, is lost."""
    group = settled(tasks, workers)
    left = tuple(member for member in group.members if member.labels["zone"] != "zone-0")
    return replace(group, members=left)


def a_tenth_new(tasks: int, workers: int) -> Group:
    """A tenth of the workers is new."""
    group = empty(tasks, workers)
    some = group.members[len(group.members) // 10 :]
    before = _carried_out(replace(group, members=some))
    return replace(group, members=(*before.members, *group.members[: len(group.members) // 10]))


SITUATIONS: tuple[Callable[[int, int], Group], ...] = (empty, settled, a_zone_lost, a_tenth_new)


def _carried_out(group: Group) -> Group:
    found = assign(group)
    return replace(
        group,
        members=tuple(
            replace(
                member,
                active=frozenset(found.active[member.name]),
                standby=frozenset(found.standby[member.name]),
                caught_up=frozenset(found.standby[member.name]),
            )
            for member in group.members
        ),
    )


def _seconds(group: Group) -> float:
    """Assign and refine once; return the seconds of this thread's CPU time."""
    rules = Rules(movable=group.can_stand_by, replicas=group.replicas)
    began = time.thread_time()
    target = assign(group)
    holders = [_holder(member) for member in group.members]
    steps = refine(target, holders, rules)
    seconds = time.thread_time() - began
    _check(group, target)
    assert given_up(holders, steps, group.can_stand_by) == ()
    return seconds


def _check(group: Group, target: GroupAssignment) -> None:
    if len(group.members) <= 100:  # The laws look at every pair of workers.
        assert breaches(group, target) == ()
    owners = target.owners()
    assert owners.keys() == group.tasks
    copies = [(task, name) for name, tasks in target.standby.items() for task in tasks]
    assert len(copies) == len(group.can_stand_by)
    assert all(owners[task] != name for task, name in copies)


def _holder(member: Member) -> Holder:
    return Holder(
        name=member.name,
        threads=member.threads,
        held=member.active,
        running=member.active,
        standby=member.standby,
        near=member.nearness(),
    )


def _said(situation: Callable[[int, int], Group]) -> str:
    return str(situation.__doc__).rstrip(".").lower()


def _page(rows: dict[str, list[float]]) -> str:
    lines = [
        "# Assignor and refiner",
        "",
        "Written by `python -m benchmarks.assignor`: the best of some rounds, in seconds of one",
        "core. Stateful tasks with one standby each, three zones, two workers a node. Every answer",
        "is checked by the laws. Growth is the exponent between the second size and the third: 1",
        "is linear. Goal and floor are for the third; the last one has a hundred tasks a worker.",
        "",
        f"Machine: {measured()}.",
        "",
        "| situation | "
        + " | ".join(f"{tasks:,} tasks, {workers:,} workers" for tasks, workers in SIZES)
        + " | growth | goal | floor | verdict | {:,} tasks, {:,} workers |".format(*LARGEST),
        "|---|" + "---|" * (len(SIZES) + 5),
    ]
    for situation in SITUATIONS:
        *found, largest = rows[situation.__name__]
        growth = math.log(found[-1] / found[-2]) / math.log(SIZES[-1][0] / SIZES[-2][0])
        seconds = " | ".join(f"{value:.3f} s" for value in found)
        lines.append(
            f"| {_said(situation)} | {seconds} | {growth:.2f} | {GOAL_S:g} s | {FLOOR_S:g} s "
            f"| {verdict(found[-1], GOAL_S, FLOOR_S)} | {largest:.2f} s |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
