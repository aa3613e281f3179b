"""``headwater kafka``: start, stop and look at the private Apache Kafka."""

from __future__ import annotations

import argparse
import json
import os
import secrets
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

from headwater.cli import streamapps
from headwater.cli.options import add_commands
from headwater.errors import LocalKafkaError, UserError
from headwater.files import replace_file
from headwater.local import class_data, jar_sets, jars
from headwater.local.broker import LOCK_FILE, KafkaBroker, read_state
from headwater.local.filelock import is_held, read_holder
from headwater.local.java import find_java
from headwater.local.paths import data_home
from headwater.local.properties import RETENTION_BYTES
from headwater.privatefiles import own_root

RETENTION_VARIABLE = "HEADWATER_KAFKA_RETENTION_BYTES"
_POLL_S = 0.1
_DETACHED_START_S = 1200.0
_STOP_S = 30.0


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``kafka`` and its sub-commands."""
    kafka = subparsers.add_parser("kafka", help="the private Apache Kafka of this machine")
    commands = add_commands(kafka)

    start = commands.add_parser("start", help="start a broker; stays in the foreground")
    _add_place(start, default="kafka in the data home; with --share that of `headwater up`")
    start.add_argument(
        "--port", type=_port, metavar="N", help="port on 127.0.0.1 (default: a free one)"
    )
    start.add_argument(
        "--advertise", metavar="HOST", help="add a plaintext listener that others reach as HOST"
    )
    start.add_argument(
        "--sasl-ssl",
        action="store_true",
        help="add a SASL_SSL listener; user and password from HEADWATER_KAFKA_USER and "
        "HEADWATER_KAFKA_PASSWORD, else 'headwater' and one made up, kept in the data directory",
    )
    start.add_argument("--detach", action="store_true", help="return as soon as the broker answers")
    start.add_argument(
        "--json", action="store_true", help="describe the running broker as one JSON line"
    )
    start.add_argument(
        "--until-eof",
        action="store_true",
        help="stop when standard input ends, so that a parent owns the broker",
    )
    start.add_argument(
        "--share",
        action="store_true",
        help="if the broker of this directory runs already, use it; start it anew when its owner "
        "stops it. Without --data the directory is that of `headwater up`",
    )
    start.add_argument(
        "--retention-bytes",
        type=_size,
        default=os.environ.get(RETENTION_VARIABLE),
        metavar="N",
        help="how much each partition keeps, unless its topic says otherwise; -1: everything "
        f"(default: ${RETENTION_VARIABLE}, else {RETENTION_BYTES}, which is 4 GiB)",
    )
    start.set_defaults(run=run_start)

    stop = commands.add_parser("stop", help="stop the broker")
    _add_shared_place(stop)
    stop.set_defaults(run=run_stop, action="stop")

    status = commands.add_parser("status", help="say whether a broker runs, and where")
    _add_shared_place(status)
    status.add_argument("--json", action="store_true", help="one JSON line per running broker")
    status.set_defaults(run=run_status, action="status")

    fetch = commands.add_parser(
        "fetch", help="fetch the jars, so that the next start needs no network"
    )
    fetch.add_argument("--all", action="store_true", help="also what the tests and benchmarks need")
    fetch.set_defaults(run=run_fetch)


def _port(text: str) -> int:
    if not text.isdigit() or not 0 < int(text) < 65536:
        raise argparse.ArgumentTypeError(f"{text!r} is no port: expected 1 to 65535")
    return int(text)


def _size(text: str) -> int:
    if text != "-1" and not (text.isdigit() and int(text) > 0):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no number of bytes: expected 1 or more, or -1 for no bound; it is given "
            f"as --retention-bytes or {RETENTION_VARIABLE}"
        )
    return int(text)


def _add_place(
    parser: argparse.ArgumentParser, *, default: str
) -> argparse._MutuallyExclusiveGroup:
    place = parser.add_mutually_exclusive_group()
    place.add_argument(
        "--data", type=Path, metavar="DIR", help=f"data directory (default: {default})"
    )
    place.add_argument(
        "--ephemeral", action="store_true", help="the broker whose data is deleted when it stops"
    )
    return place


def _add_shared_place(parser: argparse.ArgumentParser) -> None:
    place = _add_place(parser, default="those in the data home")
    place.add_argument(
        "--share", action="store_true", help="the broker of the directory of `headwater up`"
    )


def directory_of(args: argparse.Namespace) -> Path:
    """Return the data directory that the arguments mean."""
    if args.data is not None:
        return Path(args.data).absolute()
    if args.ephemeral:
        return data_home() / "kafka-ephemeral"
    if args.share:
        return streamapps.private_kafka_dir(streamapps.home_of(None))
    return data_home() / "kafka"


def _directories(args: argparse.Namespace) -> list[Path]:
    """The directory that the arguments name, or both in the data home if they name none."""
    if args.data is not None or args.ephemeral or args.share:
        return [directory_of(args)]
    return [data_home() / "kafka", data_home() / "kafka-ephemeral"]


def run_start(args: argparse.Namespace) -> int:
    """Start a broker and keep it until a signal, or leave it running detached."""
    if args.detach and args.until_eof:
        raise UserError("--detach and --until-eof contradict each other: give one of them")
    if args.detach and args.share:
        raise UserError(
            "--detach and --share contradict each other, for who shares a broker stays to start it "
            "anew: give one of them"
        )
    directory = directory_of(args)
    return _start_detached(args, directory) if args.detach else _start_here(args, directory)


def _start_here(args: argparse.Namespace, directory: Path) -> int:
    asked_to_stop: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda received, _: _stop_once(received, asked_to_stop))
    while True:
        if args.share and not _use_what_runs(args, directory, asked_to_stop):
            return 0
        try:
            return _own(args, directory, asked_to_stop)
        except LocalKafkaError:
            # Somebody else may have been faster.
            if not (args.share and is_held(directory / LOCK_FILE)):
                raise


def _use_what_runs(args: argparse.Namespace, directory: Path, asked_to_stop: list[int]) -> bool:
    """Announce the broker that somebody else owns, and wait until it is free to be started.

    Returns:
        ``False``: we are to end before that.
    """
    announced: object = None
    while is_held(directory / LOCK_FILE):
        state = read_state(directory)
        if state is not None and state != announced:
            announced = state
            _announce(directory, as_json=args.json)
        if asked_to_stop or (args.until_eof and _stdin_ended()):
            return False
        time.sleep(_POLL_S)
    return True


def _own(args: argparse.Namespace, directory: Path, asked_to_stop: list[int]) -> int:
    broker = KafkaBroker(
        directory,
        is_ephemeral=args.ephemeral,
        port=args.port,
        advertise=args.advertise,
        sasl_users=_users(directory) if args.sasl_ssl else None,
        overrides=_overrides(args),
    )
    with broker:
        _announce(directory, as_json=args.json)
        while not asked_to_stop:
            if not broker.is_running():
                raise LocalKafkaError(
                    f"the private Kafka ended by itself; its log {broker.log_file} "
                    f"ends with:\n{broker.log_tail()}"
                )
            if args.until_eof and _stdin_ended():
                break
            time.sleep(_POLL_S)
    return 0


def _overrides(args: argparse.Namespace) -> dict[str, str]:
    if args.retention_bytes is None:
        return {}
    return {"log.retention.bytes": str(args.retention_bytes)}


def _stop_once(number: int, asked_to_stop: list[int]) -> None:
    """Note a signal; while the broker is still starting, end at once (the guard clears up)."""
    asked_to_stop.append(number)
    if len(asked_to_stop) > 1:
        raise KeyboardInterrupt


def _stdin_ended() -> bool:
    readable, _, _ = select.select([sys.stdin.fileno()], [], [], 0)
    return bool(readable) and not os.read(sys.stdin.fileno(), 4096)


def _users(directory: Path) -> dict[str, str]:
    user = os.environ.get("HEADWATER_KAFKA_USER", "headwater")
    if password := os.environ.get("HEADWATER_KAFKA_PASSWORD"):
        return {user: password}
    file = own_root(directory) / "password"
    if not file.exists():
        replace_file(file, secrets.token_urlsafe(18), mode=0o600)
    return {user: file.read_text()}


def _start_detached(args: argparse.Namespace, directory: Path) -> int:
    class_data.prepare()  # what shows its progress belongs on this terminal
    own_root(directory)
    command = [sys.executable, "-m", "headwater.cli.main", "kafka", "start"]
    command += ["--ephemeral"] if args.ephemeral else ["--data", str(directory)]
    command += ["--port", str(args.port)] if args.port is not None else []
    command += ["--advertise", args.advertise] if args.advertise is not None else []
    command += ["--sasl-ssl"] if args.sasl_ssl else []
    if args.retention_bytes is not None:
        command += ["--retention-bytes", str(args.retention_bytes)]
    owner_log = directory / "owner.log"
    with owner_log.open("wb") as log:
        owner = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    deadline = time.monotonic() + _DETACHED_START_S
    while (state := read_state(directory)) is None or state["owner_pid"] != owner.pid:
        if owner.poll() is not None:
            said = owner_log.read_text(errors="replace").rpartition("error: ")[2].strip()
            raise LocalKafkaError(
                said or f"the broker's owner ended with status {owner.returncode}"
            )
        if time.monotonic() > deadline:
            owner.terminate()
            raise LocalKafkaError(f"the private Kafka did not start; see {owner_log}")
        time.sleep(_POLL_S)
    owner.returncode = 0  # it lives on: nobody here waits for it
    _announce(directory, as_json=args.json)
    return 0


def _announce(directory: Path, *, as_json: bool) -> None:
    state = read_state(directory)
    assert state is not None, "the broker runs but has not said so"
    if as_json:
        print(json.dumps(state), flush=True)
        return
    print(f"Apache Kafka {state['kafka_version']} runs: {state['bootstrap_servers']}")
    if state["advertised_servers"]:
        print(f"  for others: {state['advertised_servers']}")
    if state["secure_servers"]:
        print(f"  SASL_SSL:   {state['secure_servers']} (trust {state['ca_certificate']})")
    print(f"  data:       {state['data_dir']}", flush=True)


def run_stop(args: argparse.Namespace) -> int:
    """Stop the brokers in the chosen directories."""
    stopped = 0
    for directory in _directories(args):
        lock = directory / LOCK_FILE
        holder = read_holder(lock)
        if not is_held(lock) or holder is None:
            continue
        try:
            os.kill(holder, signal.SIGTERM)
        except ProcessLookupError:
            pass  # the owner is dead already, and its guard is killing the broker
        except PermissionError as error:
            raise LocalKafkaError(
                f"the private Kafka in {directory} belongs to process {holder} of another user"
            ) from error
        deadline = time.monotonic() + _STOP_S
        # Whoever shares it may start it anew at once.
        while is_held(lock) and read_holder(lock) == holder:
            if time.monotonic() > deadline:
                raise LocalKafkaError(
                    f"the private Kafka in {directory} did not stop within {_STOP_S:.0f} s; "
                    f"end its owner, process {holder}"
                )
            time.sleep(_POLL_S)
        print(f"stopped the private Kafka in {directory}")
        stopped += 1
    if not stopped:
        print(_none_runs(args))
    return 0


def run_status(args: argparse.Namespace) -> int:
    """Describe the running brokers; the exit code is 1 if there is none."""
    running = [place for place in _directories(args) if read_state(place) is not None]
    for directory in running:
        _announce(directory, as_json=args.json)
    if not running and not args.json:
        print(_none_runs(args))
    return 0 if running else 1


def _none_runs(args: argparse.Namespace) -> str:
    """Say that no broker runs where one was looked for, and which one runs beside."""
    said = "no private Kafka runs in " + " or ".join(map(str, _directories(args)))
    shared = streamapps.private_kafka_dir(streamapps.home_of(None))
    state = None if shared in _directories(args) else read_state(shared)
    if state is None:
        return said
    return (
        f"{said}; that of `headwater up` runs at {state['bootstrap_servers']}: "
        f"headwater kafka {args.action} --share"
    )


def run_fetch(args: argparse.Namespace) -> int:
    """Fill the cache."""
    names = sorted(jar_sets.ROOTS) if args.all else [jar_sets.KAFKA]
    class_data.prepare()
    paths = jars.class_path(*names)
    print(f"{len(paths)} jars of {', '.join(names)} are in {jars.store()}; Java is {find_java()}")
    return 0
