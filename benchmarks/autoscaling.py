"""How long there is no output while autoscaling changes the number of workers under load.

    python -m benchmarks.autoscaling [--rounds 3]

The journey is that of ``tests/kube/test_real_autoscaling.py``, which also proves that every update
is counted once: real control plane, installed chart, real workers on real Kafka, exactly-once.
More comes in than two can process, so a third is added; when all is counted it goes. The broker
stamps each output, and the longest time between two of them counts. Writes
``benchmarks/AUTOSCALING.md``.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Final

from benchmarks.report import measured, verdict

TABLE: Final = Path(__file__).parent / "AUTOSCALING.md"
_JOURNEY: Final = "tests/kube/test_real_autoscaling.py"
_SAID: Final = re.compile(
    r"no output at all for (\d+) ms at most, of one partition for (\d+) ms at most"
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    found = []
    for number in range(options.rounds):
        print(f"round {number + 1} of {options.rounds}", flush=True)
        found.append(_pauses())
    TABLE.write_text(_page(found))
    print(TABLE.read_text())
    return 0


def _pauses() -> tuple[float, float]:
    """Return the longest pause of all partitions together, and of one, in seconds."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", _JOURNEY]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    said = _SAID.search(done.stdout)
    if done.returncode or said is None:
        raise SystemExit(f"the journey failed:\n{done.stdout[-4_000:]}{done.stderr[-1_000:]}")
    return int(said[1]) / 1000, int(said[2]) / 1000


def _page(found: list[tuple[float, float]]) -> str:
    of_all, of_one = (median(each) for each in zip(*found, strict=True))
    said = verdict(of_all, 0.5, 2)
    each = ", ".join(f"{pause:.2f} s" for pause, _ in found)
    lines = [
        "# A scale from 2 to 3 workers under load, by autoscaling",
        "",
        "Written by `python -m benchmarks.autoscaling`: real workers on real Kafka, exactly-once,",
        "more records than two workers can process. Counted is the longest time between two",
        "outputs while records wait, by the broker's time stamps; medians of all rounds.",
        "",
        f"Machine: {measured()}.",
        "",
        "| what | found | goal | floor | verdict |",
        "|---|---|---|---|---|",
        f"| time without output | {of_all:.2f} s ({each}) | 0.5 s | 2 s | {said} |",
        f"| time without output of one partition | {of_one:.2f} s | | | |",
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
