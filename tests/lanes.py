"""`make test`: two sessions of pytest side by side, because one alone leaves half the cores idle.

    python -m tests.lanes [--kube-node FOLDER] [what pytest understands]

The first lane has the Kubernetes control plane, the kills, the Java oracle and the simulations,
the second everything else, and each a part of Spark. Each has a broker of its own, and together
they run every test (``--lane`` in ``tests/conftest.py``). With a tool that runs a real node, the
first lane goes on with the user's journey on it (``tests.e2e.node``); where everything is required
(``HEADWATER_REQUIRE_ALL``), there must be one.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]
LANES = ("cluster", "rest")
MINUTES = "minutes by what is needed: "
"""What a session begins the line with that says where its time went."""
_SUMMARY = re.compile(rf"{MINUTES}|=+ (FAILURES|ERRORS|short test summary info|\d+ \w+.* in ) ?")
_RESULT = re.compile(rf"{MINUTES}|=+ \d+ \w+.* in ")
_TERMINATED_IN_S = 60


@dataclass
class Lane:
    """Commands that run one after the other, all of them, whatever became of those before.

    Attributes:
        name: what its lines begin with.
        commands: what it runs.
        failed: the commands that ended with another status than 0.
        told: for each command the lines from its first failure or summary on.
    """

    name: str
    commands: list[list[str]]
    failed: list[list[str]] = field(default_factory=list)
    told: list[list[str]] = field(default_factory=list)
    _running: subprocess.Popen[str] | None = None
    _is_over: bool = False

    def run(self) -> None:
        """Run all commands; show every line as it comes."""
        for command in self.commands:
            if not self._is_over and self._run(command) != 0:
                self.failed.append(command)

    def _run(self, command: list[str]) -> int:
        kept: list[str] = []
        self.told.append(kept)
        with subprocess.Popen(
            command,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        ) as process:
            self._running = process
            assert process.stdout is not None
            for line in process.stdout:
                print(f"{self.name:>7} | {line}", end="", flush=True)
                if kept or _SUMMARY.match(line):
                    kept.append(line)
        return process.returncode

    def end(self) -> None:
        """End what runs; nothing more is started."""
        self._is_over = True
        if self._running is not None and self._running.poll() is None:
            self._running.terminate()


def lanes(options: list[str], kube_node: str) -> list[Lane]:
    """Return the lanes: every test is in exactly one of them."""
    pytest = [sys.executable, "-u", "-m", "pytest", "-p", "no:cacheprovider", *options]
    found = [Lane(name, [[*pytest, f"--lane={name}"]]) for name in LANES]
    if kube_node:
        found[0].commands.append([sys.executable, "-u", "-m", "tests.e2e.node", kube_node])
    return found


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
    running = lanes(options, known.kube_node)
    threads = [threading.Thread(target=lane.run) for lane in running]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            thread.join()
    except KeyboardInterrupt:
        for lane in running:
            lane.end()
        for thread in threads:
            thread.join(_TERMINATED_IN_S)
        return 130
    return _told(running, time.monotonic() - started, kube_node=known.kube_node)


def _told(ended: list[Lane], took_s: float, *, kube_node: str) -> int:
    """Say again what failed, last of all; return the exit status."""
    for lane in ended:
        for command, kept in zip(lane.commands, lane.told, strict=True):
            lines = kept if command in lane.failed else list(filter(_RESULT.match, kept))[-2:]
            print(f"--- {lane.name}: {' '.join(command[1:])}", *lines, sep="\n", end="")
    if not kube_node:
        print("LEFT OUT: the journey on a real node, for want of KUBE_NODE (make e2e-cluster)")
    failed = [lane.name for lane in ended if lane.failed]
    print(f"{'FAILED: ' + ', '.join(failed) if failed else 'all passed'} in {took_s / 60:.1f} min")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
