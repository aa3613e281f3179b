"""`make caches` alone fetches: a test whose jars are missing fails with its name."""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING

import pytest
from tests import caches
from tests.e2e import node
from tests.parts import ROOT, Part

from headwater.errors import LocalKafkaError
from headwater.local import jar_sets, jars

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("jar_set", caches.JAR_SETS)
def test_a_test_that_would_fetch_a_jar_fails_with_the_command_that_does(
    jar_set: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADWATER_CACHE", str(tmp_path))

    with pytest.raises(LocalKafkaError, match=rf"lacks .* of {jar_set}.* run `make caches` first"):
        jars.class_path(jar_set)

    assert not list(tmp_path.rglob("*.jar"))


def test_every_jar_that_a_test_or_a_command_reads_is_filled_in() -> None:
    assert set(caches.JAR_SETS) == set(jar_sets.ROOTS)


def test_every_java_program_of_the_tests_is_compiled_there() -> None:
    found = {path.parent for path in (ROOT / "tests").rglob("*.java")}

    assert found == set(caches.JAVA_SOURCES)


def test_a_part_runs_where_nothing_is_fetched() -> None:
    names = sorted(caches.NO_FETCH)
    part = Part("it", [sys.executable, "-c", f"import os; print([os.environ[n] for n in {names}])"])

    part.run(tell_all=True)

    assert part.told == [f"{[caches.NO_FETCH[name] for name in names]}\n"]
    assert all(os.environ.get(name) is not None for name in names)


def test_the_caches_are_filled_before_the_parts_run() -> None:
    makefile = (ROOT / "Makefile").read_text()
    recipes = dict(re.findall(r"^([a-z-]+): (.*\n(?:\t.*\n)*)", makefile, re.MULTILINE))

    test = recipes["test"]
    assert 0 < test.index("tests.caches") < test.index("tests.parts")
    assert recipes["test-all"].startswith("caches ")
    assert "tests.caches --all" in recipes["caches"]
    assert (ROOT / ".ci" / "run").read_text().endswith("exec make test-all ONE_IN=4\n")


def test_a_journey_whose_layers_were_never_made_says_what_makes_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HKN_CACHE", str(tmp_path / "cache"))
    (tmp_path / "up.sh").write_text("exit 1")

    assert node.main([str(tmp_path)]) == 1

    assert f"make caches KUBE_NODE={tmp_path}" in capsys.readouterr().out


def test_layers_are_made_again_for_another_tool_or_other_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HKN_CACHE", str(tmp_path / "cache"))
    tool = tmp_path / "tool"
    tool.mkdir()
    (tool / "up.sh").write_text("exit 1")
    before = node.prepared(tool)
    before.parent.mkdir()
    before.touch()

    assert node.prepare(tool) == 0
    (tool / "up.sh").write_text("exit 2")

    assert node.prepared(tool) != before
    assert node.prepare(tool) == 1
    assert "has no build-image.sh" in capsys.readouterr().out
