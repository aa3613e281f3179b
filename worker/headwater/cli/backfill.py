"""``headwater backfill -f streamapp.yaml``: rebuild all state of an application on Spark."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, TextIO

from headwater import driverlock
from headwater.cli import streamapps
from headwater.cli.formerly import worker_ids
from headwater.cli.options import add_stream_app, pairs, told_of_spark
from headwater.errors import ConfigError, MissingTopicError
from headwater.spark.progress import line_of

if TYPE_CHECKING:
    import argparse

    from headwater.model.streamapp import StreamApp
    from headwater.spark.application import BackfillSettings
    from headwater.spark.backfill import Backfill
    from headwater.spark.progress import Shown

_AGAIN: Final = "run the backfill again"
_LINE_EVERY_S: Final = 10.0
_COLUMNS: Final = 80
_OUTPUTS: Final = ("none", "latest", "all")
_TARGETS: Final = ("auto", "t1", "t2")
_WORDS: Final = ("beginning", "earliest")


def register(subparsers: Any) -> None:
    """Add the sub-command."""
    parser = subparsers.add_parser(
        "backfill",
        help="rebuild all state of an application on Spark",
        description="Read the source topics of an application from the beginning up to now, and "
        "build all its state anew on Spark. Its workers then go on where that has ended. The "
        "application must not run meanwhile. A backfill that was interrupted goes on when the "
        "command is run again, with what --from and --to it was begun with.",
    )
    add_stream_app(parser)
    parser.add_argument(
        "--from",
        dest="since",
        metavar="WHERE",
        help="beginning (default); earliest: what retention has left; or a time such as "
        "2026-01-31T08:00:00Z, which is UTC if it names no zone",
    )
    parser.add_argument("--to", dest="until", metavar="TIME", help="a time; default: all there is")
    parser.add_argument(
        "--outputs",
        choices=_OUTPUTS,
        default="none",
        help="what is written to topics that are not the application's own: nothing (default), of "
        "each task the last record of a key and topic, or every record",
    )
    parser.add_argument(
        "--target",
        choices=_TARGETS,
        default="auto",
        help="auto (default): DataFrames wherever the result is provably the same, else the "
        "application's own tasks (see `headwater explain`); t1: its tasks for all; t2: refuse what "
        "DataFrames cannot do",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="check and say what would be done; change nothing"
    )
    parser.add_argument(
        "--abort",
        action="store_true",
        help="throw away what an unfinished backfill has loaded; the application begins as after a "
        "reset",
    )
    parser.add_argument(
        "--master",
        metavar="URL",
        help="of Spark, instead of the StreamApp's (default: spec.spark.master, else local[*])",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Backfill and return the exit code."""
    from headwater.spark.backfill import Backfill  # noqa: PLC0415 - keeps `--help` fast
    from headwater.spark.cluster import SparkCluster  # noqa: PLC0415

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _terminate)
    app = streamapps.read(arguments.file, arguments.app, arguments.topology)
    root = streamapps.home_of(arguments.home)
    streamapps.check_not_up(root, app.name, again=_AGAIN)
    if (driver := driverlock.driver_of(root, app.application_id)) is not None:
        raise driver.refusal(_AGAIN)
    cluster = SparkCluster(*spark_of(arguments, app), is_apart=True)
    if not arguments.abort:
        cluster.check()
    with ExitStack() as stack:
        is_private = not streamapps.names_broker(app, arguments.bootstrap, arguments.config)
        local = streamapps.without_credentials(app) if is_private else app
        settings = settings_of(arguments, local)
        if is_private:
            address = stack.enter_context(streamapps.private_kafka(root))
            config = {**settings.application.config, "bootstrap.servers": address}
            settings = replace(settings, application=replace(settings.application, config=config))
        if not (arguments.dry_run or arguments.abort):
            streamapps.create_listed(app, settings.application.config)
        if range_told := told_range(settings.since, settings.until):
            sys.stderr.write(f"{app.name}: {range_told}\n")
        backfill = Backfill(settings, cluster, Printer())
        stack.callback(cluster.close)
        try:
            lines = _carried_out(arguments, app, backfill)
        except KeyboardInterrupt:
            sys.stderr.write(f"\n{_interrupted(app.name, is_begun=backfill.is_under_way)}\n")
            raise
    print("\n".join(lines))
    return 0


def _terminate(number: int, _frame: object) -> NoReturn:
    """End as by Ctrl-C, with the same words; by a second signal at once."""
    signal.signal(number, signal.SIG_DFL)
    raise KeyboardInterrupt


def told_range(since: str | int | None, until: int | None) -> str:
    """Say which times are meant, with their zone; empty if none was given. Pure."""
    parts = (
        f"from {_time(since)}" if isinstance(since, int) else "",
        f"to {_time(until)}" if until is not None else "",
    )
    return " ".join(filter(None, parts))


def _time(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _carried_out(arguments: argparse.Namespace, app: StreamApp, backfill: Backfill) -> list[str]:
    if arguments.abort:
        return [_aborted(app.name, had_one=backfill.abort())]
    if not arguments.dry_run:
        return backfill.run().lines()
    try:
        return backfill.plan().lines()
    except MissingTopicError as error:
        if not app.spec.kafka.topics:
            raise
        raise MissingTopicError(
            f"{error}. The backfill itself creates the topics that spec.kafka.topics lists"
        ) from error


def _interrupted(name: str, *, is_begun: bool) -> str:
    if not is_begun:
        return f"{name}: interrupted; nothing was changed"
    return (
        f"{name}: interrupted. The backfill has not finished, and nobody can run the application "
        "until it has: run the same command again to go on, or with --abort to give it up"
    )


def spark_of(arguments: argparse.Namespace, app: StreamApp) -> tuple[str, dict[str, str]]:
    """Return master and settings of Spark; this machine, if nobody names a master.

    Raises:
        ConfigError: ``--spark-config`` has another form.
    """
    master, chosen = told_of_spark(arguments, app)
    return master or "local[*]", chosen


def _aborted(name: str, *, had_one: bool) -> str:
    if had_one:
        return f"{name}: the backfill is given up; the application begins as after a reset"
    return f"{name}: no backfill is under way"


class Printer:
    """Says how a backfill comes on: with a bar in place on a terminal, else now and then.

    Args:
        to: what is written to; standard error if not given.
    """

    def __init__(self, to: TextIO | None = None) -> None:
        self._to = to or sys.stderr
        self._is_terminal = self._to.isatty()
        self._due = 0.0
        self._is_open = False

    def step(self, text: str) -> None:
        """Begin a line of its own."""
        self._end_line()
        self._to.write(f"{text}\n")
        self._due = time.monotonic() + _LINE_EVERY_S

    def progress(self, progress: Shown) -> None:
        """Show how far the step is."""
        if self._is_terminal:
            # A line that is wrapped would not be overwritten.
            columns = os.get_terminal_size(self._to.fileno()).columns or _COLUMNS
            self._to.write(f"\r  {line_of(progress, columns - len('  ') - 1)}\033[K")
            self._to.flush()
            self._is_open = True
        elif time.monotonic() >= self._due or progress.is_complete:
            self._due = time.monotonic() + _LINE_EVERY_S
            self._to.write(f"  {progress}\n")

    def _end_line(self) -> None:
        if self._is_open:
            self._to.write("\n")
            self._is_open = False


def settings_of(arguments: argparse.Namespace, app: StreamApp) -> BackfillSettings:
    """Return what the backfill is told.

    Raises:
        ConfigError: an option has another form.
    """
    from headwater.native.application import ApplicationSettings  # noqa: PLC0415
    from headwater.service.settings import config_of, topology_source  # noqa: PLC0415
    from headwater.spark.application import BackfillSettings  # noqa: PLC0415
    from headwater.spark.outputs import Outputs  # noqa: PLC0415

    overrides: dict[str, str | int] = dict(
        pairs("--config", arguments.config, "statestore.cache.max.bytes=0")
    )
    if arguments.bootstrap:
        overrides["bootstrap.servers"] = arguments.bootstrap
    since, until = _range(arguments)
    return BackfillSettings(
        application=ApplicationSettings(
            config=config_of(app, overrides, arguments.kafka_dir),
            topology=topology_source(app.spec.topology),
            # Spark's Python workers have a working directory of their own.
            import_path=(*arguments.import_path, str(Path.cwd())),
        ),
        outputs=Outputs(arguments.outputs),
        since=since,
        until=until,
        target=arguments.target,
        worker_ids=worker_ids(arguments.home, app),
    )


def _range(arguments: argparse.Namespace) -> tuple[str | int | None, int | None]:
    given = arguments.since
    since = given if given is None or given in _WORDS else _time_ms("--from", given)
    until = None if arguments.until is None else _time_ms("--to", arguments.until)
    if isinstance(since, int) and until is not None and since >= until:
        raise ConfigError(
            f"--from {given} is not before --to {arguments.until}: no record lies between, and the "
            "state would be empty; exchange them, or leave one out"
        )
    if isinstance(since, int) and since > time.time() * 1000:
        raise ConfigError(
            f"--from {given} lies in the future: no record is as young, and the state would be "
            "empty; give an earlier time, or leave it out"
        )
    return since, until


def _time_ms(flag: str, text: str) -> int:
    """Return a time in milliseconds; what is negative means something else to Kafka."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError as error:
        raise _no_time(flag, text) from error
    found = int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)
    if found < 0:
        raise _no_time(flag, text)
    return found


def _no_time(flag: str, text: str) -> ConfigError:
    words = "beginning, earliest or " if flag == "--from" else ""
    return ConfigError(
        f"{flag} {text}: expected {words}a time since 1970, such as 2026-01-31T08:00:00Z"
    )
