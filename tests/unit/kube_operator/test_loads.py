"""Whom autoscaling asks for loads, and what it makes of the answers."""

from __future__ import annotations

from tests.support.numbers import FakeNumbers
from tests.unit.decide.cluster import running

from headwater.ids import TaskId
from headwater.model import metrics
from headwater.model.metrics import Snapshot
from headwater_operator.decide.autoscaling.verdict import ScalingMemory
from headwater_operator.observe.loads import with_loads
from headwater_operator.observe.numbers import WorkerAnswer

AUTOSCALING = {"maxReplicas": 3, "targetLag": 9}
ENDPOINTS = {"wc-w-0": "10.0.0.1:8080", "wc-w-1": "10.0.0.2:8080"}


def answer(incarnation: str) -> WorkerAnswer:
    task = TaskId(0, 0)
    numbers = Snapshot.of({metrics.RECORDS_LAG: 7}, str(task))
    return WorkerAnswer(incarnation=incarnation, numbers=numbers, slots={task: 0})


def test_all_workers_are_asked_when_a_sample_is_due_and_not_before() -> None:
    observed = running(autoscaling=AUTOSCALING).observed()
    source = FakeNumbers({"wc-w-0": answer("i1"), "wc-w-1": answer("another process")})

    found = with_loads(observed, ENDPOINTS, source, ScalingMemory(), 5_000)
    soon = with_loads(observed, ENDPOINTS, source, ScalingMemory(asked_ms=5_000), 6_000)

    assert found.loads is not None
    # What another process of its name says is not about it.
    assert {name: told[TaskId(0, 0)].lag for name, told in found.loads.items()} == {"wc-w-0": 7}
    assert soon.loads is None
    assert source.asked == [ENDPOINTS]


def test_nobody_is_asked_without_autoscaling_or_while_nothing_is_to_run() -> None:
    source = FakeNumbers()
    idle = running(autoscaling=AUTOSCALING)
    idle.app = idle.app.with_replicas(0)

    for cluster in (running(), idle):
        found = with_loads(cluster.observed(), ENDPOINTS, source, ScalingMemory(), 5_000)
        assert found.loads is None
    assert source.asked == []
