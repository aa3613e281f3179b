"""The README's commands run one application three ways, each where the one before has stopped."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pytest
from examples.word_count.app import words

from headwater.local.broker import read_state
from tests.support.thread_rig import Topics
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1200)]

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
CHANGELOG = "word-count-counts-store-changelog"
START_S = 300
T = TypeVar("T")


class Person:
    """Types commands into one directory, and counts what was sent."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        (directory / "examples").symlink_to(ROOT / "examples")
        self._sent: Counter[str] = Counter()
        self._started: list[subprocess.Popen[bytes]] = []

    def start(self, command: str) -> subprocess.Popen[bytes]:
        program, *arguments = command.split()
        assert program == "headwater"
        with (self._directory / f"{arguments[0]}.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "headwater.cli.main", *arguments],
                cwd=self._directory,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self._started.append(process)
        return process

    def leave(self) -> None:
        """End what a failure has left running."""
        for process in self._started:
            process.kill()
            process.wait(60)

    def log(self, command: str) -> str:
        return (self._directory / f"{command}.log").read_text(errors="replace")[-4000:]

    def counts_while(self, process: subprocess.Popen[bytes], name: str, line: str) -> None:
        """Send a line; wait until every word ever sent is counted; press Ctrl-C."""

        def alive(found: Callable[[], T]) -> Callable[[], T]:
            def look() -> T:
                assert process.poll() is None, self.log(name)
                return found()

            return look

        def broker() -> Topics | None:
            state = read_state(self._directory / ".headwater" / "kafka")
            return None if state is None else Topics(str(state["bootstrap_servers"]))

        def has_topics() -> bool:
            return {"TextLinesTopic", CHANGELOG} <= topics.admin.list_topics(
                timeout=60
            ).topics.keys()

        found = wait_for(alive(broker), what="the private Kafka", timeout_s=START_S)
        assert isinstance(found, Topics)
        topics = found
        wait_for(alive(has_topics), what="topics", timeout_s=START_S)
        topics.send("TextLinesTopic", [("", line)])
        self._sent.update(words(line))
        is_counted = alive(lambda: topics.counts(CHANGELOG) == self._sent)
        wait_for(is_counted, what="every word", timeout_s=START_S, every_s=1)
        process.send_signal(signal.SIGINT)
        assert process.wait(START_S) == 0, self.log(name)


def test_the_commands_of_the_readme_go_on_after_one_another(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    block = re.search(r"```sh\n(headwater .*?)```", README.read_text(), re.DOTALL)
    assert block is not None
    workers, backfill, on_spark = block[1].splitlines()
    person = Person(tmp_path)
    request.addfinalizer(person.leave)

    person.counts_while(person.start(workers), "up", "To be, or not to be")

    rebuilt = person.start(backfill)
    assert rebuilt.wait(START_S) == 0, person.log("backfill")
    assert "is committed; workers go on" in person.log("backfill")

    person.counts_while(person.start(on_spark), "spark", "that is the question to be")
