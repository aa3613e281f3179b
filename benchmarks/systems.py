"""The systems that are compared: each runs a work over an input and says how long it took.

All of them run alone against the broker, in processes of their own, with idempotent producers that
linger for 20 ms. Time and CPU time run from the first record processed until everything is
committed and closed, so that no system pays for its start.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import uuid
import venv
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.java.tool import QUIET, JavaTool

from benchmarks import audit, inputs
from benchmarks.works import JOINS, WINDOWED, WINDOWS_OF
from headwater.local import jars
from headwater.local.jar_sets import Jar, JarSet
from headwater.local.paths import cache_dir

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from benchmarks.inputs import Input

QUIX = "3.28.0"
PEERS = {
    "bytewax": ("bytewax[kafka]==0.21.1", "bytewax_work.py"),
    "pathway": ("pathway==0.33.0", "pathway_work.py"),
    "flink": ("apache-flink==2.2.1", "flink_work.py"),
}
"""What is installed for each, and its program here."""
_FLINK = Jar(
    "org.apache.flink:flink-sql-connector-kafka:5.0.0-2.2",
    "5605c691d11a501382c383fecba37a7a552467da5ab7ba904ef5d6f3d62c5616",
)
_WITHOUT_CHANGELOG = ("quixstreams", *PEERS)
RUN_TIMEOUT_S = 900
AT_LEAST_ONCE = {"commit.interval.ms": "30000"}
EXACTLY_ONCE = {"commit.interval.ms": "100", "processing.guarantee": "exactly_once_v2"}
JVM = ("-Xmx2g", QUIET)
HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One work over one input, with settings all systems understand (Kafka Streams' names)."""

    work: str
    source: Input
    settings: Mapping[str, str]
    threads: int = 1
    counts: bool = True
    marks: Sequence[int] = ()
    """After how many records time and CPU time are noted on the way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What came out of one run."""

    system: str
    records: int
    seconds: float
    cpu_us: float
    """Microseconds of CPU a record, user and system, of all processes of the system."""
    outputs: int
    output_bytes: int
    logged: int
    """Records in the changelog."""
    logged_bytes: int
    counted: int
    """Sum of the last counts in the changelog."""
    peak_rss_mb: float
    load: float
    """Load average of the machine over the last minute, the system itself included."""
    ratios: Mapping[str, float]
    commits: int = 0
    """Transactions in the output, as the independent consumer counted them; 0 without any."""

    @property
    def rate(self) -> float:
        """Records a second."""
        return self.records / self.seconds

    def line(self) -> str:
        """For whoever watches."""
        return (
            f"{self.system:<14} {self.rate:>9,.0f} records/s  {self.cpu_us:6.2f} us CPU  "
            f"{self.outputs:>9,} outputs  {self.logged:>9,} logged  {self.commits:>4} commits  "
            f"load {self.load:.1f}"
        )

    def as_dict(self) -> dict[str, Any]:
        """For the file of results."""
        return asdict(self)


def headwater(servers: str, job: Job) -> Run:
    """StreamThreads as processes, driven by ``headwater_run``."""
    with names(servers) as (application_id, sink):
        found = json_of(headwater_command(servers, job, application_id, sink))
        return _checked("headwater", servers, job, application_id, sink, found)


def headwater_command(servers: str, job: Job, application_id: str, sink: str) -> list[str]:
    """Return the command line of a run of StreamThreads."""
    return [
        *(sys.executable, "-m", "benchmarks.headwater_run", "--bootstrap", servers),
        *("--work", job.work, "--input", job.source.topic, "--output", sink),
        *("--application-id", application_id, "--records", str(job.source.processed)),
        *("--threads", str(job.threads)),
        *(("--marks", *map(str, job.marks)) if job.marks else ()),
        "--",
        *(f"{name}={value}" for name, value in job.settings.items()),
    ]


def java(servers: str, job: Job, jvm: Sequence[str] = JVM) -> Run:
    """Java Kafka Streams, driven by ``Yardstick``."""
    with names(servers) as (application_id, sink), directory() as state_dir:
        command = java_command(servers, job, application_id, sink, state_dir, jvm)
        found = json_of([*command, f"records={job.source.processed}"])
        return _checked("java", servers, job, application_id, sink, found)


def java_command(
    servers: str, job: Job, application_id: str, sink: str, state_dir: str, jvm: Sequence[str] = JVM
) -> list[str]:
    """The command line of the yardstick, without an end."""
    tool = JavaTool(HERE / "java")
    settings = {
        "work": job.work,
        "input": job.source.topic,
        "output": sink,
        "application.id": application_id,
        "bootstrap.servers": servers,
        "state.dir": state_dir,
        "num.stream.threads": str(job.threads),
        "producer.linger.ms": "20",
        **({"marks": ",".join(map(str, job.marks))} if job.marks else {}),
        **job.settings,
    }
    return tool.command("Yardstick", *(f"{n}={v}" for n, v in settings.items()), jvm=jvm)


def bare(servers: str, job: Job) -> Run:
    """The bare confluent-kafka loop."""
    with names(servers) as (application_id, sink):
        program = (sys.executable, "-m", "benchmarks.bare_loop")
        found = json_of([*program, servers, job.source.topic, sink, str(job.source.records)])
        return _checked("bare loop", servers, job, application_id, sink, found)


def quixstreams(servers: str, job: Job) -> Run:
    """The keyed count of quixstreams."""
    with names(servers) as (application_id, sink), directory() as state_dir:
        program = (str(python_of(f"quixstreams=={QUIX}")), str(HERE / "quix_count.py"))
        found = json_of(
            [*program, servers, job.source.topic, sink, str(job.source.records), state_dir]
        )
        return _checked("quixstreams", servers, job, application_id, sink, found)


def peer(system: str, servers: str, job: Job) -> Run:
    """A work of one of the ``PEERS``, without settings: each runs as its program says."""
    requirement, program = PEERS[system]
    with names(servers) as (application_id, sink):
        command = (str(python_of(requirement)), str(HERE / program))
        source, jars_of = job.source, []
        if system == "flink":
            jars_of = jars.ensure(JarSet(name="flink", jars=(_FLINK,), digest=_FLINK.sha256[:16]))
        found = json_of(
            [
                *command,
                *(servers, source.topic, sink, str(source.records), job.work),
                *map(str, jars_of),
            ]
        )
        return _checked(system, servers, job, application_id, sink, found)


def python_of(requirement: str) -> Path:
    """Python of a virtual environment with one distribution, made on first use."""
    place = cache_dir() / re.sub(r"\[.*]|=", "", requirement.replace("==", "-"))
    python = place / "bin" / "python"
    ready = place / ".installed"
    if not ready.exists():
        venv.create(place, with_pip=True)
        pip = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        subprocess.run([*pip, requirement], check=True)
        ready.touch()
    return python


@contextmanager
def directory() -> Iterator[str]:
    """A fresh directory for state; removed afterwards."""
    path = tempfile.mkdtemp(prefix="headwater-bench-")
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


@contextmanager
def names(servers: str) -> Iterator[tuple[str, str]]:
    """A fresh application id and output topic; everything of that name is deleted afterwards."""
    application_id = f"bench-{uuid.uuid4().hex[:8]}"
    sink = f"{application_id}-output"
    inputs.create(servers, sink)
    try:
        yield application_id, sink
    finally:
        inputs.delete(servers, application_id)


def json_of(command: Sequence[str]) -> dict[str, Any]:
    """Run a system to its end; what it prints last is its report.

    Raises:
        RuntimeError: it failed, or printed no report.
    """
    with tempfile.TemporaryFile("w+") as errors:
        # An open pipe as standard input: its end would end the yardstick.
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
        )
        deadline = threading.Timer(RUN_TIMEOUT_S, process.kill)
        deadline.start()
        try:
            assert process.stdout is not None
            lines = [line for line in process.stdout if line.startswith("{")]
            status = process.wait()
        finally:
            deadline.cancel()
            process.kill()
            process.wait()
        if status != 0 or not lines:
            errors.seek(0)
            raise RuntimeError(f"{command[:4]} ended with {status}:\n{errors.read()[-3000:]}")
    found: dict[str, Any] = json.loads(lines[-1])
    return found


def _checked(
    system: str, servers: str, job: Job, application_id: str, sink: str, found: Mapping[str, Any]
) -> Run:
    """Read what was written and refuse a run whose counts are wrong."""
    load = os.getloadavg()[0]
    written = audit.read(
        servers,
        sink,
        partitions=inputs.PARTITIONS,
        counts=job.counts,
        as_text=system == "pathway",
    )
    logged = audit.Written(0, 0, 0, 0)
    if job.counts and system not in _WITHOUT_CHANGELOG:
        changelog = f"{application_id}-counts-changelog"
        logged = audit.read(servers, changelog, partitions=inputs.PARTITIONS, counts=True)
        counted = job.source.records
        if job.work == "words":
            counted *= inputs.WORDS_PER_LINE
        _expect(system, "counts in the changelog", logged.total, counted)
    if job.counts:
        words = inputs.WORDS_PER_LINE if job.work == "words" else 1
        _expect(system, "counts in the output", written.total, job.source.records * words)
        if job.settings.get("statestore.cache.max.bytes") == "0":
            _expect(system, "outputs", written.records, job.source.records * words)
    elif job.work in WINDOWED:
        changelog = f"{application_id}-counts-changelog"
        logged = audit.read(servers, changelog, partitions=inputs.PARTITIONS, counts=True)
        if job.work in WINDOWS_OF:
            wanted = job.source.records * WINDOWS_OF[job.work]
            _expect(system, "counts in the changelog", logged.total, wanted)
    elif job.source.passed:
        _expect(system, "outputs", written.records, job.source.passed)
    elif job.work in JOINS:
        pass  # how much comes out is compared between the systems
    else:
        _expect(system, "outputs", written.records, job.source.records)
    return Run(
        system=system if job.threads == 1 else f"{system} x{job.threads}",
        records=int(found["records"]),
        seconds=float(found["seconds_closed"]),
        cpu_us=float(found["cpu_seconds"]) / int(found["records"]) * 1e6,
        outputs=written.records,
        output_bytes=written.size,
        logged=logged.records,
        logged_bytes=logged.size,
        counted=logged.total,
        peak_rss_mb=float(found.get("peak_rss_mb", 0.0)),
        load=load,
        ratios=dict(found.get("ratios", {})),
        commits=written.commits,
    )


def _expect(system: str, what: str, found: int, wanted: int) -> None:
    if found != wanted:
        raise RuntimeError(f"{system}: {found:,} {what}, {wanted:,} expected: the run is void")
