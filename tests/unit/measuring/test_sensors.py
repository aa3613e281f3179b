"""Sensors of processors: what they show, what two of one name do."""

from __future__ import annotations

import pytest

from headwater.errors import TopologyError
from headwater.measuring.sensors import ThreadSensors
from headwater.measuring.windows import Windows
from headwater.metrics_settings import RecordingLevel
from headwater.model.metrics import Scope
from headwater.model.sensors import Stat


def sensors(level: RecordingLevel = RecordingLevel.INFO) -> ThreadSensors:
    return ThreadSensors(level, Windows(2, 30.0), samples=2, window_s=30.0)


def shown(made: ThreadSensors, now_s: float = 0.0) -> dict[str, float]:
    numbers = made.numbers("t", now_s)
    assert numbers.of_users.keys() == numbers.values.keys()
    assert all(metric.scope is Scope.USER for metric in numbers.of_users.values())
    return {name: value for name, rows in numbers.values.items() for value in rows.values()}


def test_an_operation_has_latency_rate_and_total() -> None:
    made = sensors()
    sensor = made.add_latency_rate_total_sensor("model", "prices", "predict", kind="linear")
    shown(made)
    sensor.record(4)
    sensor.record(8)

    assert shown(made, 10.0) == {
        "stream_model_predict_latency_avg": 6,
        "stream_model_predict_latency_max": 8,
        "stream_model_predict": 2,
        "stream_model_predict_rate": 0.2,
    }
    numbers = made.numbers("t", 10.0)
    assert list(numbers.values["stream_model_predict"]) == [("t", "prices", "linear")]
    assert numbers.of_users["stream_model_predict"].labels == (
        "application_id",
        "client_id",
        "thread_id",
        "model_id",
        "kind",
    )


def test_each_stat_shows_something_of_the_values() -> None:
    made = sensors()
    sensor = made.add_sensor("queue")
    for stat in Stat:
        assert sensor.add(f"length-{stat}", stat)
        assert not sensor.add(f"length-{stat}", stat)
    shown(made)
    for value in (3, 1, 2):
        sensor.record(value)

    assert shown(made, 5.0) == {
        "stream_user_length_avg": 2,
        "stream_user_length_max": 3,
        "stream_user_length_min": 1,
        "stream_user_length_rate": 0.6,
        "stream_user_length_count": 3,
        "stream_user_length_sum": 6,
        "stream_user_length_value": 2,
    }


def test_a_parent_records_what_its_children_do() -> None:
    made = sensors()
    parent = made.add_sensor("all")
    parent.add("all-total", Stat.COUNT)
    for name in "ab":
        made.add_sensor(name, RecordingLevel.INFO, parent).record()

    assert shown(made) == {"stream_user_all": 2}


def test_what_the_level_does_not_record_is_not_shown() -> None:
    made = sensors(RecordingLevel.INFO)
    sensor = made.add_rate_total_sensor("model", "prices", "predict", "DEBUG")
    sensor.record()

    assert not sensor.should_record()
    assert shown(made) == {}
    assert sensors(RecordingLevel.DEBUG).add_sensor("s", "debug").should_record()


def test_tasks_share_a_sensor_that_they_add_alike() -> None:
    made = sensors()

    first = made.add_rate_total_sensor("model", "prices", "predict")

    assert made.add_rate_total_sensor("model", "prices", "predict") is first


def test_another_sensor_of_the_same_name_is_refused() -> None:
    made = sensors()
    made.add_rate_total_sensor("model", "prices", "predict")

    with pytest.raises(TopologyError, match=r"'model\.prices\.predict' was added before as rate"):
        made.add_latency_rate_total_sensor("model", "prices", "predict")
    with pytest.raises(TopologyError, match=r"at level INFO.*at level DEBUG"):
        made.add_rate_total_sensor("model", "prices", "predict", "DEBUG")


def test_a_metric_is_of_one_sensor_and_has_the_same_tags_everywhere() -> None:
    made = sensors()
    made.add_sensor("a").add("depth", Stat.VALUE, tags={"shard": "1"})
    other = made.add_sensor("b")

    with pytest.raises(TopologyError, match="sensor 'a' shows stream_user_depth"):
        other.add("depth", Stat.VALUE, tags={"shard": "1"})
    with pytest.raises(TopologyError, match="declared twice"):
        other.add("depth", Stat.VALUE)
    with pytest.raises(TopologyError, match="metric of Headwater's own"):
        other.add("process-total", Stat.COUNT, group="stream-thread-metrics")
    assert other.add("depth", Stat.VALUE, tags={"shard": "2"})


def test_a_removed_sensor_shows_nothing_and_its_name_is_free() -> None:
    made = sensors()
    sensor = made.add_rate_total_sensor("model", "prices", "predict")
    made.remove_sensor(sensor)
    made.remove_sensor(sensor)

    assert shown(made) == {}
    made.add_latency_rate_total_sensor("model", "prices", "predict").record(1)
    assert "stream_model_predict_latency_max" in shown(made)


@pytest.mark.parametrize("level", ["OFF", "LOUD"])
def test_a_level_that_no_sensor_has_is_refused(level: str) -> None:
    with pytest.raises(TopologyError, match="INFO, DEBUG or TRACE"):
        sensors().add_sensor("s", level)
