"""Outputs of which only the last are wanted: how they wait, and which they are."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st

from headwater.spark.latest import Newest, unpacked, waiting_sender

if TYPE_CHECKING:
    from pathlib import Path

_BYTES = st.none() | st.binary(max_size=8)
_HEADERS = st.none() | st.lists(st.tuples(st.text(max_size=4), _BYTES), min_size=1, max_size=3)
_OUTPUT = st.tuples(
    st.sampled_from(["out", "ö", "out-2"]),
    _BYTES,
    _BYTES,
    st.integers(-1, 2**50),
    _HEADERS,
    st.none() | st.integers(0, 2**31 - 1),
)


def wait(outputs: list[tuple[Any, ...]], number: int = 3) -> list[Any]:
    """Return outputs as records of the waiting topic."""
    sent: list[Any] = []
    for topic, *fields in outputs:
        waiting_sender(lambda *record: sent.append(record), topic, number)(*fields)  # type: ignore[arg-type,misc]
    assert {partition for *_, partition in sent} <= {number}
    return [(at, when, key, value, h) for at, (key, value, when, h, _) in enumerate(sent)]


@given(st.lists(_OUTPUT, max_size=5))
def test_an_output_leaves_as_it_came(outputs: list[tuple[Any, ...]]) -> None:
    waiting = wait(outputs)

    assert [unpacked(record) for record in waiting] == outputs
    # A record without a value would delete the one before it.
    assert all(value is not None for _, _, _, value, _ in waiting)


def test_the_last_of_a_key_topic_and_partition_is_wanted(tmp_path: Path) -> None:
    outputs = [
        ("out", b"a", b"1", 0, None, None),
        ("out", None, b"no key", 0, None, None),
        ("other", b"a", b"2", 0, None, None),
        ("out", b"a", b"3", 0, None, 1),
        ("out", None, b"no key", 0, None, None),
        ("out", b"a", None, 0, None, None),
        ("ou", b"ta", b"another key", 0, None, None),
    ]
    waiting = wait(outputs)

    with closing(Newest(str(tmp_path))) as newest:
        newest.note(waiting[:3])
        newest.note(waiting[3:])

        assert list(newest.offsets(0)) == [1, 2, 3, 4, 5, 6]
        assert list(newest.offsets(4)) == [4, 5, 6]
