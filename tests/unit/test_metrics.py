"""The table of metrics holds together, and a Snapshot carries what was measured."""

from __future__ import annotations

import pickle
from collections import Counter

import pytest

from headwater.model import metrics
from headwater.model.cluster import Role
from headwater.model.metrics import METRICS, Metric, MetricType, Scope, Snapshot

TASK = "0_1"


def by_name(metric: Metric) -> str:
    return metric.name


def test_no_two_metrics_have_one_name() -> None:
    counts = Counter(metric.name for metric in METRICS)

    assert [name for name, count in counts.items() if count > 1] == []


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("scope", Scope)
def test_a_key_is_of_one_metric_for_each_role(scope: Scope, role: Role) -> None:
    counts = Counter(m.key for m in METRICS if m.scope is scope and m.key and m.is_of(role))

    assert [key for key, count in counts.items() if count > 1] == []


@pytest.mark.parametrize("metric", METRICS, ids=by_name)
def test_a_metric_is_shown_somewhere_and_says_what_it_means(metric: Metric) -> None:
    assert metric.is_scraped or metric.key
    assert metric.help.endswith(".")
    assert not metric.name.endswith("_total")
    assert metric.sample_name.endswith("_total") == (metric.type is MetricType.COUNTER)


def test_parts_are_merged_and_the_later_one_counts() -> None:
    first = Snapshot.of({metrics.TASK_PROCESS: 1, metrics.RECORDS_LAG: 5}, TASK)
    second = Snapshot.of({metrics.TASK_PROCESS: 2}, TASK)
    other = Snapshot.of({metrics.TASK_PROCESS: 40}, "0_2")

    merged = Snapshot.merged([first, second, other])

    assert merged.rows(metrics.TASK_PROCESS) == {(TASK,): 2, ("0_2",): 40}
    assert merged.total(metrics.TASK_PROCESS) == 42
    assert merged.count(metrics.RECORDS_LAG, TASK) == 5
    assert merged.only("0_2") == other
    assert first.count(metrics.TASK_PROCESS, TASK) == 1


def test_what_was_not_measured_is_not_in_it() -> None:
    told = Snapshot.of({metrics.RECORDS_LAG: None, metrics.TASK_PROCESS: 0}, TASK)

    assert told == Snapshot.of({metrics.TASK_PROCESS: 0}, TASK)
    assert told.value(metrics.RECORDS_LAG, TASK) is None


def test_it_travels_over_a_pipe() -> None:
    told = Snapshot.of(
        {metrics.THREAD_PROCESS: 7, metrics.RATIOS["poll"]: 0.25}, "w-StreamThread-0"
    )

    assert pickle.loads(pickle.dumps(told)) == told


def test_json_of_another_version_may_lack_a_key_or_have_more() -> None:
    told = Snapshot.read({"processed": 7, "more": "?"}, Scope.TASK, TASK, role=Role.ACTIVE)

    assert told == Snapshot.of({metrics.TASK_PROCESS: 7}, TASK)
