"""The demonstration's verdict."""

from __future__ import annotations

import io
from collections import Counter

import pytest
from examples.word_count.demo import verdict
from examples.word_count.text import count_words, lines_of_text
from rich.console import Console


def test_the_text_has_the_size_that_was_asked_for_and_ends_the_same_every_time() -> None:
    lines = lines_of_text(1_000_000)

    size = sum(len(line.encode()) + 1 for line in lines)
    assert 1_000_000 <= size < 1_000_000 + len(lines[-1].encode()) + 1
    assert lines == lines_of_text(1_000_000)


def test_words_are_counted_as_the_topology_counts_them() -> None:
    assert count_words(["To be, or not", "to be."]) == Counter(to=2, be=2, **{"or": 1, "not": 1})


@pytest.mark.parametrize(
    ("found", "code", "said"),
    [
        ({"a": 2, "b": 1}, 0, "counts equal"),
        ({"a": 3, "b": 1}, 1, "'a': 2 in the text, 3 counted"),
        ({"a": 2}, 1, "'b': 1 in the text, 0 counted"),
        ({"a": 2, "b": 1, "c": 1}, 1, "'c': 0 in the text, 1 counted"),
    ],
)
def test_any_difference_is_told_and_fails(found: dict[str, int], code: int, said: str) -> None:
    console = Console(file=io.StringIO(), width=200)

    result = verdict(Counter(a=2, b=1), found, lines=2, seconds=1.0, console=console)

    assert isinstance(console.file, io.StringIO)
    assert said in console.file.getvalue()
    assert result == code
