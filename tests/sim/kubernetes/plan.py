"""How one run differs from another: what the StreamApp asks for, which mistake is planted."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any

from headwater_operator import decide as decision
from headwater_operator.handlers.reconcile import Reconciler
from tests.sim.kubernetes.port import Port

if TYPE_CHECKING:
    from types import ModuleType

    from headwater_operator.decide import Decision, Memory, Observed
    from tests.sim.kubernetes.operators import Operator

_WITH_WINDOWS = 0.4
_WITH_ROLL_BACK = 0.4


class Mistake:
    """The product as it is; subclasses put something wrong in the place of one part of it."""

    patches: tuple[tuple[ModuleType | type, str, Any], ...] = ()
    """Functions of modules to put others in the place of."""
    reconciler: type[Reconciler] = Reconciler

    def port(self, operator: Operator) -> Port:
        """The operator's way to the API server."""
        return Port(operator)

    def decide(self, observed: Observed, memory: Memory, now_ms: int) -> Decision:
        """The decision."""
        return decision.decide(observed, memory, now_ms)


@dataclass
class Plan:
    """One run.

    Attributes:
        exactly_once: the processing guarantee.
        standbys: of each task.
        keeps_scaled: volumes of workers that are scaled away stay.
        keeps_deleted: volumes of a StreamApp that is deleted stay.
        has_windows: tasks move for balance in one minute only.
        rolls_back: a revision that does not become ready is rolled back.
        mistake: what is planted.
        acts: users create StreamActions.
        autoscales: the load decides how many workers there are.
        changes: users change what a running application takes over.
        shards: two operators share the cluster, and the namespace changes hands.
        watches: users change a Secret that workers were started from.
    """

    exactly_once: bool
    standbys: int
    keeps_scaled: bool
    keeps_deleted: bool
    has_windows: bool
    rolls_back: bool
    mistake: Mistake
    acts: bool = False
    autoscales: bool = False
    changes: bool = False
    shards: bool = False
    watches: bool = False

    @classmethod
    def of(
        cls,
        seed: str,
        *,
        exactly_once: bool = True,
        mistake: Mistake | None = None,
        acts: bool = False,
        autoscales: bool = False,
        changes: bool = False,
        shards: bool = False,
        watches: bool = False,
    ) -> Plan:
        """Draw one."""
        rng = Random(f"plan of {seed}")
        return cls(
            exactly_once=exactly_once,
            standbys=rng.choice((0, 1, 1)),
            keeps_scaled=rng.choice((True, False)),
            keeps_deleted=rng.choice((True, False)),
            has_windows=rng.random() < _WITH_WINDOWS,
            rolls_back=rng.random() < _WITH_ROLL_BACK,
            mistake=mistake or Mistake(),
            acts=acts,
            autoscales=autoscales,
            changes=changes,
            shards=shards,
            watches=watches,
        )

    @property
    def reconciler(self) -> type[Reconciler]:
        """What sees to StreamApps."""
        return self.mistake.reconciler

    def port(self, operator: Operator) -> Port:
        """An operator's way to the API server."""
        return self.mistake.port(operator)
