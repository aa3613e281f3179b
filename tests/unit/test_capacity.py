"""What `headwater plan` estimates, and that its constants are what was measured."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.pages import blocks

from headwater.cli import main
from headwater.model import capacity
from headwater.model.capacity import MEASURED, Application, Asked, Measured, plan
from headwater.model.topics import (
    ChangelogKind,
    ChangelogTopic,
    RepartitionTopic,
    SubtopologyReport,
    TopologyReport,
)

ROOT = Path(__file__).parents[2]
STATELESS = SubtopologyReport(id=0, source_topics=("lines",), sink_topics=("words",))
COUNTING = SubtopologyReport(
    id=1,
    repartition_sources=(RepartitionTopic(name="words"),),
    changelogs=(ChangelogTopic(name="counts", store="counts"),),
)
APPLICATION = Application(
    report=TopologyReport(hash="x", subtopologies=(STATELESS, COUNTING)), partitions={"lines": 8}
)
ASKED = Asked(rate=100_000, keys=1_000_000)


@pytest.mark.parametrize("constant", MEASURED, ids=lambda constant: constant.row)
def test_a_constant_is_the_one_that_stands_in_its_source(constant: Measured) -> None:
    lines = (ROOT / constant.source).read_text().splitlines()
    [row] = [line for line in lines if line.startswith(f"| {constant.row} |") and "java: " in line]

    assert f"| {constant.value:,.0f} " in row
    page = (ROOT / "docs" / "capacity.md").read_text()
    assert f"{constant.value:,.0f}" in page


def test_what_reaches_a_repartition_topic_is_processed_again() -> None:
    alone = Application(
        report=TopologyReport(hash="x", subtopologies=(STATELESS,)), partitions={"lines": 8}
    )

    assert plan(alone, ASKED).tasks == 8
    both = plan(APPLICATION, ASKED)
    assert both.tasks == 16
    busy = 100_000 / capacity.STATELESS.value + 100_000 / capacity.CACHED.value
    assert both.stream_threads == 2
    assert f"{busy:.2f} are busy" in both.rows[1].why


def test_a_rate_that_the_tasks_are_too_few_for_is_said() -> None:
    found = plan(APPLICATION, replace(ASKED, rate=10_000_000))

    assert not found.is_enough
    assert found.stream_threads == found.tasks == 16


@given(st.floats(1, 1e7), st.integers(0, 10**9), st.integers(1, 8), st.integers(0, 2))
def test_more_never_needs_less(rate: float, keys: int, threads: int, standbys: int) -> None:
    application = replace(APPLICATION, threads=threads, standbys=standbys)
    asked = Asked(rate=rate, keys=keys)
    found = plan(application, asked)
    busier, larger = (
        plan(application, replace(asked, rate=rate * 2)),
        plan(application, replace(asked, keys=keys * 2 + 1)),
    )

    assert busier.stream_threads >= found.stream_threads >= 1
    assert busier.workers >= found.workers >= 1
    assert larger.disk_bytes >= found.disk_bytes
    assert larger.changelog_bytes >= found.changelog_bytes
    assert larger.restore_s >= found.restore_s
    assert plan(application, replace(asked, function_us=100)).stream_threads >= (
        found.stream_threads
    )
    assert found.workers * threads >= found.stream_threads


@pytest.mark.parametrize("kind", list(ChangelogKind))
def test_each_kind_of_store_and_exactly_once_cost_what_was_measured(kind: ChangelogKind) -> None:
    log = ChangelogTopic(name="counts", store="counts", kind=kind)
    report = replace(
        APPLICATION.report, subtopologies=(STATELESS, replace(COUNTING, changelogs=(log,)))
    )
    cheap = plan(replace(APPLICATION, report=report), replace(ASKED, rate=1e6))
    exact = plan(
        replace(APPLICATION, report=report, is_exactly_once=True, cache_bytes=0),
        replace(ASKED, rate=1e6),
    )

    assert cheap.stream_threads <= exact.stream_threads


def test_the_command_of_the_page_prints_what_the_page_shows(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    [command] = blocks("capacity.md")
    [shown] = blocks("capacity.md", "text")
    program, *arguments = shlex.split(command)

    assert program == "headwater"
    assert main.main(arguments) == 0

    assert capsys.readouterr().out == shown


def test_the_numbers_are_there_for_a_program(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    options = "--rate 5e6 --keys 10 --partitions 2 -o json"

    assert main.main(["plan", "examples.word_count.app:build", *options.split()]) == 0

    found = json.loads(capsys.readouterr().out)
    assert (found["tasks"], found["is_enough"]) == (4, False)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--rate 5 --keys 5", "the number of partitions is not known of: TextLinesTopic"),
        ("--rate 0 --keys 5 --partitions 1", "expected a number above 0, got '0'"),
        ("--rate nan --keys 5 --partitions 1", "expected a number above 0, got 'nan'"),
        ("--rate 5 --keys few --partitions 1", "expected a whole number, got 'few'"),
        ("--rate 5 --keys -3 --partitions 1", "expected at least 0, got '-3'"),
    ],
)
def test_what_cannot_be_estimated_is_refused(
    options: str, said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    arguments = ["plan", "examples.word_count.app:build", *options.split()]

    try:
        code = main.main(arguments)
    except SystemExit as end:
        code = int(str(end.code))

    assert code != 0
    assert said in capsys.readouterr().err
