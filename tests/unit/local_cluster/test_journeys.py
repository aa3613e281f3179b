"""A topology that is run in memory for the page, as a process of its own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from headwater.errors import EnvironmentProblemError
from headwater_operator.local.journeys import JourneyProgram
from headwater_operator.local.layout import ClusterDir

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.processes

ROOT = Path(__file__).parents[3]
ENDS = "import os\n\n\ndef build(builder):\n    os._exit(3)\n"


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[list[JourneyProgram]]:
    started: list[JourneyProgram] = []
    yield started
    for program in started:
        program.close()


def program(tmp_path: Path, module: str, *paths: str) -> JourneyProgram:
    directory = ClusterDir(tmp_path).app("counting")
    directory.path.mkdir(parents=True)
    document = {
        "apiVersion": "headwater.dev/v1alpha1",
        "kind": "StreamApp",
        "metadata": {"name": "counting"},
        "spec": {"topology": {"module": module}},
    }
    directory.streamapp.write_text(yaml.safe_dump(document))
    return JourneyProgram(directory, paths)


def test_records_are_answered_by_one_process_that_keeps_its_state(
    tmp_path: Path, programs: list[JourneyProgram]
) -> None:
    running = program(tmp_path, "examples.word_count.app:build", str(ROOT))
    programs.append(running)
    record = {"topic": "TextLinesTopic", "key": None, "value": "hello"}

    first, second = running.ask(record), running.ask(record)

    assert first["nodes"] == second["nodes"]
    assert [answer["written"][1]["value"][-1] for answer in (first, second)] == ["1", "2"]


def test_a_topology_that_cannot_be_run_is_told_with_what_it_said(
    tmp_path: Path, programs: list[JourneyProgram]
) -> None:
    (tmp_path / "ending.py").write_text(ENDS)
    running = program(tmp_path, "ending:build", str(tmp_path))
    programs.append(running)
    missing = program(tmp_path / "other", "missing:build", str(tmp_path))
    programs.append(missing)

    with pytest.raises(EnvironmentProblemError, match="could not be run in memory"):
        running.ask({"topic": "x"})
    with pytest.raises(EnvironmentProblemError, match="missing"):
        missing.ask({"topic": "x"})


def test_an_answer_that_is_no_json_is_told(tmp_path: Path, programs: list[JourneyProgram]) -> None:
    talks = ("-c", "input(); print('hello', flush=True)")
    running = JourneyProgram(program(tmp_path, "any:build").directory, (), talks)
    programs.append(running)

    with pytest.raises(EnvironmentProblemError, match="it answered with b'hello"):
        running.ask({"topic": "x"})
