"""Changelogs and internal topics have the bytes that were recorded from Java."""

from __future__ import annotations

import json

import pytest

from tests.golden.changelogs import CASES, DIRECTORY, lines, recorded
from tests.oracle.run import run

NO_VALUE = "streams_without_values"


@pytest.mark.parametrize("case", [case for case in CASES if case != NO_VALUE])
def test_what_we_write_is_javas_byte_for_byte(case: str) -> None:
    assert lines(run(CASES[case])["produced"]) == recorded(case)


def test_java_alone_deletes_what_a_join_never_stored() -> None:
    """A record without a value takes a number, which Java logs as a deletion of that number."""
    ours = lines(run(CASES[NO_VALUE])["produced"])

    (left_out,) = (line for line in recorded(NO_VALUE) if line not in ours)

    assert ours == [line for line in recorded(NO_VALUE) if line != left_out]
    deletion = json.loads(left_out)
    assert deletion["topic"] == "app-pair-outer-other-join-store-changelog"
    assert (deletion["key"][-8:], deletion["value"]) == ("00000002", None)


def test_every_case_has_its_recorded_bytes() -> None:
    assert {path.stem for path in DIRECTORY.glob("*.jsonl")} == set(CASES)
