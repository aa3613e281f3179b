"""Laws of the join by foreign key: what is left is what a database would say, whoever was first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater import Serdes, StreamsBuilder
from headwater.testing import TopologyTestDriver

if TYPE_CHECKING:
    from collections.abc import Iterable

STRINGS: dict[str, Any] = {"key_serde": Serdes.string, "value_serde": Serdes.string}
ORDERS = st.tuples(
    st.just("orders"),
    st.sampled_from(["o", "p", "q"]),
    st.none() | st.text("abc-", min_size=1, max_size=3),
)
CUSTOMERS = st.tuples(
    st.just("customers"),
    st.sampled_from("abc"),
    # The bytes of a response do not tell an empty value from none.
    st.none() | st.text("xy", min_size=1, max_size=3),
)
UPDATES = st.lists(ORDERS | CUSTOMERS, max_size=25)


def customer_of(order: str) -> str | None:
    """Leads nowhere where it begins with a dash."""
    return None if order.startswith("-") else order[0]


def both(order: str, customer: str | None) -> str:
    return f"{order}+{customer}"


def left(method: str, updates: Iterable[tuple[str, str, str | None]]) -> dict[str, str]:
    """What the join holds in the end."""
    builder = StreamsBuilder()
    orders, customers = (builder.table(topic, **STRINGS) for topic in ("orders", "customers"))
    getattr(orders, method)(customers, customer_of, both, store="joined", **STRINGS)
    # With a record cache a customer who comes and goes between two flushes stays joined, in Java
    # as here: tests/oracle/test_joins.py.
    config = {"application.id": "app", "statestore.cache.max.bytes": 0}
    with TopologyTestDriver(builder.build(), config) as driver:
        topics = {
            topic: driver.create_input_topic(topic, Serdes.string, Serdes.string)
            for topic in ("orders", "customers")
        }
        for topic, key, value in updates:
            topics[topic].pipe_input(key, value, 0)
        return {key: found.value for key, found in driver.get_state_store("joined").all()}


@pytest.mark.parametrize("method", ["join", "left_join"])
@given(updates=UPDATES)
def test_the_store_holds_the_join_of_the_last_values(
    method: str, updates: list[tuple[str, str, str | None]]
) -> None:
    last: dict[str, dict[str, str | None]] = {"orders": {}, "customers": {}}
    for topic, key, value in updates:
        last[topic][key] = value
    expected = {}
    for key, order in last["orders"].items():
        leads_to = None if order is None else customer_of(order)
        customer = None if leads_to is None else last["customers"].get(leads_to)
        if order is not None and (method == "left_join" or customer is not None):
            expected[key] = both(order, customer)

    assert left(method, updates) == expected


@pytest.mark.parametrize("method", ["join", "left_join"])
@given(updates=UPDATES)
def test_it_does_not_matter_which_table_was_first(
    method: str, updates: list[tuple[str, str, str | None]]
) -> None:
    expected = left(method, updates)
    for first in ("orders", "customers"):
        assert left(method, sorted(updates, key=lambda it: it[0] != first)) == expected
