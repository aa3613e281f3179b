"""The pytest plug-in: drivers that are closed with the test, without an import before one."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[3]
TESTS = """
    import sys
    import pytest
    from headwater_pytest import Drivers

    LOADED = "headwater" in sys.modules
    CLOSED = []


    def build(builder):
        from headwater import Processor

        class Closing(Processor):
            def process(self, record):
                self.context.forward(record)

            def init(self, context):
                self.context = context

            def close(self):
                CLOSED.append("closed")

        builder.stream("in").process(Closing).to("out")


    def test_nothing_was_imported_before():
        assert not LOADED


    CONFIG = {"default.key.serde": "string", "default.value.serde": "string"}


    def test_a_driver_runs_what_a_function_draws(headwater):
        driver = headwater(build, CONFIG)
        driver.create_input_topic("in").pipe_input("k", "v")
        assert driver.create_output_topic("out").read_key_value() == ("k", "v")


    def test_it_was_closed():
        assert CLOSED == ["closed"]


    def test_a_builder_and_a_topology_and_a_path_will_do(headwater):
        from headwater import StreamsBuilder

        builder = StreamsBuilder()
        build(builder)
        for given in (builder, builder.build(), "examples.word_count.app:build"):
            assert headwater(given, CONFIG).tasks


    def test_every_driver_was_closed():
        assert CLOSED == ["closed"] * 3
"""


def test_the_fixture_makes_drivers_and_closes_them(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(textwrap.dedent(TESTS))
    (tmp_path / "pytest.ini").write_text(f"[pytest]\npythonpath = {ROOT}\n")

    plugins = ["headwater_pytest", "no:cacheprovider", "no:randomly", "no:random_order"]
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *(f"-p{plugin}" for plugin in plugins)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "5 passed" in ended.stdout


def test_pytest_finds_the_plug_in_by_its_entry_point() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())

    assert project["project"]["entry-points"]["pytest11"] == {
        "headwater_pytest": "headwater_pytest"
    }
    packages = project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert "worker/headwater_pytest" in packages
