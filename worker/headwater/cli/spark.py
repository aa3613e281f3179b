"""``headwater spark -f streamapp.yaml``: the driver of an application that Spark runs."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

from headwater import driverlock, errors
from headwater.cli import streamapps
from headwater.cli.formerly import worker_ids
from headwater.cli.options import add_stream_app, pairs, told_of_spark
from headwater.errors import HeadwaterError
from headwater.files import replace_file
from headwater.model.drivercontract import END_WORDS, ENV_POD
from headwater_entry import end_at_once

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from headwater.model.streamapp import StreamApp
    from headwater.spark.turns.driver import ContinuousSettings

_AGAIN: Final = "start it on Spark again"
ENDED_FILE: Final = "ended.json"
"""In the state directory: why the driver has ended by itself."""


def register(subparsers: Any) -> None:
    """Add the sub-command."""
    parser = subparsers.add_parser(
        "spark",
        help="run an application continuously on Spark",
        description="Run an application as one streaming query of Spark, with the offsets, "
        "changelogs and outputs that its workers would have: each may go on where the other has "
        "stopped. Ends at SIGTERM or Ctrl-C after the micro-batch that runs.",
    )
    add_stream_app(parser)
    parser.add_argument("--master", metavar="URL", help="of Spark, instead of the StreamApp's")
    parser.add_argument(
        "--state-dir",
        type=Path,
        metavar="DIR",
        help="for the stores of tasks and Spark's checkpoint; of this application alone (default: "
        "./.headwater/spark/<application id>)",
    )
    parser.add_argument(
        "--http-host",
        default="127.0.0.1",
        metavar="ADDRESS",
        help="where /readyz, /status and /metrics are served (default: %(default)s)",
    )
    parser.add_argument(
        "--http-port",
        type=int,
        default=0,
        metavar="PORT",
        help="for /readyz, /status and /metrics; 0, the default, picks a free one: driver.json in "
        "the state directory says which",
    )
    parser.add_argument(
        "--generation",
        type=int,
        metavar="N",
        help="of the engine record that a control loop has written for this driver; left out, the "
        "driver takes the application over by itself",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run until a signal comes, and return the exit code."""
    from headwater.spark.turns.driver import Continuous  # noqa: PLC0415 - keeps `--help` fast
    from headwater.spark.turns.status import DriverStatus, State, StatusServer  # noqa: PLC0415
    from headwater.spark.turns.telling import LiveLine  # noqa: PLC0415

    if threading.current_thread() is threading.main_thread():
        # A driver of a control loop has nothing to close yet; by hand, there may be a Kafka.
        is_by_hand = arguments.generation is None
        signal.signal(signal.SIGTERM, _interrupt if is_by_hand else end_at_once)
    app = streamapps.read(arguments.file, arguments.app, arguments.topology)
    status = DriverStatus(app.application_id)
    with ExitStack() as stack:
        tell = _be_alone(arguments, app, stack)
        settings = _settings(arguments, app, stack)
        driver = Continuous(settings, status)
        end = settings.state_dir / ENDED_FILE
        end.unlink(missing_ok=True)
        server = StatusServer(
            arguments.http_port, status, settings.state_dir, host=arguments.http_host
        )
        stack.callback(server.close)
        if arguments.generation is None:
            tell(server.endpoint)
            sys.stderr.write(f"{app.name}: http://{server.endpoint}/status; Ctrl-C stops it\n")
            stack.callback(LiveLine(app.name, status.document, driver.lag).close)
        heed_signals = partial(_stop_at_signals, driver.stop)
        heed_signals()
        try:
            driver.run(server.announce, heed_signals)
        except HeadwaterError as error:
            status.move(State.FAILED, str(error))
            _write_end(end, error)
            raise
    return 0


def _be_alone(
    arguments: argparse.Namespace, app: StreamApp, stack: ExitStack
) -> Callable[[str], None]:
    """Refuse beside another driver of this machine, or `headwater up`; keep others from beginning.

    A control loop starts its driver when it knows that there is no other one.

    Raises:
        InstanceRunningError: one of them runs the application.
    """
    if arguments.generation is not None:
        return lambda _: None
    root, state_dir = streamapps.home_of(arguments.home), _state_dir(arguments, app)
    held = driverlock.held(root, state_dir, app.name, app.application_id, again=_AGAIN)
    tell = stack.enter_context(held)
    streamapps.check_not_up(root, app.name, again=_AGAIN)
    return tell


def _state_dir(arguments: argparse.Namespace, app: StreamApp) -> Path:
    return arguments.state_dir or Path(".headwater") / "spark" / app.application_id


def _write_end(file: Path, error: HeadwaterError) -> None:
    """Leave the cause for the control loop, which knows the errors of ``headwater.errors``."""
    known = next(kind for kind in type(error).__mro__ if kind.__module__ == errors.__name__)
    said = {"pid": os.getpid(), "error": known.__name__, "message": str(error)}
    replace_file(file, json.dumps(said) + "\n")
    if ENV_POD in os.environ:
        # All that is left of a pod is the end of its log.
        sys.stderr.write(f"{END_WORDS}{known.__name__}\n")


def _interrupt(*_: object) -> NoReturn:
    """End a driver by hand that has not begun, with the Kafka that was started for it."""
    raise KeyboardInterrupt


def _stop_at_signals(stop: Any) -> None:
    """Stop at the first signal, and die by the second."""

    def handle(number: int, _frame: object) -> None:
        signal.signal(number, signal.SIG_DFL)
        sys.stderr.write("stopping after the micro-batch that runs\n")
        stop()

    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, handle)


def _settings(
    arguments: argparse.Namespace, app: StreamApp, stack: ExitStack
) -> ContinuousSettings:
    """Return what the driver is told; a private Kafka that it needs runs until ``stack`` ends."""
    from headwater.native.application import ApplicationSettings  # noqa: PLC0415
    from headwater.service.settings import config_of, topology_source  # noqa: PLC0415
    from headwater.spark import masters  # noqa: PLC0415
    from headwater.spark.on_kubernetes import check_master, executors  # noqa: PLC0415
    from headwater.spark.turns.driver import ContinuousSettings  # noqa: PLC0415

    spark = app.spec.spark
    master, chosen = told_of_spark(arguments, app)
    if master is not None:
        check_master(master, os.environ)
        masters.check(master)
    overrides: dict[str, str | int] = dict(
        pairs("--config", arguments.config, "statestore.cache.max.bytes=0")
    )
    is_by_hand = arguments.generation is None
    if arguments.bootstrap:
        overrides["bootstrap.servers"] = arguments.bootstrap
    elif is_by_hand and not streamapps.names_broker(app, None, arguments.config):
        app = streamapps.without_credentials(app)
        root = streamapps.home_of(arguments.home)
        overrides["bootstrap.servers"] = stack.enter_context(streamapps.private_kafka(root))
    if is_by_hand:
        streamapps.create_listed(app, config_of(app, overrides, arguments.kafka_dir))
    if master is None and (pods := executors(app.name, os.environ)) is not None:
        master, chosen = pods.master, {**pods.settings, **chosen, **pods.fixed}
    return ContinuousSettings(
        application=ApplicationSettings(
            config=config_of(app, overrides, arguments.kafka_dir),
            topology=arguments.topology or topology_source(app.spec.topology),
            # Task hosts have a working directory of their own.
            import_path=(*arguments.import_path, str(Path.cwd())),
        ),
        master=master or "local[*]",
        spark=chosen,
        trigger_ms=spark.trigger_interval_ms,
        limit=spark.max_offsets_per_trigger,
        state_dir=_state_dir(arguments, app),
        generation=arguments.generation,
        worker_ids=worker_ids(arguments.home, app) if is_by_hand else (),
    )
