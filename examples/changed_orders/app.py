"""Keeps orders with their customers from the changes of a database.

A change says what happened to a row (``op``) and what it is now (``after``), as tools for change
data capture tell it. The newest change of a row makes the row of a table; a deletion removes it. An
order names its customer by the customer's key, which is a foreign key for orders.
"""

from typing import Any

from headwater import KTable, Serdes, StreamsBuilder

ORDER_CHANGES = "shop.orders"
CUSTOMER_CHANGES = "shop.customers"
ORDERS = "orders-with-customers"

Row = dict[str, Any]


def build(builder: StreamsBuilder) -> None:
    """Make tables of both topics, join them, and tell every order that changes."""
    orders = rows(builder, ORDER_CHANGES, "orders")
    customers = rows(builder, CUSTOMER_CHANGES, "customers")
    (
        orders.left_join(
            customers,
            lambda order: order["customer"],
            with_customer,
            name="of-customer",
            store="orders-with-customers",
            key_serde=Serdes.string,
            value_serde=Serdes.json,
        )
        .to_stream()
        .to(ORDERS, key_serde=Serdes.string, value_serde=Serdes.json)
    )


def rows(builder: StreamsBuilder, topic: str, store: str) -> KTable[str, Row]:
    """Return the table that the changes of a topic make."""
    changes = builder.stream(topic, key_serde=Serdes.string, value_serde=Serdes.json)
    return changes.map_values(row_of).to_table(
        store=store, key_serde=Serdes.string, value_serde=Serdes.json
    )


def row_of(change: Row | None) -> Row | None:
    """Return the row as it is after a change; nothing if it is gone."""
    if change is None or change["op"] == "delete":
        return None
    row: Row = change["after"]
    return row


def with_customer(order: Row, customer: Row | None) -> Row:
    """Put the customer's name beside the order."""
    return {**order, "customer_name": None if customer is None else customer["name"]}
