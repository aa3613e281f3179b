"""What ``tests/golden/changelogs`` has recorded is what Java writes today."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.golden.changelogs import CASES, lines, recorded

if TYPE_CHECKING:
    from tests.java.tool import Oracle

pytestmark = pytest.mark.java


@pytest.mark.parametrize("case", CASES)
def test_java_still_writes_what_was_recorded(case: str, oracle: Oracle) -> None:
    answer = oracle.ask(CASES[case])

    assert "error" not in answer, answer["error"]
    assert lines(answer["produced"]) == recorded(case)
