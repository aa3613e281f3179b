"""The parts of a backfill that need neither Kafka nor Spark."""

from __future__ import annotations

import argparse
import fcntl
import os
import signal
import struct
import subprocess
import termios
import time
from typing import TYPE_CHECKING

import pytest
from tests.support.subtopologies import topology

from headwater.cli import backfill, streamapps
from headwater.cli.backfill import Printer
from headwater.cli.main import main
from headwater.errors import ConfigError
from headwater.ids import TaskId, TopicPartition
from headwater.local.java import find_java
from headwater.model.backfill import BackfillState, Manifest
from headwater.model.streamapp import TopologySource
from headwater.spark.again import gaps, read_again
from headwater.spark.cluster import with_retries
from headwater.spark.java import java_home, without_module
from headwater.spark.outputs import ChosenOutputs, Outputs
from headwater.spark.progress import Computing, Progress
from headwater.spark.report import BackfillReport
from headwater.spark.work import TaskDone
from headwater.testing.collector import MemoryCollector

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from headwater.errors import ProductionError
    from headwater.model.topics import TopologyReport
    from headwater.ports import Headers, RecordCollector
    from headwater.spark.application import BackfillSettings
    from headwater.spark.progress import Shown


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (topology(("A", "B"), ("C", "D")), {}),
        (topology(("A", "M"), ("M", "B")), {"M": {"A"}}),
        (
            topology(("A", "x"), ("xC", "yM"), ("yM", "N"), ("N", "M")),
            {"M": set("xACN"), "N": set("yMxAC")},
        ),
        (topology(("A", "x"), ("xy", "yM"), ("M", "B")), {"M": set("xyA")}),
        (topology(("AM", "M")), {"M": {"A", "M"}}),
    ],
    ids=["none", "directly", "by repartition topics", "in a circle", "itself"],
)
def test_what_is_read_again_is_known_with_all_that_comes_to_it(
    given: TopologyReport, expected: dict[str, set[str]]
) -> None:
    assert read_again(given) == expected


@pytest.mark.parametrize(
    ("committed", "start", "end", "expected"),
    [
        (None, None, 7, (0, 7)),
        (None, 0, 0, None),
        (None, 7, 7, None),
        (3, 0, 7, (3, 7)),
        (7, 0, 7, None),
        (7, None, 7, None),
        (7, 5, 7, None),
        (3, 7, 7, None),
        (3, 5, 7, (5, 7)),
        (9, 0, 7, (9, 7)),
        (9, 7, 7, (9, 7)),
    ],
    ids=[
        "new",
        "new and empty",
        "new and nothing wanted",
        "behind",
        "at the end",
        "a repartition topic at the end",
        "at the end of a part",
        "behind what is wanted",
        "behind a part",
        "beyond",
        "beyond, and nothing wanted",
    ],
)
def test_outputs_are_all_there_only_if_workers_are_where_the_backfill_ends(
    committed: int | None, start: int | None, end: int, expected: tuple[int, int] | None
) -> None:
    one, other = TopicPartition("in", 0), TopicPartition("in", 1)
    found = gaps(
        [other, one],
        committed={other: 4} | ({} if committed is None else {one: committed}),
        start={other: 0} | ({} if start is None else {one: start}),
        ends={one: end, other: 4},
    )

    assert [(gap.partition, gap.processed, gap.end) for gap in found] == (
        [] if expected is None else [(one, *expected)]
    )


@pytest.mark.parametrize(
    ("master", "expected"),
    [
        ("local", "local[1,4]"),
        ("local[2]", "local[2,4]"),
        ("local[*]", "local[*,4]"),
        ("local[2,1]", "local[2,1]"),
        ("local-cluster[2,1,1024]", "local-cluster[2,1,1024]"),
        ("spark://host:7077", "spark://host:7077"),
    ],
)
def test_a_local_master_runs_failed_tasks_again(master: str, expected: str) -> None:
    assert with_retries(master) == expected


class Refuses:
    """What a sink gives with each output."""

    def __call__(
        self,
        error: ProductionError,
        key: bytes | None,
        value: bytes | None,
        timestamp: int,
        headers: Headers,
        partition: int | None,
    ) -> None:
        raise error


@pytest.mark.parametrize(
    ("outputs", "written"),
    [
        (Outputs.NONE, ["app-x-changelog", "app-y-repartition", "dead"]),
        (Outputs.ALL, ["app-x-changelog", "app-y-repartition", "out", "dead"]),
    ],
)
def test_state_and_dead_letters_are_always_written(outputs: Outputs, written: list[str]) -> None:
    target = MemoryCollector()
    chosen: RecordCollector = ChosenOutputs(
        target, internal={"app-x-changelog", "app-y-repartition"}, outputs=outputs
    )

    chosen.sender("app-x-changelog")(b"k", b"v", 1, None, 0)
    chosen.sender("app-y-repartition", Refuses())(b"k", b"v", 1, None, None)
    chosen.sender("out", Refuses())(b"k", b"v", 1, None, None)
    chosen.sender("dead")(b"k", b"v", 1, None, None)

    assert [record.topic for record in target.records] == written
    assert isinstance(chosen, ChosenOutputs)
    assert chosen.dead_letters == 1


def read(done: int) -> Progress:
    """What readers of 10,000 records have done in 10 seconds."""
    return Progress(done=done, total=10_000, new=done, elapsed_s=10)


@pytest.mark.parametrize(
    ("progress", "text"),
    [
        (Progress(done=0, total=9, new=0, elapsed_s=1), "  0%  0 of 9 records, 0/s"),
        (
            Progress(done=2500, total=10_000, new=1500, elapsed_s=10),
            " 25%  2,500 of 10,000 records, 150/s, 50 s left",
        ),
        (
            Progress(done=1, total=7322, new=1, elapsed_s=1),
            "  0%  1 of 7,322 records, 1/s, 2:02:01 left",
        ),
        (Progress(done=0, total=0, new=0, elapsed_s=0), "100%  0 of 0 records, 0/s"),
        (
            Computing(stages=2, done=3, total=40),
            "2 stages of Spark done; 3 of 40 tasks of the next",
        ),
        (
            Computing(stages=0, done=0, total=2, reading=read(0)),
            "0 stages of Spark done; 0 of 2 tasks of the next",
        ),
        (
            Computing(stages=0, done=0, total=2, reading=read(2500)),
            "reading:  25%  2,500 of 10,000 records, 250/s, 30 s left",
        ),
        (
            Computing(stages=1, done=3, total=4, reading=read(10_000)),
            "10,000 records read, 1 stages of Spark done; 3 of 4 tasks of the next",
        ),
    ],
)
def test_progress_has_rate_and_time_left(progress: Shown, text: str) -> None:
    assert str(progress) == text


def test_the_printer_says_steps_and_ends(capsys: pytest.CaptureFixture[str]) -> None:
    printer = Printer()
    printer.step("computing")
    printer.progress(Progress(done=1, total=2, new=1, elapsed_s=1))
    printer.progress(Progress(done=2, total=2, new=2, elapsed_s=1))

    assert capsys.readouterr().err.splitlines() == [
        "computing",
        "  100%  2 of 2 records, 2/s, 0 s left",
    ]


def done(task: str, **counts: int) -> TaskDone:
    return TaskDone(
        task=TaskId.parse(task),
        **{"processed": 0, "dropped": 0, "dead_letters": 0, "keys": 0, **counts},
    )


EARLIER = (
    "\n  not counted: what was done before in 2 tasks, by an earlier attempt or a Python worker "
    "that was killed (this was attempt 4)"
)
REPORT = """\
app: backfill 0123456789ab is committed; workers go on from its offsets
  source records: 1,500 (2 partitions)
  this run: 2,500 records, 3 tasks, 12.3 s
  keys in their stores: 1,007
  dropped (late, without a key, let go by a handler): 5
  dead letters: 3"""


@pytest.mark.parametrize(
    ("earlier", "lacking"), [(0, ""), (2, EARLIER)], ids=["all by this run", "a part earlier"]
)
def test_a_report_adds_up_what_the_tasks_have_counted(earlier: int, lacking: str) -> None:
    one, other = TopicPartition("in", 0), TopicPartition("in", 1)
    manifest = Manifest(
        generation="0123456789ab",
        attempt=4,
        state=BackfillState.COMMITTED,
        topology="",
        begun_ms=0,
        outputs="none",
        start={one: 500, other: 0},
        cut={one: 1_000, other: 1_000},
    )
    report = BackfillReport(
        application_id="app",
        manifest=manifest,
        tasks=(
            done("0_0", processed=500),
            done("0_1", processed=1_000, dropped=4, dead_letters=1),
            done("1_0", processed=1_000, dropped=1, dead_letters=2, keys=1_007),
        ),
        earlier=earlier,
        took_s=12.345,
    )

    after = "  this run: 2,500 records, 3 tasks, 12.3 s"
    assert report.lines() == REPORT.replace(after, after + lacking).splitlines()


@pytest.fixture
def far_east(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The clock on the wall is nine hours ahead of UTC."""
    with monkeypatch.context() as changed:
        changed.setenv("TZ", "EAST-9")
        time.tzset()
        yield
    time.tzset()


def settings_of(directory: Path, *given: str) -> BackfillSettings:
    file = directory / "app.yaml"
    file.write_text(APP.replace("NAME", "name"))
    parser = argparse.ArgumentParser()
    backfill.register(parser.add_subparsers())
    arguments = parser.parse_args(["backfill", "-f", str(file), *given])
    return backfill.settings_of(arguments, streamapps.read(file, None, None))


def test_a_range_that_ends_before_it_begins_is_refused(tmp_path: Path) -> None:
    """Its state would be empty, and workers would go on behind what was never read."""
    later, earlier = "2026-11-25T23:00:00Z", "2026-11-25T08:00:00Z"
    with pytest.raises(ConfigError, match=f"--from {later} is not before --to {earlier}"):
        settings_of(tmp_path, "--from", later, "--to", earlier)


@pytest.mark.parametrize("flag", ["--from", "--to"])
@pytest.mark.parametrize("given", ["0001-01-01T00:00:00Z", "1969-12-31T23:59:59.999Z", "today"])
def test_what_is_no_time_of_kafkas_is_refused(flag: str, given: str, tmp_path: Path) -> None:
    """A negative one means the end to a broker, or the beginning, or nothing."""
    with pytest.raises(ConfigError, match=rf"{flag} {given}: expected .*since 1970"):
        settings_of(tmp_path, flag, given)


@pytest.mark.usefixtures("far_east")
@pytest.mark.parametrize(
    ("flag", "given", "expected"),
    [
        ("--from", "2026-01-31T08:00:00Z", 1_769_846_400_000),
        ("--to", "2026-01-31T08:00:00Z", 1_769_846_400_000),
        ("--to", "2026-01-31T08:00:00.123Z", 1_769_846_400_123),
        ("--from", "2026-01-31T10:00:00+02:00", 1_769_846_400_000),
        # Without a zone it is UTC, wherever the command runs.
        ("--from", "2026-01-31T08:00:00", 1_769_846_400_000),
        ("--to", "2026-01-31", 1_769_817_600_000),
        ("--from", "earliest", "earliest"),
        ("--from", "beginning", "beginning"),
    ],
)
def test_times_are_given_in_seconds_and_kept_in_milliseconds(
    flag: str, given: str, expected: int | str, tmp_path: Path
) -> None:
    settings = settings_of(tmp_path, flag, given)

    asked = {"--from": settings.since, "--to": settings.until}
    assert asked == {"--from": None, "--to": None} | {flag: expected}


def test_on_a_terminal_a_bar_grows_in_place() -> None:
    screen, terminal = os.openpty()
    rows_and_columns = struct.pack("HHHH", 24, 80, 0, 0)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, rows_and_columns)
    with os.fdopen(screen, "rb", buffering=0) as seen, os.fdopen(terminal, "w") as written:
        printer = Printer(written)
        printer.step("computing")
        printer.progress(Progress(done=0, total=4, new=0, elapsed_s=1))
        printer.progress(Progress(done=1, total=4, new=1, elapsed_s=1))
        printer.progress(Computing(stages=0, done=0, total=2, reading=read(5_000)))
        printer.progress(Computing(stages=1, done=3, total=4, reading=read(10_000)))
        printer.progress(Computing(stages=1_000_000, done=0, total=0, reading=read(10_000)))
        printer.step("committing")
        written.flush()
        shown = b""
        while not shown.endswith(b"committing\r\n"):
            shown += seen.read(4_096)

    first, drawn, *rest = shown.decode().split("\r\n")
    assert [first, *rest] == ["computing", "committing", ""]
    lines = drawn.split("\r  ")
    assert lines.pop(0) == ""
    # The bar takes what is left of a line, which is cut if need be.
    assert [line.removesuffix("\033[K") for line in lines] == [
        "[..............................]   0%  0 of 4 records, 0/s",
        "[#######.......................]  25%  1 of 4 records, 1/s, 3 s left",
        "[#########.........] reading:  50%  5,000 of 10,000 records, 500/s, 10 s left",
        "[###..] 10,000 records read, 1 stages of Spark done; 3 of 4 tasks of the next",
        "[#####] 10,000 records read, 1,000,000 stages of Spark done; 0 of 0 tasks of ",
    ]


def test_a_java_without_the_vector_module_is_not_asked_for_it(tmp_path: Path) -> None:
    java = tmp_path / "trimmed java"
    java.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    java.chmod(0o755)

    home = without_module(java, tmp_path / "home")

    arguments = ["-cp", "a b", "--add-modules=jdk.incubator.vector", "-Dx=$y", "Main"]
    said = subprocess.run(
        [home / "bin" / "java", *arguments], capture_output=True, text=True, check=True
    ).stdout
    assert said.splitlines() == ["-cp", "a b", "-Dx=$y", "Main"]
    assert without_module(java, tmp_path / "home") == home


def test_a_child_takes_the_java_that_was_made_for_its_parent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\necho 'openjdk version \"21.0.4\"' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("HEADWATER_CACHE", str(tmp_path / "cache"))
    home = without_module(java, tmp_path / "cache" / "spark-java")
    monkeypatch.setenv("JAVA_HOME", str(home))

    find_java.cache_clear()
    try:
        assert java_home() == home
    finally:
        find_java.cache_clear()

    made = (home / "bin" / "java").read_text()
    assert str(java) in made
    assert str(home) not in made, "it would run itself for ever"


APP = """
apiVersion: headwater.dev/v1alpha1
kind: StreamApp
metadata: {name: NAME}
spec:
  topology: {module: "examples.word_count.app:build"}
  replicas: 1
"""
IN_A_MAP = APP.replace(
    'module: "examples.word_count.app:build"', "configMapRef: {name: code, key: app.py}"
)


@pytest.mark.parametrize(
    ("documents", "arguments", "words"),
    [
        ("", [], ["there is no StreamApp in it"]),
        (IN_A_MAP, [], ["there is no ConfigMap 'code'", "inline or module"]),
        (APP + "---" + APP.replace("NAME", "other"), [], ["holds name, other", "--app"]),
        (APP, ["--app", "others"], ["holds name", "--app"]),
        (APP, ["--from", "yesterday"], ["--from yesterday", "earliest"]),
        (APP, ["--to", "earliest"], ["--to earliest", "2026-01-31T08:00:00Z"]),
        (APP, ["--spark-config", "memory"], ["--spark-config memory", "NAME=VALUE"]),
        (APP + "  surprise: 1", [], ["surprise"]),
    ],
    ids=["empty", "no map", "several", "not there", "from", "to", "spark option", "bad field"],
)
def test_a_wrong_command_says_what_to_write(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    documents: str,
    arguments: list[str],
    words: list[str],
) -> None:
    file = tmp_path / "app.yaml"
    file.write_text(documents.replace("NAME", "name"))

    code = main(["backfill", "-f", str(file), "--home", str(tmp_path), *arguments])

    said = capsys.readouterr().err
    assert code == 2, said
    assert [word for word in words if word not in said] == []


def test_a_driver_of_a_control_loop_starts_no_kafka_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "app.yaml"
    file.write_text(APP.replace("NAME", "name"))
    where = ["--state-dir", str(tmp_path / "state"), "--home", str(tmp_path / "home")]

    handler = signal.getsignal(signal.SIGTERM)
    try:
        code = main(["spark", "-f", str(file), "--generation", "1", *where])
    finally:
        signal.signal(signal.SIGTERM, handler)

    said = capsys.readouterr().err
    assert code == 2, said
    assert "bootstrap.servers is missing: set spec.kafka.bootstrapServers" in said
    assert not (tmp_path / "home").exists()


def test_what_headwater_up_runs_here_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from headwater_operator.local.layout import ClusterDir
    from headwater_operator.local.rootlock import RootLock

    file = tmp_path / "app.yaml"
    file.write_text(APP.replace("NAME", "name"))
    cluster = ClusterDir(tmp_path)
    cluster.app("name").path.mkdir(parents=True)
    cluster.app("name").app.write_text("{}")
    lock = RootLock(cluster.lock)
    assert lock.acquire()
    try:
        code = main(["backfill", "-f", str(file), "--home", str(tmp_path)])
    finally:
        lock.release()

    assert code == 3
    assert "`headwater up` runs name" in capsys.readouterr().err


def test_a_topology_in_a_config_map_of_the_file_is_put_in(tmp_path: Path) -> None:
    file = tmp_path / "app.yaml"
    code = "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: code}\ndata: {app.py: 'x = 1'}\n"
    app = IN_A_MAP.replace("NAME", "name")
    file.write_text(app + code)
    assert streamapps.read(file, None, None).spec.topology == TopologySource(inline="x = 1")

    file.write_text(app)
    named = streamapps.read(file, "name", "module:build")
    assert named.spec.topology == TopologySource(module="module:build")
