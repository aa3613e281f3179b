"""How a micro-batch is shared, and how many tasks run beside each other."""

from __future__ import annotations

import json
import pickle
import urllib.error
import urllib.request
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import ConfigError, KafkaUnavailableError
from headwater.ids import TaskId, TopicPartition
from headwater.spark.turns.messages import TurnDone, TurnNumber, shares
from headwater.spark.turns.planner import PlannerSettings, TurnReader
from headwater.spark.turns.slots import slots_of
from headwater.spark.turns.status import DriverStatus, State, StatusServer

if TYPE_CHECKING:
    from pathlib import Path

_PAIR = st.tuples(st.integers(0, 10**6), st.integers(-5, 10**6))
_OFFSETS = st.lists(_PAIR, min_size=1, max_size=9)


@given(given=_OFFSETS, limit=st.integers(1, 10**6))
def test_a_micro_batch_takes_a_share_of_every_partition(
    given: list[tuple[int, int]], limit: int
) -> None:
    committed = {TopicPartition("t", n): at for n, (at, _) in enumerate(given)}
    ends = {TopicPartition("t", n): at + waiting for n, (at, waiting) in enumerate(given)}

    found = shares(committed, ends, limit)

    taken = {p: found[p] - committed[p] for p in committed}
    assert all(0 <= taken[p] <= max(0, ends[p] - committed[p]) for p in taken)
    # None starves, and rounding up costs one offset a partition at the most.
    assert all(taken[p] > 0 for p in taken if ends[p] > committed[p])
    assert sum(taken.values()) < limit + len(given)


def test_a_partition_without_committed_offset_has_no_end() -> None:
    known, new = TopicPartition("t", 0), TopicPartition("t", 1)
    assert shares({known: 3}, {known: 10, new: 10}, 100) == {known: 10}


@pytest.mark.parametrize(
    ("master", "slots"),
    [("local", 1), ("local[2]", 2), ("local[2,4]", 2), ("local-cluster[2,3,1024]", 3)],
)
def test_a_local_master_says_how_many_tasks_run_at_a_time(master: str, slots: int) -> None:
    assert slots_of(master, {}) == slots  # type: ignore[arg-type]


def test_elsewhere_an_executor_has_one_core_unless_said_otherwise() -> None:
    assert slots_of("spark://host:7077", {}) == 1  # type: ignore[arg-type]
    assert slots_of("k8s://host", {"spark.executor.cores": "4"}) == 4  # type: ignore[arg-type]


def test_turns_are_in_order_whatever_was_started_again_between_them() -> None:
    in_order = [
        TurnNumber(1, 1, 1, 1),
        TurnNumber(1, 1, 1, 2),
        TurnNumber(1, 1, 2, 1),  # Spark gave the query up
        TurnNumber(1, 2, 1, 1),  # the driver was started again
        TurnNumber(3, 0, 1, 1),  # workers had the application meanwhile
    ]
    assert all(earlier < later for earlier, later in pairwise(in_order))
    assert str(in_order[2]) == "1.1.2.1"


def test_the_status_says_what_was_done(tmp_path: Path) -> None:
    status = DriverStatus("app")
    server = StatusServer(0, status, tmp_path)
    try:
        status.begin(3)
        server.announce()
        said = json.loads((tmp_path / "driver.json").read_text())
        assert said["generation"] == 3

        def get(path: str) -> str:
            with urllib.request.urlopen(f"http://{said['http']}{path}", timeout=30) as answer:
                return str(answer.read().decode())

        with pytest.raises(urllib.error.HTTPError):
            get("/readyz")
        status.move(State.RUNNING)
        done = TurnDone(
            number=TurnNumber(3, 1, 1, 1),
            task=TaskId(0, 1),
            processed=20,
            dropped=1,
            offsets={TopicPartition("in", 1): 20},
            opened=True,
        )
        status.begun()
        planned = json.loads(get("/status"))
        assert (planned["batches"], planned["lastBatch"]) == (0, None)
        assert planned["busySince"] > 0
        status.stumbled("task 0_1: its host ended")
        stumbled = json.loads(get("/status"))
        assert (stumbled["error"], stumbled["busySince"]) == ("task 0_1: its host ended", None)
        status.begun()
        status.took(0, [done], at_s=100.0, took_s=0.5)
        assert get("/readyz") == "ok\n"
        document = json.loads(get("/status"))
        assert document["lastBatch"] == {
            "id": 0,
            "inputRows": 20,
            "durationMs": 500,
            "at": 100_000,
        }
        assert (document["batches"], document["busySince"], document["error"]) == (1, None, None)
        assert document["tasks"] == {"0_1": {"offsets": {"in-1": 20}}}
        assert 'headwater_spark_records_total{application_id="app"} 20\n' in get("/metrics")
        with pytest.raises(ConfigError, match="--http-port"):
            StatusServer(int(said["http"].rpartition(":")[2]), status, tmp_path)
    finally:
        server.close()
    assert not (tmp_path / "driver.json").exists()


@pytest.mark.parametrize("patience_ms", [0, 60_000])
def test_a_planner_without_a_broker_waits_as_long_as_a_stream_thread(patience_ms: int) -> None:
    task, partition = TaskId(0, 0), TopicPartition("in", 0)
    told = PlannerSettings(
        config={
            "application.id": "app",
            "bootstrap.servers": "127.0.0.1:1",
            "request.timeout.ms": 200,
            "task.timeout.ms": patience_ms,
        },
        inputs={task: (partition,)},
        routes={task: 0},
        slots=1,
        limit=10,
        idle_s=1.0,
        before=TurnNumber(1, 1, 1, 0),
    )

    rows, end = TurnReader(told).read({"turn": 4})

    if patience_ms:
        assert (list(rows), end) == ([], {"turn": 4})
    else:
        ((_, number, error),) = rows
        assert (number, end) == (5, {"turn": 5})
        assert isinstance(pickle.loads(error), KafkaUnavailableError)
