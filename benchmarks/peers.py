"""The same work in other systems that Python programs use, side by side with ours.

    python -m benchmarks.peers [--rounds 3] [--records 1000000]

A filter with an upper case, and a keyed count that writes every update where the system can. All
read the same input from one broker, one after the other, each with one thread of its own kind; an
independent consumer reads what each has written. What a system promises at a crash stands beside
its rate: a rate without that is another thing. Writes ``benchmarks/PEERS.md``.
"""

from __future__ import annotations

import argparse
import statistics
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks import inputs, systems
from benchmarks.report import measured, spread
from benchmarks.systems import AT_LEAST_ONCE, Job
from headwater.local.broker import KafkaBroker

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from benchmarks.systems import Run

PAGE: Final = Path(__file__).parent / "PEERS.md"
_CACHE_0: Final = {**AT_LEAST_ONCE, "statestore.cache.max.bytes": "0"}
_IN_PYTHON: Final = {"headwater.native": "false"}
_IN_C: Final = {"headwater.native": "true"}
_PROMISES: Final = {
    "headwater": "at least once here (exactly once by a setting); state is in its changelog, on "
    "the disk, and on standbys if there are any",
    "headwater in C": "the same",
    "java": "the same",
    "quixstreams": "at least once; state is in its changelog and on the disk",
    "bytewax": "nothing as it runs here; with its recovery switched on, at least once from the "
    "last snapshot",
    "pathway": "nothing as it runs here; with its persistence switched on, at least once",
    "flink": "nothing as it runs here; with checkpoints, exactly once",
}
"""What becomes of records and state when the process is killed."""
_NOTES: Final = {
    "pathway": "reads all input as one batch, and writes the last count of each key; its time has "
    "the start of its engine in it",
    "flink": "SQL, no Python for a record; time runs from when the job runs",
    "bytewax": "one worker; time runs from the first record",
    "quixstreams": "a fifth of the records",
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--records", type=int, default=1_000_000)
    options = parser.parse_args()
    found: dict[str, dict[str, list[Run]]] = {}
    with KafkaBroker() as broker:
        servers = broker.bootstrap_servers
        inputs.await_coordinator(servers)
        works = _works(servers, options.records)
        for _ in range(options.rounds):
            for work, chosen in works.items():
                for system, run in chosen.items():
                    result = run()
                    print(f"{work:<10} {system:<15} {result.line()}", flush=True)
                    found.setdefault(work, {}).setdefault(system, []).append(result)
    PAGE.write_text(_page(found, options))
    print(PAGE.read_text())
    return 0


def _works(servers: str, records: int) -> dict[str, dict[str, Callable[[], Run]]]:
    source, fifth = (
        inputs.load_keyed(servers, f"peers-{count}", count) for count in (records, records // 5)
    )

    def job(work: str, settings: Mapping[str, str], source: inputs.Input = source) -> Job:
        return Job(work=work, source=source, settings=settings, counts=work == "count")

    def chosen(work: str, settings: Mapping[str, str]) -> dict[str, Callable[[], Run]]:
        return {
            "headwater": partial(systems.headwater, servers, job(work, settings | _IN_PYTHON)),
            "headwater in C": partial(systems.headwater, servers, job(work, settings | _IN_C)),
            "java": partial(systems.java, servers, job(work, settings)),
            "bytewax": partial(systems.peer, "bytewax", servers, job(work, {})),
            "pathway": partial(systems.peer, "pathway", servers, job(work, {})),
            "flink": partial(systems.peer, "flink", servers, job(work, {})),
        }

    quix = partial(systems.quixstreams, servers, job("count", _CACHE_0, fifth))
    return {
        "stateless": chosen("stateless", AT_LEAST_ONCE),
        "count": {**chosen("count", _CACHE_0), "quixstreams": quix},
    }


def _page(found: Mapping[str, Mapping[str, list[Run]]], options: argparse.Namespace) -> str:
    titles = {"stateless": "Filter and upper case", "count": "Keyed count"}
    parts = [
        f"""# Peers

Written by `python -m benchmarks.peers --rounds {options.rounds} --records {options.records}`.
{measured()}.

All systems read the same input of {options.records:,} records from four partitions, one after the
other, each with one thread of its own kind and an environment of its own. An independent consumer
read what each has written. Rates are medians; the ratio is that of Headwater on the path in Python
to the system, round by round."""
    ]
    for work, systems_of in found.items():
        ours = systems_of["headwater"]
        rows = [
            f"| {system} | {_median(runs, 'rate'):,.0f} | {_ratios(ours, runs)} | "
            f"{_median(runs, 'cpu_us'):.2f} | {runs[-1].outputs:,} | {_PROMISES[system]} | "
            f"{_NOTES.get(system, '')} |"
            for system, runs in systems_of.items()
        ]
        parts.append(
            "\n".join(
                [
                    f"## {titles[work]}",
                    "",
                    (
                        "| system | records/s | Headwater over it | CPU us a record | outputs "
                        "| at a crash | |"
                    ),
                    "| --- | --- | --- | --- | --- | --- | --- |",
                    *rows,
                ]
            )
        )
    return "\n\n".join(parts) + "\n"


def _median(runs: list[Run], figure: str) -> float:
    return statistics.median(getattr(run, figure) for run in runs)


def _ratios(ours: list[Run], theirs: list[Run]) -> str:
    if ours is theirs:
        return ""
    return spread([a.rate / b.rate for a, b in zip(ours, theirs, strict=True)])


if __name__ == "__main__":
    raise SystemExit(main())
