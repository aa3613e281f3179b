"""What becomes of failures: a test with real processes is run again once, alone, at the end.

If it passes then, it is unstable: reported with both logs, and the run may pass. More than
``MOST`` of them fail it. A pure test is never run again, for nothing but its code can be the cause.
`benchmarks/UNSTABLE.md` lists what was seen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.record import Session

MOST = 3
"""So many unstable tests may be in a run that passes."""
MOST_AGAIN = 10
"""If more tests have failed, none is run again: something is broken, and not at times."""
PAGE = "benchmarks/UNSTABLE.md"
_TESTS_FAILED = 1
_DONE = ("mended", "taken apart")


def not_mended(page: str) -> list[str]:
    """Return the tests that the page lists twice or more although nothing is said to be done.

    What is done about the last time counts: its line begins with one of the words for it.
    """
    done: dict[str, list[str]] = {}
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if "::" in cells[0]:
            done.setdefault(cells[0].strip("`"), []).append(cells[2])
    return [
        test for test, lines in done.items() if len(lines) > 1 and not lines[-1].startswith(_DONE)
    ]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a run comes to.

    Attributes:
        failed: the parts that have failed for good.
        unstable: the tests that failed, and passed when they were run again.
        passes: whether the run as a whole has passed.
    """

    failed: tuple[str, ...]
    unstable: tuple[str, ...]

    @property
    def passes(self) -> bool:
        """Whether nothing failed for good, and not too much at times."""
        return not self.failed and len(self.unstable) <= MOST


def to_run_again(sessions: Mapping[str, Session]) -> list[str]:
    """Return the tests of all parts that are to be run again, each alone.

    Args:
        sessions: what each part that has not passed has written.
    """
    found = [
        outcome.test
        for session in sessions.values()
        for outcome in session.outcomes
        if outcome.log and outcome.is_real
    ]
    return found if len(found) <= MOST_AGAIN else []


def judge(sessions: Mapping[str, Session], again: Mapping[str, bool]) -> Verdict:
    """Say what the run comes to.

    Args:
        sessions: what each part that has not passed has written.
        again: whether the tests that were run again have passed.
    """
    failed = tuple(name for name, session in sessions.items() if not _is_forgiven(session, again))
    return Verdict(failed, tuple(test for test, passed in again.items() if passed))


def _is_forgiven(session: Session, again: Mapping[str, bool]) -> bool:
    """Whether tests failed, and nothing else, and each of them passed when it was run again."""
    failures = [outcome.test for outcome in session.outcomes if outcome.log]
    return (
        session.status == _TESTS_FAILED
        and bool(failures)
        and all(again.get(test, False) for test in failures)
    )


def told(verdict: Verdict, logs: str) -> list[str]:
    """Return the last lines but for the result.

    Args:
        verdict: what the run comes to.
        logs: name of the file with both logs of each unstable test.
    """
    if not verdict.unstable:
        return []
    number = len(verdict.unstable)
    tests = "1 test" if number == 1 else f"{number} tests"
    return [
        f"UNSTABLE: {tests} failed, and passed alone at the end; both logs are in {logs}",
        *(f"  {test}" for test in verdict.unstable),
        f"Put them down in {PAGE}, with what was done."
        + ("" if number <= MOST else f" More than {MOST} fail the run."),
    ]


def both_logs(first: Mapping[str, str], second: Mapping[str, str], tests: Sequence[str]) -> str:
    """Return the text of the file with the logs of unstable tests, by test."""
    return "\n".join(
        f"=== {test}\n=== failed:\n{first[test]}\n=== alone, passed:\n{second[test]}\n"
        for test in tests
    )
