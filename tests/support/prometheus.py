"""A real Prometheus: what it scrapes, what it was given, and what it answers."""

from __future__ import annotations

import json
import socket
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest

from tests import debian
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from headwater_operator.dashboards.history import LabelSet, Sample

RETENTION: Final = "40y"
"""Samples of tests are as old as they like."""


class RefusedQueryError(Exception):
    """Prometheus does not take a query; the message is its own."""


class Answered(NamedTuple):
    """One series of an answer.

    Attributes:
        labels: its labels.
        points: moments in seconds, and numbers.
    """

    labels: dict[str, str]
    points: list[tuple[float, float]]


class Prometheus:
    """A running Prometheus."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"

    def instant(self, query: str, at_s: float | None = None) -> list[Answered]:
        """Return the answer of one moment, of now if none is given."""
        given = {"query": query} | ({} if at_s is None else {"time": f"{at_s:.3f}"})
        found = self._get("/api/v1/query", given)["result"]
        return [Answered(it["metric"], _points([it["value"]])) for it in found]

    def range(self, query: str, start_s: float, end_s: float, step_s: float) -> list[Answered]:
        """Return the answers of several moments."""
        given = {
            "query": query,
            "start": f"{start_s:.3f}",
            "end": f"{end_s:.3f}",
            "step": f"{step_s:g}",
        }
        found = self._get("/api/v1/query_range", given)["result"]
        return [Answered(it["metric"], _points(it["values"])) for it in found]

    def label_values(self, label: str, selector: str) -> list[str]:
        """Return the values that a label has in the series of a selector."""
        found = self._get(f"/api/v1/label/{label}/values", {"match[]": selector})
        return [str(value) for value in found]

    def targets(self) -> list[Mapping[str, Any]]:
        """Return what is scraped."""
        return list(self._get("/api/v1/targets", {"state": "active"})["activeTargets"])

    def is_up(self) -> bool:
        """Whether it answers."""
        try:
            with urllib.request.urlopen(f"{self.url}/-/ready", timeout=10) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def _get(self, path: str, given: Mapping[str, str]) -> Any:
        url = f"{self.url}{path}?{urllib.parse.urlencode(given)}"
        try:
            with urllib.request.urlopen(url, timeout=60) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            told = json.load(error).get("error", "")
            raise RefusedQueryError(f"{told}: {given}") from error


@contextmanager
def running(directory: Path, config: str) -> Iterator[Prometheus]:
    """Run a Prometheus on the data of a directory, with a configuration of its own."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "prometheus.yml").write_text(config)
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    with (directory / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(
            [
                _program(debian.PROMETHEUS),
                f"--config.file={directory / 'prometheus.yml'}",
                f"--storage.tsdb.path={directory / 'data'}",
                f"--storage.tsdb.retention.time={RETENTION}",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stdout=log,
            stderr=log,
        )
    try:
        server = Prometheus(port)

        def is_ready() -> bool:
            assert process.poll() is None, (directory / "prometheus.log").read_text()[-3_000:]
            return server.is_up()

        wait_for(is_ready, what="Prometheus")
        yield server
    finally:
        process.kill()
        process.wait()


def write_blocks(directory: Path, samples: Iterable[tuple[int, Sample]]) -> None:
    """Write samples where a Prometheus of this directory finds them.

    Args:
        directory: of the Prometheus.
        samples: moments in milliseconds and samples, in any order.
    """
    directory.mkdir(parents=True, exist_ok=True)
    by_name: dict[str, list[tuple[int, Sample]]] = {}
    for at_ms, sample in samples:
        by_name.setdefault(sample.name, []).append((at_ms, sample))
    lines = [
        f"{name}{{{_labels(sample.labels)}}} {sample.value!r} {at_ms / 1000:.3f}"
        for name, of_name in by_name.items()
        for at_ms, sample in of_name
    ]
    path = directory / "samples.txt"
    path.write_text("\n".join([*lines, "# EOF", ""]))
    promtool("tsdb", "create-blocks-from", "openmetrics", str(path), str(directory / "data"))


def promtool(*arguments: str) -> str:
    """Return what promtool prints; its failure is the test's."""
    done = subprocess.run(
        [_program(debian.PROMTOOL), *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"promtool {' '.join(arguments)}:\n{done.stdout}{done.stderr}"
    return done.stdout


def _program(program: debian.Program) -> str:
    """Return where a program is; without it a test is skipped."""
    try:
        return str(debian.find(program))
    except debian.ProgramMissingError as error:
        pytest.skip(str(error))


def _labels(labels: LabelSet) -> str:
    return ",".join(f"{name}={json.dumps(value)}" for name, value in labels)


def _points(values: Sequence[Sequence[Any]]) -> list[tuple[float, float]]:
    return [(float(at), float(value)) for at, value in values]
