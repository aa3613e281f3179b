"""Names and values of metrics are those that Java shows for the same topology and records."""

from __future__ import annotations

import math

import pytest

from headwater.model.metrics import LEFT_OUT, METRICS
from tests.golden import metric_tree

OF_USERS = "stream-model-metrics"
OURS = {(metric.group, metric.kafka): metric for metric in METRICS if metric.is_kafkas}


def test_every_metric_of_java_is_here_or_left_out_with_a_reason() -> None:
    java = {name for name in metric_tree.names() if name[0] != OF_USERS}

    assert java - OURS.keys() - LEFT_OUT.keys() == set()
    assert OURS.keys() & LEFT_OUT.keys() == set()


def test_what_is_said_to_be_javas_is_javas() -> None:
    java = metric_tree.names()
    # These come to be with a StateUpdater only, and the test driver has none.
    later = {name for name in OURS if name[0] == "stream-state-updater-metrics"}
    ours = {name for name in OURS if name[0].startswith("stream-")}

    assert ours - java.keys() - later == set()


@pytest.mark.parametrize("level", ["INFO", "DEBUG", "TRACE"])
def test_values_and_tags_equal_javas(level: str) -> None:
    with metric_tree.driven(level) as driver:
        ours = {
            (name.group, name.name, tuple(sorted(name.tags.items()))): metric.metric_value()
            for name, metric in driver.metrics().items()
        }
    java = {
        (it.group, it.name, it.tags): it.value for it in metric_tree.values() if it.level == level
    }
    # Java shows 0 or nothing for what it does not record; what costs nothing we always count.
    always = {name for name, metric in OURS.items() if metric.java_level is not None}
    recorded = {
        name: value
        for name, value in java.items()
        if not math.isnan(value) and (name in ours or value)
        if not (level == "INFO" and name[:2] in always)
    }

    assert {name: ours.get(name) for name in recorded} == pytest.approx(recorded)
    assert len(recorded) > 30


STORES = {"kept", "names"}
"""Of a processor, and global. A store of the DSL is read and written in one call, a put."""


def test_operations_of_stores_are_recorded_as_in_java() -> None:
    with metric_tree.driven("DEBUG") as driver:
        names = [name for name in driver.metrics() if name.name.endswith("-latency-max")]
    ours = {
        (name.name, tuple(sorted(name.tags.items())))
        for name in names
        # Kafka Streams flushes no store by itself any more: it commits.
        if name.group == "stream-state-metrics"
        and not name.name.startswith(("record-e2e", "flush"))
    }
    left_out = {name for group, name in LEFT_OUT if group == "stream-state-metrics"}
    java = {(name, tags) for name, tags in metric_tree.recorded() if name not in left_out}

    assert _of(STORES, ours) == _of(STORES, java)
    assert len(_of(STORES, java)) >= 12


def _of(stores: set[str], found: set[metric_tree.Recorded]) -> set[metric_tree.Recorded]:
    return {(name, tags) for name, tags in found if stores.intersection(dict(tags).values())}


def test_what_is_off_is_not_measured() -> None:
    with metric_tree.driven("OFF") as off, metric_tree.driven("INFO") as info:
        groups = {name.group for name in off.metrics()}
        names = {name.name for name in info.metrics()}

    assert groups == {"stream-task-metrics"}
    assert "put-latency-avg" not in names
    assert "record-e2e-latency-avg" in names
