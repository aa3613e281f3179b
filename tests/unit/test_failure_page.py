"""docs/failure-modes.md names what the code can say: no reason too many, none too few."""

from __future__ import annotations

import re
from pathlib import Path

import headwater
from headwater import errors
from headwater_operator.actions import Reason
from headwater_operator.decide import failures

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "failure-modes.md").read_text()
OPERATOR = ROOT / "operator" / "headwater_operator"
REASON = re.compile(r"`([A-Z][A-Za-z]+)`")
# Roots of the tree, and what a person on a cluster never meets.
NOT_SEEN = {
    *("RecordError", "TopicError", "UserError", "InstanceRunningError", "SpecError"),
    "DiffError",  # of a command
}


def seen() -> set[str]:
    """The reasons in the second column."""
    rows = [line.split(" | ") for line in PAGE.splitlines() if line.startswith("| ")]
    assert all(len(row) == 4 for row in rows)
    return {name for row in rows for name in REASON.findall(row[1])}


def problems() -> set[str]:
    """The reasons of problems that the operator can name."""
    modules = (
        path for path in OPERATOR.rglob("*.py") if path.relative_to(OPERATOR).parts[0] != "local"
    )
    texts = [path.read_text() for path in modules]
    found = {name for text in texts for name in re.findall(r'Problem\(\s*reason="(\w+)"', text)}
    for module in ("handlers/problems.py", "observe/pods.py"):
        text = (OPERATOR / module).read_text()
        found |= set(re.findall(r'": \(\s*"([A-Z]\w+)",', text))
    return found | {"VolumeNotBound", "PodRefused", "PersistentVolumeClaimRefused"}


def test_every_error_can_be_imported_from_the_package() -> None:
    known = {name for name, one in vars(errors).items() if isinstance(one, type)}

    assert {name for name in known if name.endswith("Error")} <= set(headwater.__all__)


def final() -> set[str]:
    """The errors that end an application."""
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    ending = {
        kind.__name__
        for kind in kinds
        if issubclass(kind, errors.HeadwaterError)
        and failures.is_final(kind.__name__, early_deaths=0)
    }
    return ending - NOT_SEEN


def test_every_reason_on_the_page_can_be_given() -> None:
    events = {"".join(part.capitalize() for part in each.name.split("_")) for each in Reason}
    waits = set(re.findall(r'"(\w+)" if facts', (OPERATOR / "status.py").read_text()))
    errors_known = {name for name in vars(errors) if name.endswith("Error")}

    assert seen() - problems() - events - errors_known - waits == set()


def test_every_problem_and_every_error_that_ends_an_application_is_on_the_page() -> None:
    assert len(problems()) > 10
    assert problems() - seen() == set()
    assert final() - seen() == set()
