"""The first example: its words are Java's, and its topology travels to other processes."""

from __future__ import annotations

import os
import subprocess
import sys

import cloudpickle
import pytest
from examples.word_count.app import build, words

from headwater.dsl.loading import build_topology


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("", [""]),
        (" ", []),
        ("a", ["a"]),
        (" a", ["", "a"]),
        ("a ", ["a"]),
        ("'tis the Season!", ["", "tis", "the", "season"]),
        ("\u00fcn\u00ef x_y 9", ["", "n", "x_y", "9"]),
        ("...", []),
        ("a,,b", ["a", "b"]),
        ("\u0130stanbul", ["i", "stanbul"]),
        ("STRASSE \u03a3\u0391\u03a3", ["strasse"]),
    ],
)
def test_a_line_has_the_words_that_java_s_split_finds(line: str, expected: list[str]) -> None:
    assert words(line) == expected


def test_a_topology_survives_the_way_to_another_process() -> None:
    topology = build_topology(build)

    arrived = cloudpickle.loads(cloudpickle.dumps(topology))

    assert arrived.describe() == topology.describe()
    assert arrived.report("app").hash == topology.report("app").hash


@pytest.mark.parametrize("program", ["feed", "read"])
def test_without_an_address_the_programs_say_what_to_set(program: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", f"examples.word_count.{program}", "a line"],
        env={name: value for name, value in os.environ.items() if name != "KAFKA"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert ended.returncode == 1
    assert ended.stderr.startswith("error: set KAFKA to the address of a broker")
    assert len(ended.stderr.splitlines()) == 1
