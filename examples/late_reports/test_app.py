"""An hour's sum has what came late, and is told once."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from examples.late_reports.app import HOURS, REPORTS, build

from headwater import Serdes

if TYPE_CHECKING:
    from headwater_pytest import Drivers

HOUR_MS = 3_600_000


def test_a_late_report_counts_until_its_hour_is_closed(headwater: Drivers) -> None:
    driver = headwater(build)
    reports = driver.create_input_topic(REPORTS, Serdes.string, Serdes.long)
    hours = driver.create_output_topic(HOURS, Serdes.string, Serdes.long)

    reports.pipe_input("phone", 100, timestamp=10)
    reports.pipe_input("watch", 7, timestamp=12 * HOUR_MS)
    reports.pipe_input("phone", 50, timestamp=20)  # twelve hours late
    assert hours.is_empty()

    driver.advance_wall_clock_time(timedelta(seconds=1))
    reports.pipe_input("watch", 1, timestamp=13 * HOUR_MS)
    reports.pipe_input("phone", 1_000, timestamp=30)  # too late

    assert hours.read_key_values_to_map() == {"phone@0": 150}
