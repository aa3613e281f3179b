"""What the path in C gains: the same work with ``headwater.native`` true and false, in turns.

    python -m benchmarks.native_path [--rounds 5] [--records 2000000] [--works stateless ...]

One StreamThread reads four partitions: a filter with ``map_values``, a keyed count without a record
cache, and one with it. What every run has written is checked by an independent consumer. Compared
are records a second and processor time a record, which other programs disturb least. The page is
``benchmarks/NATIVE.md``.
"""

from __future__ import annotations

import argparse
import os
import statistics
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks import inputs, systems
from benchmarks.report import measured, spread
from benchmarks.systems import Job
from headwater.local.broker import KafkaBroker

if TYPE_CHECKING:
    from benchmarks.systems import Run

PAGE: Final = Path(__file__).parent / "NATIVE.md"
_CACHE_0: Final = {**systems.AT_LEAST_ONCE, "statestore.cache.max.bytes": "0"}
_WORKS: Final = {
    "stateless": ("stateless", systems.AT_LEAST_ONCE, "filter, map_values"),
    "count-0": ("count", _CACHE_0, "keyed count, cache 0"),
    "count": ("count", systems.AT_LEAST_ONCE, "keyed count, record cache of 10 MB"),
    "count-eos": ("count", systems.EXACTLY_ONCE, "keyed count, exactly-once, 100 ms"),
}
_GOALS: Final = {"stateless": 1.3, "count-0": 1.3, "count": 1.2}
_PATHS: Final = ("false", "true")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--works", nargs="+", choices=_WORKS, default=list(_WORKS))
    parser.add_argument("--page", action="store_true", help="write the page")
    options = parser.parse_args()
    runs: dict[tuple[str, str], list[Run]] = {}
    with KafkaBroker() as broker:
        servers = broker.bootstrap_servers
        inputs.await_coordinator(servers)
        source = inputs.load_keyed(servers, "native-input", options.records)
        for number in range(options.rounds):
            for work in options.works:
                name, settings, _ = _WORKS[work]
                for path in _PATHS[:: -1 if number % 2 else 1]:
                    told = {**settings, "headwater.native": path}
                    job = Job(work=name, source=source, settings=told, counts=name == "count")
                    found = systems.headwater(servers, job)
                    runs.setdefault((work, path), []).append(found)
                    print(f"{work:<10} {path:<6} {found.line()}", flush=True)
    text = page(runs, options)
    print(text)
    if options.page:
        PAGE.write_text(text)
        print(f"wrote {PAGE}")
    return 0


def page(runs: dict[tuple[str, str], list[Run]], options: argparse.Namespace) -> str:
    """The page: medians of the rounds' ratios, and every run."""
    lines, every = [], []
    for work in options.works:
        pure, native = runs[work, "false"], runs[work, "true"]
        rates = [b.rate / a.rate for a, b in zip(pure, native, strict=True)]
        costs = [b.cpu_us / a.cpu_us for a, b in zip(pure, native, strict=True)]
        goal = f"{_GOALS[work]}x" if work in _GOALS else ""
        lines.append(
            f"| {_WORKS[work][2]} | {_rate(pure):,.0f} | {_rate(native):,.0f} | {spread(rates)} | "
            f"{_cpu(pure):.2f} | {_cpu(native):.2f} | {spread(costs)} | {goal} |"
        )
        for path, found in (("false", pure), ("true", native)):
            each = ", ".join(f"{run.rate:,.0f}/s {run.cpu_us:.2f} us" for run in found)
            every.append(f"* {work} {path}: {each}")
    rows, rest = "\n".join(lines), "\n".join(every)
    return f"""# What the path in C gains

Written by `python -m benchmarks.native_path --rounds {options.rounds} --records {options.records}`.
{measured()}. Load average at the end: {os.getloadavg()[0]:.1f}.

One StreamThread, four partitions, {inputs.KEYS:,} keys. Both paths take turns; ratios are those of
neighbours, as the median with the least and the largest. Rates are records a second, costs
microseconds of processor time of the whole process for a record.

| work | in Python | in C | rate | CPU in Python | CPU in C | CPU | goal |
| --- | --- | --- | --- | --- | --- | --- | --- |
{rows}

## Every run

{rest}
"""


def _rate(runs: list[Run]) -> float:
    return statistics.median(run.rate for run in runs)


def _cpu(runs: list[Run]) -> float:
    return statistics.median(run.cpu_us for run in runs)


if __name__ == "__main__":
    raise SystemExit(main())
