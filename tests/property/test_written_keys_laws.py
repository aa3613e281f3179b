"""Uncommitted entries in the order of keys, against a sorted dict."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headwater.state.layers.keys import WrittenKeys
from headwater.state.layers.writeback import Entry

KEYS = st.binary(max_size=3)
BOUNDS = st.none() | KEYS


@given(st.lists(st.tuples(st.lists(KEYS, max_size=12), BOUNDS, BOUNDS), max_size=12))
def test_what_was_added_is_found_in_order_whenever_it_came(
    steps: list[tuple[list[bytes], bytes | None, bytes | None]],
) -> None:
    written, model, number = WrittenKeys(bytes, block=2), {}, 0
    for added, low, high in steps:
        for key in added:
            number += 1
            written.add(Entry(key, number, -number))
            model[key] = number, -number
        expected = [
            (key, model[key])
            for key in sorted(model)
            if (low is None or key >= low) and (high is None or key <= high)
        ]

        assert list(written.between(low, high).items()) == expected


def test_what_is_replaced_is_forgotten_and_what_was_found_does_not_change() -> None:
    written = WrittenKeys(bytes)
    entries = [Entry(key, 1, 1) for key in (b"c", b"a", b"b")]
    written.replace(entries)
    found = written.between(None, None)
    entries[0].stored = 2

    written.replace([])

    assert found == {b"a": (1, 1), b"b": (1, 1), b"c": (1, 1)}
    assert written.between(None, None) == {}
