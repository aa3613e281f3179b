"""One seed from beginning to end."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from headwater_operator.handlers import reconcile
from headwater_operator.kube import clock
from tests.sim import laws as of_records
from tests.sim.chaos import Feeder
from tests.sim.kubernetes.actions import Acting, ActionLaws
from tests.sim.kubernetes.autoscaling import Loads
from tests.sim.kubernetes.changes import ChangeLaws, Changing
from tests.sim.kubernetes.chaos import KubeChaos, User
from tests.sim.kubernetes.controllers import Controllers
from tests.sim.kubernetes.laws import Laws, settles
from tests.sim.kubernetes.node import Machine
from tests.sim.kubernetes.objects import Objects
from tests.sim.kubernetes.operators import Deployment
from tests.sim.kubernetes.plan import Mistake, Plan
from tests.sim.kubernetes.shards import Labels
from tests.sim.kubernetes.world import KubeWorld
from tests.sim.world import ViolationError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

    from headwater_operator.decide import Decision, Memory, Observed

CHAOS_MS = 90_000
_FEED_MS = 500
_MACHINES = (("node-a1", "a"), ("node-a2", "a"), ("node-b1", "b"))


def simulate(
    seed: str,
    *,
    exactly_once: bool = True,
    mistake: Mistake | None = None,
    acts: bool = False,
    autoscales: bool = False,
    changes: bool = False,
    shards: bool = False,
    watches: bool = False,
) -> KubeWorld:
    """Run one seed.

    Args:
        seed: decides everything.
        exactly_once: the processing guarantee.
        mistake: what is planted.
        acts: users create StreamActions.
        autoscales: the load decides how many workers there are.
        changes: users change what a running application takes over.
        shards: two operators share the cluster, and the namespace changes hands.
        watches: users change a Secret that workers were started from.

    Raises:
        ViolationError: with the seed and the story.
    """
    plan = Plan.of(
        seed,
        exactly_once=exactly_once,
        mistake=mistake,
        acts=acts,
        autoscales=autoscales,
        changes=changes,
        shards=shards,
        watches=watches,
    )
    world = KubeWorld(seed, plan)
    try:
        with _instead(_substitutes(world)):
            _live(world, freezes=exactly_once)
    except (ViolationError, AssertionError) as error:
        story = "\n".join(world.story)
        flag = "" if exactly_once else " --at-least-once"
        flag += " --actions" if acts else ""
        flag += " --autoscaling" if autoscales else ""
        flag += " --changes" if changes else ""
        flag += " --shards" if shards else ""
        flag += " --secret" if watches else ""
        again = f"repeat: python -m tests.sim.kubernetes '{seed}'{flag}"
        said = f"seed {seed!r}: {error}"
        raise ViolationError(f"{said}\n{story}\n{said}\n{again}") from error
    finally:
        world.close()
    return world


def _live(world: KubeWorld, *, freezes: bool) -> None:
    laws = Laws(world)
    for name, zone in _MACHINES:
        Machine(world, name, zone)
    Controllers(world)
    Deployment(world, laws)
    User(world)
    if world.plan.shards:
        Labels(world, CHAOS_MS)
    Feeder(world, CHAOS_MS, _FEED_MS)
    KubeChaos(world, CHAOS_MS, freezes=freezes)
    if world.plan.acts:
        world.action_laws = ActionLaws(world)
        Acting(world, CHAOS_MS)
        Objects(world)
    if world.plan.changes:
        ChangeLaws(world)
        Changing(world, CHAOS_MS)
    world.run_until(CHAOS_MS + 25_000)
    settles(world)
    if world.exactly_once:
        of_records.counted_exactly_once(world)
        of_records.stores_equal_their_changelogs(world)
        of_records.copies_equal_what_they_have_read(world)
    else:
        of_records.nothing_is_lost(world, with_counts=not freezes)


class _WallClock:
    """In the place of what tells the time of day."""

    def __init__(self, world: KubeWorld) -> None:
        self._world = world

    def now(self, _: object) -> Any:
        return self._world.wall_clock()

    def time(self) -> float:
        return self._world.wall_clock().timestamp()


def _substitutes(world: KubeWorld) -> list[tuple[ModuleType | type, str, Any]]:
    """The clock, the judges behind the decision, and what is planted."""
    mistake = world.plan.mistake
    loads = Loads(world.seed, CHAOS_MS)
    if world.plan.autoscales:
        world.judges.append(loads.judge)

    def decide(observed: Observed, memory: Memory, now_ms: int) -> Decision:
        observed = loads.told(observed, memory, now_ms)
        decision = mistake.decide(observed, memory, now_ms)
        for judge in world.judges:
            judge(observed, decision, now_ms)
        return decision

    wall_clock = _WallClock(world)
    return [
        (reconcile, "decide", decide),
        (clock, "datetime", wall_clock),
        (clock, "time", wall_clock),
        *mistake.patches,
    ]


@contextmanager
def _instead(substitutes: list[tuple[ModuleType | type, str, Any]]) -> Iterator[None]:
    before = [(module, name, getattr(module, name)) for module, name, _ in substitutes]
    disabled = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        for module, name, value in substitutes:
            setattr(module, name, value)
        yield
    finally:
        for module, name, value in before:
            setattr(module, name, value)
        logging.disable(disabled)
