"""A driver by hand is seen by others for as long as it lives, and keeps a second one out."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from tests.support.waiting import wait_for

from headwater.cli.main import main
from headwater.driverlock import HandDriver, driver_of, drivers_of, held
from headwater.errors import InstanceRunningError

if TYPE_CHECKING:
    from pathlib import Path

AGAIN = "start it again"
STREAM_APP = """
apiVersion: headwater.dev/v1alpha1
kind: StreamApp
metadata: {name: orders}
spec:
  applicationId: orders-id
  topology: {module: "examples.word_count.app:build"}
  kafka: {bootstrapServers: "127.0.0.1:1"}
"""
DRIVER = """
import signal, sys
from pathlib import Path
from headwater.driverlock import held
root = Path(sys.argv[1])
with held(root, root / "state", "orders", "orders-id", again="") as tell:
    tell("127.0.0.1:8080")
    print("held", flush=True)
    signal.pause()
"""


def test_others_see_who_runs_an_application_and_that_nobody_does(tmp_path: Path) -> None:
    assert driver_of(tmp_path, "orders-id") is None
    with held(tmp_path, tmp_path / "state", "orders", "orders-id", again=AGAIN) as tell:
        assert driver_of(tmp_path, "orders-id") == HandDriver(app="orders", pid=os.getpid())
        tell("127.0.0.1:8080")
        found = driver_of(tmp_path, "orders-id")
        assert found is not None
        assert str(found) == (
            f"`headwater spark` runs orders (process {os.getpid()}, http://127.0.0.1:8080/status)"
        )
        assert drivers_of(tmp_path) == [found]
        assert driver_of(tmp_path, "others") is None
    assert drivers_of(tmp_path) == []
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize(("home", "state"), [("home", "b"), ("elsewhere", "a")])
def test_a_second_driver_of_the_same_directory_is_refused(
    tmp_path: Path, home: str, state: str
) -> None:
    second = held(tmp_path / home, tmp_path / state, "orders", "orders-id", again=AGAIN)
    with held(tmp_path / "home", tmp_path / "a", "orders", "orders-id", again=AGAIN):
        with pytest.raises(InstanceRunningError, match=r"end it first .*, then start it again"):
            second.__enter__()
        with held(tmp_path / "home", tmp_path / "c", "others", "others", again=AGAIN):
            assert len(drivers_of(tmp_path / "home")) == 2


@pytest.mark.parametrize(
    ("command", "again"),
    [
        (["spark"], "start it on Spark again"),
        (["spark", "--state-dir", "elsewhere"], "start it on Spark again"),
        (["backfill"], "run the backfill again"),
        (["backfill", "--dry-run"], "run the backfill again"),
        (["backfill", "--abort"], "run the backfill again"),
    ],
)
def test_other_commands_of_the_directory_are_refused_before_anything_is_begun(
    tmp_path: Path, command: list[str], again: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "streamapp.yaml"
    file.write_text(STREAM_APP)
    state = tmp_path / "state"
    where = [str(tmp_path / word) if word == "elsewhere" else word for word in command]
    with held(tmp_path, state, "orders", "orders-id", again=AGAIN) as tell:
        tell("127.0.0.1:8080")
        code = main([*where, "-f", str(file), "--home", str(tmp_path)])

    assert code == InstanceRunningError.exit_code
    said = f"(process {os.getpid()}, http://127.0.0.1:8080/status); end it first (Ctrl-C there), "
    assert f"error: `headwater spark` runs orders {said}then {again}" in capsys.readouterr().err


def test_a_driver_that_was_killed_keeps_nobody_out(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(tmp_path)], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        # One that is frozen lives.
        process.send_signal(signal.SIGSTOP)
        found = driver_of(tmp_path, "orders-id")
        assert found is not None
        assert found.pid == process.pid
        process.kill()

    wait_for(lambda: driver_of(tmp_path, "orders-id") is None, what="the end of the lock")
    with held(tmp_path, tmp_path / "state", "orders", "orders-id", again=AGAIN):
        pass


def test_a_directory_without_room_for_a_lock_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("a file")

    with held(tmp_path / "home", tmp_path / "state", "orders", "orders-id", again=AGAIN):
        assert driver_of(tmp_path / "home", "orders-id") is None
