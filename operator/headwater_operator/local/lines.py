"""Tells what happens as lines, for logs and pipes: each change once, and a summary now and then."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headwater.model.cluster import Role
from headwater_operator.local.render import clock, driver_line
from headwater_operator.overview.texts import number

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headwater_operator.overview.snapshot import Snapshot

_SUMMARY_S: Final = 5.0
_BEGINNING: Final = ("starting", "CREATED")


class Narrator:
    """Remembers what it has told about one application."""

    def __init__(self) -> None:
        self._told_events: set[tuple[int, str, str]] = set()
        self._told: set[str] = set()
        self._kafka = ""
        self._is_kafka_told = False
        self._summary_at = 0.0
        self._summary = ""
        self._reason = ""

    def tell(self, snapshot: Snapshot) -> Iterator[str]:
        """Yield what is new in a snapshot."""
        if snapshot.kafka and snapshot.kafka != self._kafka:
            self._kafka = snapshot.kafka
            kind = "private Kafka" if snapshot.is_private_kafka else "Kafka"
            yield f"{snapshot.app}: {kind} at {snapshot.kafka}"
        elif snapshot.is_private_kafka and not snapshot.kafka and not self._is_kafka_told:
            self._is_kafka_told = True
            yield f"{snapshot.app}: starting the private Kafka"
        for event in snapshot.events:
            key = (event.at_ms, event.worker, event.text)
            if key not in self._told_events:
                self._told_events.add(key)
                self._told.add(event.text)
                who = f"{event.worker} " if event.worker else ""
                yield f"{clock(event.at_ms)} {snapshot.app}: {who}{event.text}"
        if snapshot.failure and snapshot.failure not in self._told:
            # It may come and go between two tries: it is told once.
            self._told.add(snapshot.failure)
            yield f"{snapshot.app}: {snapshot.failure}"
        summary = _summary(snapshot)
        is_new = bool(summary) and summary != self._summary
        # What the start waits for now is told at once.
        is_urgent = snapshot.state in _BEGINNING and snapshot.reason != self._reason
        if is_new and (is_urgent or snapshot.uptime_s >= self._summary_at):
            self._reason = snapshot.reason
            self._summary_at, self._summary = snapshot.uptime_s + _SUMMARY_S, summary
            yield summary


def _summary(snapshot: Snapshot) -> str:
    """Tell how it is, in one line; empty while nobody has looked at what is wanted now."""
    if snapshot.state == "starting" and not snapshot.reason:
        return "" if snapshot.live_workers else f"{snapshot.app}: starting"
    said = _numbers(snapshot)
    # Why it fails is told in a line of its own.
    is_told = snapshot.state == "RUNNING" or snapshot.failure
    return said if is_told or not snapshot.reason else f"{said}: {snapshot.reason}"


def _numbers(snapshot: Snapshot) -> str:
    restoring = [row for row in snapshot.tasks if row.remaining is not None]
    if snapshot.driver is not None:
        driver = snapshot.driver
        return f"{snapshot.app}: {snapshot.state}, Spark {driver.state}, {driver_line(driver)}"
    parts = [
        f"{snapshot.app}: {snapshot.state}",
        *([snapshot.paused] if snapshot.paused else []),
        f"{snapshot.live_workers}/{snapshot.replicas} workers",
        f"{snapshot.running_tasks}/{len(snapshot.tasks)} tasks running",
        f"lag {number(snapshot.lag)}",
        f"{number(snapshot.records_per_s)} records/s",
    ]
    standbys = [copy for copy in snapshot.copies if copy.role is Role.STANDBY]
    if standbys:
        ready = sum(copy.is_caught_up for copy in standbys)
        parts.append(f"{ready}/{len(standbys)} standbys caught up")
    if warmups := [copy for copy in snapshot.copies if copy.role is Role.WARMUP]:
        left = sum(copy.behind or 0 for copy in warmups)
        parts.append(f"{len(warmups)} warming up, {number(left)} left")
    if snapshot.filling is not None:
        parts.append(f"filling global stores, {number(snapshot.filling)} left")
    if restoring:
        left = sum(row.remaining or 0 for row in restoring)
        parts.append(f"{len(restoring)} restoring, {number(left)} left")
    return ", ".join(parts)
