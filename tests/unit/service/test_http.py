"""What a worker serves: made from a view that a test writes by hand."""

from __future__ import annotations

import json
import socket
import urllib.error
import urllib.request
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from headwater.errors import ConfigError
from headwater.ids import TaskId
from headwater.model import metrics
from headwater.model.metrics import Snapshot
from headwater.service.http import serve
from headwater.service.view import TaskView, ThreadView, WorkerView

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headwater.model.metrics import Metric

T0, T1 = TaskId(1, 0), TaskId(1, 1)
THREAD = {"thread_id": "orders-w-0-StreamThread-0"}

VIEW = WorkerView(
    at_ms=1_000_000,
    application_id="orders",
    worker="orders-w-0",
    incarnation="abc",
    is_stopping=False,
    threads=(ThreadView(slot=0, state="PARTITIONS_ASSIGNED", pid=17),),
    updaters={0: 18},
    tasks=(
        TaskView(task=T0, state="RUNNING", slot=0, committed={"lines-0": 91}),
        TaskView(task=T1, state="RESTORING", slot=0),
    ),
    numbers=Snapshot.merged(
        [
            Snapshot.of(
                {
                    metrics.ALIVE_STREAM_THREADS: 1,
                    metrics.ASSIGNMENT_EPOCH: 7,
                    metrics.LEASE_HELD: True,
                    metrics.READY: False,
                    metrics.ACTIVE_RESTORING_TASKS: 1,
                    metrics.FAILED_STREAM_THREADS: 1,
                    metrics.RESTORE_RECORDS: 130,
                }
            ),
            Snapshot.of(
                {
                    metrics.THREAD_PROCESS: 100,
                    metrics.THREAD_PROCESS_RATE: 12.3,
                    metrics.THREAD_RESTARTS: 1,
                    metrics.COMMIT: 3,
                    metrics.TRANSACTION_OPEN: True,
                    metrics.RATIOS["process"]: 0.5,
                    metrics.PRODUCED_RECORDS: 42,
                },
                THREAD["thread_id"],
            ),
            Snapshot.of({metrics.THREAD_STATE: 1}, THREAD["thread_id"], "PARTITIONS_ASSIGNED"),
            Snapshot.of(
                {
                    metrics.TASK_PROCESS: 100,
                    metrics.TASK_PROCESS_RATE: 12.3,
                    metrics.DROPPED_RECORDS: 1,
                    metrics.ACTIVE_BUFFER_COUNT: 2,
                    metrics.RECORDS_LAG: 9,
                    metrics.STREAM_TIME: 5,
                },
                str(T0),
            ),
            Snapshot.of({metrics.TASK_STATE: 1}, str(T0), "RUNNING"),
            Snapshot.of(
                {
                    metrics.LAST_RESTORED_RECORDS: 30,
                    metrics.RESTORED_RECORDS: 30,
                    metrics.RESTORE_REMAINING_RECORDS: 70,
                },
                str(T1),
            ),
            Snapshot.of({metrics.TASK_STATE: 1}, str(T1), "RESTORING"),
        ]
    ),
)


def with_number(metric: Metric, value: float) -> WorkerView:
    """The view with another number of the worker."""
    return replace(VIEW, numbers=Snapshot.merged([VIEW.numbers, Snapshot.of({metric: value})]))


class Served:
    """A server with a view and a clock that tests turn by hand."""

    def __init__(self) -> None:
        self.view = VIEW
        self.now_ms = VIEW.at_ms
        self.server = serve("127.0.0.1", 0, lambda: self.view, lambda: self.now_ms)

    def get(self, path: str) -> tuple[int, str]:
        try:
            url = f"http://{self.server.endpoint}{path}"
            with urllib.request.urlopen(url, timeout=30) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    made = Served()
    yield made
    made.server.close()


@pytest.fixture
def served(server: Served) -> Served:
    server.view, server.now_ms = VIEW, VIEW.at_ms
    return server


def test_healthy_means_that_the_main_loop_turns(served: Served) -> None:
    assert served.get("/healthz") == (200, "ok\n")

    served.now_ms += 60_000

    assert served.get("/healthz") == (503, "the main loop has not turned for 60 s\n")


def test_ready_says_what_is_waited_for(served: Served) -> None:
    assert served.get("/readyz") == (503, "tasks not running yet: 1_1\n")

    served.view = with_number(metrics.ASSIGNMENT_EPOCH, 0)
    assert served.get("/readyz") == (503, "waiting for the control loop\n")

    served.view = replace(VIEW, is_stopping=True)
    assert served.get("/readyz") == (503, "stopping\n")

    served.view = with_number(metrics.READY, value=True)
    assert served.get("/readyz") == (200, "ok\n")


def test_tasks_are_served_with_exact_numbers(served: Served) -> None:
    document = json.loads(served.get("/tasks")[1])

    assert document["restoredTotal"] == 130
    assert document["threads"][0]["transactionOpen"] is True
    assert document["threads"][0]["recordsPerSecond"] == 12.3
    running, restoring = document["tasks"]
    assert (running["task"], running["lag"], running["committed"]) == ("1_0", 9, {"lines-0": 91})
    assert running["remaining"] is None
    assert (restoring["restored"], restoring["remaining"], restoring["lag"]) == (30, 70, None)


def test_the_size_of_a_tasks_state_is_that_of_its_stores_on_disk_and_in_memory(
    served: Served,
) -> None:
    properties = metrics.ROCKSDB_PROPERTIES
    sizes = {
        properties["total-sst-files-size"]: 1_000,
        properties["cur-size-all-mem-tables"]: 24,
        properties["size-all-mem-tables"]: 64,
    }
    parts = [
        Snapshot.of(dict(sizes), str(T0), "rocksdb-state", "counts"),
        Snapshot.of(dict(sizes), str(T0), "rocksdb-state", "totals"),
    ]
    served.view = replace(VIEW, trees={0: Snapshot.merged(parts)})

    tasks = json.loads(served.get("/tasks")[1])["tasks"]

    # No StreamThread has measured the other one, which is restored.
    assert {task["task"]: task["stateBytes"] for task in tasks} == {str(T0): 2_048, str(T1): None}


def test_every_key_of_a_thread_and_a_task_is_served(served: Served) -> None:
    document = json.loads(served.get("/tasks")[1])

    assert document["threads"] == [
        {
            "slot": 0,
            "state": "PARTITIONS_ASSIGNED",
            "pid": 17,
            "restarts": 1,
            "recordsPerSecond": 12.3,
            "processed": 100,
            "produced": 42,
            "commits": 3,
            "transactionOpen": True,
            "ratios": {"process": 0.5},
            "problem": "",
        }
    ]
    assert document["tasks"][1] == {
        "task": "1_1",
        "role": "Active",
        "state": "RESTORING",
        "slot": 0,
        "recordsPerSecond": 0.0,
        "processed": 0,
        "dropped": 0,
        "buffered": 0,
        "lag": None,
        "streamTime": None,
        "committed": {},
        "stateBytes": None,
        "restored": 30,
        "remaining": 70,
        "caughtUp": False,
        "problem": "",
    }
    assert {key: document[key] for key in ("epoch", "ready", "lease", "followedTotal")} == {
        "epoch": 7,
        "ready": False,
        "lease": True,
        "followedTotal": 0,
    }


@pytest.mark.parametrize(
    ("name", "tags", "value"),
    [
        ("stream_alive_stream_threads", {}, 1),
        ("stream_failed_stream_threads_total", {}, 1),
        ("stream_state_updater_active_restoring_tasks", {}, 1),
        ("stream_state_updater_restore_records_total", {}, 130),
        ("stream_assignment_epoch", {}, 7),
        ("stream_thread_process_total", THREAD, 100),
        ("stream_thread_process_ratio", THREAD, 0.5),
        ("stream_thread_transaction_open", THREAD, 1),
        ("stream_thread_state", {**THREAD, "state": "PARTITIONS_ASSIGNED"}, 1),
        ("stream_thread_state", {**THREAD, "state": "RUNNING"}, 0),
        ("stream_task_process_total", {**THREAD, "task_id": "1_0"}, 100),
        ("stream_task_dropped_records_total", {**THREAD, "task_id": "1_0"}, 1),
        ("stream_task_records_lag", {**THREAD, "task_id": "1_0"}, 9),
        ("stream_task_restore_remaining_records", {**THREAD, "task_id": "1_1"}, 70),
        ("stream_task_state", {**THREAD, "task_id": "1_1", "state": "RESTORING"}, 1),
    ],
)
def test_metrics_have_kafkas_names_and_tags(
    served: Served, name: str, tags: dict[str, str], value: float
) -> None:
    wanted = {"application_id": "orders", "client_id": "orders-w-0", **tags}
    labels = ",".join(f'{tag}="{wanted[tag]}"' for tag in sorted(wanted))

    assert f"{name}{{{labels}}} {float(value)}" in served.get("/metrics")[1].splitlines()


def test_an_unknown_path_names_the_known_ones(served: Served) -> None:
    code, text = served.get("/status")

    assert code == 404
    assert "/tasks" in text


def test_a_port_in_use_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        with pytest.raises(ConfigError, match=f"127.0.0.1:{port}.*--http-port"):
            serve("127.0.0.1", port, lambda: VIEW, lambda: 0)


def test_a_pod_may_have_an_address_of_the_sixth_version() -> None:
    server = serve("::1", 0, lambda: VIEW, lambda: VIEW.at_ms)
    try:
        assert server.endpoint.startswith("[::1]:")
        with urllib.request.urlopen(f"http://{server.endpoint}/healthz", timeout=30) as answer:
            assert answer.status == 200
    finally:
        server.close()
