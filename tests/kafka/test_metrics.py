"""What a live worker shows on ``/metrics``: every number of the table that its level measures."""

from __future__ import annotations

import functools
import json
import math
import time
import urllib.request
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from prometheus_client.parser import text_string_to_metric_families
from tests.golden import metric_tree
from tests.support.waiting import wait_for

from headwater import KafkaStreams, RecordingLevel
from headwater.model import metrics
from headwater.model.cluster import Role
from headwater.model.metrics import METRICS, Scope, Unit
from headwater.model.metrics.kafka import GLOBAL_TASK
from headwater.model.metrics.threads import METRICS_OF_UPDATERS

if TYPE_CHECKING:
    from pathlib import Path

    from prometheus_client import Metric as Family

pytestmark = pytest.mark.kafka

INFO, DEBUG = RecordingLevel.INFO, RecordingLevel.DEBUG
NOT_HAPPENING = {
    metric.name
    for metric in (
        # Nothing is restored or punctuated here, nothing is in flight, nobody is asked for a token,
        # and there is no StreamApp.
        metrics.REVISION,
        metrics.HTTP_REFUSED_REQUESTS,
        metrics.RESTORE_REMAINING_RECORDS,
        metrics.RESTORED_RECORDS,
        metrics.GLOBAL_REMAINING,
        *metrics.PUNCTUATE_LATENCY,
        *metrics.TASK_PUNCTUATE_LATENCY,
    )
} | {
    metric.name
    for name in ("remove", "fetch")
    for metric in METRICS
    if metric.scope is Scope.STORE and metric.kafka.startswith(f"{name}-")
}


def expected(level: RecordingLevel) -> list[metrics.Metric]:
    """What an active task's worker shows at a level."""
    return [
        metric
        for metric in METRICS
        if metric.is_scraped
        and metric.scope not in {Scope.DRIVER, Scope.USER}
        and metric.name not in NOT_HAPPENING
        and metric not in METRICS_OF_UPDATERS
        and metric.is_of(Role.ACTIVE)
        and level.records(metric.level)
    ]


def is_plausible(metric: metrics.Metric, value: float) -> bool:
    if not math.isfinite(value) or value < -1:
        return False
    if metric.unit is Unit.RATIO:
        return value <= 1.01
    return value < 1e15


class Application:
    """A worker with the topology whose metrics were recorded from Java."""

    def __init__(self, servers: str, name: str, directory: Path, level: RecordingLevel) -> None:
        self.level = level
        build = functools.partial(
            metric_tree.draw, source=f"{name}-in", sink=f"{name}-out", places=f"{name}-places"
        )
        self.streams = KafkaStreams(
            build,
            {
                "application.id": name,
                "bootstrap.servers": servers,
                "state.dir": str(directory / name),
                "commit.interval.ms": 100,
                "poll.ms": 20,
                "metrics.recording.level": str(level),
                "statistics.interval.ms": 500,
                "windows.emit.interval.ms": 0,
                "logging.format": "json",
            },
            http_port=0,
        )

    def scrape(self) -> dict[str, Family]:
        url = f"http://{self.streams.endpoint}/metrics"
        with urllib.request.urlopen(url, timeout=30) as answer:
            text = answer.read().decode()
        return {family.name: family for family in text_string_to_metric_families(text)}

    def value(self, name: str, **labels: str) -> float | None:
        for sample in self.scrape()[name.removesuffix("_total")].samples:
            if sample.name == name and labels.items() <= sample.labels.items():
                return sample.value
        return None

    def is_measured(self) -> bool:
        """Whether all records have been processed, and told of in the slower report, too."""
        consumed = "stream_topic_records_consumed_total"
        return (
            self.value(consumed, task_id="0_0") == len(metric_tree.records())
            and self.value(consumed, task_id=GLOBAL_TASK) == len(metric_tree.rows())
            and bool(self.value("stream_topic_records_produced_total"))
        )


def feed(servers: str, names: list[str]) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    topics = [NewTopic(f"{name}-{part}", 1) for name in names for part in ("in", "out", "places")]
    for made in admin.create_topics(topics).values():
        made.result(30)
    producer = Producer({"bootstrap.servers": servers})
    for name in names:
        for key, value, timestamp in metric_tree.records():
            producer.produce(f"{name}-in", value, key, timestamp=max(1, timestamp))
        for place, row, timestamp in metric_tree.rows():
            producer.produce(f"{name}-places", row, place, timestamp=max(1, timestamp))
    assert producer.flush(30) == 0


def test_a_worker_shows_every_number_that_its_level_measures(
    bootstrap_servers: str, unique_name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    names = {level: f"{unique_name}-{level}" for level in (INFO, DEBUG)}
    feed(bootstrap_servers, list(names.values()))
    with ExitStack() as stack:
        applications = [
            Application(bootstrap_servers, name, tmp_path, level) for level, name in names.items()
        ]
        for application in applications:
            stack.enter_context(application.streams)
        for application in applications:
            wait_for(application.is_measured, what=f"the numbers of {application.level}")
        for application in applications:
            check_families(application)
            check_values(application)
            check_global_store(application)
            check_names_of_java(application)
        dropped = sum(
            one.value("stream_task_dropped_records_total", task_id="0_0") or 0
            for one in applications
        )
    check_logs(capfd.readouterr().err, dropped)


def check_families(application: Application) -> None:
    families = application.scrape()
    missing, odd = [], []
    for metric in expected(application.level):
        family = families.get(metric.name)
        if family is None or not family.samples:
            missing.append(metric.sample_name)
            continue
        assert family.type == metric.type, metric.name
        assert family.documentation == metric.help
        for sample in family.samples:
            assert sample.labels.keys() == set(metric.labels), metric.name
            if not is_plausible(metric, sample.value):
                odd.append(sample)
    assert missing == []
    assert odd == []
    measured = {name for name, family in families.items() if family.samples}
    beyond = {m.name for m in METRICS if not application.level.records(m.level)}
    assert measured & beyond == set()


def check_values(application: Application) -> None:
    """Counts that depend on nothing but the records are Java's."""
    java = {
        (it.group, it.name): it.value
        for it in reversed(metric_tree.values())
        if it.level == "DEBUG" and ("task-id", GLOBAL_TASK) not in it.tags
    }
    task = {"task_id": "0_0"}
    for name, of_java in (
        ("stream_task_process_total", ("stream-task-metrics", "process-total")),
        ("stream_task_dropped_records_total", ("stream-task-metrics", "dropped-records-total")),
        ("stream_topic_records_consumed_total", ("stream-topic-metrics", "records-consumed-total")),
        ("stream_model_predict_total", ("stream-model-metrics", "predict-total")),
        ("stream_model_predict_latency_avg", ("stream-model-metrics", "predict-latency-avg")),
    ):
        labels = {} if "model" in name else task
        assert application.value(name, **labels) == java[of_java], name
    if application.level is DEBUG:
        emitted = application.value("stream_processor_node_window_aggregate_final_emit_total")
        node = "stream-processor-node-metrics", "window-aggregate-final-emit-total"
        assert emitted == java[node]
    assert application.value("stream_thread_process_total") == len(metric_tree.records())
    commits = application.value("stream_thread_commit_total")
    assert commits is not None
    assert commits > 0
    # Records are of 1970.
    age = application.value("stream_processor_node_record_e2e_latency_avg")
    assert age is not None
    assert time.time() * 1_000 - 120_000 < age < time.time() * 1_000


def check_global_store(application: Application) -> None:
    """The GlobalStreamThread tells of its store, under Java's names of task and thread."""
    labels = {"task_id": GLOBAL_TASK, "thread_id": "embedded-GlobalStreamThread"}
    store = {**labels, "state_scope": "rocksdb-state", "state_id": "names"}
    assert application.value("stream_state_estimate_num_keys", **store) is not None
    assert application.value("stream_task_dropped_records_total", **labels) == 1
    if application.level is DEBUG:
        assert application.value("stream_state_put_total", **store) == 4


def check_names_of_java(application: Application) -> None:
    names = {(name.group, name.name) for name in application.streams.metrics()}
    states: dict[str, Any] = {
        name.group: metric.metric_value()
        for name, metric in application.streams.metrics().items()
        if name.name == "state"
    }

    assert ("stream-metrics", "alive-stream-threads") in names
    assert ("stream-state-metrics", "estimate-num-keys") in names
    assert states["stream-metrics"] == states["stream-thread-metrics"] == "RUNNING"


def check_logs(text: str, count: float) -> None:
    """Each dropped record has its line, as JSON, which says whose it is."""
    lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    dropped = [line for line in lines if "Skipping record" in line["message"]]
    dropped = [line for line in dropped if "GlobalStreamThread" not in line["thread"]]

    assert len(dropped) == count > 0
    assert {(it["worker"], it["thread"], it["task"]) for it in dropped} == {
        ("embedded", "embedded-StreamThread-0", "0_0")
    }
