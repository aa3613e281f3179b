"""Words that depend on a number."""

from __future__ import annotations

import pytest

from headwater_operator.wording import counted, every


@pytest.mark.parametrize(
    ("count", "said"), [(0, "0 tasks"), (1, "1 task"), (2, "2 tasks"), (1_203, "1,203 tasks")]
)
def test_a_noun_has_the_number_of_its_count(count: int, said: str) -> None:
    assert counted(count, "task") == said


def test_a_phrase_has_the_number_of_its_count() -> None:
    assert counted(1, "task leaves", "tasks leave") == "1 task leaves"
    assert counted(4, "task leaves", "tasks leave") == "4 tasks leave"


def test_all_of_one_is_the_only_one() -> None:
    assert every(1, "task runs", "tasks run") == "the only task runs"
    assert every(4, "task runs", "tasks run") == "all 4 tasks run"
