"""Functions that wait, in the tasks of Spark: a commit, a turn and the cut wait for their calls."""

from __future__ import annotations

import asyncio
import threading
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cloudpickle
import pytest

from headwater import Serdes
from headwater.errors import ConfigError, ProcessingError
from headwater.spark.backfill import Backfill
from headwater.spark.outputs import Outputs
from tests.support.backfills import Here, Listener, settings_of
from tests.support.turns import Rig
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from headwater import FixedKeyRecord, StreamsBuilder
    from headwater.spark.cluster import SparkCluster
    from tests.support.thread_rig import Topics

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(900)]

RECORDS = 60
TEXTS: Any = {"key_serde": Serdes.string, "value_serde": Serdes.string}
BRANCHES = ("asked", "twice", "scored")


async def ask(value: str) -> str:
    """Take longer for some values than for those that come after."""
    await asyncio.sleep(0.001 * (int(value) % 7))
    return f"{value}!"


def twice(record: FixedKeyRecord[str, str]) -> list[FixedKeyRecord[str, str]]:
    return [record, record.with_value(f"{record.value}{record.value}")]


def score(values: list[str]) -> list[str]:
    return [str(10 * int(value)) for value in values]


def note(directory: str, key: str, value: str) -> None:
    """Leave a trace of the call."""
    Path(directory, f"{key}-{value}").touch()


def build_on(builder: StreamsBuilder, name: str, directory: str) -> None:
    """Each function that waits, and what comes of it; one is counted behind its call."""
    numbers = builder.stream(f"{name}-a", **TEXTS)
    asked = numbers.map_values_async(ask, order="partition")
    asked.to(f"{name}-asked", **TEXTS)
    asked.group_by_key(**TEXTS).count(store="counts", key_serde=Serdes.string)
    numbers.process_values_async(twice, order="partition").to(f"{name}-twice", **TEXTS)
    numbers.map_batch(score, max_size=7).to(f"{name}-scored", **TEXTS)
    numbers.for_each_async(partial(note, directory))


def failing(builder: StreamsBuilder, name: str) -> None:
    async def fail(value: str) -> str:
        raise ValueError(f"nobody answers for {value}")

    builder.stream(f"{name}-a", **TEXTS).map_values_async(fail).to(f"{name}-asked", **TEXTS)


def slow(builder: StreamsBuilder, name: str) -> None:
    stream = builder.stream(f"{name}-a", **TEXTS)
    stream.map_values_async(ask, timeout=20_000).to(f"{name}-asked", **TEXTS)


def send(topics: Topics, name: str) -> None:
    for branch in BRANCHES:
        topics.create(f"{name}-{branch}")
    topics.send(topics.create(f"{name}-a"), [(f"k{n % 3}", str(n)) for n in range(RECORDS)], 0)


def values(topics: Topics, topic: str) -> list[str]:
    return [value.decode() for _, value in topics.read(topic)]


def check(topics: Topics, name: str, app: str, directory: Path, *, until: int = RECORDS) -> None:
    """See that the results of all records up to there are committed, in order, and no more."""
    topics.wait_settled(name)
    read = range(until)
    assert values(topics, f"{name}-asked") == [f"{n}!" for n in read]
    assert values(topics, f"{name}-twice") == [text for n in read for text in (str(n), f"{n}{n}")]
    assert values(topics, f"{name}-scored") == [str(10 * n) for n in read]
    assert {path.name for path in directory.iterdir()} == {f"k{n % 3}-{n}" for n in read}
    counted = topics.counts(f"{app}-counts-changelog")
    assert counted == {f"k{k}": len(range(k, until, 3)) for k in range(3)}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Where calls leave a trace."""
    made = tmp_path / "noted"
    made.mkdir()
    return made


def config_of(topics: Topics, app: str) -> dict[str, Any]:
    return {"application.id": app, "bootstrap.servers": topics.bootstrap_servers}


def backfill(topics: Topics, app: str, build: Any, cluster: Any) -> Backfill:
    settings = settings_of(
        topology=cloudpickle.dumps(build), config=config_of(topics, app), outputs=Outputs.ALL
    )
    return Backfill(settings, cluster, Listener())


@pytest.mark.spark
@pytest.mark.sampled
def test_a_backfill_on_spark_waits_for_the_calls_of_all_records(
    topics: Topics, unique_name: str, spark: SparkCluster, directory: Path
) -> None:
    send(topics, unique_name)
    build = partial(build_on, name=unique_name, directory=str(directory))

    report = backfill(topics, f"{unique_name}-app", build, spark).run()

    assert report.records == RECORDS
    check(topics, unique_name, f"{unique_name}-app", directory)


@pytest.mark.sampled
def test_a_turn_waits_for_its_calls_and_for_no_others(
    topics: Topics, unique_name: str, tmp_path: Path, directory: Path
) -> None:
    send(topics, unique_name)
    build = partial(build_on, name=unique_name, directory=str(directory))
    topics.create(f"{unique_name}-counts-changelog", cleanup_policy="compact")
    rig = Rig(topics, unique_name, tmp_path, build)
    rig.take(1)

    for number, end in enumerate((10, 11, RECORDS), 2):
        rig.take(number, a=end)

        assert rig.committed("a") == end
        check(topics, unique_name, unique_name, directory, until=end)


def test_a_task_that_is_closed_leaves_no_thread_behind(
    topics: Topics, unique_name: str, directory: Path
) -> None:
    """A Python worker of Spark runs one task after another."""
    send(topics, unique_name)
    build = partial(build_on, name=unique_name, directory=str(directory))
    before = set(threading.enumerate())

    backfill(topics, unique_name, build, Here()).run()

    def of_calls() -> set[str]:
        return {it.name for it in set(threading.enumerate()) - before if it.name == "calls"}

    wait_for(lambda: not of_calls(), what="the threads of calls to end")


def test_an_error_of_a_call_names_its_record(topics: Topics, unique_name: str) -> None:
    send(topics, unique_name)

    with pytest.raises(ProcessingError, match=f"{unique_name}-a.*nobody answers for 0"):
        backfill(topics, unique_name, partial(failing, name=unique_name), Here()).run()


def test_a_call_that_may_outlast_a_transaction_is_refused_before_anything_changes(
    topics: Topics, unique_name: str
) -> None:
    """Workers without transactions let it take its time."""
    send(topics, unique_name)
    refused = backfill(topics, unique_name, partial(slow, name=unique_name), Here())
    before = set(topics.admin.list_topics(timeout=60).topics)

    for act in (refused.plan, refused.run):
        with pytest.raises(ConfigError, match=r"20000 ms .* a transaction ends after 10000 ms"):
            act()

    there = set(topics.admin.list_topics(timeout=60).topics)
    assert {topic for topic in there - before if topic.startswith(unique_name)} == set()
