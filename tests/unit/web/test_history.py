"""An hour of series in memory that does not grow; samples and what is made of them."""

from __future__ import annotations

import math

from headwater.model import metrics
from headwater_operator.dashboards.history import History as RawHistory
from headwater_operator.dashboards.history import Sample, label_set
from headwater_operator.web import measured
from headwater_operator.web.history import History
from headwater_operator.web.samples import read_samples


def test_the_oldest_moments_make_room_and_the_order_stays() -> None:
    history = History(3)

    for moment in range(5):
        history.add(moment, {"rate": moment * 10.0})

    assert len(history) == 3
    assert history.times() == [2, 3, 4]
    assert history.values("rate") == [20, 30, 40]


def test_a_series_has_gaps_where_nothing_was_told_of_it() -> None:
    history = History(4)

    history.add(1, {"a": 1.0})
    history.add(2, {"b": 2.0})
    history.add(3, {"a": None, "b": 3.0})

    assert history.values("a") == [1, None, None]
    assert history.values("b") == [None, 2, 3]
    assert history.values("c") == [None, None, None]


def test_a_series_that_is_gone_for_a_whole_turn_is_forgotten() -> None:
    history = History(2)
    history.add(1, {"old": 1.0})

    for moment in range(2, 6):
        history.add(moment, {"new": 1.0})

    assert history.names == ("new",)


def test_series_that_left_make_room_and_those_that_are_there_stay() -> None:
    history = History(10, most=2)
    history.add(1, {"first": 1.0, "second": 1.0})
    history.add(2, {"second": 2.0})

    history.add(3, {"second": 3.0, "third": 3.0, "fourth": 3.0})

    assert history.names == ("second", "third")
    assert history.values("third") == [None, None, 3]


def test_text_of_prometheus_is_read_with_its_escapes() -> None:
    found = read_samples(
        '# HELP a_total A.\n# TYPE a_total counter\na_total{x="1",y="a\\"b\\\\c\\nd",z=""} 5.0\n'
        "up 1\nbroken line\nnot_a_number{} x\n"
    )

    assert found == [
        Sample("a_total", (("x", "1"), ("y", 'a"b\\c\nd')), 5.0),
        Sample("up", (), 1.0),
    ]


def test_flows_are_rates_of_topics_and_nodes_lags_and_sizes_of_stores() -> None:
    raw = RawHistory(60_000)
    for second in range(0, 21, 2):
        raw.add(second * 1000, _told(second), source="w-0")

    found = measured.flows(raw.samples(), 20_000, 15_000)

    assert 80 <= found["topics"]["in"]["out"] <= 120
    assert 40 <= found["topics"]["out"]["in"] <= 60
    assert found["reads"].keys() == {"SOURCE in"}
    assert 80 <= found["reads"]["SOURCE in"]["rate"] <= 120
    assert found["reads"]["SOURCE in"]["lag"] == 12_000
    assert found["stores"] == {"counts": {"bytes": 3_000, "keys": 7}}


def test_a_point_has_the_lines_of_all_panels_by_their_legends() -> None:
    raw = RawHistory(60_000)
    for second in range(0, 21, 2):
        raw.add(second * 1000, _told(second), source="w-0")

    point = measured.point(raw.samples(), 20_000, 15_000)

    titles = {panel["id"]: panel["title"] for panel in measured.described("application")}
    lags = {
        key: value
        for key, value in point.items()
        if titles.get(_panel(key), "").startswith("Input")
    }
    assert {key.split("/")[3]: value for key, value in lags.items()} == {"0_0": 12}
    assert {panel["id"].split("/")[0] for panel in measured.described("state")} == {"state"}


def test_of_many_lines_the_greatest_are_kept() -> None:
    raw = RawHistory(60_000)
    lag = metrics.RECORDS_LAG.sample_name
    raw.add(0, [Sample(lag, label_set({"task_id": f"0_{n}"}), n) for n in range(100)], source="w")

    point = measured.point(raw.samples(), 1_000, 15_000)

    assert sorted(point.values()) == list(range(100 - measured.MOST_LINES, 100))


def test_numbers_that_are_not_finite_have_no_flow_and_no_point() -> None:
    raw = RawHistory(60_000)
    keys = metrics.ROCKSDB_PROPERTIES["estimate-num-keys"]
    labels = {"task_id": "0_0", "client_id": "w-0", "state_id": "counts"}
    for at_ms in (0, 2_000):
        told = [_sample(keys, labels, math.inf), _sample(metrics.RECORDS_LAG, labels, math.nan)]
        raw.add(at_ms, told, source="w-0")

    assert measured.flows(raw.samples(), 2_000, 15_000)["stores"] == {}
    assert measured.point(raw.samples(), 2_000, 15_000) == {}


def _panel(key: str) -> str:
    return "/".join(key.split("/")[:2])


def _told(second: int) -> list[Sample]:
    task = {"application_id": "orders", "task_id": "0_0", "client_id": "w-0"}
    read = {**task, "processor_node_id": "SOURCE", "topic": "in"}
    disk = metrics.ROCKSDB_PROPERTIES["total-sst-files-size"]
    memory = metrics.ROCKSDB_PROPERTIES["size-all-mem-tables"]
    keys = metrics.ROCKSDB_PROPERTIES["estimate-num-keys"]
    return [
        _sample(metrics.RECORDS_CONSUMED, read, second * 100),
        _sample(metrics.TOPIC_RECORDS_LAG, read, 12_345),
        _sample(metrics.RECORDS_PRODUCED, {**task, "topic": "out"}, second * 50),
        _sample(metrics.RECORDS_LAG, task, 12),
        _sample(disk, {**task, "state_id": "counts"}, 2_000),
        _sample(memory, {**task, "state_id": "counts"}, 1_000),
        _sample(keys, {**task, "state_id": "counts"}, 7),
    ]


def _sample(metric: metrics.Metric, labels: dict[str, str], value: float) -> Sample:
    return Sample(metric.sample_name, label_set(labels), value)
