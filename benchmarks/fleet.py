"""What one operator needs for many StreamApps: CPU, memory, requests, length of a round.

    python -m benchmarks.fleet [--apps 50 200 500] [--workers 10] [--rest 300] [--renewal 60]

A real control plane and the real operator as a process; machines and workers are played. The fleet
grows from one size to the next, twenty StreamApps at a time. At rest nothing changes for five
minutes; in the storm every StreamApp gets another number of StreamThreads at once, which changes
all its StreamWorkers. The numbers are the operator's own (``/metrics``), its CPU time and memory
(PSS) are the kernel's. Requests are all that the operator asks for itself, Leases of workers among
them; the watches are streams and do not count. Writes ``benchmarks/FLEET.md``.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import threading
import time
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from prometheus_client.parser import text_string_to_metric_families
from tests.kube.control_plane import ControlPlane
from tests.kube.definitions import install
from tests.kube.journey import Installation, fresh_namespace, streamapp
from tests.kube.kubeconfig import client_for
from tests.kube.players import SEEN, Stage
from tests.kube.watched import Watched
from tests.support.kube_fakes import condition_in
from tests.support.waiting import wait_for

from benchmarks.report import measured, verdict
from headwater.local.ports import free_port
from headwater.local.properties import LOOPBACK
from headwater_operator.kube.api import BUDGETS, STREAM_APPS, STREAM_WORKERS
from headwater_operator.kube.client import KubeClient

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from tests.kube.journey import OperatorProcess

    from headwater_operator.kube.api import KubeApi

TABLE: Final = Path(__file__).parent / "FLEET.md"
WORKERS: Final = 10
_PARTITIONS: Final = 4
_TURN_S: Final = 1.0
_RENEWAL_S: Final = 60.0
"""Thousands of Leases are renewed on the cores that are measured: more often, and they are all that
these do."""
_AT_A_TIME: Final = 20
"""So many StreamApps are added before the next ones: more, and starts that last too long are begun
anew."""
_REST_S: Final = 300.0
"""In this time each StreamApp's topics are looked at once."""
_PATIENCE_S: Final = 3_600.0
_LOOK_S: Final = 0.5


@dataclass(frozen=True)
class Numbers:
    """What the operator tells of itself at one moment.

    Attributes:
        requests: to the API server, so far, by verb and resource.
        rounds: so far.
        within: how many of them took at most so many seconds.
    """

    requests: Mapping[str, float]
    rounds: float
    within: Mapping[float, float]

    @classmethod
    def of(cls, port: int) -> Numbers:
        """Ask the operator."""
        with urllib.request.urlopen(f"http://{LOOPBACK}:{port}/metrics", timeout=30) as answer:
            text = answer.read().decode()
        requests: dict[str, float] = {}
        within: dict[float, float] = {}
        rounds = 0.0
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                labels = sample.labels
                if sample.name == "headwater_operator_api_requests_total":
                    what = f"{labels['verb']} {labels['resource']}"
                    requests[what] = requests.get(what, 0.0) + sample.value
                elif sample.name == "headwater_operator_reconcile_duration_seconds_bucket":
                    bound = float(labels["le"])
                    within[bound] = within.get(bound, 0.0) + sample.value
                elif sample.name == "headwater_operator_reconcile_duration_seconds_count":
                    rounds += sample.value
        return cls(requests, rounds, within)

    def since(self, before: Numbers) -> Numbers:
        """What has come since."""
        return Numbers(
            {what: n - before.requests.get(what, 0.0) for what, n in self.requests.items()},
            self.rounds - before.rounds,
            {bound: n - before.within.get(bound, 0.0) for bound, n in self.within.items()},
        )

    def quantile(self, share: float) -> float:
        """The bound that so many rounds kept: the upper one of the histogram's bucket."""
        wanted = share * self.rounds
        return min(bound for bound, n in self.within.items() if n >= wanted)


@dataclass
class Memory(threading.Thread):
    """Looks at a process' memory, and keeps the most that it saw."""

    pid: int
    now_mb: float = 0.0
    peak_mb: float = 0.0
    _over: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        super().__init__(daemon=True)

    def run(self) -> None:
        """Look, twice a second."""
        while not self._over.wait(_LOOK_S):
            lines = Path(f"/proc/{self.pid}/smaps_rollup").read_text().splitlines()
            kilobytes = next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
            self.now_mb = kilobytes / 1024
            self.peak_mb = max(self.peak_mb, self.now_mb)

    def stop(self) -> None:
        """Look no more."""
        self._over.set()
        self.join()

    __hash__ = threading.Thread.__hash__


@dataclass(frozen=True)
class Found:
    """What one run found.

    Attributes:
        apps: how many StreamApps there were.
        workers: of each.
        rest_cores: CPU time per second when nothing happens.
        rest_mb: memory when nothing happens.
        peak_mb: most memory.
        rest: numbers of the time at rest.
        rest_s: how long that was.
        storm: numbers of the storm.
        storm_s: from its beginning until everything was settled.
        changed: StreamWorkers whose specification the storm has changed or made.
        began_s: from the first StreamApp until all were ready.
    """

    apps: int
    workers: int
    rest_cores: float
    rest_mb: float
    peak_mb: float
    rest: Numbers
    rest_s: float
    storm: Numbers
    storm_s: float
    changed: int
    began_s: float


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--apps", type=int, nargs="+", default=[50, 200, 500])
    parser.add_argument("--workers", type=int, default=WORKERS)
    parser.add_argument("--rest", type=float, default=_REST_S, metavar="SECONDS")
    parser.add_argument(
        "--renewal", type=float, default=_RENEWAL_S, metavar="SECONDS", help="of workers' Leases"
    )
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="headwater-fleet-") as directory,
        ControlPlane() as control_plane,
        client_for(control_plane.admin_kubeconfig) as client,
    ):
        install(client)
        admin = KubeClient.from_environment(control_plane.admin_kubeconfig)
        with (
            Watched(admin, client, SEEN) as players_see,
            Watched(admin, client, (STREAM_APPS, STREAM_WORKERS)) as seen,
            Stage(admin, turn_s=_TURN_S, renewal_s=options.renewal, seen=players_see) as stage,
        ):
            home = fresh_namespace(admin, "system")
            port = free_port(taken=set())
            made = Installation(
                admin, client, control_plane, Path(directory), home, lease_s=15, http_port=port
            ).install()
            try:
                operator = made.process("one")
                fleet = Fleet(admin, seen, stage, made, operator, options.workers, options.rest)
                _grow(fleet, options.apps, options.renewal)
            finally:
                made.uninstall()
        admin.close()
    print(TABLE.read_text())
    return 0


def _grow(fleet: Fleet, sizes: Sequence[int], renewal_s: float) -> None:
    """Measure one size after the other, and write the page after each."""
    found = []
    wait_for(fleet.installation.leader, what="the operator to lead", timeout_s=60)
    for threads, apps in enumerate(sorted(sizes), start=2):
        found.append(fleet.measure(apps, threads))
        TABLE.write_text(_page(found, renewal_s))
        _say(f"{apps} StreamApps are measured; the fleet grows")


@dataclass
class Fleet:
    """StreamApps of one operator, more and more of them."""

    api: KubeApi
    seen: Watched
    stage: Stage
    installation: Installation
    process: OperatorProcess
    workers: int
    rest_s: float
    namespaces: list[str] = field(default_factory=list)
    asked: dict[str, int] = field(default_factory=dict)
    """The generation of each StreamApp that was changed; its watch may be behind."""

    def measure(self, apps: int, threads: int) -> Found:
        """Grow, rest, storm.

        Args:
            apps: how many StreamApps there are to be.
            threads: of each worker in the storm, another number than before.
        """
        port = self.installation.http_port
        process = self.process
        memory = Memory(process.pid)
        memory.start()
        began_s = self._grow(apps)
        _say(f"{apps} StreamApps are ready after {began_s:.0f} s; now nothing happens")
        self._until_counted()
        time.sleep(min(60.0, self.rest_s))  # what is left over from the beginning
        before, cpu_s = Numbers.of(port), _cpu_s(process.pid)
        time.sleep(self.rest_s)
        rest, rest_mb = Numbers.of(port).since(before), memory.now_mb
        rest_cores = (_cpu_s(process.pid) - cpu_s) / self.rest_s
        _say(f"at rest: {sum(rest.requests.values()) / self.rest_s:.2f} requests/s; now the storm")
        before, started = Numbers.of(port), time.monotonic()
        generations = self._generations()
        self._change_threads(threads)
        changed = sum(
            generation != generations.get(uid) for uid, generation in self._generations().items()
        )
        storm_s = time.monotonic() - started
        storm = Numbers.of(port).since(before)
        memory.stop()
        assert process.exit_status is None, process.log
        return Found(
            apps,
            self.workers,
            rest_cores,
            rest_mb,
            memory.peak_mb,
            rest,
            self.rest_s,
            storm,
            storm_s,
            changed,
            began_s,
        )

    def _grow(self, apps: int) -> float:
        started = time.monotonic()
        for number in range(len(self.namespaces), apps):
            namespace = fresh_namespace(self.api, "fleet")
            self.namespaces.append(namespace)
            self.stage.workers(namespace).of("wc").topics["lines"] = _PARTITIONS
            app = streamapp(replicas=self.workers, applicationId=namespace)
            app["metadata"]["namespace"] = namespace
            self.api.create(STREAM_APPS, app)
            if (number + 1) % _AT_A_TIME == 0:
                self._until_settled()
                _say(f"  {number + 1} of {apps} ready")
        self._until_settled()
        return time.monotonic() - started

    def _until_counted(self) -> None:
        """Until then, the budgets' pods are counted anew after ever longer pauses."""

        def is_counted() -> bool:
            budgets = self.api.list(BUDGETS, None)
            counted = [(each.get("status") or {}).get("expectedPods", 0) for each in budgets]
            return len(counted) == len(self.namespaces) and min(counted) >= self.workers

        wait_for(is_counted, what="the pods to be counted", timeout_s=600, every_s=2)

    def _change_threads(self, threads: int) -> None:
        """Change every StreamApp, and wait until all are settled."""
        operation = {"op": "add", "path": "/spec/threadsPerWorker", "value": threads}
        for namespace in self.namespaces:
            changed = self.api.patch(STREAM_APPS, namespace, "wc", [operation])
            self.asked[namespace] = changed["metadata"]["generation"]

        def have_changed() -> bool:
            self.seen.look()
            return all(
                each["spec"]["threads"] == threads
                and each["status"]["acknowledgedEpoch"] >= each["spec"]["epoch"]
                for each in self.seen.all(STREAM_WORKERS)
            )

        wait_for(have_changed, what="all StreamWorkers", timeout_s=_PATIENCE_S, every_s=1.0)
        self._until_settled()

    def _generations(self) -> dict[str, int]:
        """How often the specification of each StreamWorker was written, by its uid."""
        workers = (each["metadata"] for each in self.api.list(STREAM_WORKERS, None))
        return {each["uid"]: each["generation"] for each in workers}

    def _until_settled(self) -> None:
        left = set(self.namespaces)

        def all_are() -> bool:
            left.difference_update(self._settled())
            return not left

        wait_for(all_are, what="all StreamApps", timeout_s=_PATIENCE_S, every_s=1.0)

    def _settled(self) -> Iterator[str]:
        self.seen.look()
        for app in self.seen.all(STREAM_APPS):
            status = app.get("status") or {}
            metadata = app["metadata"]
            if (
                metadata["generation"] >= self.asked.get(metadata["namespace"], 0)
                and status.get("observedGeneration") == metadata["generation"]
                and condition_in(status, "Ready")[:2] == ("True", "Running")
                and condition_in(status, "AssignmentConverged")[0] == "True"
                and status["readyReplicas"] == status["replicas"] == self.workers
            ):
                yield metadata["namespace"]


def _say(text: str) -> None:
    print(text, flush=True)


def _cpu_s(pid: int) -> float:
    """CPU time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _page(runs: Sequence[Found], renewal_s: float) -> str:
    biggest = runs[-1]
    asked = sorted(biggest.rest.requests.items(), key=lambda item: -item[1])
    storm = biggest.storm
    sizes = " | ".join(f"{run.apps} StreamApps" for run in runs)
    lines = [
        "# One operator and many StreamApps",
        "",
        "Written by `python -m benchmarks.fleet`: a real control plane, the operator as a process,",
        f"StreamApps with {biggest.workers} workers each; machines and workers are played by the",
        f"benchmark, on the same cores; a worker renews its Lease every {renewal_s:.0f} s. The",
        f"fleet grows from one size to the next, {_AT_A_TIME} StreamApps at a time. At rest",
        "nothing changes. In the storm every StreamApp gets another number of StreamThreads at",
        "once, which changes all its StreamWorkers; it ends when all are settled. A round is one",
        "pass of observe, decide and act over a StreamApp, its requests included; its p99 is the",
        "upper bound of the histogram's bucket. Watches are streams: not among the requests. Goals",
        "and floors are those of 500 StreamApps.",
        "",
        f"Machine: {measured()}.",
        "",
        f"| what | {sizes} | goal | floor | verdict |",
        f"|---|{'---|' * len(runs)}---|---|---|",
        *_rows(runs),
        "",
        f"Requests at rest with {biggest.apps} StreamApps, in {biggest.rest_s:.0f} s: ",
        ", ".join(f"{what} {n:.0f}" for what, n in asked if n) + ".",
        "",
        f"Rounds in the storm of {biggest.apps} StreamApps that took at most so long: ",
        ", ".join(f"{bound:g} s {n:.0f}" for bound, n in sorted(storm.within.items())) + ".",
    ]
    return "\n".join(lines) + "\n"


def _rows(runs: Sequence[Found]) -> Iterator[str]:
    def row(
        what: str,
        of: Callable[[Found], float],
        form: str,
        goals: tuple[float, float] | None = None,
    ) -> str:
        values = " | ".join(form.format(of(run)) for run in runs)
        if goals is None:
            return f"| {what} | {values} | | | |"
        goal, floor = (form.format(each) for each in goals)
        said = verdict(of(runs[-1]), *goals)
        return f"| {what} | {values} | {goal} | {floor} | {said} |"

    def requests(run: Found) -> float:
        return sum(run.rest.requests.values()) / run.rest_s / run.apps * 100

    yield row("CPU at rest", lambda run: run.rest_cores, "{:.2f} core", (0.3, 0.6))
    yield row("memory at rest (PSS)", lambda run: run.rest_mb, "{:.0f} MB", (400, 700))
    yield row("most memory (PSS)", lambda run: run.peak_mb, "{:.0f} MB")
    yield row("requests at rest, per 100 StreamApps", requests, "{:.2f}/s", (5, 10))
    storm = "p99 of a round in the storm"
    yield row(storm, lambda run: run.storm.quantile(0.99), "{:g} s", (1, 3))
    yield row("StreamWorkers changed in the storm", lambda run: run.changed, "{:,.0f}")
    yield row("rounds in the storm", lambda run: run.storm.rounds, "{:.0f}")
    yield row("length of the storm", lambda run: run.storm_s, "{:.0f} s")
    yield row("until all that were added were ready", lambda run: run.began_s, "{:.0f} s")


if __name__ == "__main__":
    sys.exit(main())
