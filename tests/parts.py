"""`make test` and `make test-all`: the tests in parts, three at a time.

    python -m tests.parts [--all] [--kube-node FOLDER] [what pytest understands]

A part is a session of pytest over some files, with a broker of its own; together the parts have
every test, each once (``tests/unit/test_parts.py``). As soon as one has ended the next begins, so
it does not matter much how long each of them takes on this machine. Three, because tests with real
processes wait half of their time, and two cores have work for two others then; parts that only
compute begin beside those with many processes. `make test` has the
parts that need only Python, make and Java; with ``--all`` the others follow them, and with a tool
that runs a real node the user's journey on it (``tests.e2e.node``) runs beside them. Where
everything is required (``HEADWATER_REQUIRE_ALL``), there must be one. Nothing is fetched
(``tests.caches``). What becomes of a failure is said in ``tests.unstable``.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.kafka.native_module import NO_EXTENSIONS
from tests import record, unstable
from tests.caches import NO_FETCH
from tests.record import Outcome, Session
from tests.support import bytecode

if TYPE_CHECKING:
    from tests.unstable import Verdict

ROOT = Path(__file__).parents[1]
AT_ONCE = 3
SLOWEST = 15
MINUTES = "minutes by what is needed: "
"""What a session begins the line with that says where its time went."""
LEFT_TO_OTHERS = "sampled tests left to other commits: "
"""What a session begins the line with that says how many of them it has not run."""
MINUTES_OF_ALL = "minutes by what is needed, all parts: "
KUBE, NODE = "kube", "node"
LOGS = ROOT / ".test-run" / "unstable.log"
"""Both logs of each unstable test of the last run."""
QUICK = ("pure", "kafka", "oracle", "kafka-2", "three-ways")
"""The parts of `make test`: two that only compute stand beside one with many processes."""
REST = (KUBE, "spark", "troubles", "engines", "chaos")
"""What `make test-all` has beyond, but for the real node."""
IN_PYTHON = ("kafka-2", "oracle", "troubles")
"""Parts whose records take the path in Python, as if the extension were not installed; those of
the others take that in C wherever it can be taken (docs/adr/0098)."""
# What talks to the control plane of the tests, wherever it lies.
_OF_KUBE = (
    "tests/kube",
    "tests/contract/test_carriers.py",
    "tests/contract/test_kube_api.py",
    "tests/contract/test_kube_client.py",
)
# The run on Spark of `make test`: README's commands.
_OF_THREE_WAYS = ("tests/spark/test_three_ways.py",)
# Real Kafka that refuses, breaks or is broken, and hand-overs by the control loop.
_OF_TROUBLES = (
    "tests/kafka/test_bad_broker.py",
    "tests/kafka/test_bad_input.py",
    "tests/kafka/test_embedding_bad_input.py",
    "tests/kafka/test_engine_switch.py",
    "tests/kafka/test_kafka_rights.py",
    "tests/kafka/test_local_standbys.py",
    "tests/kafka/test_secured_kafka.py",
    "tests/kafka/test_take_over.py",
    # Prometheus and Chromium, which only `make caches --all` fetches.
    "tests/prometheus/",
    "tests/kafka/test_page.py",
    "tests/unit/web/test_browser.py",
)
# Many sessions of Spark: a part of their own.
_OF_ENGINES = ("tests/spark/test_agreement.py", "tests/spark/test_continuous.py")
_SUMMARY = re.compile(
    rf"{MINUTES}|{LEFT_TO_OTHERS}|=+ (FAILURES|ERRORS|short test summary info|\d+ \w+.* in ) ?"
)
_RESULT = re.compile(rf"{MINUTES}|=+ \d+ \w+.* in ")
_SHARE = re.compile(r"(\w[\w ]*) (\d+\.\d+)")
_TERMINATED_IN_S = 60
_SOAK = "what only repeats others on real parts: make soak"
_PYTHON = (sys.executable, "-u", "-m")
_PYTEST = (*_PYTHON, "pytest", "-p", "no:cacheprovider", "-m", "not soak")


def files() -> dict[str, list[str]]:
    """Return the test files of every part; the journey has none."""
    found: dict[str, list[str]] = {name: [] for name in (*QUICK, *REST)}
    kafka = 0
    for path in sorted(ROOT.glob("tests/**/test_*.py")):
        name = path.relative_to(ROOT).as_posix()
        folder = name.split("/")[1]
        if folder == "e2e":
            continue
        if name.startswith(_OF_KUBE):
            part = KUBE
        elif name in _OF_THREE_WAYS:
            part = "three-ways"
        elif name in _OF_ENGINES:
            part = "engines"
        elif name.startswith(_OF_TROUBLES):
            part = "troubles"
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
        record: the file that its session of pytest leaves; None if it is no such session.
        alone: what runs one of its tests, but for the name of the test.
        folder: where it runs.
        settings: variables of its environment.
        took_s: how long it ran; None as long as it has not ended.
        ended: whether it has ended, or never runs because what it needs has failed.
        passed: whether it ended with status 0.
        told: its lines from the first failure or summary on.
    """

    name: str
    command: list[str]
    after: tuple[str, ...] = ()
    waits: bool = False
    record: Path | None = None
    alone: tuple[str, ...] = ()
    folder: Path = ROOT
    settings: dict[str, str] = field(default_factory=dict)
    took_s: float | None = None
    ended: bool = False
    passed: bool = False
    told: list[str] = field(default_factory=list)
    process: subprocess.Popen[str] | None = None

    @property
    def session(self) -> Session:
        """What it has left; the journey, whose steps need each other, is one test."""
        if self.record is not None:
            return record.read(self.record)
        if self.name == NODE and self.took_s is not None:
            log = "" if self.passed else "".join(self.told) or "it failed"
            return Session((Outcome(NODE, self.took_s, is_real=True, log=log),), int(bool(log)))
        return Session()

    def run(self, *, tell_all: bool = False) -> None:
        """Run it; show every line as it comes.

        Args:
            tell_all: whether all its lines are kept in ``told``.
        """
        started = time.monotonic()
        with subprocess.Popen(
            self.command,
            cwd=self.folder,
            env={**os.environ, **NO_FETCH, **bytecode.KEPT, **self.settings},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        ) as self.process:
            assert self.process.stdout is not None
            for line in self.process.stdout:
                print(f"{self.name:>10} | {line}", end="", flush=True)
                if tell_all or self.told or _SUMMARY.match(line):
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


def plan(options: list[str], kube_node: str, records: Path, *, everything: bool) -> Plan:
    """Return the parts in the order in which they begin.

    Args:
        options: for pytest.
        kube_node: folder of the tool that runs a node, or nothing.
        records: a folder for what the sessions leave.
        everything: whether the parts of `make test-all` follow those of `make test`.
    """
    parts = [Part("check", ["make", "check"])]
    if everything and kube_node:
        parts.append(Part(NODE, [*_PYTHON, "tests.e2e.node", kube_node], waits=True))
    found = files()
    for name in (*QUICK, *(REST if everything else ())):
        file = records / f"{name}.jsonl"
        command = [*_PYTEST, *options, f"--record={file}", *found[name]]
        settings = {NO_EXTENSIONS: "1"} if name in IN_PYTHON else {}
        alone = (*_PYTEST, *options)
        parts.append(Part(name, command, record=file, alone=alone, settings=settings))
    return Plan(parts)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument("--all", action="store_true", help="the parts of `make test-all`, too")
    parser.add_argument(
        "--kube-node", default="", metavar="FOLDER", help="a tool that runs a node (tests.e2e.node)"
    )
    parser.add_argument(
        "--at-once", type=int, default=AT_ONCE, metavar="N", help=f"parts (default: {AT_ONCE})"
    )
    known, options = parser.parse_known_args()
    if known.all and not known.kube_node and os.environ.get("HEADWATER_REQUIRE_ALL"):
        print(
            "make test-all: everything is required here, so name a tool that runs a real node: "
            "make test-all KUBE_NODE=FOLDER (CONTRIBUTING.md, On a cluster)"
        )
        return 2
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="headwater-tests-") as records:
        running = plan(options, known.kube_node, Path(records), everything=known.all)
        try:
            running.run(known.at_once)
            verdict = failures(running.parts)
        except KeyboardInterrupt:
            return 130
        _tell(running.parts, verdict, everything=known.all)
    return _result(verdict, time.monotonic() - started)


def failures(parts: list[Part], logs: Path = LOGS) -> Verdict:
    """Run tests with real processes that failed once more, each alone; say what it comes to."""
    sessions = {part.name: part.session for part in parts if not part.passed}
    again, second = {}, {}
    for test in unstable.to_run_again(sessions):
        of = next(part for part in parts if _has(part, test))
        command = of.command if test == NODE else [*of.alone, "-rA", test]
        alone = Part("again", command, folder=of.folder, settings=of.settings)
        alone.run(tell_all=True)
        again[test], second[test] = alone.passed, "".join(alone.told)
    verdict = unstable.judge(sessions, again)
    if verdict.unstable:
        first = {each.test: each.log for of in sessions.values() for each in of.outcomes}
        logs.parent.mkdir(exist_ok=True)
        logs.write_text(unstable.both_logs(first, second, verdict.unstable))
    return verdict


def _has(part: Part, test: str) -> bool:
    return any(outcome.test == test for outcome in part.session.outcomes)


def _tell(parts: list[Part], verdict: Verdict, *, everything: bool) -> None:
    """Say again what failed, where the time went, and what was left out."""
    for part in sorted(parts, key=lambda part: not part.passed):
        lines = part.told if not part.passed else list(filter(_RESULT.match, part.told))[-2:]
        print(f"--- {part.name}, {_took(part)}\n{''.join(lines)}", end="")
    outcomes = [outcome for part in parts for outcome in part.session.outcomes]
    print(f"the {SLOWEST} slowest tests of all parts, in seconds:")
    for outcome in sorted(outcomes, key=lambda outcome: -outcome.seconds)[:SLOWEST]:
        print(f"{outcome.seconds:7.1f} {outcome.test}")
    print(f"{MINUTES_OF_ALL}{_minutes(parts)}")
    print(f"minutes by part: {', '.join(f'{part.name} {_took(part)}' for part in parts)}")
    sampled = sum(
        int(line.removeprefix(LEFT_TO_OTHERS))
        for part in parts
        for line in part.told
        if line.startswith(LEFT_TO_OTHERS)
    )
    for line in left_out([part.name for part in parts], sampled, everything=everything):
        print(f"LEFT OUT: {line}")
    for line in unstable.told(verdict, str(LOGS.relative_to(ROOT))):
        print(line)


def left_out(names: list[str], sampled: int = 0, *, everything: bool) -> list[str]:
    """Say what a run with these parts does not have, and which command does.

    Args:
        names: of the parts.
        sampled: how many tests were left to other commits.
        everything: whether the parts of `make test-all` were run.
    """
    if not everything:
        theirs = "Kubernetes, most of Spark, a Kafka that refuses or breaks, kills"
        return [
            f"the parts {', '.join(REST)} ({theirs}): make test-all",
            "the journey on a real node: make test-all KUBE_NODE=FOLDER, or make e2e-cluster",
            _SOAK,
        ]
    found = [] if NODE in names else ["the journey on a real node: make test-all KUBE_NODE=FOLDER"]
    if sampled:
        found.append(f"{sampled} sampled tests, which other commits run: make test-all")
    return [*found, _SOAK]


def _took(part: Part) -> str:
    return "not run" if part.took_s is None else f"{part.took_s / 60:.1f}"


def _result(verdict: Verdict, took_s: float) -> int:
    """Print the last line; return the exit status."""
    unstable_too = f", {len(verdict.unstable)} unstable" if verdict.unstable else ""
    if verdict.failed:
        said = f"FAILED: {', '.join(verdict.failed)}{unstable_too}"
    elif not verdict.passes:
        said = f"FAILED: {len(verdict.unstable)} unstable tests, more than {unstable.MOST}"
    else:
        said = f"all passed{unstable_too}"
    print(f"{said} in {took_s / 60:.1f} min")
    return 0 if verdict.passes else 1


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
