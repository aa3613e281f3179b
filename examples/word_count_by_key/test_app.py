"""All words but one are counted, and the counts are text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from examples.word_count_by_key.app import INPUT, OUTPUT, build

from headwater import Serdes

if TYPE_CHECKING:
    from headwater_pytest import Drivers


def test_words_but_the_are_counted_and_written_as_text(headwater: Drivers) -> None:
    driver = headwater(build)
    lines = driver.create_input_topic(INPUT, Serdes.string, Serdes.string)

    lines.pipe_value_list(["The quick fox", "the LAZY dog; a fox"])

    counts = driver.create_output_topic(OUTPUT, Serdes.string, Serdes.string)
    assert counts.read_key_values_to_map() == {
        "quick": "1", "fox": "2", "lazy": "1", "dog": "1", "a": "1",
    }  # fmt: skip
    assert driver.get_state_store("CountStore").get("fox") == (2, 0)


def test_a_change_of_the_key_needs_one_repartition_topic(headwater: Drivers) -> None:
    driver = headwater(build, {"application.id": "app"}, partitions={INPUT: 2})
    driver.create_input_topic(INPUT, Serdes.string, Serdes.string).pipe_input("k", "fox")

    assert "app-CountStore-repartition" in driver.produced_topic_names
