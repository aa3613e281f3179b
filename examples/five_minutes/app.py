"""Sums amounts by account twice: in windows of five minutes, and in sessions.

A session ends when an account has been quiet for five minutes; a payment may come five minutes late
for it. Both sums are told as they grow.
"""

from datetime import timedelta

from headwater import Serdes, SessionWindows, StreamsBuilder, TimeWindows, Windowed

PAYMENTS = "payments"
BY_WINDOW = "sums-of-five-minutes"
BY_SESSION = "sums-of-sessions"
FIVE_MINUTES = timedelta(minutes=5)
SESSIONS = SessionWindows.of_inactivity_gap_and_grace(FIVE_MINUTES, FIVE_MINUTES)


def build(builder: StreamsBuilder) -> None:
    """Group payments by account once; both sums read the same group."""
    payments = builder.stream(PAYMENTS, key_serde=Serdes.string, value_serde=Serdes.long)
    by_account = payments.group_by_key()
    (
        by_account.windowed_by(TimeWindows.of_size_with_no_grace(FIVE_MINUTES))
        .reduce(add, store="window-sums", value_serde=Serdes.long)
        .to_stream(account_and_start)
        .to(BY_WINDOW, key_serde=Serdes.string, value_serde=Serdes.long)
    )
    (
        by_account.windowed_by(SESSIONS)
        .reduce(add, store="session-sums", value_serde=Serdes.long)
        .to_stream(account_and_start)
        .to(BY_SESSION, key_serde=Serdes.string, value_serde=Serdes.long)
    )


def add(total: int, amount: int) -> int:
    """Add an amount to a sum."""
    return total + amount


def account_and_start(windowed: Windowed[str], _sum: int | None) -> str:
    """Name a window or session of an account by the second in which it starts."""
    return f"{windowed.key}@{windowed.window.start_ms // 1_000}"
