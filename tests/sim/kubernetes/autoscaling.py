"""Autoscaling on a simulated cluster: loads that come and go, what must hold, what is planted."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Final

from headwater_operator.decide.autoscaling import applied
from headwater_operator.decide.autoscaling.load import Reading
from headwater_operator.decide.autoscaling.owner import wanted_workers
from headwater_operator.decide.autoscaling.verdict import is_sample_due
from headwater_operator.decide.observed import ProcessState
from headwater_operator.observe.snapshot import read_status
from tests.sim.kubernetes.plan import Mistake
from tests.sim.world import ViolationError

if TYPE_CHECKING:
    from headwater.model.streamapp import StreamApp
    from headwater_operator.decide import Decision, Memory, Observed
    from headwater_operator.kube.api import Manifest

_PHASE_MS: Final = 12_000
_BUSY_RATE, _CALM_RATE, _BUSY_LAG = 100, 2, 5_000


class Loads:
    """What workers tell of their load: much of it, or little, by turns that the seed decides."""

    def __init__(self, seed: str, until_ms: int) -> None:
        rng = Random(f"loads of {seed}")
        self._until_ms = until_ms
        self._is_busy = [rng.random() < 0.5 for _ in range(until_ms // _PHASE_MS + 1)]
        self.changes = 0
        """How often the number was changed by the load."""

    def told(self, observed: Observed, memory: Memory, now_ms: int) -> Observed:
        """Return a snapshot with what workers tell; in the end nobody does, so the number stays."""
        policy = observed.app.spec.autoscaling
        if policy is None or now_ms >= self._until_ms:
            return observed
        if not is_sample_due(policy, memory.scaling, now_ms):
            return replace(observed, loads=None)
        loads = {
            view.worker.name: {
                task: Reading(
                    thread=view.worker.status.incarnation,
                    processed=self._processed(now_ms),
                    lag=_BUSY_LAG if self._is_busy[now_ms // _PHASE_MS] else 0,
                    busy=0.9 if self._is_busy[now_ms // _PHASE_MS] else 0.02,
                )
                for task in view.worker.spec.active
            }
            for view in observed.workers
            if view.process is ProcessState.RUNNING
        }
        return replace(observed, loads=loads)

    def judge(self, observed: Observed, decision: Decision, _: int) -> None:
        """A number that the load decides is changed only where a warm-up can follow."""
        before, after = observed.status.autoscaling, decision.status.autoscaling
        if before is None or after is None or before.replicas == after.replicas:
            return
        is_asked = (before.mode, before.spec_replicas) != (after.mode, after.spec_replicas)
        if is_asked or not after.min_replicas <= before.replicas <= after.max_replicas:
            return
        if not after.min_replicas <= after.replicas <= after.max_replicas:
            raise ViolationError(f"{after.replicas} workers are outside the bounds")
        self.changes += 1
        tasks = decision.status.tasks
        warming = [view.worker.name for view in observed.workers if view.worker.spec.warmup]
        going = [
            view.worker.name
            for view in observed.workers
            if view.worker.spec.drain and not view.process.is_proof_of_end
        ]
        if tasks.running < tasks.total or warming or going:
            raise ViolationError(
                f"from {before.replicas} to {after.replicas} workers where no warm-up can follow: "
                f"{tasks.running} of {tasks.total} tasks run, {warming} warm up, {going} go"
            )

    def _processed(self, now_ms: int) -> int:
        """Return what each task has processed since the beginning."""
        whole, rest_ms = divmod(now_ms, _PHASE_MS)
        rates = [_BUSY_RATE if is_busy else _CALM_RATE for is_busy in self._is_busy]
        return sum(rates[:whole]) * _PHASE_MS // 1000 + rates[whole] * rest_ms // 1000


def wanted_by(app: StreamApp, manifest: Manifest) -> int:
    """Return how many workers there are to be, as the status says it, or else the specification."""
    return wanted_workers(app, read_status(manifest))


def _nothing(*_: object) -> str:
    """Nothing is unsettled."""
    return ""


class ScalesWithoutWarmUp(Mistake):
    """Changes the number whether or not tasks are where they are to be."""

    patches = ((applied, "_unsettled", _nothing),)
