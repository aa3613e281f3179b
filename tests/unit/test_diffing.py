"""What two versions have written, compared key by key; and the picture of it."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET

import pytest

from headwater.cli.diffsvg import picture
from headwater.errors import DiffError
from headwater.model.diffing import (
    Contents,
    Difference,
    check_not_empty,
    compared,
    document,
    paired,
    table,
)

TOPICS = ("counts", "counts-2")


def contents(*records: tuple[bytes | None, bytes | None]) -> Contents:
    found = Contents()
    for key, value in records:
        found.add(key, value)
    return found


def difference(old: Contents, new: Contents, *, counts: bool = False) -> Difference:
    return compared(
        TOPICS, old, new, is_same=lambda a, b: bool(json.loads(a) == json.loads(b)), counts=counts
    )


def numbers(found: Difference) -> tuple[int, int, int, int]:
    return found.equal, found.different, found.missing, found.extra


def test_the_last_value_of_a_key_counts_in_whatever_order_and_however_often() -> None:
    old = contents((b"a", b"1"), (b"b", b"5"), (b"a", b"2"))
    new = contents((b"b", b"5"), (b"a", b"2"))

    assert numbers(difference(old, new)) == (2, 0, 0, 0)
    assert difference(old, new).is_same
    assert numbers(difference(old, new, counts=True)) == (1, 1, 0, 0)


def test_other_missing_and_additional_keys_are_told_with_examples() -> None:
    old = contents((b"a", b"1"), (b"b", b"1"), (b"c", b"1"))
    new = contents((b"a", b"1"), (b"b", b"2"), (b"d", b"1"))

    found = difference(old, new)

    assert numbers(found) == (1, 1, 1, 1)
    assert not found.is_same
    assert [(e.kind, e.identity[0], e.old, e.new) for e in found.examples] == [
        ("different", b"b", b"1", b"2"),
        ("missing", b"c", b"1", None),
        ("extra", b"d", None, b"1"),
    ]


def test_a_tombstone_is_as_good_as_no_record() -> None:
    old = contents((b"a", b"1"), (b"a", None), (b"b", b"1"))
    new = contents((b"b", b"1"), (b"c", None))

    assert numbers(difference(old, new)) == (1, 0, 0, 0)


def test_values_that_mean_the_same_agree_whatever_their_bytes() -> None:
    old, new = contents((b"a", b'{"x":1,"y":2}')), contents((b"a", b'{"y": 2, "x": 1}'))

    assert difference(old, new).is_same


def test_records_without_a_key_are_a_bag() -> None:
    old = contents((None, b"1"), (None, b"1"), (None, b"2"))

    assert difference(old, contents((None, b"2"), (None, b"1"), (None, b"1"))).is_same
    assert numbers(difference(old, contents((None, b"2"), (None, b"1")))) == (1, 1, 0, 0)


def test_topics_are_pairs_by_their_order_or_as_they_are_named() -> None:
    assert paired(["a", "b"], ["c", "d"], []) == [("a", "c"), ("b", "d")]
    assert paired(["a", "b"], ["c"], ["b=c"]) == [("b", "c")]


@pytest.mark.parametrize(
    ("old", "new", "given", "said"),
    [
        (["a", "b"], ["c"], [], "name what belongs together"),
        ([], [], [], "no topic"),
        (["a"], ["a"], [], "a topic of its own"),
        (["a"], ["c"], ["a"], "--topics a: write OLD_TOPIC=NEW_TOPIC"),
        (["a"], ["c"], ["c=a"], "the old version writes to a, the new one to c"),
    ],
)
def test_topics_that_are_no_pairs_are_refused(
    old: list[str], new: list[str], given: list[str], said: str
) -> None:
    with pytest.raises(DiffError, match=said):
        paired(old, new, given)


def test_an_empty_topic_is_refused() -> None:
    with pytest.raises(DiffError, match="topic counts-2 is empty"):
        check_not_empty({"counts": contents((b"a", b"1")), "counts-2": contents()})


def test_a_difference_is_a_table_json_and_a_picture() -> None:
    keys = [(f"k{n}".encode(), b"1") for n in range(1_000)]
    found = difference(contents(*keys, (b"x", b"1")), contents(*keys, (b"x", b"2")))

    assert table([found]) == [
        "OLD TOPIC   NEW TOPIC   EQUAL   DIFFERENT   MISSING   EXTRA         RECORDS",
        "counts      counts-2    1,000           1         0       0   1,001 / 1,001",
    ]
    told = document(found, lambda example: {"key": str(example.identity[0])})
    assert told["different"] == 1
    assert told["examples"] == [{"kind": "different", "key": "b'x'"}]
    drawn = ET.fromstring(picture("old <and> new", [found]))
    bars = [each for each in drawn.iter() if each.get("height") == "20"]
    assert [each.get("class") for each in bars] == ["equal", "different"]
    assert sum(float(str(each.get("width"))) for each in bars) == pytest.approx(592)
    assert min(float(str(each.get("width"))) for each in bars) >= 3
