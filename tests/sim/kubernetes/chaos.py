"""Whatever can go wrong on a cluster, at random moments, and users who change their minds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater_operator.kube.api import NODES, PODS, STREAM_APPS
from tests.sim.chaos import LIKELIHOOD, Chaos
from tests.sim.kubernetes.operators import Operator, Part
from tests.sim.kubernetes.world import APP, BAD_IMAGE, GOOD_IMAGE, NAMESPACE, KubeWorld, Ticking
from tests.sim.loop import Loop
from tests.sim.thread import Thread, Updater

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.sim.kubernetes.node import Machine

_AT_A_WRITE = 0.02
"""How likely an operator is struck right before or right after a write."""


class User(Ticking):
    """Applies the StreamApp whenever there is none."""

    def __init__(self, world: KubeWorld) -> None:
        super().__init__(world, "user")

    def run(self) -> Iterator[int]:
        while True:
            if self.world.find(STREAM_APPS, APP) is None and not self.world.is_api_down:
                self.world.note("user: applies the StreamApp")
                self.world.api.create(STREAM_APPS, self.world.manifest())
            yield 1_000


class Later(Ticking):
    """Does one thing after a while."""

    def __init__(self, world: KubeWorld, after_ms: int, act: Callable[[], object]) -> None:
        self.after_ms = after_ms
        self.act = act
        super().__init__(world, f"later-{world.rng.getrandbits(32)}")

    def run(self) -> Iterator[int]:
        yield self.after_ms
        self.act()


class KubeChaos(Chaos):
    """Crashes, pauses, lost machines, lost watches, an API server that is away, changes of mind."""

    world: KubeWorld

    def __init__(self, world: KubeWorld, until_ms: int, *, freezes: bool = True) -> None:
        super().__init__(world, until_ms, Loop, freezes=freezes)

    def run(self) -> Iterator[int]:
        yield 12_000
        faults = [
            *(self.kill_thread, self.kill_updater, self.kill_worker, self.delete_pod),
            *(self.kill_operator, self.lose_machine, self.api_away, self.lose_watches),
            *(self.scale, self.scale, self.roll, self.suspend_app, self.delete_app),
            *(self.roll_to_nowhere, self.change_threads, self.pause_or_resume),
        ]
        if self.freezes:
            faults += [self.freeze_thread, self.freeze_main, self.freeze_worker, self.cut_off]
            faults += [self.freeze_operator, self.freeze_operator, self.freeze_machine]
            faults += [self.cut_off_machine, self.cut_off_operator]
        if self.world.plan.watches:
            faults += [*(self.world.secret.change,) * 6, *(self.delete_secret,) * 2]
        while self.world.now_ms < self.until_ms:
            self.world.rng.choice(faults)()
            yield self.world.rng.choice((50, 2_000, 10_000, 20_000))
        self.heal()

    def watch(self) -> None:
        if not self.alive or not self.world.moments or self.world.now_ms < self.quiet_until_ms:
            return
        process, moment = self.world.rng.choice(self.world.moments)
        likelihood = _AT_A_WRITE if isinstance(process, Part) else LIKELIHOOD[moment]
        if not process.alive or self.world.rng.random() > likelihood:
            return
        self.quiet_until_ms = self.world.now_ms + self.world.rng.randint(500, 15_000)
        self.world.note(f"chaos strikes {process.name}: {moment}")
        if isinstance(process, Part):
            self.strike_operator(process.operator)
        else:
            assert isinstance(process, Thread | Updater)
            self.strike(process)

    def strike_operator(self, operator: Operator) -> None:
        """Kill it, or freeze it where it is, past its Lease or not."""
        if self.freezes and self.world.rng.random() < 0.5:
            operator.freeze(self.for_ms())
        else:
            operator.end("is killed")

    def heal(self) -> None:
        """Let everybody go on."""
        world = self.world
        world.note("chaos ends")
        world.api_down_until = 0
        world.cut_off_until.clear()
        for machine in world.machines.values():
            machine.cut_off_until = 0
            if not machine.is_up:
                machine.boot()
        for operator in world.operators:
            operator.cut_off_until = operator.watch.deaf_until = 0
        for process in list(world.processes):
            process.thaws_ms = None
            if isinstance(process, Later):
                process.end("is not needed")
        world.secret.restore(b"")
        world.set("/spec/suspend", value=False)
        world.set_paused(paused=False)
        world.set("/spec/image", GOOD_IMAGE)
        world.scale(world.rng.randint(1 + world.plan.standbys, 3))

    # -- operators -------------------------------------------------------------------------------

    def operator(self) -> Operator | None:
        """An operator, most of the time the one that leads."""
        leading = [each for each in self.world.operators if each.hand is not None]
        found = leading if self.world.rng.random() < 0.8 and leading else self.world.operators
        return self.world.rng.choice(found) if found else None

    def kill_operator(self) -> None:
        if (operator := self.operator()) is not None:
            operator.end("is killed")

    def freeze_operator(self) -> None:
        if (operator := self.operator()) is not None:
            operator.freeze(self.for_ms())

    def cut_off_operator(self) -> None:
        if (operator := self.operator()) is not None:
            self.world.note(f"{operator.name} is cut off")
            operator.cut_off_until = self.world.now_ms + self.for_ms()

    def lose_watches(self) -> None:
        """No operator hears of anything for a while, and nobody tells them so."""
        self.world.note("watches are lost")
        for operator in self.world.operators:
            operator.watch.deaf_until = self.world.now_ms + self.for_ms()

    def api_away(self) -> None:
        """The API server answers nobody."""
        for_ms = self.world.rng.choice((1_000, 8_000, 20_000, 45_000))
        self.world.note(f"the API server is away for {for_ms} ms")
        self.world.api_down_until = self.world.now_ms + for_ms

    # -- machines --------------------------------------------------------------------------------

    def machine(self) -> Machine:
        return self.world.rng.choice(list(self.world.machines.values()))

    def lose_machine(self) -> None:
        """It comes back some time; until then it may be taken out of the cluster."""
        machine = self.machine()
        if not machine.is_up or not all(each.is_up for each in self.world.machines.values()):
            return
        machine.lose()
        for_ms = self.for_ms()
        if self.world.rng.random() < 0.4:
            Later(self.world, for_ms // 2, lambda: self.take_out(machine))
        Later(self.world, for_ms, lambda: machine.is_up or machine.boot())

    def take_out(self, machine: Machine) -> None:
        """Delete the node of a machine that is switched off."""
        if not machine.is_up:
            self.world.note(f"user: deletes the node {machine.name}")
            self.world.api.delete(NODES, None, machine.name)

    def freeze_machine(self) -> None:
        self.machine().freeze(self.for_ms())

    def cut_off_machine(self) -> None:
        machine, for_ms = self.machine(), self.for_ms()
        self.world.note(f"{machine.name} is cut off for {for_ms} ms")
        machine.cut_off_until = self.world.now_ms + for_ms

    # -- users -----------------------------------------------------------------------------------

    def delete_pod(self) -> None:
        pods = self.world.all(PODS)
        if pods:
            name = self.world.rng.choice(pods)["metadata"]["name"]
            self.world.note(f"user: deletes the pod {name}")
            self.world.api.delete(PODS, NAMESPACE, name)

    def roll(self) -> None:
        self.world.set("/spec/config", {"commit.interval.ms": self.world.rng.randint(100, 999)})

    def delete_secret(self) -> None:
        """Delete it; it comes back after a while."""
        secret = self.world.secret
        held = secret.delete()
        Later(self.world, self.for_ms(), lambda: secret.restore(held))

    def roll_to_nowhere(self) -> None:
        """A bad image; corrected after a while."""
        self.world.set("/spec/image", BAD_IMAGE)
        Later(self.world, self.for_ms(), lambda: self.world.set("/spec/image", GOOD_IMAGE))

    def suspend_app(self) -> None:
        self.world.set("/spec/suspend", value=True)
        Later(self.world, self.for_ms(), lambda: self.world.set("/spec/suspend", value=False))

    def delete_app(self) -> None:
        """It is applied again as soon as it is gone."""
        if self.world.rng.random() < 0.5:
            self.world.note("user: deletes the StreamApp")
            self.world.was_deleted = True
            self.world.api.delete(STREAM_APPS, NAMESPACE, APP)
