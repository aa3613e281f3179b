"""Orders follow their customers, and both follow the database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from examples.changed_orders.app import CUSTOMER_CHANGES, ORDER_CHANGES, ORDERS, build

from headwater import Serdes

if TYPE_CHECKING:
    from headwater.testing import TopologyTestDriver
    from headwater_pytest import Drivers


@pytest.fixture
def driver(headwater: Drivers) -> TopologyTestDriver:
    return headwater(build)


def change(driver: TopologyTestDriver, topic: str, key: str, after: Any = None) -> None:
    told = {"op": "delete"} if after is None else {"op": "update", "after": after}
    driver.create_input_topic(topic, Serdes.string, Serdes.json).pipe_input(key, told)


def told(driver: TopologyTestDriver) -> list[tuple[str, Any]]:
    topic = driver.create_output_topic(ORDERS, Serdes.string, Serdes.json)
    return [(record.key, record.value) for record in topic.read_records_to_list()]


def test_a_new_name_of_a_customer_reaches_all_orders(driver: TopologyTestDriver) -> None:
    change(driver, CUSTOMER_CHANGES, "c1", {"name": "Ann"})
    change(driver, ORDER_CHANGES, "o1", {"customer": "c1", "total": 5})
    change(driver, ORDER_CHANGES, "o2", {"customer": "c1", "total": 7})
    assert [value["customer_name"] for _, value in told(driver)] == ["Ann", "Ann"]

    change(driver, CUSTOMER_CHANGES, "c1", {"name": "Anna"})

    assert told(driver) == [
        ("o1", {"customer": "c1", "total": 5, "customer_name": "Anna"}),
        ("o2", {"customer": "c1", "total": 7, "customer_name": "Anna"}),
    ]


def test_what_is_deleted_goes_from_the_result_too(driver: TopologyTestDriver) -> None:
    change(driver, ORDER_CHANGES, "o1", {"customer": "c1", "total": 5})
    change(driver, CUSTOMER_CHANGES, "c1", {"name": "Ann"})
    change(driver, CUSTOMER_CHANGES, "c1")
    change(driver, ORDER_CHANGES, "o1")

    names = [None if value is None else value["customer_name"] for _, value in told(driver)]
    assert names == [None, "Ann", None, None]
    assert driver.get_state_store("orders-with-customers").get("o1") is None
