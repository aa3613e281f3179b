"""Words are counted in the store and on the way out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from examples.word_count.app import build

from headwater import Serdes

if TYPE_CHECKING:
    from headwater_pytest import Drivers


def test_the_words_of_all_lines_are_counted(headwater: Drivers) -> None:
    driver = headwater(build)
    lines = driver.create_input_topic("TextLinesTopic", Serdes.string, Serdes.string)

    lines.pipe_value_list(["All streams lead to Kafka", "Hello, Kafka streams!"])

    counts = driver.create_output_topic("WordsWithCountsTopic", Serdes.string, Serdes.long)
    assert counts.read_key_values_to_map() == {
        "all": 1, "streams": 2, "lead": 1, "to": 1, "kafka": 2, "hello": 1,
    }  # fmt: skip
    assert driver.get_state_store("counts-store").get("kafka") == (2, 0)
