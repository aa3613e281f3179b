"""Rolling changes: which worker is next, and when to halt. Pure.

    plan_roll    the workers, as they are ─► who is replaced next, what is waited for, why it halts
    difference   two topologies ─► why tasks of one cannot be run by the other

What asks for a rolling change is a new revision (``headwater.model.changes``).

One worker at a time is replaced, and only when every other one is ready and its tasks have a
caught-up standby elsewhere (if there are to be standbys at all). If the new revision does not
become ready, nobody else is replaced: the old workers go on. A worker that is broken can be
replaced at any time, so a corrected specification starts where the bad one got stuck. So can an
outdated worker that alone is not ready, and has not been for the time a new process may take.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headwater.model.changes import base_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headwater.model.appstatus import Revision
    from headwater.model.topics import SubtopologyReport, TopologyReport


@dataclass(frozen=True, slots=True, kw_only=True)
class RollingWorker:
    """One worker as a rolling change looks at it.

    Attributes:
        name: its name.
        revision: of its process; empty when it has none.
        is_ready: it runs everything it was granted, and nothing of it is still restored.
        is_covered: each of its stateful tasks has a caught-up copy on another worker, or none is
            wanted.
        problem: why its process cannot run; empty if it can, as far as is known.
        starting_ms: for how long its process has been starting without being ready.
        ready_for_ms: for how long it has been ready.
    """

    name: str
    revision: str = ""
    is_ready: bool = False
    is_covered: bool = True
    problem: str = ""
    starting_ms: int = 0
    ready_for_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Roll:
    """How far a rolling change has come.

    Attributes:
        next: the worker whose process is to be replaced now; empty for none.
        outdated: workers whose process is of another revision.
        waits_for: why nobody is replaced now although some are outdated; empty otherwise.
        halted: why nobody is replaced until the specification changes; empty otherwise.
    """

    next: str = ""
    outdated: tuple[str, ...] = ()
    waits_for: str = ""
    halted: str = ""


def plan_roll(
    revision: str,
    workers: Sequence[RollingWorker],
    *,
    ready_timeout_ms: int,
    canary_ms: int = 0,
    failed: str = "",
    is_on_trial: bool = False,
) -> Roll:
    """Decide about a rolling change.

    Args:
        revision: that is wanted.
        workers: those that are to have a process, the one to be replaced first in front.
        ready_timeout_ms: how long a new process may take to become ready.
        canary_ms: how long the first one has to be ready before the next is replaced.
        failed: the revision that is rolled back; empty if none is. What was good before needs no
            canary.
        is_on_trial: the wanted revision was never ready and may be rolled back, so it can fail when
            every worker has it.
    """
    outdated = [worker for worker in workers if worker.revision not in ("", revision)]
    names = tuple(worker.name for worker in outdated)
    if not outdated:
        halted = _why_halted(revision, workers, ready_timeout_ms) if is_on_trial else ""
        return Roll(halted=halted)
    unready = [worker for worker in workers if not worker.is_ready]
    given_up = (
        worker.name
        for worker in outdated
        if worker.problem
        or (not worker.is_ready and worker.revision == failed)
        or (unready == [worker] and worker.starting_ms >= ready_timeout_ms)
    )
    if broken := next(given_up, ""):
        return Roll(next=broken, outdated=names)
    if halted := _why_halted(revision, workers, ready_timeout_ms):
        return Roll(outdated=names, halted=halted)
    if waits_for := _awaited(revision, workers, 0 if failed else canary_ms):
        return Roll(outdated=names, waits_for=waits_for)
    if covered := next((worker.name for worker in outdated if worker.is_covered), ""):
        return Roll(next=covered, outdated=names)
    waits_for = f"tasks of {names[0]} have no caught-up standby yet"
    return Roll(outdated=names, waits_for=waits_for)


def _awaited(revision: str, workers: Sequence[RollingWorker], canary_ms: int) -> str:
    """Return which worker has to be ready, or ready for longer, before another is replaced."""
    if late := next((worker.name for worker in workers if not worker.is_ready), ""):
        return f"{late} is not ready yet"
    new = [worker for worker in workers if worker.revision == revision]
    if not new or any(each.ready_for_ms >= canary_ms for each in new):
        return ""
    return (
        f"{new[0].name} is the first of the new revision and has to be ready for "
        f"{canary_ms // 1000} s (spec.upgrade.canary)"
    )


def failed_revision(
    roll: Roll, revision: str, before: Revision, *, is_asked: bool, is_rolled_back: bool
) -> tuple[str, str]:
    """Return which revision is rolled back, and why; two empty texts if none is.

    Args:
        roll: how far a rolling change has come.
        revision: that is wanted.
        before: as last written.
        is_asked: a revision that does not become ready is to be rolled back.
        is_rolled_back: what was ready before is wanted already.
    """
    if is_rolled_back:
        return before.failed, before.failed_message
    # What differs by changes of spec.upgrade.rollOn alone would start from the same contents.
    has_stable = base_of(before.last_stable) not in ("", base_of(revision))
    if is_asked and roll.halted and has_stable:
        return revision, roll.halted
    return "", ""


def _why_halted(revision: str, workers: Sequence[RollingWorker], ready_timeout_ms: int) -> str:
    """Return why the new revision is not to be trusted with another worker; empty if it is."""
    for worker in workers:
        if worker.revision != revision:
            continue
        if worker.problem:
            # What a pod says of itself begins with its name already.
            return f"{worker.name}: {worker.problem.removeprefix(f'{worker.name}: ')}"
        if not worker.is_ready and worker.starting_ms >= ready_timeout_ms:
            return _too_slow(worker.name, ready_timeout_ms)
    return ""


def _too_slow(name: str, ready_timeout_ms: int) -> str:
    return (
        f"{name} did not become ready within {ready_timeout_ms // 1000} s; look at its log, then "
        "correct the StreamApp, or raise spec.upgrade.readyTimeout"
    )


def difference(old: TopologyReport, new: TopologyReport) -> str:
    """Tell why workers of two topologies cannot share their tasks; empty if they can.

    They can when tasks, the topics these read and the state they keep are the same. What happens
    in between, and where results go, may differ.
    """
    before = {part.id: part for part in old.subtopologies}
    after = {part.id: part for part in new.subtopologies}
    for number in sorted(before.keys() | after.keys()):
        one, two = before.get(number), after.get(number)
        if one is None:
            return f"sub-topology {number} is new"
        if two is None:
            return f"sub-topology {number} is gone"
        if why := _part_difference(one, two):
            return f"sub-topology {number}: {why}"
    groups = [
        {tuple(sorted(group)) for group in report.copartition_groups} for report in (old, new)
    ]
    return "" if groups[0] == groups[1] else "other topics have to be co-partitioned"


def _part_difference(old: SubtopologyReport, new: SubtopologyReport) -> str:
    for what, one, two in (
        ("source topics", set(old.source_topics), set(new.source_topics)),
        (
            "repartition topics",
            {(topic.name, topic.partitions) for topic in old.repartition_sources},
            {(topic.name, topic.partitions) for topic in new.repartition_sources},
        ),
        (
            "stores",
            {(log.store, log.name, log.kind) for log in old.changelogs},
            {(log.store, log.name, log.kind) for log in new.changelogs},
        ),
        ("stores", set(old.stores), set(new.stores)),
    ):
        if one != two:
            return f"its {what} {_changes(one, two)}"
    return ""


def _changes(one: set[Any], two: set[Any]) -> str:
    def names(found: set[Any]) -> str:
        plain = {item if isinstance(item, str) else str(item[0]) for item in found}
        return ", ".join(repr(name) for name in sorted(plain))

    parts = [
        f"gain {names(two - one)}" if two - one else "",
        f"lose {names(one - two)}" if one - two else "",
    ]
    return " and ".join(part for part in parts if part)
