"""`make test`: the tests in parts, two at a time, because one alone leaves half the cores idle.

    python -m tests.parts [--kube-node FOLDER] [what pytest understands]

A part is a session of pytest over some files, with a broker of its own; together the parts have
every test, each once (``tests/unit/test_parts.py``). As soon as one has ended the next begins, so
it does not matter much how long each of them takes on this machine. The Kubernetes programs are
built beside the parts that do without them. With a tool that runs a real node, the user's journey
on it (``tests.e2e.node``) is a part too; where everything is required (``HEADWATER_REQUIRE_ALL``),
there must be one.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]
AT_ONCE = 2
MINUTES = "minutes by what is needed: "
"""What a session begins the line with that says where its time went."""
MINUTES_OF_ALL = "minutes by what is needed, all parts: "
BUILD, KUBE, NODE = "build", "kube", "node"
# What talks to the control plane of the tests, wherever it lies.
_OF_KUBE = (
    "tests/kube",
    "tests/contract/test_carriers.py",
    "tests/contract/test_kube_api.py",
    "tests/contract/test_kube_client.py",
)
# Many sessions of Spark: a part of their own.
_OF_ENGINES = ("tests/spark/test_agreement.py", "tests/spark/test_continuous.py")
_SUMMARY = re.compile(rf"{MINUTES}|=+ (FAILURES|ERRORS|short test summary info|\d+ \w+.* in ) ?")
_RESULT = re.compile(rf"{MINUTES}|=+ \d+ \w+.* in ")
_SHARE = re.compile(r"(\w[\w ]*) (\d+\.\d+)")
_TERMINATED_IN_S = 60


def files() -> dict[str, list[str]]:
    """Return the test files of every part, those first that take longest; the journey has none."""
    found: dict[str, list[str]] = {
        name: []
        for name in (KUBE, "kafka", "kafka-2", "spark", "engines", "chaos", "oracle", "pure")
    }
    kafka = 0
    for path in sorted(ROOT.glob("tests/**/test_*.py")):
        name = path.relative_to(ROOT).as_posix()
        folder = name.split("/")[1]
        if folder == "e2e":
            continue
        if name.startswith(_OF_KUBE):
            part = KUBE
        elif name in _OF_ENGINES:
            part = "engines"
        elif folder == "kafka":
            part, kafka = ("kafka", "kafka-2")[kafka % 2], kafka + 1
        elif folder == "sim":
            part = "oracle"
        else:
            part = folder if folder in found else "pure"
        found[part].append(name)
    return found


@dataclass
class Part:
    """A command, and what became of it.

    Attributes:
        name: what its lines begin with.
        command: what it runs.
        after: parts that must have passed before.
        waits: whether it mostly waits; it runs beside as many others as there may be.
        took_s: how long it ran; None as long as it has not ended.
        ended: whether it has ended, or never runs because what it needs has failed.
        passed: whether it ended with status 0.
        told: its lines from the first failure or summary on.
    """

    name: str
    command: list[str]
    after: tuple[str, ...] = ()
    waits: bool = False
    took_s: float | None = None
    ended: bool = False
    passed: bool = False
    told: list[str] = field(default_factory=list)
    process: subprocess.Popen[str] | None = None

    def run(self) -> None:
        """Run it; show every line as it comes."""
        started = time.monotonic()
        with subprocess.Popen(
            self.command,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        ) as self.process:
            assert self.process.stdout is not None
            for line in self.process.stdout:
                print(f"{self.name:>7} | {line}", end="", flush=True)
                if self.told or _SUMMARY.match(line):
                    self.told.append(line)
        self.passed = self.process.returncode == 0
        self.took_s = time.monotonic() - started
        self.ended = True


class Plan:
    """Parts that are run so many at a time, each after those that it needs."""

    def __init__(self, parts: list[Part]) -> None:
        self.parts = parts
        self._waiting = list(parts)
        self._changed = threading.Condition()
        self._is_over = False

    def run(self, at_once: int) -> None:
        """Run all parts; one whose needs have failed is not run, and has not passed.

        Args:
            at_once: how many, not counting one that mostly waits.
        """
        kinds = [*([False] * at_once), True]
        threads = [threading.Thread(target=self._work, args=(waits,)) for waits in kinds]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                thread.join()
        except KeyboardInterrupt:
            self.end()
            for thread in threads:
                thread.join(_TERMINATED_IN_S)
            raise

    def end(self) -> None:
        """End what runs; nothing more is started."""
        with self._changed:
            self._is_over = True
            self._changed.notify_all()
        for part in self.parts:
            if part.process is not None and part.process.poll() is None:
                part.process.terminate()

    def _work(self, waits: bool) -> None:
        while (part := self._next(waits)) is not None:
            part.run()
            with self._changed:
                self._changed.notify_all()

    def _next(self, waits: bool) -> Part | None:
        """Take the first part that can begin; wait for one if need be; None if none is left."""
        with self._changed:
            while not self._is_over:
                self._give_up()
                mine = [part for part in self._waiting if part.waits is waits]
                if not mine:
                    return None
                for part in mine:
                    if all(need.passed for need in self._needs(part)):
                        self._waiting.remove(part)
                        return part
                self._changed.wait()
        return None

    def _give_up(self) -> None:
        """Take out the parts that can never begin, and those that need them in turn."""
        while hopeless := [
            part
            for part in self._waiting
            if any(need.ended and not need.passed for need in self._needs(part))
        ]:
            for part in hopeless:
                part.ended = True
                self._waiting.remove(part)

    def _needs(self, part: Part) -> list[Part]:
        return [need for need in self.parts if need.name in part.after]


def plan(options: list[str], kube_node: str) -> Plan:
    """Return the parts in the order in which they begin."""
    python = [sys.executable, "-u", "-m"]
    parts = [Part(BUILD, [*python, "tests.kube.build"]), Part("check", ["make", "check"])]
    if kube_node:
        parts.append(Part(NODE, [*python, "tests.e2e.node", kube_node], (BUILD,), waits=True))
    for name, paths in files().items():
        command = [*python, "pytest", "-p", "no:cacheprovider", *options, *paths]
        parts.append(Part(name, command, (BUILD,) if name == KUBE else ()))
    return Plan(parts)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument(
        "--kube-node", default="", metavar="FOLDER", help="a tool that runs a node (tests.e2e.node)"
    )
    known, options = parser.parse_known_args()
    if not known.kube_node and os.environ.get("HEADWATER_REQUIRE_ALL"):
        print(
            "make test: everything is required here, so name a tool that runs a real node: "
            "make test KUBE_NODE=FOLDER (CONTRIBUTING.md, On a cluster)"
        )
        return 2
    started = time.monotonic()
    running = plan(options, known.kube_node)
    try:
        running.run(AT_ONCE)
    except KeyboardInterrupt:
        return 130
    return _told(running.parts, time.monotonic() - started, kube_node=known.kube_node)


def _told(parts: list[Part], took_s: float, *, kube_node: str) -> int:
    """Say again what failed, last of all; return the exit status."""
    for part in sorted(parts, key=lambda part: not part.passed):
        lines = part.told if not part.passed else list(filter(_RESULT.match, part.told))[-2:]
        took = "not run" if part.took_s is None else f"{part.took_s / 60:.1f} min"
        print(f"--- {part.name}, {took}\n{''.join(lines)}", end="")
    print(f"{MINUTES_OF_ALL}{_minutes(parts)}")
    if not kube_node:
        print("LEFT OUT: the journey on a real node, for want of KUBE_NODE (make e2e-cluster)")
    failed = [part.name for part in parts if not part.passed]
    print(f"{'FAILED: ' + ', '.join(failed) if failed else 'all passed'} in {took_s / 60:.1f} min")
    return 1 if failed else 0


def _minutes(parts: list[Part]) -> str:
    """Return what each kind of tests has cost in all parts together, the dearest first.

    A test that needs two things is in both sums.
    """
    found: Counter[str] = Counter()
    for line in (line for part in parts for line in part.told if line.startswith(MINUTES)):
        for need, minutes in _SHARE.findall(line.removeprefix(MINUTES)):
            found[need] += float(minutes)
    return ", ".join(f"{need} {minutes:.1f}" for need, minutes in found.most_common())


if __name__ == "__main__":
    sys.exit(main())
