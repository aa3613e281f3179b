"""Where the time of a StreamThread goes, and how long what it does takes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from headwater.measuring.windows import Windows
from headwater.model import metrics
from headwater.model.metrics import Snapshot

if TYPE_CHECKING:
    from headwater.model.metrics import Metric


class UpdaterRatios:
    """Where the time of a StateUpdater goes, in seconds since the last look, and its polls."""

    def __init__(self) -> None:
        self._since = time.perf_counter()
        self._idle = self._restoring = self._following = 0.0
        self._calls = 0

    def idled(self, took_s: float) -> None:
        """Note a wait for commands."""
        self._idle += took_s

    def turned(self, took_s: float, *, restores: bool) -> None:
        """Note a turn; while something is restored, restores come first."""
        if restores:
            self._restoring += took_s
            self._calls += 1
        else:
            self._following += took_s

    def take(self, thread_id: str) -> Snapshot:
        """Return the shares of the time since the last look."""
        now = time.perf_counter()
        elapsed = max(now - self._since, 1e-9)
        found = Snapshot.of(
            {
                metrics.UPDATER_IDLE_RATIO: self._idle / elapsed,
                metrics.UPDATER_RESTORE_RATIO: self._restoring / elapsed,
                metrics.UPDATER_STANDBY_RATIO: self._following / elapsed,
                metrics.RESTORE_CALLS: self._calls,
            },
            thread_id,
        )
        self._since = now
        self._idle = self._restoring = self._following = 0.0
        return found


class Ratios:
    """Where the time of the loop goes, in seconds since the last look; and the loop's numbers.

    Everything here is noted once a round, a poll or a commit.

    Args:
        windows: of averages; of a StreamThread if not given, with Kafka Streams' defaults.
        is_on: whether averages are kept.

    Attributes:
        blocked: for how long records or the broker were waited for, since the start.
    """

    __slots__ = (
        "_commits",
        "_is_on",
        "_poll_records",
        "_polls",
        "_process_records",
        "_processes",
        "_punctuations",
        "_since",
        "_windows",
        "blocked",
        "commit",
        "poll",
        "polls",
        "process",
        "punctuate",
        "punctuations",
    )

    def __init__(self, windows: Windows | None = None, *, is_on: bool = False) -> None:
        self._windows = windows = windows or Windows(2, 30.0)
        self._is_on = is_on
        self._polls, self._poll_records = windows.new(), windows.new()
        self._processes, self._process_records = windows.new(), windows.new()
        self._commits, self._punctuations = windows.new(), windows.new()
        self.polls = self.punctuations = 0
        self.blocked = 0.0
        self.reset()

    def reset(self) -> None:
        """Start the shares again from zero."""
        self.poll = self.process = self.punctuate = self.commit = 0.0
        self._since = time.perf_counter()

    def keep_averages(self, *, is_on: bool) -> None:
        """Keep averages from now on, or no more."""
        self._is_on = is_on

    def polled(self, records: int, took_s: float) -> None:
        """Note a poll."""
        self.poll += took_s
        self.blocked += took_s
        self.polls += 1
        if self._is_on:
            self._polls.record(took_s * 1_000)
            self._poll_records.record(records)

    def processed(self, records: int, took_s: float) -> None:
        """Note a round."""
        self.process += took_s
        if records and self._is_on:
            self._processes.record(took_s * 1_000 / records)
            self._process_records.record(records)

    def punctuated(self, count: int, took_s: float) -> None:
        """Note a look at the punctuators, of which some were called."""
        self.punctuate += took_s
        if count:
            self.punctuations += count
            self._punctuations.record(took_s * 1_000 / count)

    def committed(self, took_s: float) -> None:
        """Note a commit, from its start to the end."""
        self._commits.record(took_s * 1_000)

    def take(self) -> dict[str, float]:
        """Return each share of the time since the last look (Kafka's ``*-ratio`` metrics)."""
        elapsed = max(time.perf_counter() - self._since, 1e-9)
        names = ("poll", "process", "punctuate", "commit")
        shares = {name: round(getattr(self, name) / elapsed, 4) for name in names}
        self.reset()
        return shares

    def numbers(self, now_s: float) -> dict[Metric, float | None]:
        """Return what there is to see beside the shares; nothing if averages are not kept."""
        if not self._is_on:
            return {}
        self._windows.roll_if_due(now_s)
        return {
            metrics.POLL: self.polls,
            metrics.PUNCTUATE: self.punctuations,
            metrics.BLOCKED_TIME: int(self.blocked * 1e9),
            **self._polls.values(metrics.POLL_LATENCY),
            **self._poll_records.values(metrics.POLL_RECORDS),
            **self._processes.values(metrics.PROCESS_LATENCY),
            **self._process_records.values(metrics.PROCESS_RECORDS),
            **self._commits.values(metrics.COMMIT_LATENCY),
            **self._punctuations.values(metrics.PUNCTUATE_LATENCY),
        }
