"""Each commit runs a part of the longest tests: which, how many, and that it is said."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.parts import LEFT_TO_OTHERS, QUICK, REST, left_out
from tests.support.sampled import chosen

TESTS = [f"tests/test_it.py::test_{number}" for number in range(10)]

_TESTS = """
import pytest

@pytest.mark.sampled
@pytest.mark.parametrize("number", range(9))
def test_long(number):
    pass

def test_short():
    pass
"""


@pytest.mark.parametrize(("one_in", "number"), [(1, 10), (3, 4), (10, 1), (100, 1)])
def test_one_in_so_many_is_chosen_and_never_none(one_in: int, number: int) -> None:
    assert len(chosen(TESTS, "a commit", one_in)) == number
    assert chosen(TESTS, "a commit", one_in) <= set(TESTS)


def test_a_commit_always_has_the_same_and_all_come_with_some_commit() -> None:
    of_commits = [chosen(TESTS, f"commit {number}", 3) for number in range(60)]

    assert of_commits[0] == chosen(list(reversed(TESTS)), "commit 0", 3)
    assert set().union(*of_commits) == set(TESTS)


def test_without_sampled_tests_there_is_nothing_to_choose() -> None:
    assert chosen([], "a commit", 3) == set()


@pytest.mark.parametrize(("one_in", "long", "left"), [("3", 3, 6), ("1", 9, 0)])
def test_only_sampled_tests_are_left_to_other_commits_and_their_number_is_said(
    tmp_path: Path, one_in: str, long: int, left: int
) -> None:
    (tmp_path / "test_both.py").write_text(_TESTS)

    ran = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-p", "tests.conftest", str(tmp_path)),
            *("--rootdir", str(tmp_path), "-c", "/dev/null"),
            *("--seed-base", "base", "--one-in", one_in),
        ],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )

    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert f"{long + 1} passed" in ran.stdout
    assert (f"{LEFT_TO_OTHERS}{left}\n" in ran.stdout) is bool(left)


def test_a_whole_run_names_the_command_that_has_them_all() -> None:
    names = ["check", "node", *QUICK, *REST]

    said = left_out(names, 6, everything=True)

    assert len(said) == len(left_out(names, everything=True)) + 1
    assert any(line.startswith("6 sampled tests") and "make test-all" in line for line in said)
