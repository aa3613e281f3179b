"""Statistics of real prices are those that are computed by hand."""

from __future__ import annotations

import csv
from importlib.resources import files
from itertools import count
from typing import TYPE_CHECKING

from examples.stock_market.app import STATISTICS, TRADES, TradeStats, build

from headwater import Serdes

if TYPE_CHECKING:
    from headwater_pytest import Drivers

EVERY_MS = 400


def trades() -> list[tuple[str, float, int]]:
    """Return ticker, price and time of real prices, as if one came each 400 ms."""
    text = (files("vega_datasets") / "_data" / "stocks.csv").read_text()
    rows = csv.DictReader(text.splitlines())
    return [
        (row["symbol"], float(row["price"]), at)
        for row, at in zip(rows, count(10_000, EVERY_MS), strict=False)
    ]


def by_hand(ticker: str, second: int) -> TradeStats:
    """Compute the statistics of one window."""
    prices = [
        price
        for symbol, price, at in trades()
        if symbol == ticker and second * 1_000 <= at < (second + 5) * 1_000
    ]
    total = sum(prices)
    return TradeStats(len(prices), total, min(prices), total / len(prices))


def test_each_window_of_real_prices_has_its_statistics(headwater: Drivers) -> None:
    driver = headwater(build)
    stocks = driver.create_input_topic(TRADES, Serdes.string, Serdes.double)
    for ticker, price, at in trades():
        stocks.pipe_input(ticker, price, timestamp=at)

    topic = driver.create_output_topic(STATISTICS, Serdes.string, Serdes.json(TradeStats))
    told = topic.read_key_values_to_map()

    assert {key.partition("@")[0] for key in told} == {"MSFT", "AMZN", "IBM", "GOOG", "AAPL"}
    for key, stats in told.items():
        ticker, _, second = key.partition("@")
        assert stats == by_hand(ticker, int(second))
