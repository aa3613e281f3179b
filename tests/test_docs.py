"""Every program and command in the README and in docs is run, here or where a table below says.

A StreamApp in the text is compared, field by field, with those in examples/word_count. Of these
streamapp.yaml is run by test_three_ways.py; on_spark.yaml is only read.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from examples.word_count.app import words

from headwater.model import streamapp
from tests.chaos.proof import read_committed
from tests.support import pages
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
BROKER_IN_TEXT = "localhost:9092"
TARGETS_TESTED_BY = {
    "make run": ROOT / "tests" / "kafka" / "test_demonstration.py",
    "make test": ROOT / "tests" / "unit" / "test_parts.py",
}
THREE_WAYS = ROOT / "tests" / "spark" / "test_three_ways.py"
REPROCESSING = ROOT / "tests" / "kafka" / "test_reprocessing_pages.py"
# These need a cluster.
COMMANDS_RUN_BY = {
    "docs/capacity.md": ROOT / "tests" / "unit" / "test_capacity.py",
    "docs/reprocessing-in-place.md": REPROCESSING,
    "docs/reprocessing-side-by-side.md": REPROCESSING,
    "docs/install.md": ROOT / "tests" / "kube" / "test_install_page.py",
    "docs/security.md": ROOT / "tests" / "kube" / "test_install_page.py",
    "docs/actions.md": ROOT / "tests" / "kube" / "test_actions_page.py",
    "docs/scaling.md": ROOT / "tests" / "kube" / "test_scaling_page.py",
    "docs/autoscaling.md": ROOT / "tests" / "kube" / "test_scaling_page.py",
    "docs/feeding.md": ROOT / "tests" / "kube" / "test_feeding_page.py",
    "docs/live-changes.md": ROOT / "tests" / "kube" / "test_live_changes.py",
    "docs/tools-on-a-cluster.md": ROOT / "tests" / "e2e" / "tools.py",
    # This connects to a cluster in memory.
    "docs/commands.md": ROOT / "tests" / "unit" / "commands" / "test_page.py",
    # This needs a local cluster.
    "docs/queries.md": ROOT / "tests" / "chaos" / "test_queries.py",
}
# These need Spark.
PROGRAMS_RUN_BY = {"docs/dataframes.md": ROOT / "tests" / "spark" / "test_dataframes_page.py"}
# These are of other kinds than a StreamApp, or a StreamApp of another application.
RESOURCES_TRIED_BY = {
    "docs/security.md": ROOT / "tests" / "unit" / "manifests" / "test_manifests.py",
    "docs/live-changes.md": ROOT / "tests" / "kube" / "test_live_changes.py",
    "docs/pod-template.md": ROOT / "tests" / "kube" / "test_journeys.py",
    "docs/commands.md": ROOT / "tests" / "unit" / "commands" / "test_page.py",
    "docs/reprocessing-in-place.md": REPROCESSING,
    "docs/reprocessing-side-by-side.md": REPROCESSING,
    "docs/actions.md": ROOT / "tests" / "kube" / "test_actions_page.py",
    "docs/autoscaling.md": ROOT / "tests" / "kube" / "test_scaling_page.py",
    "docs/scaling.md": ROOT / "tests" / "kube" / "test_scaling_page.py",
    "docs/tools-on-a-cluster.md": ROOT / "tests" / "e2e" / "tools.py",
    "docs/backfill.md": ROOT / "tests" / "unit" / "spark" / "test_masters.py",
    "docs/serdes.md": ROOT / "tests" / "unit" / "service" / "test_credentials.py",
    "docs/dashboards.md": ROOT / "tests" / "prometheus" / "test_dashboards_page.py",
}


def blocks(language: str) -> Iterator[tuple[str, str]]:
    others = [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    for page in [*others, *sorted((ROOT / "docs").rglob("*.md"))]:
        for number, block in enumerate(pages.blocks(page, language)):
            yield f"{page.relative_to(ROOT)}-{number}", block


def page_of(name: str) -> str:
    return name.rpartition("-")[0]


def programs(*, with_broker: bool) -> list[object]:
    return [
        pytest.param(block, id=name)
        for name, block in blocks("python")
        if (BROKER_IN_TEXT in block) == with_broker and page_of(name) not in PROGRAMS_RUN_BY
    ]


@pytest.mark.parametrize("program", programs(with_broker=False))
def test_a_program_in_the_text_runs(program: str, tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(program)

    done = subprocess.run(
        [sys.executable, str(script)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    if "describe()" in program:
        assert "Sub-topology: 1" in done.stdout


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.parametrize("program", programs(with_broker=True))
def test_an_embedding_program_in_the_text_runs_and_stops_on_ctrl_c(
    program: str, bootstrap_servers: str, unique_name: str, tmp_path: Path
) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    existing = admin.list_topics(timeout=10).topics
    missing = [
        NewTopic(name, 1)
        for name in ("TextLinesTopic", "WordsWithCountsTopic")
        if name not in existing
    ]
    for future in (admin.create_topics(missing) if missing else {}).values():
        future.result(30)
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    producer.produce("TextLinesTopic", value=unique_name)
    assert producer.flush(30) == 0
    word = words(unique_name)[0].encode()
    script, output = tmp_path / "program.py", tmp_path / "output"
    text = program.replace(BROKER_IN_TEXT, bootstrap_servers).replace(
        '"word-count"', f'"{unique_name}"'
    )
    state = (
        f'"state.dir": {str(tmp_path / "state")!r}, "commit.interval.ms": 200, "bootstrap.servers"'
    )
    script.write_text(text.replace('"bootstrap.servers"', state))

    # A program of the background inherits that Ctrl-C is ignored; this one stands for a person's.
    inherited = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        with output.open("wb") as file:
            process = subprocess.Popen(
                [sys.executable, str(script)],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                stdout=file,
                stderr=file,
            )
    finally:
        signal.signal(signal.SIGINT, inherited)

    def counted() -> bool:
        assert process.poll() is None, output.read_text()
        changelog = f"{unique_name}-counts-store-changelog"
        if changelog not in admin.list_topics(timeout=10).topics:
            return False
        return any(record[2] == word for record in read_committed(bootstrap_servers, changelog))

    try:
        wait_for(counted, what="a count", timeout_s=300)
    finally:
        process.send_signal(signal.SIGINT)
        try:
            code = process.wait(300)
        finally:
            process.kill()  # nothing happens if it has ended

    assert code in {130, -signal.SIGINT}, output.read_text()
    assert output.read_text().splitlines()[-1] == "KeyboardInterrupt"


@pytest.mark.parametrize(
    "document",
    [pytest.param(b, id=n) for n, b in blocks("yaml") if page_of(n) not in RESOURCES_TRIED_BY],
)
def test_a_resource_in_the_text_is_accepted(document: str) -> None:
    app = streamapp.parse(yaml.safe_load(document))

    examples = (ROOT / "examples" / "word_count").glob("*.yaml")
    assert app in [streamapp.parse(yaml.safe_load(example.read_text())) for example in examples]


def test_a_command_in_the_text_exists_and_is_run_elsewhere() -> None:
    lines = [
        line
        for name, block in blocks("sh")
        if page_of(name) not in COMMANDS_RUN_BY
        for line in block.splitlines()
        if line.strip()
    ]

    assert lines
    for page, test in COMMANDS_RUN_BY.items():
        assert f'blocks("{Path(page).name}"' in test.read_text()
    ways = [line for line in lines if line.startswith("headwater ")]
    assert len(ways) == 3
    assert 'README = ROOT / "README.md"' in THREE_WAYS.read_text()
    targets = [line for line in lines if line not in ways]
    assert [line for line in targets if line not in TARGETS_TESTED_BY] == []
    assert all(path.exists() for path in TARGETS_TESTED_BY.values())
    makefile = (ROOT / "Makefile").read_text()
    assert [line for line in targets if f"\n{line.split()[1]}:" not in makefile] == []


def test_a_program_that_needs_spark_is_run_elsewhere() -> None:
    for page, test in PROGRAMS_RUN_BY.items():
        assert f'"{Path(page).name}"' in test.read_text()
        assert 'blocks(PAGE, "python")' in test.read_text()


def test_a_resource_of_another_kind_is_tried_elsewhere() -> None:
    for page, test in RESOURCES_TRIED_BY.items():
        assert f'blocks("{Path(page).name}", "yaml")' in test.read_text()


def test_commands_named_in_the_readme_exist() -> None:
    said = (ROOT / "README.md").read_text()
    named = set(re.findall(r"`headwater (\w+)", said))
    done = subprocess.run(
        [sys.executable, "-m", "headwater.cli.main", "--help"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    assert {name for name in named if name not in done.stdout} == set()
