"""Whatever can go wrong, at random moments, and input that keeps coming meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.sim.global_thread import GlobalThread, feed_places
from tests.sim.loop import Loop
from tests.sim.queries import QueryProcess
from tests.sim.thread import Thread, Updater
from tests.sim.worker import Worker
from tests.sim.world import Process, World

if TYPE_CHECKING:
    from collections.abc import Iterator


class Feeder(Process):
    """Appends input until told to stop."""

    def __init__(self, world: World, until_ms: int, pause_ms: int = 150) -> None:
        self.until_ms = until_ms
        self.pause_ms = pause_ms
        super().__init__(world, "feeder")

    def run(self) -> Iterator[int]:
        while self.world.now_ms < self.until_ms:
            for _ in range(self.world.rng.randint(1, 5)):
                self.world.feed()
                if self.world.global_table:
                    feed_places(self.world)
            yield self.pause_ms


LIKELIHOOD = {
    "starting": 0.5,
    "before init": 0.5,
    "after init": 0.4,
    "waiting to go": 0.4,
    "revoking": 0.2,
    "pausing": 0.1,
    "restoring": 0.2,
    "filling": 0.1,
    "promoting": 0.2,
    "before commit": 0.01,
    "committed, not stored": 0.02,
    "transaction open": 0.001,
    "calls in flight": 0.001,
    "settling": 0.01,
    "about to act": 0.01,
}
"""How likely a fault is at a moment; the rare ones are worth more."""


class Chaos(Process):
    """Kills, freezes, cuts off, scales, until it stops; then everything frozen thaws.

    Half of the faults come at random times, half at the moments that matter (``Process.at``).
    """

    def __init__(
        self, world: World, until_ms: int, loop_type: type[Loop], *, freezes: bool = True
    ) -> None:
        self.until_ms = until_ms
        self.loop_type = loop_type
        self.freezes = freezes
        self.quiet_until_ms = 3_000
        super().__init__(world, "chaos")
        world.watchers.append(self.watch)

    def run(self) -> Iterator[int]:
        self.loop_type(self.world)
        yield 6_000
        faults = [self.kill_thread, self.kill_updater, self.kill_worker, self.kill_loop]
        faults += [self.scale, self.change_threads, self.pause_or_resume]
        faults += [self.kill_global_thread] * 2 if self.world.global_table else []
        faults += [self.kill_queries] if self.world.queries else []
        if self.freezes:
            lasting = [self.freeze_worker, self.cut_off]
            faults += [self.freeze_thread, self.freeze_main, self.freeze_loop, *lasting, *lasting]
        while self.world.now_ms < self.until_ms:
            self.world.rng.choice(faults)()
            yield self.world.rng.choice((50, 2_000, 10_000, 30_000))
        self.heal()

    def watch(self) -> None:
        """Strike at one of the moments the last step has come to."""
        if not self.alive or not self.world.moments or self.world.now_ms < self.quiet_until_ms:
            return
        process, moment = self.world.rng.choice(self.world.moments)
        if not process.alive or self.world.rng.random() > LIKELIHOOD[moment]:
            return
        self.quiet_until_ms = self.world.now_ms + self.world.rng.randint(500, 15_000)
        self.world.note(f"chaos strikes {process.name}: {moment}")
        if isinstance(process, Loop):
            self.replace_loop(process)
        else:
            assert isinstance(process, Thread | Updater | GlobalThread)
            self.strike(process)

    def strike(self, process: Thread | Updater | GlobalThread) -> None:
        """Do something to a process that has come to a moment that matters."""
        strikes = [lambda: process.end("is killed"), lambda: process.worker.end("is killed")]
        if self.freezes:
            strikes += [
                lambda: process.freeze(self.for_ms()),
                lambda: process.worker.freeze_all(self.for_ms()),
                lambda: self.suspend(process.worker),
                lambda: self.suspend(process.worker),
            ]
        self.world.rng.choice(strikes)()

    def heal(self) -> None:
        """Let everybody go on, with two workers; one control loop is left."""
        self.world.note("chaos ends")
        for process in list(self.world.processes):
            process.thaws_ms = None
        self.world.cut_off_until.clear()
        self.world.scale(2)
        self.world.set_paused(paused=False)
        loops = self.living(Loop)
        for loop in loops[:-1]:
            loop.end("is killed at last")

    def living(self, kind: type[Process]) -> list[Process]:
        """Every living process of a kind, in the order of their start."""
        return [process for process in self.world.processes if isinstance(process, kind)]

    def pick(self, kind: type[Process]) -> Process | None:
        """One of them."""
        found = self.living(kind)
        return self.world.rng.choice(found) if found else None

    def for_ms(self) -> int:
        """How long something is frozen: from a moment to well past its Lease."""
        return self.world.rng.choice((300, 3_000, 12_000, 35_000, 45_000, 60_000))

    def kill_thread(self) -> None:
        if (thread := self.pick(Thread)) is not None:
            thread.end("is killed")

    def kill_updater(self) -> None:
        if (updater := self.pick(Updater)) is not None:
            updater.end("is killed")

    def kill_global_thread(self) -> None:
        if (process := self.pick(GlobalThread)) is not None:
            process.end("is killed")

    def kill_queries(self) -> None:
        if (process := self.pick(QueryProcess)) is not None:
            process.end("is killed")

    def kill_worker(self) -> None:
        if (worker := self.pick(Worker)) is not None:
            worker.end("is killed")

    def kill_loop(self) -> None:
        for loop in self.living(Loop):
            loop.end("is killed")
        self.loop_type(self.world)

    def freeze_thread(self) -> None:
        if (thread := self.pick(Thread)) is not None:
            thread.freeze(self.for_ms())

    def freeze_main(self) -> None:
        if (worker := self.pick(Worker)) is not None:
            worker.freeze(self.for_ms())

    def freeze_worker(self) -> None:
        worker = self.pick(Worker)
        if isinstance(worker, Worker):
            worker.freeze_all(self.for_ms())

    def freeze_loop(self) -> None:
        """A leader that is replaced without noticing, and goes on later where it was."""
        if (loop := self.pick(Loop)) is not None:
            self.replace_loop(loop)

    def replace_loop(self, loop: Process) -> None:
        """Freeze a leader and start the next one, or merely kill it."""
        if self.freezes and len(self.living(Loop)) < 3:
            loop.freeze(self.for_ms())
            self.loop_type(self.world)
        else:
            self.kill_loop()

    def cut_off(self) -> None:
        worker = self.pick(Worker)
        if isinstance(worker, Worker):
            self.cut_off_for(worker, self.for_ms())

    def cut_off_for(self, worker: Worker, for_ms: int) -> None:
        """Let a worker reach the broker, but not its StreamWorker."""
        self.world.note(f"{worker.worker} is cut off for {for_ms} ms")
        self.world.cut_off_until[worker.worker] = self.world.now_ms + for_ms

    def suspend(self, worker: Worker) -> None:
        """A machine that sleeps past the Lease, and has no network at first when it wakes."""
        for_ms = self.world.rng.choice((35_000, 45_000, 60_000))
        worker.freeze_all(for_ms)
        self.cut_off_for(worker, for_ms + self.for_ms())

    def scale(self) -> None:
        self.world.scale(self.world.rng.randint(1, 3))

    def pause_or_resume(self) -> None:
        self.world.set_paused(paused=not self.world.app.spec.paused)

    def change_threads(self) -> None:
        self.world.set_threads(self.world.rng.randint(1, 3))


class Sleepers(Chaos):
    """Machines that sleep past their Lease, most of them between getting tasks and their first use.

    What wakes up then believes in an assignment that has moved, and cannot ask anybody.
    """

    def run(self) -> Iterator[int]:
        self.loop_type(self.world)
        yield 20_000
        while self.world.now_ms < self.until_ms:
            # A thread that ends is started again: its successor has to initialise the same id.
            self.kill_thread()
            yield 20_000
        self.heal()

    def strike(self, process: Thread | Updater | GlobalThread) -> None:
        others = [other for other in self.living(Worker) if other is not process.worker]
        if any(other.thaws_ms is None for other in others):
            self.suspend(process.worker)
