"""How far an application is behind: rows, total, table."""

from __future__ import annotations

from headwater.ids import TaskId, TopicPartition
from headwater.model.lags import age, document, rows_of, table, total_of

A, B = TopicPartition("lines", 0), TopicPartition("lines", 1)
ROWS = rows_of({A: TaskId(0, 0)}, {A: 4}, {A: 0, B: 3}, {A: 10, B: 5})


def test_what_nothing_is_committed_for_is_unread_as_far_as_it_is_there() -> None:
    assert [row.lag for row in ROWS] == [2, 6]
    assert total_of(ROWS) == 8


def test_an_offset_that_was_deleted_or_is_beyond_the_end_counts_as_what_there_is() -> None:
    rows = rows_of({}, {A: 1, B: 9}, {A: 3, B: 3}, {A: 10, B: 5})

    assert [row.lag for row in rows] == [7, 0]


def test_rows_are_a_table_with_a_total() -> None:
    assert table(ROWS, now_ms=0) == [
        "TASK    TOPIC   PARTITION   COMMITTED   END   LAG   OLDEST UNREAD",
        "-       lines           1           -     5     2",
        "0_0     lines           0           4    10     6",
        "TOTAL                                           8",
    ]


def test_rows_are_json() -> None:
    found = document("counts", ROWS)

    assert found["lag"] == 8
    assert found["partitions"][1] == {
        "task": "0_0",
        "topic": "lines",
        "partition": 0,
        "committed": 4,
        "end": 10,
        "lag": 6,
        "oldestUnreadMs": None,
    }


def test_an_age_is_in_its_largest_unit() -> None:
    ages = [age(seconds * 1000) for seconds in (-5, 0, 119, 120, 7_200, 172_800)]

    assert ages == ["0 s", "0 s", "119 s", "2 min", "2 h", "2 d"]
