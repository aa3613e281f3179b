"""Descriptions recorded from Java stand for the naming rules; a request lies beside each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.oracle.translate import Drawing

DIRECTORY = Path(__file__).parent / "describe"
CASES = sorted(path.stem for path in DIRECTORY.glob("*.json"))


def load_request(case: str) -> dict[str, Any]:
    request: dict[str, Any] = json.loads((DIRECTORY / f"{case}.json").read_text())
    return request


@pytest.mark.parametrize("case", CASES)
def test_a_description_is_java_s_character_for_character(case: str) -> None:
    expected = (DIRECTORY / f"{case}.txt").read_text()

    topology = Drawing(load_request(case)).topology()

    assert topology.describe() == expected


@pytest.mark.parametrize("case", CASES)
def test_options_as_keywords_draw_what_options_as_objects_draw(case: str) -> None:
    request = load_request(case)

    objects = Drawing(request).topology()
    keywords = Drawing(request, keywords=True).topology()

    assert keywords.describe() == objects.describe()


def test_every_request_has_its_recorded_description() -> None:
    recorded = {path.stem for path in DIRECTORY.glob("*.txt")}

    assert recorded == set(CASES)
