"""What Java's jar has public has a name here, or a reason why it has none."""

from __future__ import annotations

import pytest

from tests.golden import java_api
from tests.golden.java_api_names import CLASSES, LEFT_OUT, METHODS

LINES = java_api.lines()


def test_every_method_of_java_is_here_or_left_out_with_a_reason() -> None:
    found = [it.path for it in LINES if not (java_api.name_of(it) or java_api.reason_of(it))]

    assert found == []


def test_names_lead_somewhere() -> None:
    assert [
        path for path in (*CLASSES.values(), *METHODS.values()) if not java_api.is_there(path)
    ] == []


def test_what_is_said_of_java_is_of_java() -> None:
    java = {line.path for line in LINES}

    assert (METHODS.keys() | LEFT_OUT.keys() | CLASSES.keys()) - java == set()


def test_nothing_is_left_out_that_is_here() -> None:
    found = [it.path for it in LINES if it.path in LEFT_OUT and java_api.name_of(it)]

    assert found == []


def test_much_is_found_by_its_name_alone() -> None:
    """Or else the look-up is broken, and reasons hide it."""
    named = sum(java_api.name_of(line) is not None for line in LINES)

    assert named > len(LINES) / 2
    assert java_api.name_of(java_api.Line("KStream", "mapValues")) == "KStream.map_values"
    assert java_api.name_of(java_api.Line("KStream", "noSuchMethod")) is None


@pytest.mark.java
def test_the_list_is_what_the_jar_has() -> None:
    assert java_api.listed() == java_api.RECORDED.read_text()
