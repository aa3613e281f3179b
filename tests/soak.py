"""Runs every seed and every kill, and keeps the log: ``python -m tests.soak`` (``make soak``).

    python -m tests.soak [WORDS ...]

With words only the suites are run again whose titles contain one of them; the page keeps what it
says of the others. Each section names the commit that was run.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
import time
from pathlib import Path

from headwater.kafka.native_module import NO_EXTENSIONS

ROOT = Path(__file__).parents[1]
LOG = ROOT / "benchmarks" / "SOAK.md"
_IN_PYTHON = "in Python"
"""In the title of a suite: as if the extension in C were not installed."""
SUITES = [
    ("simulation and planted faults", ["-n", "logical", "--dist", "worksteal", "tests/sim"]),
    ("models and stores against their contracts", ["tests/contract", "tests/property"]),
    ("Java oracle", ["-n", "logical", "--dist", "worksteal", "tests/oracle"]),
    ("engines on random applications", ["tests/spark/test_agreement.py"]),
    ("take-over by Java and back", ["tests/chaos/test_take_over.py"]),
    ("zombies", ["tests/chaos/test_zombies.py"]),
    ("kills and broker restarts", ["tests/chaos/test_kills.py"]),
    ("kills in windows, joins and suppression (30 kills)", ["tests/chaos/test_storm.py"]),
    ("queries while tasks move and processes are killed", ["tests/chaos/test_queries.py"]),
    ("everything at once for 20 minutes: nothing grows", ["tests/chaos/test_endurance.py"]),
    (
        "driver, executors, Python workers and task hosts of Spark killed (20 kills)",
        ["tests/spark/test_continuous.py", "-k", "killed"],
    ),
    ("operators killed before each write", ["tests/kube/test_operators.py"]),
    ("the path in C under sanitizers and over 10^8 records", ["tests/kafka/test_native_memory.py"]),
    ("real Kafka, records in C", ["tests/kafka", "tests/chaos"]),
    (f"real Kafka, records {_IN_PYTHON}", ["tests/kafka", "tests/chaos"]),
    ("what only repeats others on real parts", ["-m", "soak", "tests"]),
]
HEAD = """# Soak

Written by `make soak`, which runs every seed of the simulation and of the Java oracle, and every
kill. Each section says how the last run of its suite ended, and which commit was run. Where it
failed, the section shows the test and its seed, and stays until the suite is run again."""
KEPT = re.compile(
    r"^\W*(seed |\d\d:\d\d:\d\d killed|restarted|counted again|FAILED|ERROR|E  )|"
    r"\d+ (passed|failed)|^seed base"
)


def git(*arguments: str) -> str:
    """What a git command prints."""
    done = subprocess.run(
        ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.stdout.strip()


def run(title: str, paths: list[str]) -> tuple[bool, list[str]]:
    """Run one suite with all its seeds; show everything, keep the telling lines."""
    print(f"=== {title}", flush=True)
    command = [sys.executable, "-u", "-m", "pytest", "-q", "-s", "--share", "1", *paths]
    kept: list[str] = []
    started = time.monotonic()
    settings = {NO_EXTENSIONS: "1"} if title.endswith(_IN_PYTHON) else {}
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, **settings},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            if KEPT.search(line) and not line.startswith("%"):  # the client's log of lost brokers
                kept.append(line.strip()[:300])
    took = time.monotonic() - started
    kept.append(f"exit code {process.returncode} after {took:.0f} s")
    return process.returncode == 0, kept


def section(title: str, paths: list[str]) -> tuple[bool, str]:
    """Run a suite; return whether it passed, and its part of the page."""
    commit = git("rev-parse", "HEAD")
    passed, kept = run(title, paths)
    lines = [
        f"{title}: {'passed' if passed else 'FAILED'}",
        "",
        (
            f"Commit {commit}, Python {platform.python_version()}, "
            f"{platform.system()} {platform.machine()}."
        ),
        "",
        "```text",
        *kept,
        "```",
    ]
    return passed, "\n".join(lines) + "\n"


def main(words: list[str]) -> int:
    """Run the suites and write ``benchmarks/SOAK.md``."""
    chosen = [(t, p) for t, p in SUITES if not words or any(word in t for word in words)]
    if not chosen:
        print(f"no suite is called so; there are: {'; '.join(title for title, _ in SUITES)}")
        return 2
    results = {title: section(title, paths) for title, paths in chosen}
    # What another run beside this one has written meanwhile is kept, too.
    former = LOG.read_text().split("\n## ")[1:] if LOG.exists() else []
    sections = {each.partition("\n")[0].rpartition(": ")[0]: each for each in former}
    sections |= {title: text for title, (_, text) in results.items()}
    told = [sections[title].rstrip() for title, _ in SUITES if title in sections]
    LOG.write_text("\n\n## ".join([HEAD, *told]) + "\n")
    print(f"log: {LOG.relative_to(ROOT)}")
    return 0 if all(passed for passed, _ in results.values()) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
