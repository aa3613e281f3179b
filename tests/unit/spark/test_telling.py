"""What commands on Spark say before they begin, while they run, and when somebody ends them."""

from __future__ import annotations

import argparse
import io
import signal
import socket
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from tests.support.waiting import wait_for

from headwater.cli import backfill
from headwater.errors import ConfigError, EnvironmentProblemError, KafkaUnavailableError
from headwater.spark import masters
from headwater.spark.cluster import check_master
from headwater.spark.turns.status import DriverStatus, State
from headwater.spark.turns.telling import LiveLine, line_of

if TYPE_CHECKING:
    from typing import NoReturn

RUNNING = {
    "state": "RUNNING",
    "batches": 1_234,
    "inputRowsPerSecond": 5_678.4,
    "error": None,
}


@pytest.mark.parametrize(
    "master",
    [
        *("local", "local[4]", "local[*]", "local[2, 3]", "local-cluster[2,1,1024]"),
        *("spark://one:7077,two:7077", "spark://[::1]:7077", "k8s://https://10.0.0.1:443", "yarn"),
    ],
)
def test_what_spark_knows_is_a_master(master: str) -> None:
    masters.check(master)


@pytest.mark.parametrize(
    "master", ["", "locl[2]", "local[two]", "spark:/one:7077", "spark://one", "localhost:7077"]
)
def test_what_is_no_master_is_refused_with_those_that_there_are(master: str) -> None:
    with pytest.raises(ConfigError, match=r"no master of Spark: expected local\[4\]"):
        check_master(master)


def test_a_master_where_nobody_listens_is_told_before_anything_is_begun() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        with pytest.raises(EnvironmentProblemError, match=f"127.0.0.1:{port}: Connection refused"):
            check_master(f"spark://127.0.0.1:{port}")
        closed.listen()
        check_master(f"spark://127.0.0.1:{port}")


def test_a_backfill_from_the_future_is_refused() -> None:
    tomorrow = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    with pytest.raises(ConfigError, match=r"--from .* lies in the future"):
        backfill._range(argparse.Namespace(since=tomorrow, until=None))


def test_who_interrupts_a_backfill_is_told_how_to_go_on() -> None:
    said = backfill._interrupted("counts", is_begun=True)

    assert "run the same command again" in said
    assert "--abort" in said
    assert backfill._interrupted("counts", is_begun=False).endswith("nothing was changed")


def test_the_live_line_has_micro_batches_rate_and_lag() -> None:
    assert (
        line_of("counts", RUNNING, 42)
        == "counts RUNNING | 1,234 micro-batches | 5,678 records/s | lag 42"
    )
    assert (
        line_of("counts", RUNNING, None) == "counts RUNNING | 1,234 micro-batches | 5,678 records/s"
    )
    starting = {"state": "STARTING", "batches": 0, "error": "no broker\nmore"}
    assert line_of("counts", starting, None) == "counts STARTING | no broker"


def test_elsewhere_than_on_a_terminal_each_state_has_a_line() -> None:
    status, said = DriverStatus("app"), io.StringIO()

    def lag() -> NoReturn:
        raise KafkaUnavailableError("no broker answers")

    line = LiveLine("counts", status.document, lag, said)
    status.does("starting Spark")
    wait_for(lambda: "counts STARTING: starting Spark\n" in said.getvalue(), what="the first line")
    status.does("opening 4 tasks")
    # A query that has begun has processed nothing yet.
    status.move(State.RUNNING)
    wait_for(lambda: "counts STARTING: opening 4 tasks\n" in said.getvalue(), what="the next line")
    status.took(0, [], at_s=1.0, took_s=0.1)
    wait_for(lambda: "counts RUNNING | 1 micro-batches" in said.getvalue(), what="that it runs")
    status.move(State.STOPPING)
    line.close()

    assert [line.split(" |")[0] for line in said.getvalue().splitlines()][-3:] == [
        *("counts STARTING: opening 4 tasks", "counts RUNNING", "counts STOPPING")
    ]


def test_before_the_first_micro_batch_no_lag_is_told_and_it_does_not_run() -> None:
    shut_out = {"state": "RUNNING", "batches": 0, "doing": "opening 4 tasks", "error": None}

    assert line_of("counts", shut_out, 0) == "counts STARTING: opening 4 tasks"
    failed = {**shut_out, "state": "FAILED", "error": "somebody has taken over"}
    assert line_of("counts", failed, None) == "counts FAILED | somebody has taken over"


def test_times_of_a_backfill_are_told_with_their_zone() -> None:
    given = argparse.Namespace(since="2026-01-31T08:00:00", until="2026-01-31T10:30:00+01:00")

    said = backfill.told_range(*backfill._range(given))

    assert said == "from 2026-01-31 08:00:00 UTC to 2026-01-31 09:30:00 UTC"
    assert backfill.told_range("earliest", None) == ""


def test_a_backfill_that_is_terminated_ends_as_by_an_interrupt() -> None:
    before = signal.getsignal(signal.SIGTERM)
    try:
        with pytest.raises(KeyboardInterrupt):
            backfill._terminate(signal.SIGTERM, None)
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    finally:
        signal.signal(signal.SIGTERM, before)
