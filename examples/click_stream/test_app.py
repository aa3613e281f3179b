"""Views meet the profile of their user, and searches within a second."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from examples.click_stream.app import ACTIVITIES, PROFILES, SEARCHES, VIEWS, build

from headwater import Serdes

if TYPE_CHECKING:
    from headwater.testing import TopologyTestDriver
    from headwater_pytest import Drivers


@pytest.fixture
def driver(headwater: Drivers) -> TopologyTestDriver:
    return headwater(build)


def pipe(driver: TopologyTestDriver, topic: str, user: str, value: Any, timestamp: int) -> None:
    driver.create_input_topic(topic, Serdes.string, Serdes.json).pipe_input(
        user, value, timestamp=timestamp
    )


def activities(driver: TopologyTestDriver) -> list[tuple[str, Any]]:
    topic = driver.create_output_topic(ACTIVITIES, Serdes.string, Serdes.json)
    return [(record.key, record.value) for record in topic.read_records_to_list()]


def test_a_view_meets_the_profile_and_the_search_of_its_user(driver: TopologyTestDriver) -> None:
    pipe(driver, PROFILES, "ann", {"name": "Ann", "interests": ["snow"]}, 0)
    pipe(driver, SEARCHES, "ann", {"terms": "skis"}, 9_500)
    pipe(driver, SEARCHES, "bob", {"terms": "beach"}, 9_900)
    pipe(driver, VIEWS, "ann", {"page": "/alps"}, 10_000)

    expected = {"page": "/alps", "name": "Ann", "interests": ["snow"], "search": "skis"}
    assert activities(driver) == [("ann", expected)]


def test_a_view_that_meets_nothing_comes_out_when_its_second_has_passed(
    driver: TopologyTestDriver,
) -> None:
    pipe(driver, VIEWS, "eve", {"page": "/alps"}, 10_000)
    assert activities(driver) == []

    pipe(driver, SEARCHES, "eve", {"terms": "too late"}, 11_001)

    assert activities(driver) == [
        ("eve", {"page": "/alps", "name": None, "interests": [], "search": None})
    ]
