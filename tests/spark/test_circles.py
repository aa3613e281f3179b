"""Sub-topologies that feed each other or themselves are backfilled, in passes."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import cloudpickle
import pytest
from confluent_kafka import Producer
from examples.word_count.app import words

from headwater import KafkaStreams, Serdes
from headwater.native.application import ApplicationSettings
from headwater.spark.application import BackfillSettings
from headwater.spark.backfill import Backfill
from headwater.spark.outputs import Outputs
from tests.support.backfills import PATIENCE_S, Here, Listener, records
from tests.support.circles import build_on
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from headwater import StreamsBuilder
    from headwater.spark.cluster import SparkCluster
    from headwater.spark.work import TaskDone, TaskWork
    from tests.support.backfills import WordCount
    from tests.support.thread_rig import Topics

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(3_600)]

CIRCLE = "tests.support.circles:build"
LINES = ["the quick brown fox", "jumps over the lazy dog", "", "the end"] * 8
SLICE = 8
TEXTS: Any = {"key_serde": Serdes.string, "value_serde": Serdes.string}


def expected(lines: Sequence[str]) -> Counter[str]:
    """How often each line and each first letter is counted."""
    letters = Counter(word[:1] for line in lines for word in words(line))
    return letters + Counter(f"line-{number}" for number in range(len(lines)))


@pytest.mark.sampled
def test_two_that_feed_each_other_are_computed_whatever_is_killed(
    word_count: WordCount, unique_name: str, tmp_path: Path
) -> None:
    word_count.send(LINES)
    settings = {"topology": CIRCLE, "slice_records": SLICE}
    for failpoint in (
        "commit.acknowledged=kill@2",  # in the first pass, in a transaction
        "backfill.pass_computed=kill@2",
        "commit.offsets_committed=kill@3",
        "backfill.task_done=kill@5",
    ):
        ended = word_count.drive(unique_name, failpoint, Outputs.ALL, settings)
        assert ended.returncode == -9, (failpoint, ended.stdout, ended.stderr)

    ended = word_count.drive(unique_name, outputs=Outputs.ALL, settings=settings)

    assert ended.returncode == 0, ended.stderr
    assert word_count.counts(unique_name) == expected(LINES)
    assert word_count.outputs() == {
        key: list(range(1, times + 1)) for key, times in expected(LINES).items()
    }
    # Workers go on, and others that have done all of it have the same.
    word_count.send(LINES)
    for app in (unique_name, f"{unique_name}-native"):
        config = word_count.config(app, state_dir=str(tmp_path / app))
        with KafkaStreams(CIRCLE, config):
            wait_for(
                lambda app=app: word_count.counts(app) == expected(LINES * 2),  # type: ignore[misc]
                what="every line and letter",
                timeout_s=PATIENCE_S,
            )


def test_what_passes_have_done_is_counted_once(word_count: WordCount, unique_name: str) -> None:
    word_count.send(LINES)
    total = len(LINES) + 2 * sum(len(words(line)) for line in LINES)

    report = word_count.backfill(unique_name, topology=CIRCLE, slice_records=SLICE).run()

    assert sum(done.processed for done in report.tasks) == total
    assert len(report.tasks) == len({done.task for done in report.tasks}) == 4
    assert report.keys == len(expected(LINES))
    assert report.earlier == 0


@pytest.mark.spark
def test_spark_computes_it_as_well(
    word_count: WordCount, unique_name: str, spark: SparkCluster
) -> None:
    word_count.send(LINES)

    build = cloudpickle.dumps(lambda builder: build_on(builder, unique_name))
    told = {"topology": build, "target": "auto", "slice_records": 3 * SLICE}
    report = word_count.backfill(unique_name, spark, **told).run()  # type: ignore[arg-type]

    assert report.manifest.frames == ()
    assert word_count.counts(unique_name) == expected(LINES)


class Careless(Here):
    """Does not tell tasks that a later pass reads on."""

    def run(self, works: Sequence[TaskWork]) -> list[TaskDone]:
        return super().run([replace(work, more=frozenset()) for work in works])


LATE: Counter[int] = Counter()


class Looking:
    """Counts how many come how many times ten seconds late."""

    def init(self, context: Any) -> None:
        self._context = context

    def process(self, record: Any) -> None:
        late_ms = self._context.current_stream_time_ms() - record.timestamp
        LATE[max(0, late_ms - 1) // 10_000] += 1

    def close(self) -> None:
        """Nothing is open."""


@pytest.mark.parametrize(
    ("is_behind_another", "seen", "tens_late"),
    [(False, 120, 1), (True, 240, 3)],
    ids=["a repartition topic", "another circle"],
)
def test_a_circle_goes_round_in_slices_whatever_comes_before_it(
    topics: Topics, unique_name: str, *, is_behind_another: bool, seen: int, tens_late: int
) -> None:
    """Nothing that comes back meets the stream time of the end."""
    source = topics.create(f"{unique_name}-in")
    producer = Producer({"bootstrap.servers": topics.bootstrap_servers, "log_level": 0})
    for number in range(60):
        producer.produce(source, f"{number}", "key", timestamp=1_000_000 + number * 1_000)
    assert producer.flush(60) == 0

    def build(builder: StreamsBuilder) -> None:
        lines = builder.stream(source, **TEXTS)
        if is_behind_another:
            before = lines.select_key(lambda _key, _text: "before")
            lines = lines.merge(before.repartition(name="before", **TEXTS))
        lines = lines.repartition(name="first", **TEXTS)
        again = lines.select_key(lambda _key, _text: "again").repartition(name="again", **TEXTS)
        both = lines.merge(again)
        both.group_by_key(**TEXTS).count(store="counts")
        both.process(Looking)

    settings = BackfillSettings(
        application=ApplicationSettings(
            topology=cloudpickle.dumps(build),
            config={"application.id": unique_name, "bootstrap.servers": topics.bootstrap_servers},
        ),
        slice_records=10,
    )
    LATE.clear()
    Backfill(settings, Here(), Listener()).run()

    assert LATE.total() == seen
    assert max(LATE) < tens_late, LATE


@pytest.mark.parametrize("cluster", [Here, Careless])
def test_the_end_of_a_pass_does_not_change_the_order_of_records(
    topics: Topics, unique_name: str, cluster: Callable[[], Here]
) -> None:
    """One topic has ten records in the time in which the other has one; both end in slices."""
    dense, sparse = topics.create(f"{unique_name}-dense"), topics.create(f"{unique_name}-sparse")
    producer = Producer({"bootstrap.servers": topics.bootstrap_servers, "log_level": 0})
    in_order = []
    for at_ms in range(1_000, 1_044):
        topic = sparse if at_ms % 11 == 0 else dense
        producer.produce(topic, f"{at_ms} ", "key", timestamp=at_ms)
        in_order.append(f"{at_ms} ")
    assert producer.flush(60) == 0

    def build(builder: StreamsBuilder) -> None:
        both = builder.stream(dense, **TEXTS).merge(builder.stream(sparse, **TEXTS))
        again = both.map_values(lambda text: f"{text.strip()} again ").select_key(
            lambda _key, _text: "again"
        )
        texts = both.merge(again.repartition(name="again", **TEXTS)).group_by_key(**TEXTS)
        texts.reduce(lambda before, text: before + text, store="texts", **TEXTS)

    settings = BackfillSettings(
        application=ApplicationSettings(
            topology=cloudpickle.dumps(build),
            config={"application.id": unique_name, "bootstrap.servers": topics.bootstrap_servers},
        ),
        slice_records=6,
    )
    listener = Listener()
    Backfill(settings, cluster(), listener).run()

    changelog = records(topics, f"{unique_name}-texts-changelog")
    found = {key: (value or b"").decode() for _, key, value, _ in changelog}
    again = "".join(f"{text.strip()} again " for text in in_order)
    is_right = found == {b"key": "".join(in_order), b"again": again}
    assert is_right == (cluster is Here), found
    assert sum("pass" in step for step in listener.steps) >= 40 // 6
