"""The ten largest counts of each day, by day."""

from __future__ import annotations

from typing import TYPE_CHECKING

from examples.daily_top_ten.app import DAY_MS, READINGS, TOP_TEN, build

from headwater import Serdes

if TYPE_CHECKING:
    from headwater_pytest import Drivers


def test_an_article_moves_up_as_it_is_read_and_each_day_has_its_own_ten(headwater: Drivers) -> None:
    driver = headwater(build)
    readings = driver.create_input_topic(READINGS, Serdes.string, Serdes.string)
    for article in "abcdefghijkl":
        readings.pipe_input(article, "read", timestamp=10)
    readings.pipe_input("l", "read", timestamp=20)
    readings.pipe_input("b", "read", timestamp=DAY_MS)

    top = driver.create_output_topic(TOP_TEN, Serdes.long, Serdes.json).read_key_values_to_map()
    assert top[0] == [["l", 2], *([article, 1] for article in "abcdefghi")]
    assert top[1] == [["b", 1]]
