"""The programs of docs/dataframes.md are one program, which runs and says what the page says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headwater.local import jar_sets
from headwater.spark import read_topic
from tests.support.pages import blocks
from tests.support.thread_rig import LONG

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.support.thread_rig import Topics

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "dataframes.md"


@pytest.fixture
def without_java(tmp_path: Path) -> dict[str, str]:
    """The environment of a machine that has all programs of this one but Java."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for directory in map(Path, os.get_exec_path()):
        for program in directory.iterdir() if directory.is_dir() else ():
            link = programs / program.name
            if program.name != "java" and not link.is_symlink():
                link.symlink_to(program)
    others = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    return {**others, "PATH": str(programs)}


@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.sampled
def test_the_programs_of_the_page_run_with_the_java_of_the_wheel(
    topics: Topics, unique_name: str, tmp_path: Path, without_java: dict[str, str]
) -> None:
    lines = topics.create(f"{unique_name}-lines", 2)
    topics.send(lines, [("k", "to be or not"), ("k", "to be")])
    changelog = topics.create(f"{unique_name}-counts-store-changelog", 2)
    wrong = {"to": 2, "be": 2, "or": 1, "not": 5}
    for word, count in wrong.items():
        topics.send(changelog, [(word, LONG.pack(count))])  # type: ignore[list-item]
    program = "\n".join(blocks(PAGE, "python"))
    for text, here in (
        ("localhost:9092", topics.bootstrap_servers),
        ('"application.id": "word-count"', f'"application.id": "{unique_name}"'),
        ('"TextLinesTopic"', f'"{lines}"'),
    ):
        assert text in program
        program = program.replace(text, here)
    script = tmp_path / "program.py"
    script.write_text(f"import sys\nsys.path.insert(0, {str(ROOT)!r})\n{program}")

    done = subprocess.run(
        [sys.executable, str(script)],
        cwd=ROOT,
        env=without_java,
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert shutil.which("java", path=without_java["PATH"]) is None
    assert "3 words occur more than once" in done.stdout
    assert "1 words differ" in done.stdout
    assert re.search(r"\| *not\| *5\|", done.stdout)


@pytest.mark.kafka
@pytest.mark.spark
def test_the_connector_is_taken_where_it_is(
    spark_session: SparkSession, topics: Topics, unique_name: str
) -> None:
    topics.create(unique_name)
    topics.send(unique_name, [("k", "v")])
    config = {"bootstrap.servers": topics.bootstrap_servers}

    def plan(**more: str) -> str:
        frame = read_topic(spark_session, unique_name, {**config, **more})
        return str(frame._jdf.queryExecution().toString())

    assert "KafkaRelation" in plan()
    assert "MapInArrow" in plan(**{"sasl.username": "somebody"})


def test_the_connector_is_of_the_version_of_spark() -> None:
    pyspark = re.findall(r'"pyspark==([\d.]+)"', (ROOT / "pyproject.toml").read_text())

    assert pyspark == [jar_sets.SPARK_VERSION]
