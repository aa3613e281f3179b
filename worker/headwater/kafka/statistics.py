"""What librdkafka tells of a client, if ``statistics.interval.ms`` asks for it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from headwater.model import metrics

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headwater.model.metrics import Metric

_NUMBERS: Final[Mapping[str, Metric]] = {
    "msg_cnt": metrics.KAFKA_QUEUED,
    "msg_size": metrics.KAFKA_QUEUED_BYTES,
    "txmsgs": metrics.KAFKA_SENT,
    "tx_bytes": metrics.KAFKA_SENT_BYTES,
    "rxmsgs": metrics.KAFKA_RECEIVED,
    "rx_bytes": metrics.KAFKA_RECEIVED_BYTES,
    "tx": metrics.KAFKA_REQUESTS,
}
_MICROSECONDS: Final = 1_000


class ClientStatistics:
    """The newest statistics of one client."""

    def __init__(self) -> None:
        self._told: dict[Metric, float | None] = {}

    def settings(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return settings of a client that tells them here, if it is to tell any."""
        is_wanted = float(str(given.get("statistics.interval.ms", 0))) > 0
        return {**given, "stats_cb": self.take} if is_wanted else dict(given)

    def take(self, text: str) -> None:
        """Take in what the client tells, as JSON."""
        told: dict[str, Any] = json.loads(text)
        found: dict[Metric, float | None] = {
            metric: told[name] for name, metric in _NUMBERS.items() if name in told
        }
        times = [broker.get("rtt", {}) for broker in told.get("brokers", {}).values()]
        count = sum(time.get("cnt", 0) for time in times)
        if count:
            total = sum(time["avg"] * time["cnt"] for time in times if time.get("cnt"))
            found[metrics.KAFKA_REQUEST_LATENCY] = total / count / _MICROSECONDS
        self._told = found

    def numbers(self) -> Mapping[Metric, float | None]:
        """Return what was told last; empty before the first time."""
        return self._told
