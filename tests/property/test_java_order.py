"""Java's collections, as far as they decide on the order of a description."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headwater.model.java_order import (
    TreeSet,
    hash_set_copy_order,
    hash_set_order,
    string_hash,
)
from headwater.wire.change import decode_change, encode_change

names = st.lists(st.text(max_size=8), max_size=80)


def _compare(left: int, right: int) -> int:
    return left - right


@given(st.lists(st.integers(), max_size=300))
def test_a_tree_set_walks_in_order_and_keeps_no_duplicates(items: list[int]) -> None:
    tree: TreeSet[int] = TreeSet(_compare)
    for item in items:
        tree.add(item)

    assert list(tree) == sorted(set(items))


@given(names)
def test_a_hash_set_loses_and_invents_nothing(items: list[str]) -> None:
    assert sorted(hash_set_order(items)) == sorted(set(items))
    assert sorted(hash_set_copy_order(items)) == sorted(set(items))


@given(names)
def test_a_small_hash_set_and_its_copy_walk_alike(items: list[str]) -> None:
    few = list(dict.fromkeys(items))[:11]

    assert hash_set_copy_order(hash_set_order(few)) == hash_set_order(few)


@given(st.text())
def test_a_hash_code_has_32_bits(text: str) -> None:
    assert 0 <= string_hash(text) < 1 << 32


def test_hash_codes_are_java_s() -> None:
    assert string_hash("") == 0
    assert string_hash("hello") == 99162322
    assert string_hash("counts") == -1354575548 & 0xFFFF_FFFF
    assert string_hash("äöü€😀") == -1817983963 & 0xFFFF_FFFF


values = st.none() | st.binary(max_size=300)


@given(values, values)
def test_a_change_survives_its_bytes(new: bytes | None, old: bytes | None) -> None:
    if new is None and old is None:
        return

    assert decode_change(encode_change(new, old)) == (new, old)
