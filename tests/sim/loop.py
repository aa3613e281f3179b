"""The control loop as a process: the real decision, carried out one action at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.service.decide.observations import StopAsked
from headwater_operator.actions import (
    DeleteWorker,
    StartWorker,
    StopHow,
    StopWorker,
    WriteWorkerSpec,
    describe_action,
)
from headwater_operator.decide import (
    Decision,
    Memory,
    Observed,
    ProcessState,
    WorkerView,
    decide,
)
from tests.sim.worker import Worker
from tests.sim.world import Process, World

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headwater_operator.actions import Action


class Loop(Process):
    """One run of the control loop."""

    worker_type: type[Worker] = Worker

    def __init__(self, world: World) -> None:
        world.generation += 1
        self.generation = world.generation
        super().__init__(world, f"loop-{self.generation}")

    def run(self) -> Iterator[int]:
        yield self.world.rng.randint(50, 500)
        memory = Memory()
        while True:
            observed = self.observe()
            yield 2
            decision = self.decide(observed, memory, self.world.now_ms)
            self.world.decided(observed, decision)
            for action in decision.actions:
                self.at("about to act")
                yield self.world.rng.choice((1, 1, 5, 30))
                if not self.carry_out(action):
                    break
            else:
                self.world.status = decision.status
            memory = decision.memory
            yield decision.again_after_ms

    def decide(self, observed: Observed, memory: Memory, now_ms: int) -> Decision:
        """The decision under test."""
        return decide(observed, memory, now_ms)

    def observe(self) -> Observed:
        """Take one snapshot."""
        return Observed(
            app=self.world.app,
            generation=self.generation,
            workers=tuple(
                WorkerView(
                    worker=self.world.read_worker(name),
                    process=self.process_of(name),
                    lease=self.world.leases.get(name),
                )
                for name in sorted(self.world.specs)
            ),
            status=self.world.status,
        )

    def process_of(self, name: str) -> ProcessState:
        """Look at a worker's process."""
        main = self.world.mains.get(name)
        if main is None:
            return ProcessState.NONE
        return ProcessState.RUNNING if main.alive else ProcessState.ENDED

    def carry_out(self, action: Action) -> bool:
        """Carry out one action; return whether it worked."""
        self.world.note(f"{self.name}: {describe_action(action)}")
        match action:
            case WriteWorkerSpec(worker=name, spec=spec, replaces=replaces):
                stored = self.world.specs.get(name)
                if (stored.epoch if stored is not None else 0) != replaces:
                    self.world.note(f"{self.name}: {name} was written by somebody else")
                    return False
                self.world.specs[name] = spec
            case StartWorker(worker=name):
                if self.process_of(name) is not ProcessState.RUNNING:
                    self.worker_type(self.world, name)
            case StopWorker(worker=name, how=how):
                self.stop(name, how)
            case DeleteWorker(worker=name, replaces=replaces):
                if self.world.specs[name].epoch != replaces:
                    return False
                del self.world.specs[name]
        return True

    def stop(self, name: str, how: StopHow) -> None:
        """Stop a worker's process."""
        main = self.world.mains.get(name)
        if not isinstance(main, Worker) or not main.alive:
            return
        if how is StopHow.AT_ONCE:
            main.end("is killed by the control loop")
        else:
            main.inbox.append(StopAsked())
