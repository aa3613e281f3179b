"""What a session of pytest leaves for whoever runs it: ``pytest --record FILE``.

A line of JSON for each test, as soon as it has ended, and one at the end of the session. A file
without that one is of a session that was killed.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

REAL = ("kafka", "kube", "java", "spark", "processes")
"""Markers of tests with real processes."""
NEEDS = "needs"
"""The property of a report that says which of them a test has."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one test.

    Attributes:
        test: its node id.
        seconds: its set-up, call and tear-down together.
        is_real: whether it has real processes.
        log: why it failed, and what was captured; empty if it passed.
    """

    test: str
    seconds: float
    is_real: bool
    log: str = ""


@dataclass(frozen=True, slots=True)
class Session:
    """What became of a session.

    Attributes:
        outcomes: of its tests, those that had ended.
        status: its exit status; None if it was killed.
    """

    outcomes: tuple[Outcome, ...] = ()
    status: int | None = None


def add_option(parser: pytest.Parser) -> None:
    """Add ``--record``."""
    parser.addoption(
        "--record", type=Path, metavar="FILE", help="write down what becomes of each test"
    )


def begin(config: pytest.Config) -> None:
    """Write down what becomes of each test, if that is asked for."""
    file: Path | None = config.getoption("--record")
    if file is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder(file))


def with_needs(item: pytest.Item, report: pytest.TestReport) -> pytest.TestReport:
    """Return a report with what its test needs: its keywords have the names of folders, too."""
    needs = [marker for marker in REAL if item.get_closest_marker(marker)]
    report.user_properties.append((NEEDS, needs or ["the others"]))
    return report


class Recorder:
    """Writes the file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._path.write_text("")
        self._running: dict[str, list[pytest.TestReport]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Write a test down once its last phase is over."""
        self._running.setdefault(report.nodeid, []).append(report)
        if report.when == "teardown":
            self._write(asdict(_outcome(self._running.pop(report.nodeid))))

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        """Write down what was broken off, such as a test whose process crashed, and the end."""
        for reports in self._running.values():
            self._write(asdict(_outcome(reports)))
        self._write({"status": int(exitstatus)})

    def _write(self, line: object) -> None:
        with self._path.open("a") as file:
            file.write(json.dumps(line) + "\n")


def _outcome(reports: list[pytest.TestReport]) -> Outcome:
    needs = {
        need
        for each in reports
        for name, of in each.user_properties
        if name == NEEDS
        for need in of
    }
    failed = [each for each in reports if each.failed]
    return Outcome(
        test=reports[0].nodeid,
        seconds=sum(each.duration for each in reports),
        is_real=not needs.isdisjoint(REAL),
        log="\n".join(map(_log, failed)),
    )


def _log(report: pytest.TestReport) -> str:
    captured = [f"--- {title}\n{text}" for title, text in report.sections]
    return "\n".join([f"--- {report.when}", report.longreprtext or "it failed", *captured])


def read(path: Path) -> Session:
    """Return what a session has written; nothing if it never began."""
    if not path.exists():
        return Session()
    lines = [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")]
    outcomes = tuple(Outcome(**line) for line in lines if "test" in line)
    statuses = [line["status"] for line in lines if "status" in line]
    return Session(outcomes, statuses[-1] if statuses else None)
