"""What we have added to pytest: seeds from a base, a number and a share; no skipping in CI."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.conftest import how_many
from tests.parts import MINUTES
from tests.support.examples import FEWEST, examples

_TESTS = """
import pytest
from pathlib import Path

@pytest.mark.seeded(10)
def test_writes(seed, pytestconfig):
    with Path(__file__).with_name("seeds").open("a") as file:
        file.write(seed + "\\n")

@pytest.mark.java
def test_lazy():
    pytest.skip("no time")
"""


@pytest.mark.parametrize(
    ("asked", "share", "number"),
    [(None, 1.0, 10), (2, 1.0, 2), (None, 0.3, 3), (None, 0.001, 1), (2, 0.3, 2)],
    ids=["its-own", "so-many", "a-share", "never-none", "so-many-whatever-the-share"],
)
def test_a_seeded_test_runs_as_often_as_asked(asked: int | None, share: float, number: int) -> None:
    assert how_many(10, asked, share) == number


@pytest.mark.parametrize(("asked", "share", "number"), [(None, 0.1, 5), (None, 1, 10), (2, 1, 2)])
def test_a_seeded_test_may_want_a_least_number(
    asked: int | None, share: float, number: int
) -> None:
    assert how_many(10, asked, share, least=5) == number


@pytest.mark.parametrize(
    ("asked", "share", "number"), [(None, 0.9, 3), (None, 0.1, 1), (None, 1, 10), (7, 0.9, 7)]
)
def test_a_share_of_a_seeded_test_may_have_a_greatest_number(
    asked: int | None, share: float, number: int
) -> None:
    assert how_many(10, asked, share, most=3) == number


@pytest.mark.parametrize("number", [1, FEWEST, 10 * FEWEST, 100 * FEWEST])
def test_a_property_is_tried_with_a_share_of_its_examples_but_not_too_few(
    number: int, pytestconfig: pytest.Config
) -> None:
    share: float = pytestconfig.getoption("--share")

    assert examples(number) == max(min(number, FEWEST), round(share * number))


@pytest.mark.parametrize(("required", "code"), [("", 0), ("1", 1)])
def test_seeds_derive_from_the_base_and_a_skipped_test_fails_where_everything_is_required(
    tmp_path: Path, required: str, code: int
) -> None:
    folder = tmp_path / "kafka"
    folder.mkdir()
    (folder / "test_both.py").write_text(_TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.conftest", str(tmp_path)]

    ran = subprocess.run(
        [
            *command,
            *("--rootdir", str(tmp_path), "-c", "/dev/null"),
            *("--seed-base", "base", "--share", "0.3"),
        ],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "HEADWATER_REQUIRE_ALL": required},
        capture_output=True,
        text=True,
        check=False,
    )

    assert ran.returncode == code, ran.stdout + ran.stderr
    assert "no time" in ran.stdout or code == 0
    seeds = set((folder / "seeds").read_text().split())
    assert seeds == {f"base:{number}" for number in range(3)}
    # What a test needs is said by its markers, not by the folder where it lies.
    [told] = [line for line in ran.stdout.splitlines() if line.startswith(MINUTES)]
    needs = {share.rpartition(" ")[0] for share in told.removeprefix(MINUTES).split(", ")}
    assert needs == {"the others", "java"}
