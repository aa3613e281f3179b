"""A driver of continuous running that measures itself.

    python -m benchmarks.spark_continuous --bootstrap HOST:PORT --work state --input T --output T
        [--records N] [name=value ...]

With ``--records`` it ends when so many are processed; else it says RUNNING on its standard error
once micro-batches are taken, and ends at a line on its standard input. One line of JSON is printed:
how long it took from the beginning of the first micro-batch with records to the end of the last,
and how long each took, in seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from benchmarks.spark_systems import MASTER, ROOT
from headwater.native.application import ApplicationSettings
from headwater.spark.turns.driver import Continuous, ContinuousSettings
from headwater.spark.turns.status import DriverStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headwater.spark.turns.messages import TurnDone

LIMIT: Final = 500_000
"""``maxOffsetsPerTrigger``: as `docs/spark.md` says, raised for throughput."""


class _Batches(DriverStatus):
    """Notes micro-batches with records."""

    def __init__(self, records: int) -> None:
        super().__init__()
        self._left = records
        self.end: Callable[[], None] = lambda: None
        self._is_told = bool(records)
        self.first_s = self.last_s = 0.0
        self.took_s: list[float] = []

    def took(self, number: int, done: Sequence[TurnDone], at_s: float, took_s: float) -> None:
        """Note what a micro-batch has done."""
        super().took(number, done, at_s, took_s)
        if not self._is_told:
            self._is_told = True
            print("RUNNING", file=sys.stderr, flush=True)
        count = sum(found.processed for found in done)
        if not count:
            return
        self.first_s = self.first_s or at_s - took_s
        self.last_s = at_s
        self.took_s.append(took_s)
        before, self._left = self._left, self._left - count
        if before > 0 >= self._left:
            self.end()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--input", required=True)
    parser.add_argument("--output", required=True)
    parser.add_argument("--records", type=int, default=0)
    parser.add_argument("settings", nargs="*", metavar="name=value")
    options = parser.parse_args()
    os.environ["HEADWATER_BENCH_INPUT"] = options.input
    os.environ["HEADWATER_BENCH_OUTPUT"] = options.output
    given: dict[str, Any] = {
        "application.id": f"bench-{os.getpid()}",
        "bootstrap.servers": options.bootstrap,
        **dict(setting.split("=", 1) for setting in options.settings),
    }
    with tempfile.TemporaryDirectory(prefix="headwater-bench-") as directory:
        settings = ContinuousSettings(
            application=ApplicationSettings(
                config=given, topology=f"benchmarks.works:{options.work}", import_path=(str(ROOT),)
            ),
            master=MASTER,
            spark={"spark.driver.memory": "1g"},
            limit=LIMIT,
            state_dir=Path(directory),
        )
        status = _Batches(options.records)
        driver = Continuous(settings, status)
        status.end = driver.stop
        if not options.records:
            threading.Thread(target=_until_told, args=[driver], daemon=True).start()
        driver.run()
    print(json.dumps({"seconds": status.last_s - status.first_s, "took": status.took_s}))
    return 0


def _until_told(driver: Continuous) -> None:
    sys.stdin.readline()
    driver.stop()


if __name__ == "__main__":
    sys.exit(main())
