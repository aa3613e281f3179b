"""Two operators that share a cluster by a label of namespaces, and who changes the label."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from headwater_operator.handlers import reconcile
from headwater_operator.handlers.shard import Shard
from headwater_operator.kube.api import NAMESPACES
from tests.sim.kubernetes.plan import Mistake
from tests.sim.kubernetes.world import NAMESPACE, KubeWorld, Ticking

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headwater_operator.kube.election import Election
    from headwater_operator.views import AppView
    from tests.sim.kubernetes.operators import Operator

PLACES: Final = ("one", "two")
"""Of operators: two of one Deployment, or each of a shard of its own."""
LABEL: Final = "headwater.dev/shard"
_NOBODY: Final = "none"
_ROUND_MS: Final = 15_000
"""A round that was under way when a sweep has told ends by then."""


def selector_of(place: str) -> str:
    """Return which namespaces the operator of a place runs."""
    return f"{LABEL}={place}"


class Labels(Ticking):
    """Gives the namespace to one operator and to the other, or for a while to nobody."""

    def __init__(self, world: KubeWorld, until_ms: int) -> None:
        self.until_ms = until_ms
        metadata = {"name": NAMESPACE, "labels": {LABEL: world.rng.choice(PLACES)}}
        world.api.create(NAMESPACES, {"metadata": metadata})
        world.namespace_since_ms = 0
        super().__init__(world, "labels")

    def run(self) -> Iterator[int]:
        rng = self.world.rng
        while self.world.now_ms < self.until_ms:
            yield rng.choice((3_000, 10_000, 25_000, 40_000))
            self.label(rng.choice((*PLACES, *PLACES, _NOBODY)))
        self.label(rng.choice(PLACES))

    def label(self, shard: str) -> None:
        """Say who runs the namespace."""
        self.world.note(f"user: the namespace goes to {shard}")
        self.world.namespace_since_ms = self.world.now_ms
        path = f"/metadata/labels/{LABEL.replace('/', '~1')}"
        operation = {"op": "add", "path": path, "value": shard}
        self.world.api.patch(NAMESPACES, None, NAMESPACE, [operation])


def may_write(world: KubeWorld, operator: Operator) -> bool:
    """Whether an operator may write about StreamApps: it owns the namespace, or cannot know yet."""
    found = world.find(NAMESPACES, NAMESPACE)
    owner = "" if found is None else found["metadata"]["labels"][LABEL]
    began_ms, ended_ms = operator.swept_ms
    knows = began_ms > world.namespace_since_ms and world.now_ms - ended_ms > _ROUND_MS
    return owner == operator.place or not knows


def _as_it_is(election: Election, shard: Shard, view: AppView, *, is_first: bool) -> int:
    return election.generation


class EqualEpochs(Mistake):
    """Writes epochs of its own generation, whatever another operator has written before."""

    patches = ((reconcile, "outrank", _as_it_is),)


def _at_any_time(election: Election, shard: Shard, view: AppView, *, is_first: bool) -> int:
    return election.raise_generation(view.highest_generation)


def _whoever_has_it(shard: Shard, namespace: str) -> bool:
    return True


class KeepsWhatItHad(Mistake):
    """Goes on in every namespace that it has seen, and outranks whoever has written there."""

    patches: tuple[tuple[Any, str, Any], ...] = (
        (Shard, "has", _whoever_has_it),
        (reconcile, "outrank", _at_any_time),
    )
