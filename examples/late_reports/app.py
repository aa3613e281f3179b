"""Adds up what devices report by the hour in which it happened, however late it comes.

A phone without a network keeps its reports, and sends them hours later. An hour's sum is told once,
when no report for it is taken any more: twelve hours after its end, by the time of the reports.
"""

from datetime import timedelta

from headwater import EmitStrategy, Serdes, StreamsBuilder, TimeWindows, Windowed

REPORTS = "device-reports"
HOURS = "device-hours"
BY_THE_HOUR = TimeWindows.of_size_and_grace(timedelta(hours=1), timedelta(hours=12))


def build(builder: StreamsBuilder) -> None:
    """Sum meters by device and hour; the timestamp of a report is when it was made."""
    (
        builder.stream(REPORTS, key_serde=Serdes.string, value_serde=Serdes.long)
        .group_by_key()
        .windowed_by(BY_THE_HOUR)
        .emit_strategy(EmitStrategy.on_window_close())
        .reduce(lambda total, meters: total + meters, store="meters", value_serde=Serdes.long)
        .to_stream(device_and_hour)
        .to(HOURS, key_serde=Serdes.string, value_serde=Serdes.long)
    )


def device_and_hour(windowed: Windowed[str], _meters: int) -> str:
    """Name an hour of a device by the hours since the epoch."""
    return f"{windowed.key}@{windowed.window.start_ms // 3_600_000}"
