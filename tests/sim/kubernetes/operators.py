"""Operator processes: the parts of the product, and what its threads do with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headwater_operator.handlers.hearing import Hearing
from headwater_operator.handlers.leases import LeaseBook
from headwater_operator.handlers.metrics import Metrics
from headwater_operator.handlers.reconcile import NEVER
from headwater_operator.handlers.shard import Shard
from headwater_operator.handlers.sweep import SWEEP_MS, Sweep
from headwater_operator.kube.election import LEASE_NAME, Election, NotLeadingError, Standing
from headwater_operator.kube.errors import KubeApiError
from headwater_operator.manifests.settings import Installation
from tests.sim.kubernetes.blocking import Blocking, Guard
from tests.sim.kubernetes.port import Questions
from tests.sim.kubernetes.shards import PLACES, selector_of
from tests.sim.kubernetes.world import NAMESPACE, OPERATORS, KubeWorld, Ticking

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headwater_operator.handlers.leases import Key
    from tests.sim.kubernetes.laws import Laws

_POLL_MS: Final = 2_000
_RETRY_MS: Final = 2_000
_NEVER_MS: Final = 1 << 40
_TIMES: Final = (1,) * 36 + (0, 2, 2, 2)
"""How often an event is heard."""


class Operator:
    """One operator process in one pod."""

    def __init__(self, world: KubeWorld, place: str, laws: Laws) -> None:
        world.operators_made += 1
        self.world = world
        self.laws = laws
        self.place = place
        self.name = f"operator-{place}-{world.operators_made}"
        self.alive = True
        self.cut_off_until = 0
        api = world.plan.port(self)
        shard = Shard(api, selector_of(place) if world.plan.shards else "")
        lease = f"{LEASE_NAME}-{place}" if world.plan.shards else LEASE_NAME
        self.election = Election(api, OPERATORS, place=place, name=lease, now_ms=self.now_ms)
        self.election._guard = Guard(world)  # type: ignore[assignment]  # it must not block for good
        self.leases = LeaseBook(api, (NAMESPACE,), self.now_ms)
        questions = Questions(self)
        self.reconciler = world.plan.reconciler(
            api,
            self.election,
            self.leases,
            Installation(),
            Metrics(),
            lambda _namespace: questions,
            self.now_ms,
            shard=shard,
        )
        hearing = Hearing(self.now_ms, SWEEP_MS)
        self.sweep = Sweep(
            api, (NAMESPACE,), self.reconciler, self.add, hearing, self.now_ms, shard=shard
        )
        self.swept_ms = (-1, -1)
        """When its last sweep began and ended."""
        self.due: dict[Key, int] = {}
        self.hand: Hand | None = None
        self.watch = Watch(self)
        self.parts: list[Blocking | Watch] = [Main(self), self.watch]
        world.operators.append(self)
        world.note(f"{self.name} starts")

    def now_ms(self) -> int:
        """The clock."""
        return self.world.now_ms

    @property
    def is_cut_off(self) -> bool:
        """Whether it cannot reach the API server."""
        return self.world.now_ms < self.cut_off_until

    @property
    def is_frozen(self) -> bool:
        """Whether it stands still."""
        return self.parts[0].thaws_ms is not None

    def lead(self) -> None:
        """Begin to work, as who leads."""
        self.world.note(f"{self.name} leads, generation {self.election.generation}")
        self.hand = Hand(self)
        self.parts += [Polling(self), Sweeping(self), self.hand]

    def add(self, key: Key, after_ms: int = 0) -> None:
        """Have a StreamApp seen to; the sooner of two times counts."""
        at_ms = self.now_ms() + after_ms
        self.due[key] = min(self.due.get(key, at_ms), at_ms)
        if self.hand is not None and self.hand.is_idle:
            self.hand.next_ms = min(self.hand.next_ms, at_ms)

    def freeze(self, for_ms: int) -> None:
        """Stop it as SIGSTOP does."""
        for part in self.parts:
            part.freeze(for_ms)

    def end(self, why: str) -> None:
        """It is gone."""
        if not self.alive:
            return
        self.alive = False
        self.world.note(f"{self.name} {why}")
        self.world.operators.remove(self)
        for part in self.parts:
            part.end("is gone")


class Part(Blocking):
    """One thread of an operator process; the process ends with any of them."""

    what = ""

    def __init__(self, operator: Operator) -> None:
        self.operator = operator
        super().__init__(operator.world, f"{operator.name}/{self.what}")

    def on_end(self) -> None:
        self.operator.end("ends")


class Main(Part):
    """The main thread: the election."""

    what = "main"

    def main(self) -> None:
        operator = self.operator
        self.pause(self.world.rng.randint(50, 1_500))
        is_leading = False
        while True:
            try:
                standing = operator.election.step()
            except KubeApiError:
                standing = operator.election.standing
            if standing is Standing.LOST:
                return
            if standing is Standing.LEADING and not is_leading:
                is_leading = True
                operator.lead()
            self.pause(operator.election.terms.retry_ms)


class Polling(Part):
    """The thread that reads Leases."""

    what = "leases"

    def main(self) -> None:
        while True:
            self.pause(_POLL_MS)
            try:
                self.operator.leases.poll()
            except KubeApiError:
                continue


class Sweeping(Part):
    """The thread that lists everything now and then; the watches begin after its first time."""

    what = "sweep"

    def main(self) -> None:
        while True:
            began_ms = self.world.now_ms
            try:
                self.operator.sweep.run()
            except KubeApiError:
                self.pause(_RETRY_MS)
                continue
            self.operator.swept_ms = began_ms, self.world.now_ms
            self.operator.watch.is_on = True
            self.pause(SWEEP_MS)


class Hand(Part):
    """The thread that sees to StreamApps."""

    what = "hand"
    is_idle = False

    def main(self) -> None:
        operator = self.operator
        while True:
            ready = [key for key, at_ms in operator.due.items() if at_ms <= self.world.now_ms]
            for key in ready:
                del operator.due[key]
                try:
                    again_ms = operator.reconciler.step(key)
                except NotLeadingError:
                    return
                if again_ms != NEVER:
                    operator.add(key, again_ms)
            next_ms = min(operator.due.values(), default=_NEVER_MS)
            self.is_idle = True
            self.pause(max(1, next_ms - self.world.now_ms))
            self.is_idle = False


class Watch(Ticking):
    """What an operator hears of changes: late, twice, out of order, or not at all."""

    def __init__(self, operator: Operator) -> None:
        self.operator = operator
        self.is_on = False
        self.deaf_until = 0
        self.heard: list[tuple[int, Key, bool]] = []
        super().__init__(operator.world, f"{operator.name}/watch")

    def tell(self, key: Key, *, is_action: bool = False) -> None:
        """Be sent an event."""
        world = self.world
        if not self.is_on or world.now_ms < self.deaf_until:
            return
        for _ in range(world.rng.choice(_TIMES)):
            at_ms = world.now_ms + world.rng.choice((1, 5, 20, 100, 2_000))
            self.heard.append((at_ms, key, is_action))
            self.next_ms = min(self.next_ms, at_ms)

    def run(self) -> Iterator[int]:
        while True:
            now_ms = self.world.now_ms
            due = {(key, is_action) for at_ms, key, is_action in self.heard if at_ms <= now_ms}
            self.heard = [each for each in self.heard if each[0] > now_ms]
            for key, is_action in sorted(due):
                self.operator.reconciler.changed(key, has_actions=is_action)
                self.operator.add(key)
            next_ms = min((at_ms for at_ms, _, _ in self.heard), default=now_ms + 60_000)
            yield next_ms - now_ms


class Deployment(Ticking):
    """Starts an operator process in every place that has none."""

    def __init__(self, world: KubeWorld, laws: Laws) -> None:
        self.laws = laws
        super().__init__(world, "deployment")

    def run(self) -> Iterator[int]:
        while True:
            for place in PLACES:
                if not any(operator.place == place for operator in self.world.operators):
                    Operator(self.world, place, self.laws)
            yield 2_000
