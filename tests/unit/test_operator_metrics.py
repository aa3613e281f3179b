"""The operator measures every number that it declares, and no other."""

from __future__ import annotations

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from headwater.model.appstatus import (
    AppStatus,
    AutoscalingStatus,
    Condition,
    ConditionStatus,
    ConditionType,
)
from headwater.model.metrics import METRICS
from headwater.model.streamapp_autoscaling import AutoscalingMode
from headwater_operator.handlers.metrics import Metrics
from headwater_operator.handlers.queue import WorkQueue
from headwater_operator.metrics import (
    AUTOSCALING,
    NOT_READY,
    OPERATOR_METRICS,
    PROBLEM,
    WORKERS_DESIRED,
    WORKERS_READY,
)

TRUE, FALSE = ConditionStatus.TRUE, ConditionStatus.FALSE
READY, DEGRADED, STALLED = ConditionType.READY, ConditionType.DEGRADED, ConditionType.STALLED


@pytest.fixture
def metrics() -> Metrics:
    made = Metrics()
    made.watch_queue(lambda: 0.0, lambda: 0.0)
    made.watch_namespaces(lambda: 0.0)
    made.watch_hearing(lambda: {"streamapps": 1_500}, ["streamapps"])
    return made


def status(*conditions: tuple[ConditionType, ConditionStatus, str]) -> AppStatus:
    return AppStatus(
        conditions=tuple(
            Condition(type=kind, status=value, reason=reason, last_transition_time="")
            for kind, value, reason in conditions
        )
    )


def samples(metrics: Metrics, name: str) -> list[tuple[dict[str, str], float]]:
    text = generate_latest(metrics.registry).decode()
    return [
        (sample.labels, sample.value)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == name
    ]


def test_what_is_measured_is_what_is_declared(metrics: Metrics) -> None:
    text = generate_latest(metrics.registry).decode()
    measured = {
        family.name: (family.type, family.documentation)
        for family in text_string_to_metric_families(text)
        if not family.name.endswith("_created")
    }

    assert measured == {it.name: (it.type, it.help) for it in OPERATOR_METRICS}
    assert not {it.name for it in OPERATOR_METRICS} & {it.name for it in METRICS}


def test_a_streamapp_is_named_while_it_has_a_problem_and_no_longer(metrics: Metrics) -> None:
    good = status((READY, TRUE, "Running"), (DEGRADED, FALSE, "NotDegraded"))
    bad = status((DEGRADED, TRUE, "DiskFullError"), (STALLED, TRUE, "DiskFullError"))

    metrics.count_apps({("shop", "orders"): good, ("shop", "carts"): bad})

    where = {"streamapp_namespace": "shop", "streamapp": "carts", "reason": "DiskFullError"}
    assert sorted(labels["condition"] for labels, _ in samples(metrics, PROBLEM.name)) == [
        "Degraded",
        "Stalled",
    ]
    assert ({**where, "condition": "Stalled"}, 1) in samples(metrics, PROBLEM.name)
    assert samples(metrics, "headwater_operator_streamapps_degraded") == [({}, 1)]
    assert samples(metrics, "headwater_operator_streamapps") == [
        ({"ready": "true"}, 1),
        ({"ready": "false"}, 1),
    ]
    metrics.count_apps({("shop", "orders"): good, ("shop", "carts"): good})
    assert samples(metrics, PROBLEM.name) == []


def test_workers_that_are_not_ready_count_by_their_streamapp(metrics: Metrics) -> None:
    metrics.count_apps({}, {("shop", "orders"): 0, ("shop", "carts"): 2})

    carts = {"streamapp_namespace": "shop", "streamapp": "carts"}
    orders = {"streamapp_namespace": "shop", "streamapp": "orders"}
    assert samples(metrics, NOT_READY.name) == [(orders, 0), (carts, 2)]
    metrics.count_apps({}, {("shop", "orders"): 0})
    assert samples(metrics, NOT_READY.name) == [(orders, 0)]
    metrics.count_apps({})
    assert samples(metrics, NOT_READY.name) == []


def test_what_autoscaling_decides_counts_by_its_streamapp(metrics: Metrics) -> None:
    told = AutoscalingStatus(mode=AutoscalingMode.AUTO, replicas=2, desired=3)
    orders, key = {"streamapp_namespace": "shop", "streamapp": "orders"}, ("shop", "orders")
    scaled = AppStatus(autoscaling=told, ready_replicas=2)

    metrics.count_apps({key: scaled, ("shop", "carts"): AppStatus()}, reasons={key: "LagUnknown"})

    assert samples(metrics, WORKERS_DESIRED.name) == [(orders, 3)]
    assert samples(metrics, WORKERS_READY.name) == [(orders, 2)]
    assert samples(metrics, AUTOSCALING.name) == [
        ({**orders, "mode": "Auto", "reason": "LagUnknown"}, 1)
    ]
    metrics.count_apps({key: scaled}, reasons={key: "Right"})
    assert samples(metrics, AUTOSCALING.name) == [
        ({**orders, "mode": "Auto", "reason": "Right"}, 1)
    ]
    metrics.count_apps({key: AppStatus()})
    for metric in (AUTOSCALING, WORKERS_DESIRED, WORKERS_READY):
        assert samples(metrics, metric.name) == []


def test_nothing_is_late_before_it_is_due() -> None:
    now_ms = 1_000
    queue: WorkQueue[str] = WorkQueue(lambda: now_ms)

    assert (queue.late_ms(), len(queue)) == (0, 0)
    queue.add("orders", after_ms=300)
    assert (queue.late_ms(), len(queue)) == (0, 0)
    now_ms = 1_750
    assert (queue.late_ms(), len(queue)) == (450, 1)
