"""Windows lie where the clock says, sessions where the payments are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from examples.five_minutes.app import BY_SESSION, BY_WINDOW, PAYMENTS, build

from headwater import Serdes

if TYPE_CHECKING:
    from headwater_pytest import Drivers

MINUTE_MS = 60_000


def test_a_payment_that_joins_two_sessions_makes_them_one(headwater: Drivers) -> None:
    driver = headwater(build)
    payments = driver.create_input_topic(PAYMENTS, Serdes.string, Serdes.long)
    windows, sessions = (
        driver.create_output_topic(topic, Serdes.string, Serdes.long)
        for topic in (BY_WINDOW, BY_SESSION)
    )

    payments.pipe_input("ann", 10, timestamp=0)
    payments.pipe_input("ann", 20, timestamp=7 * MINUTE_MS)
    assert sessions.read_key_values_to_map() == {"ann@0": 10, "ann@420": 20}

    payments.pipe_input("ann", 5, timestamp=4 * MINUTE_MS)

    assert windows.read_key_values_to_map() == {"ann@0": 10, "ann@300": 20}
    assert sessions.read_key_values_to_map() == {"ann@420": None, "ann@0": 35}
