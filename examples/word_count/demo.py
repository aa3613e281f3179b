"""Word count on this machine, with a worker killed in the middle: what ``make run`` shows.

    private Kafka, two workers with two StreamThreads each, exactly-once
    10 MB of text in -> at about half of it, kill -9 of a worker with a transaction open
    -> recovered, all of it counted -> every count compared with a plain Python count

Ends with 0 if every count is equal, with 1 if one differs or the time is up.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from examples.word_count.clients import AbortedRecords, CountsReader, Feeder
from examples.word_count.text import count_words, lines_of_text
from rich.console import Console

from headwater.errors import HeadwaterError
from headwater_operator.local import control, manifest
from headwater_operator.local.interrupts import Interrupts
from headwater_operator.local.layout import ClusterDir, default_root
from headwater_operator.local.running import final_failure
from headwater_operator.local.view import View

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Mapping

    from headwater.model.streamapp import StreamApp
    from headwater_operator.local.control import Supervision
    from headwater_operator.overview.snapshot import Snapshot, TaskRow, WorkerRow

STREAMAPP = Path(__file__).with_name("streamapp.yaml")
SOURCE, RESULT = "TextLinesTopic", "WordsWithCountsTopic"
"""The topics of the StreamApp."""
CHANGELOG = "word-count-counts-store-changelog"
WRITTEN = (RESULT, "word-count-counts-store-repartition", CHANGELOG)
"""All topics that its transactions write to."""


class DemonstrationError(HeadwaterError):
    """The demonstration could not be brought to its end."""


@dataclass(slots=True)
class Killed:
    """The worker that was killed, as it was a moment before.

    Attributes:
        worker: its name.
        pid: its process.
        tasks: what it held.
        transactions: StreamThreads with a transaction open.
        aborted: counts what its transactions had written.
        at_s: when, by the monotonic clock.
        recovered_s: when every task ran again; 0 before that.
        restored: changelog records that its next process read to bring its stores up to date.
    """

    worker: str
    pid: int
    tasks: tuple[str, ...]
    transactions: int
    aborted: AbortedRecords
    at_s: float
    recovered_s: float = 0.0
    restored: int = 0


@dataclass(slots=True)
class Demonstration:
    """What has happened so far.

    Attributes:
        lines: the text.
        expected: the right counts.
        kill_at: share of the words after whose counting a worker is killed; 1 for never.
    """

    lines: list[str]
    expected: Counter[str]
    kill_at: float
    feeder: Feeder | None = None
    reader: CountsReader | None = None
    killed: Killed | None = None
    began_s: float = 0.0
    ended_s: float = 0.0

    @property
    def words(self) -> int:
        """How many words there are to count."""
        return self.expected.total()

    @property
    def counts(self) -> Mapping[str, int]:
        """The last count of every word that was read."""
        return {} if self.reader is None else self.reader.counts

    @property
    def progress(self) -> str:
        """How far it is, for people."""
        counted = 0 if self.reader is None else self.reader.total
        return f"{counted:,} of {self.words:,} words are counted"

    def close(self) -> None:
        """End the clients."""
        for client in (self.feeder, self.reader):
            if client is not None:
                client.stop()

    def turn(self, snapshot: Snapshot, view: View) -> bool:
        """Do what is next; return whether all words are counted."""
        if self.feeder is None or self.reader is None:
            if snapshot.state == "RUNNING":
                self._begin(snapshot.kafka, view)
            return False
        counted = self.reader.total
        if self.killed is None:
            if self.kill_at < 1 and counted >= self.kill_at * self.words:
                self._kill(snapshot, view)
                self._check_that_somebody_can_be_killed(counted)
        elif not self.killed.recovered_s:
            self._watch_recovery(snapshot, view)
        is_recovered = self.kill_at >= 1 or bool(self.killed and self.killed.recovered_s)
        if counted >= self.words and is_recovered and not self.feeder.is_alive():
            self.ended_s = self.ended_s or time.monotonic()
            # Whatever was counted twice would still be on its way.
            return snapshot.lag == 0 and time.monotonic() > self.ended_s + _SETTLE_S
        return False

    def _check_that_somebody_can_be_killed(self, counted: int) -> None:
        assert self.feeder is not None
        if self.killed is None and counted >= self.words and not self.feeder.is_alive():
            raise DemonstrationError(
                "everything was counted before a worker had a transaction open at a moment when it "
                "was looked at, so nobody was killed: run it again, with more --megabytes"
            )

    def _begin(self, bootstrap_servers: str, view: View) -> None:
        held_back = 0.0 if self.kill_at >= 1 else _HELD_BACK
        self.feeder = Feeder(bootstrap_servers, SOURCE, self.lines, held_back=held_back)
        self.reader = CountsReader(bootstrap_servers, RESULT)
        self.reader.start()
        self.feeder.start()
        self.began_s = time.monotonic()
        view.note(f"feeding {len(self.lines):,} lines with {self.words:,} words")

    def _kill(self, snapshot: Snapshot, view: View) -> None:
        row = _victim(snapshot)
        if row is None:
            return
        held = [task for task in snapshot.tasks if task.worker == row.name]
        aborted = AbortedRecords(snapshot.kafka, WRITTEN)
        try:
            transactions = _freeze_in_transaction(row.pid, held, aborted)
            if not transactions:
                return  # not a moment that proves anything: look again in the next turn
            os.kill(row.pid, signal.SIGKILL)
        except ProcessLookupError:
            return  # it has ended by itself; another one will do
        at_s = time.monotonic()
        names = tuple(str(task.task) for task in held)
        self.killed = Killed(row.name, row.pid, names, transactions, aborted, at_s)
        assert self.feeder is not None
        self.feeder.release()
        view.note(f"kill -9 {row.pid}: {row.name} with {_count(transactions, 'open transaction')}")

    def _watch_recovery(self, snapshot: Snapshot, view: View) -> None:
        killed = self.killed
        assert killed is not None
        row = next(row for row in snapshot.workers if row.name == killed.worker)
        is_new = row.pid not in (0, killed.pid)
        if is_new and snapshot.state == "RUNNING" and snapshot.running_tasks == len(snapshot.tasks):
            killed.recovered_s = time.monotonic()
            killed.restored = row.restored
            killed.aborted.start()
            view.note(f"every task runs again, {killed.recovered_s - killed.at_s:.1f} s after")


def _victim(snapshot: Snapshot) -> WorkerRow | None:
    """A worker that counts; whether it has a transaction open is looked at when it is frozen."""
    counting = {row.worker for row in snapshot.tasks if row.task.subtopology == 1}
    for row in reversed(snapshot.workers):
        if row.name in counting and row.pid:
            return row
    return None


def _freeze_in_transaction(pid: int, held: list[TaskRow], aborted: AbortedRecords) -> int:
    """Stop a worker's processes at a moment when the broker holds records it has not committed.

    A StreamThread sends most of its records when it commits; between two commits its transaction is
    open but nearly empty. A changelog partition is written by one task only, so undecided records
    there are its StreamThread's.

    Returns:
        how many of its StreamThreads have such a transaction.
    """
    slots = {(CHANGELOG, row.task.partition): row.slot for row in held if row.task.subtopology == 1}
    for _ in range(_TRIES):
        os.killpg(pid, signal.SIGSTOP)
        undecided = aborted.look()
        found = {slot for partition, slot in slots.items() if partition in undecided}
        if found:
            return len(found)
        os.killpg(pid, signal.SIGCONT)
        time.sleep(_BETWEEN_TRIES_S)
    return 0


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def run(cluster: ClusterDir, options: argparse.Namespace) -> int:
    """Run the demonstration in a cluster of its own."""
    console = Console(soft_wrap=True)
    app = manifest.load(STREAMAPP)[0]
    control.fetch_private_kafka()
    control.apply(cluster, app, import_path=(STREAMAPP.parents[2],))
    supervision = control.start_supervisor(cluster, detached=False)
    demonstration = None
    try:
        # While the broker starts, there is time to count the words.
        lines = lines_of_text(options.megabytes * 1_000_000)
        demonstration = Demonstration(
            lines, count_words(lines), 1.0 if options.no_kill else _MIDDLE
        )
        _introduce(demonstration, app, console)
        with Interrupts() as interrupts, View(cluster, [app.name], plain=options.plain) as view:
            view.footer = "Ctrl-C ends the demonstration"
            deadline = time.monotonic() + options.timeout
            while not demonstration.turn(view.refresh()[0], view):
                if interrupts.wait(view.pause_s):
                    return _INTERRUPTED
                _check(cluster, app, demonstration, supervision)
                if time.monotonic() > deadline:
                    raise DemonstrationError(
                        f"not done after {options.timeout:.0f} s: {demonstration.progress}"
                    )
        _say_what_the_kill_cost(demonstration, console)
        return verdict(
            demonstration.expected,
            demonstration.counts,
            lines=len(lines),
            seconds=demonstration.ended_s - demonstration.began_s,
            console=console,
        )
    finally:
        if demonstration is not None:
            demonstration.close()
        supervision.stop()
        if not supervision.wait(_STOP_S):
            supervision.kill()
            supervision.wait(_STOP_S)


def _introduce(demonstration: Demonstration, app: StreamApp, console: Console) -> None:
    spec = app.spec
    killing = "" if demonstration.kill_at >= 1 else "; one worker will be killed (kill -9)"
    console.print(
        f"[bold]{demonstration.words:,} words[/] in {len(demonstration.lines):,} lines of Python's "
        f"own help\nprivate Kafka, {spec.processing_guarantee}, {spec.replicas} workers with "
        f"{spec.threads_per_worker} StreamThreads each{killing}\n",
        highlight=False,
    )


def _check(
    cluster: ClusterDir, app: StreamApp, demonstration: Demonstration, supervision: Supervision
) -> None:
    """Do not wait for what will not come."""
    if not supervision.is_running():
        raise DemonstrationError("the local cluster ended by itself")
    if (failure := final_failure(cluster, [app])) is not None:
        raise failure
    for client in (demonstration.feeder, demonstration.reader):
        if client is not None and client.error:
            raise DemonstrationError(f"{client.name}: {client.error}")


def verdict(
    expected: Counter[str],
    found: Mapping[str, int],
    *,
    lines: int,
    seconds: float,
    console: Console,
) -> int:
    """Compare every count, say what came out, and return the exit code."""
    wrong = [
        (word, expected[word], found.get(word, 0))
        for word in sorted(expected.keys() | found.keys())
        if expected[word] != found.get(word, 0)
    ]
    if wrong:
        console.print(
            f"[bold red]counts differ[/] for {len(wrong):,} of {len(expected):,} words:",
            highlight=False,
        )
        for word, right, counted in wrong[:_SHOWN]:
            console.out(f"  {word!r}: {right:,} in the text, {counted:,} counted", highlight=False)
        return 1
    words = expected.total()
    console.print(
        f"[bold green]counts equal[/]: {len(expected):,} different words, {words:,} in all, each "
        f"counted once\n{lines:,} lines in {seconds:.1f} s, the kill included: "
        f"{lines / seconds:,.0f} records (lines) and {words / seconds:,.0f} words per second",
        highlight=False,
    )
    return 0


def _say_what_the_kill_cost(demonstration: Demonstration, console: Console) -> None:
    killed = demonstration.killed
    if killed is None:
        return
    killed.aborted.join(_STOP_S)
    if killed.aborted.error:
        raise DemonstrationError(f"the aborted records: {killed.aborted.error}")
    tasks, count = ", ".join(killed.tasks), killed.aborted.count
    console.out(
        f"{killed.worker} (process {killed.pid}) was killed with "
        f"{_count(killed.transactions, 'transaction')} open:\n"
        f"  moved to its next process, which has their stores: tasks {tasks}\n"
        f"  read again: {killed.restored:,} changelog records to restore the stores, and the input "
        f"of {count:,}\n  records that the open transactions had written and that were aborted\n"
        f"  every task ran again {killed.recovered_s - killed.at_s:.1f} s after the kill",
        highlight=False,
    )


_INTERRUPTED = 130
_MIDDLE = 0.4
_HELD_BACK = 0.5
"""Share of the text that comes slowly until a worker is killed: work is under way until then."""
_TRIES = 100
_BETWEEN_TRIES_S = 0.011
_SETTLE_S = 1.0
_STOP_S = 60.0
_SHOWN = 10
_TIMEOUT_S = 300.0


def main(arguments: list[str] | None = None) -> int:
    """Run the demonstration; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m examples.word_count.demo", description=__doc__)
    parser.add_argument("--megabytes", type=int, default=10, help="of text (default: 10)")
    parser.add_argument("--no-kill", action="store_true", help="kill nobody")
    parser.add_argument("--keep", action="store_true", help="keep the directory with all logs")
    parser.add_argument("--plain", action="store_true", help="lines instead of the live view")
    parser.add_argument(
        "--timeout", type=float, default=_TIMEOUT_S, metavar="S", help="give up after S seconds"
    )
    options = parser.parse_args(arguments)
    parent = default_root()
    parent.mkdir(parents=True, exist_ok=True)
    root = Path(tempfile.mkdtemp(prefix="demo-", dir=parent))
    try:
        code = run(ClusterDir(root), options)
    except HeadwaterError as error:
        sys.stderr.write(f"error: {error}\nthe logs are in {root}\n")
        return 1
    if not options.keep and code in {0, _INTERRUPTED}:
        shutil.rmtree(root, ignore_errors=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
