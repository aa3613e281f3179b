"""The first example: its words are Java's, and its topology travels to other processes."""

from __future__ import annotations

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
