"""What a worker is handed in files: its topology, as text or as a module."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest
from tests.support.waiting import wait_for
from tests.support.worker import Counting, WorkerProcess

from headwater.errors import ImportPathError
from headwater.ids import TaskId
from headwater.model.cluster import Role
from headwater.model.lifecycle import TaskState

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.kafka

T0, T1 = TaskId(0, 0), TaskId(0, 1)
TEXT = """
import os

from headwater import Serdes, StreamsBuilder

TOPIC = os.environ["HEADWATER_TEST_TOPIC"]


def make(builder: StreamsBuilder) -> None:
    (
        builder.stream(TOPIC, key_serde=Serdes.string, value_serde=Serdes.string)
        .group_by_key(key_serde=Serdes.string, value_serde=Serdes.string)
        .count(store="counts", key_serde=Serdes.string)
        .to_stream()
        .to(f"{TOPIC}-counts", key_serde=Serdes.string, value_serde=Serdes.long)
    )
"""


def counts_everything(worker: WorkerProcess, counting: Counting) -> None:
    worker.started_with(T0, T1)
    counting.send(200)
    wait_for(counting.all_counted, what="all counts")


def test_a_topology_in_the_streamapp_runs_in_threads_and_updaters(
    bootstrap_servers: str, unique_name: str, tmp_path: Path
) -> None:
    counting = Counting(bootstrap_servers, unique_name)
    with WorkerProcess(counting, tmp_path) as worker:
        worker.streamapp["spec"]["topology"] = {"inline": TEXT, "function": "make"}
        counts_everything(worker, counting)

        worker.grant(T0, revoking=(T1,))
        worker.runs(T0)
        worker.grant(T0, revoking=(), standby=(T1,))

        def follows() -> bool:
            held = {task.task: task for task in worker.status.tasks}
            return T1 in held and (held[T1].role, held[T1].state) == (
                Role.STANDBY,
                TaskState.RUNNING,
            )

        wait_for(follows, what="the standby to catch up")
        assert worker.stop() == 0


def test_a_module_is_found_in_the_topology_directory(
    bootstrap_servers: str, unique_name: str, tmp_path: Path
) -> None:
    counting = Counting(bootstrap_servers, unique_name)
    modules = tmp_path / "modules"
    modules.mkdir()
    (modules / "handed_over.py").write_text(TEXT)
    with WorkerProcess(
        counting,
        tmp_path,
        topology="handed_over:make",
        HEADWATER_TOPOLOGY_DIR=str(modules),
    ) as worker:
        counts_everything(worker, counting)


def test_a_text_that_fails_is_reported_with_the_last_line_of_its_traceback(
    bootstrap_servers: str, unique_name: str, tmp_path: Path
) -> None:
    counting = Counting(bootstrap_servers, unique_name)
    with WorkerProcess(counting, tmp_path) as worker:
        worker.streamapp["spec"]["topology"] = {"inline": f"{TEXT}\nimport no_such_package\n"}
        worker.start()

        assert worker.exit_code() == ImportPathError.exit_code
        error = worker.status.error
        assert error is not None
        assert error.error == "ImportPathError"
        line = TEXT.count("\n") + 2
        assert (
            "ModuleNotFoundError: No module named 'no_such_package' "
            f"(<spec.topology>, line {line})" in error.message
        )


def test_a_signal_ends_a_worker_that_is_still_importing(
    bootstrap_servers: str, unique_name: str, tmp_path: Path
) -> None:
    """Not by its default action, which the first process of a container does not have."""
    counting = Counting(bootstrap_servers, unique_name)
    text = "import signal\nprint('importing', flush=True)\nsignal.pause()\n"
    with WorkerProcess(counting, tmp_path) as worker:
        worker.streamapp["spec"]["topology"] = {"inline": text}
        worker.start()
        wait_for(lambda: "importing" in worker.log.read_text(), what="the import to begin")

        assert worker.stop() == 128 + signal.SIGTERM
        assert "Traceback" not in worker.log.read_text()
