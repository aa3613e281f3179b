"""A StreamThread that measures itself: the target of the child process of ``headwater_run``."""

from __future__ import annotations

import resource
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.model import metrics
from headwater.native.garbage import tune_garbage_collection
from headwater.native.loading import built
from headwater.native.thread import StreamThread

if TYPE_CHECKING:
    from headwater.native.messages import ChildSettings
    from headwater.native.process import Link

_SAMPLE_S = 0.005
_SAMPLE_TASK_S = 0.0005
"""A look at many tasks costs more, so there are fewer."""
_PSS_EVERY_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Settings of the measured thread, and after how many records it is done."""

    thread: ChildSettings
    records: int
    marks: tuple[int, ...] = ()
    """After how many records it notes how far it is; the last is not later than its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """From the first record processed to the last."""

    records: int
    start_seconds: float
    """From the first look at a thread that has no tasks to that at one that has them."""
    seconds: float
    cpu_seconds: float
    marks: list[tuple[int, float, float]]
    """Records processed, seconds and CPU seconds, at the first look after each mark."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed:
    """The same when everything is committed and closed."""

    seconds: float
    cpu_seconds: float
    commits: int
    produced: int
    peak_pss_mb: float
    peak_rss_mb: float


class _Sampler:
    """Looks at the thread's counters from a second thread, every few milliseconds."""

    def __init__(self, wanted: Wanted, measured: StreamThread, link: Link) -> None:
        self._wanted = wanted
        self._thread = measured
        self._link = link
        self.first = 0.0
        self.first_cpu = 0.0
        self.peak_pss_mb = 0.0
        threading.Thread(target=self._sample, daemon=True).start()

    def processed(self) -> int:
        tasks = list(self._thread.loop.tasks.values())
        return sum(running.task.statistics().total(metrics.TASK_PROCESS) for running in tasks)

    def _sample(self) -> None:
        begun = time.perf_counter()
        while not self._thread.loop.tasks:
            time.sleep(_SAMPLE_S / 5)
        start_seconds = time.perf_counter() - begun
        while not self.processed():
            time.sleep(_SAMPLE_S / 5)
        self.first, self.first_cpu = time.perf_counter(), time.process_time()
        next_pss = 0.0
        ahead = list(self._wanted.marks)
        marks: list[tuple[int, float, float]] = []
        while (processed := self.processed()) < self._wanted.records:
            while ahead and processed >= ahead[0]:
                ahead.pop(0)
                marks.append(self._mark(processed))
            if time.perf_counter() > next_pss:
                next_pss = time.perf_counter() + _PSS_EVERY_S
                self.peak_pss_mb = max(self.peak_pss_mb, pss_mb())
            time.sleep(max(_SAMPLE_S, _SAMPLE_TASK_S * len(self._thread.loop.tasks)))
        self._link.send(
            Measured(
                records=self.processed(),
                start_seconds=start_seconds,
                seconds=time.perf_counter() - self.first,
                cpu_seconds=time.process_time() - self.first_cpu,
                marks=[*marks, *(self._mark(processed) for _ in ahead)],
            )
        )
        self.peak_pss_mb = max(self.peak_pss_mb, pss_mb())

    def _mark(self, processed: int) -> tuple[int, float, float]:
        spent, cpu = time.perf_counter() - self.first, time.process_time() - self.first_cpu
        return processed, round(spent, 4), round(cpu, 4)


def pss_mb() -> float:
    """Proportional set size of this process."""
    for line in Path("/proc/self/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    return 0.0


def run(wanted: Wanted, link: Link) -> None:
    settings = wanted.thread
    config = settings.application.parsed()
    measured = StreamThread(settings, config, built(settings.application), link)
    sampler = _Sampler(wanted, measured, link)

    tune_garbage_collection()
    measured.run()
    told = measured.statistics().numbers
    link.send(
        Closed(
            seconds=time.perf_counter() - sampler.first,
            cpu_seconds=time.process_time() - sampler.first_cpu,
            commits=told.total(metrics.COMMIT),
            produced=told.total(metrics.PRODUCED_RECORDS),
            peak_pss_mb=sampler.peak_pss_mb,
            peak_rss_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        )
    )
