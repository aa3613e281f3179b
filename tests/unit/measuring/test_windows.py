"""Averages and rates over windows: what counts, and for how long."""

from __future__ import annotations

import pytest

from headwater.measuring.windows import Rates, Windows
from headwater.model import metrics
from headwater.model.metrics import Snapshot

THREAD = "t"


def test_a_value_counts_for_two_windows() -> None:
    windows = Windows(samples=2, window_s=30)
    window = windows.new()
    spread = metrics.E2E_LATENCY
    assert spread.max is not None
    windows.roll_if_due(0)
    window.record(100)
    windows.roll_if_due(30)
    window.record(2)

    assert list(window.values(spread).values()) == [51, 100, 2]
    assert [metric.kafka.rpartition("-")[2] for metric in window.values(spread)] == [
        "avg",
        "max",
        "min",
    ]

    windows.roll_if_due(60)

    assert window.values(spread)[spread.max] == 2
    windows.roll_if_due(90)
    assert window.values(spread) == {}


def of_counter(value: float) -> Snapshot:
    return Snapshot.of({metrics.THREAD_PROCESS: value}, THREAD)


def rate_of(snapshot: Snapshot) -> float:
    return snapshot.values["stream_thread_process_rate"][THREAD,]


def test_a_rate_is_of_the_last_windows() -> None:
    rates = Rates(samples=2, window_s=30)

    assert rates.of(of_counter(0), 0) == Snapshot()
    assert rate_of(rates.of(of_counter(100), 10)) == 10
    assert rate_of(rates.of(of_counter(300), 30)) == 10
    assert rate_of(rates.of(of_counter(900), 60)) == 15
    # The first window is over: what was before 30 s does not count.
    assert rate_of(rates.of(of_counter(900), 90)) == pytest.approx(600 / 60)


def test_a_counter_that_begins_again_has_grown_from_nothing() -> None:
    rates = Rates(samples=2, window_s=30)
    rates.of(of_counter(1_000), 0)

    assert rate_of(rates.of(of_counter(50), 10)) == 5
