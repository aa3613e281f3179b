"""Where an application begins after a reset: the texts, and the offsets that come of them."""

from __future__ import annotations

import pytest

from headwater.errors import ResetError
from headwater.ids import TopicPartition
from headwater.model.resetting import (
    Beginning,
    PartitionFacts,
    PlannedOffset,
    Scenario,
    asked_for,
    mark_of,
    parse,
    parse_file,
    planned,
    table,
)

LINES, WORDS = TopicPartition("lines", 0), TopicPartition("words", 0)
FACTS = {
    LINES: PartitionFacts(first=10, end=100, committed=50, metadata="AgAA", at_time=70),
    WORDS: PartitionFacts(first=0, end=8, committed=8, metadata="AgAB", at_time=None),
}
NO_OPTION: dict[str, object] = {
    "to_earliest": False,
    "to_latest": False,
    "to_datetime": None,
    "by_duration": None,
    "to_offset": None,
    "shift_by": None,
    "input_topics": None,
}


def offsets(plan: tuple[PlannedOffset, ...]) -> dict[str, int | None]:
    return {each.partition.topic: each.offset for each in plan}


@pytest.mark.parametrize(
    ("text", "found", "as_text"),
    [
        ("now", Beginning(), "now"),
        ("NOW", Beginning(), "now"),
        ("earliest", Beginning(scenario=Scenario.EARLIEST), "earliest"),
        ("latest", Beginning(scenario=Scenario.LATEST), "latest"),
        (
            "2026-01-31T08:00:00.250+01:00",
            Beginning(scenario=Scenario.DATETIME, number=1_769_842_800_250),
            "2026-01-31T07:00:00.250Z",
        ),
        (
            "2026-01-31T07:00:00",
            Beginning(scenario=Scenario.DATETIME, number=1_769_842_800_000),
            "2026-01-31T07:00:00Z",
        ),
        ("P1DT30M", Beginning(scenario=Scenario.DURATION, number=88_200_000), "PT24H30M"),
        ("offset:5", Beginning(scenario=Scenario.OFFSET, number=5), "offset:5"),
        ("shift:-100", Beginning(scenario=Scenario.SHIFT, number=-100), "shift:-100"),
        ("shift:+7", Beginning(scenario=Scenario.SHIFT, number=7), "shift:7"),
        (
            "offsets:words,0,3;lines,0,7 topics:words,lines",
            Beginning(
                scenario=Scenario.FILE, offsets={LINES: 7, WORDS: 3}, topics=("words", "lines")
            ),
            "offsets:lines,0,7;words,0,3 topics:words,lines",
        ),
        (
            "earliest topics:lines, words",
            Beginning(scenario=Scenario.EARLIEST, topics=("lines", "words")),
            "earliest topics:lines,words",
        ),
    ],
)
def test_a_text_is_read_and_written_again(text: str, found: Beginning, as_text: str) -> None:
    assert parse(text) == found
    assert str(found) == as_text
    assert parse(as_text) == found


@pytest.mark.parametrize(
    "text",
    [
        *("", "false", "later", "earlist", "offset:", "offset:-1", "offset:1.5", "shift:x", "PT"),
        *("-PT1H", "earliest topics:", "offsets:", "1960-01-01", "2026-02-30", "now:5", "offset:²"),
        "shift:99999999999999999999999",
    ],
)
def test_any_other_text_is_refused(text: str) -> None:
    with pytest.raises(ResetError):
        parse(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("now", {"lines": None, "words": None}),
        ("earliest", {"lines": 10, "words": 0}),
        ("latest", {"lines": 100, "words": 8}),
        ("2026-01-31T08:00:00Z", {"lines": 70, "words": 8}),
        ("PT1H", {"lines": 70, "words": 8}),
        ("offset:5", {"lines": 10, "words": 5}),
        ("offset:20", {"lines": 20, "words": 8}),
        ("shift:-5", {"lines": 45, "words": 3}),
        ("shift:-45", {"lines": 10, "words": 0}),
        ("shift:3", {"lines": 53, "words": 8}),
        ("offsets:lines,0,60;words,0,1000", {"lines": 60, "words": 8}),
        ("earliest topics:lines", {"lines": 10, "words": 8}),
        ("now topics:lines", {"lines": None, "words": 8}),
        ("offsets:words,0,2 topics:words", {"lines": 50, "words": 2}),
    ],
)
def test_offsets_are_chosen_and_cut_to_what_there_is(
    text: str, expected: dict[str, int | None]
) -> None:
    assert offsets(planned(parse(text), FACTS)) == expected


def test_a_topic_that_is_not_named_keeps_its_metadata() -> None:
    kept = planned(parse("earliest topics:lines"), FACTS)[1]

    assert kept == PlannedOffset(partition=WORDS, before=8, offset=8, note="kept", metadata="AgAB")


@pytest.mark.parametrize(
    ("text", "facts", "said"),
    [
        pytest.param(
            "shift:-1",
            {LINES: PartitionFacts(first=0, end=9)},
            "nothing is committed for lines-0 that could be shifted",
            id="the offsets were deleted",
        ),
        pytest.param(
            "shift:-1",
            {LINES: PartitionFacts(first=0, end=9, committed=5)},
            "a second shift would count twice",
            id="it may have been shifted already",
        ),
        pytest.param(
            "earliest topics:lines",
            {**FACTS, WORDS: PartitionFacts(first=0, end=9)},
            "nothing is committed for words-0 that could be kept",
            id="what was to be kept was deleted",
        ),
        pytest.param("earliest topics:liens", FACTS, "are lines, words", id="an unknown topic"),
        pytest.param("offsets:lines,0,1", FACTS, "lacks words-0", id="a partition is missing"),
        pytest.param("offsets:lines,7,1", FACTS, "names lines-7", id="there is no such partition"),
    ],
)
def test_what_cannot_be_chosen_is_refused_by_name(
    text: str, facts: dict[TopicPartition, PartitionFacts], said: str
) -> None:
    with pytest.raises(ResetError, match=said):
        planned(parse(text), facts)


def test_a_shift_that_was_carried_out_is_known_by_its_mark() -> None:
    mark, other = mark_of("7"), mark_of("77")
    done = PartitionFacts(first=0, end=9, committed=5, metadata=f"{mark}remains")

    [again] = planned(parse("shift:-2"), {LINES: done}, mark)
    [another] = planned(parse("shift:-2"), {LINES: done}, other)

    assert (again.offset, again.metadata, again.is_shifted) == (5, mark, True)
    assert (another.offset, another.metadata, another.is_shifted) == (3, other, False)
    assert planned(parse("offset:2"), {LINES: done}, mark)[0].metadata == ""
    assert mark_of("") == ""


def test_whatever_is_not_relative_comes_out_the_same_when_the_offsets_are_gone() -> None:
    gone = {
        p: PartitionFacts(first=f.first, end=f.end, at_time=f.at_time) for p, f in FACTS.items()
    }

    for text in ("earliest", "latest", "PT1H", "offset:20", "offsets:lines,0,60;words,0,7"):
        assert offsets(planned(parse(text), gone)) == offsets(planned(parse(text), FACTS))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("\n\n", "is empty"),
        ("lines,0\n", "line 1 of the reset plan is 'lines,0'"),
        ("lines,0,1\nlines,zero,1\n", "line 2"),
        ("lines,0,-1", "line 1"),
        ("lines,0,1\nlines,0,2\n", "line 2 of the reset plan names lines-0 again"),
    ],
)
def test_a_damaged_file_is_refused_with_its_line(text: str, said: str) -> None:
    with pytest.raises(ResetError, match=said):
        parse_file(text)


def test_a_file_as_kafkas_tools_write_it_is_read() -> None:
    assert parse_file('"lines",0,7\r\n"words",0,3\r\n') == {LINES: 7, WORDS: 3}


@pytest.mark.parametrize(
    ("options", "file", "text"),
    [
        ({}, None, "now"),
        ({"to_earliest": True}, None, "earliest"),
        ({"to_latest": True, "input_topics": "lines"}, None, "latest topics:lines"),
        ({"to_datetime": "2026-01-31T08:00:00Z"}, None, "2026-01-31T08:00:00Z"),
        ({"by_duration": "PT90M"}, None, "PT1H30M"),
        ({"to_offset": "0"}, None, "offset:0"),
        ({"shift_by": "-3"}, None, "shift:-3"),
        ({}, "lines,0,7\n", "offsets:lines,0,7"),
    ],
)
def test_options_say_the_same_as_texts(
    options: dict[str, object], file: str | None, text: str
) -> None:
    assert str(asked_for({**NO_OPTION, **options}, file)) == text


@pytest.mark.parametrize(
    "options",
    [{"to_datetime": "PT1H"}, {"by_duration": "2026-01-31"}, {"to_offset": ""}, {"shift_by": "a"}],
)
def test_an_option_takes_only_what_it_is_for(options: dict[str, object]) -> None:
    with pytest.raises(ResetError):
        asked_for({**NO_OPTION, **options}, None)


def test_a_plan_is_a_table() -> None:
    assert table(planned(parse("offset:20"), FACTS)) == [
        "TOPIC   PARTITION   COMMITTED   NEW OFFSET",
        "lines           0          50           20",
        "words           0           8            8   20 is beyond the end: cut to it",
    ]
