"""Statistics of trades by ticker, in windows of five seconds that advance by one.

As the stock statistics example of the book on Kafka: each trade belongs to five windows, and each
window tells how many trades there were, their sum, the smallest price and the average.
"""

from dataclasses import dataclass, replace
from datetime import timedelta

from headwater import Serdes, StreamsBuilder, TimeWindows, Windowed

TRADES = "stocks"
STATISTICS = "stock-statistics"
WINDOWS = TimeWindows.of_size_with_no_grace(timedelta(seconds=5)).advance_by(timedelta(seconds=1))


@dataclass(frozen=True)
class TradeStats:
    """What is known of the trades of one window; prices in dollars."""

    count: int = 0
    total: float = 0.0
    minimum: float = 0.0
    average: float = 0.0


def build(builder: StreamsBuilder) -> None:
    """Aggregate prices, keyed by ticker, and compute the average on the way out."""
    (
        builder.stream(TRADES, key_serde=Serdes.string, value_serde=Serdes.double)
        .group_by_key()
        .windowed_by(WINDOWS)
        .aggregate(
            TradeStats,
            with_trade,
            store="trade-aggregates",
            key_serde=Serdes.string,
            value_serde=Serdes.json(TradeStats),
        )
        .to_stream(ticker_and_second)
        .map_values(with_average)
        .to(STATISTICS, key_serde=Serdes.string, value_serde=Serdes.json(TradeStats))
    )


def with_trade(_ticker: str, price: float, stats: TradeStats) -> TradeStats:
    """Add one trade."""
    minimum = price if stats.count == 0 else min(price, stats.minimum)
    return replace(stats, count=stats.count + 1, total=stats.total + price, minimum=minimum)


def with_average(stats: TradeStats) -> TradeStats:
    """Add the average."""
    return replace(stats, average=stats.total / stats.count)


def ticker_and_second(windowed: Windowed[str], _stats: TradeStats) -> str:
    """Name a window of a ticker by the second in which it starts."""
    return f"{windowed.key}@{windowed.window.start_ms // 1_000}"
