"""``headwater worker``: one worker of an application, as the control loop starts it.

Every flag can be given as an environment variable (``--cluster-dir`` as ``HEADWATER_CLUSTER_DIR``),
which is how a container is told. In a pod there is a namespace (``HEADWATER_NAMESPACE``): then the
StreamWorker and the Lease are resources of Kubernetes, else files in the cluster directory.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from headwater.cli.options import add_import_path_and_config, pairs
from headwater.errors import ConfigError, SpecError
from headwater.jsonlog import JSON, log_to
from headwater.logsettings import DEFAULT_FORMAT, LogSettings
from headwater.native.application import ApplicationSettings
from headwater_entry import end_at_once

if TYPE_CHECKING:
    import argparse

    from headwater.model.streamapp_http import HttpSpec
    from headwater.service.carrier import Carrier
    from headwater.service.httpauth.guard import Guard
    from headwater.service.settings import WorkerSettings
    from headwater.service.worker import Worker

_PREFIX: Final = "HEADWATER_"
_FORMATS: Final = {"text": DEFAULT_FORMAT, "json": JSON}
_LEVELS: Final = ("DEBUG", "INFO", "WARNING", "ERROR")


def register(subparsers: Any) -> None:
    """Add the sub-command."""
    parser = subparsers.add_parser(
        "worker",
        help="run one worker (started by the control loop)",
        description="Run one worker of an application: its StreamThreads, its stores, its duties. "
        "It does what its StreamWorker says and reports there.",
        epilog=f"Options may also be environment variables: --http-port is {_PREFIX}HTTP_PORT.",
    )
    _option(parser, "--app", metavar="NAME", help="the StreamApp's name")
    _option(parser, "--name", metavar="NAME", help="this worker's name, for example word-count-w-0")
    _places(parser)
    _option(parser, "--topology", metavar="MODULE:FUNCTION", help="instead of the StreamApp's")
    _option(parser, "--bootstrap", metavar="HOST:PORT", help="instead of the StreamApp's")
    _option(parser, "--guarantee", metavar="NAME", help="at_least_once or exactly_once_v2")
    _option(parser, "--state-dir", metavar="DIR", help="where stores lie; one worker's own")
    _option(parser, "--http-host", metavar="ADDRESS", default="127.0.0.1", help="where to serve")
    _option(
        parser,
        "--http-port",
        metavar="PORT",
        default="0",
        help="for /healthz /readyz /metrics /tasks; 0 picks a free one (default)",
    )
    _option(parser, "--log-level", choices=_LEVELS, default="WARNING", help="default: %(default)s")
    _option(
        parser,
        "--log-format",
        choices=_FORMATS,
        default="text",
        help="of lines, if the StreamApp does not say; default: %(default)s",
    )
    add_import_path_and_config(parser)
    parser.set_defaults(run=run)


def _places(parser: argparse.ArgumentParser) -> None:
    """Add the flags that say where the worker finds what it is told."""
    _option(
        parser,
        "--cluster-dir",
        metavar="DIR",
        help="where the resources lie: <DIR>/<app>/workers/<name>/",
    )
    _option(
        parser,
        "--namespace",
        metavar="NAME",
        help="in a pod: the namespace of its StreamWorker and Lease, instead of --cluster-dir",
    )
    _option(
        parser,
        "--service-account-dir",
        metavar="DIR",
        help="in a pod: where its token and the API server's ca.crt lie",
    )
    _option(
        parser,
        "--streamapp",
        metavar="FILE",
        help="the StreamApp, YAML or JSON (default: <cluster dir>/<app>/streamapp.json)",
    )
    _option(
        parser,
        "--topology-dir",
        metavar="DIR",
        help="where the topology's module lies, as --import-path",
    )
    _option(
        parser,
        "--kafka-dir",
        metavar="DIR",
        help="where the credentials lie that spec.kafka asks for: username, password, ca.crt ...",
    )
    _option(
        parser,
        "--http-auth-dir",
        metavar="DIR",
        help="where the tokens lie that spec.http.authentication asks callers for",
    )
    _option(
        parser,
        "--operator-account",
        metavar="USER",
        help="who may ask for metrics and progress by a token that the API server has signed",
    )


def _option(parser: argparse.ArgumentParser, flag: str, **options: Any) -> None:
    variable = _PREFIX + flag.removeprefix("--").upper().replace("-", "_")
    default = os.environ.get(variable, options.pop("default", None))
    parser.add_argument(flag, default=default, **options)


def run(arguments: argparse.Namespace) -> int:
    """Run the worker until it ends; return its exit code."""
    from headwater.native import logs  # noqa: PLC0415 - keeps `--help` fast
    from headwater.privatefiles import keep_private  # noqa: PLC0415
    from headwater.service.starting import reporting_failure, run_worker  # noqa: PLC0415

    if arguments.log_level not in _LEVELS:  # argparse checks a flag, but no variable
        raise ConfigError(
            f"--log-level: {arguments.log_level!r} is not one of {', '.join(_LEVELS)}"
        )
    if arguments.log_format not in _FORMATS:
        raise ConfigError(
            f"--log-format: {arguments.log_format!r} is not one of {', '.join(_FORMATS)}"
        )
    keep_private()
    multiprocessing.current_process().name = str(arguments.name)
    log_to(sys.stderr, arguments.log_level, _FORMATS[arguments.log_format])
    app, name = _required(arguments, "app"), _required(arguments, "name")
    # There is nothing to close yet, and the kernel lets go of what is held.
    signal.signal(signal.SIGTERM, end_at_once)
    carrier = _carrier(arguments, app, name)
    workers: list[Worker] = []

    def started(worker: Worker) -> None:
        workers.append(worker)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: worker.stop())

    try:
        with reporting_failure(carrier):
            settings = _settings(arguments, app, name)
            logs.reset(logs.chosen(settings.parsed(), settings.logs))
        code = run_worker(settings, carrier, started)
    finally:
        carrier.close()
    if (error := workers[0].error) is not None:
        sys.stderr.write(f"error: {error.message}\n")
    return code


def _carrier(arguments: argparse.Namespace, app: str, name: str) -> Carrier:
    if arguments.namespace:
        from headwater.service.kube.carrier import KubeCarrier  # noqa: PLC0415
        from headwater.service.kube.client import Access  # noqa: PLC0415

        directory = Path(_required(arguments, "service_account_dir"))
        access = Access.of(os.environ, directory)
        return KubeCarrier(access, namespace=arguments.namespace, name=name)
    from headwater.service.carrier import FileCarrier  # noqa: PLC0415

    return FileCarrier(_app_directory(arguments, app) / "workers" / name, name)


def _app_directory(arguments: argparse.Namespace, app: str) -> Path:
    return Path(_required(arguments, "cluster_dir")) / app


def _required(arguments: argparse.Namespace, name: str) -> str:
    value: str | None = getattr(arguments, name)
    if not value:
        flag = f"--{name.replace('_', '-')}"
        raise ConfigError(
            f"{flag} is missing: give it, or set {_PREFIX}{name.upper()}; workers are started by "
            "the control loop (`headwater up`)"
        )
    return value


def _settings(arguments: argparse.Namespace, app: str, name: str) -> WorkerSettings:
    from headwater.model.changes import revision_of  # noqa: PLC0415
    from headwater.model.podcontract import ENV_REVISION  # noqa: PLC0415
    from headwater.model.streamapp import parse  # noqa: PLC0415
    from headwater.service.changedfiles import ChangedFiles  # noqa: PLC0415
    from headwater.service.settings import (  # noqa: PLC0415
        WorkerSettings,
        config_of,
        topology_source,
        with_state_dir,
    )

    document = _document(arguments, app)
    spec = _fields(document, "spec")
    if arguments.topology:
        spec["topology"] = {"module": arguments.topology}
    if arguments.bootstrap:
        _fields(spec, "kafka")["bootstrapServers"] = arguments.bootstrap
    if arguments.guarantee:
        spec["processingGuarantee"] = arguments.guarantee
    streamapp = parse(document)
    overrides: dict[str, str | int] = dict(
        pairs("--config", arguments.config, "commit.interval.ms=50")
    )
    if arguments.state_dir:
        overrides["state.dir"] = arguments.state_dir
    revision = os.environ.get(ENV_REVISION) or revision_of(streamapp.spec)
    changed_files = ChangedFiles.of(streamapp.spec.upgrade.roll_on, os.environ, revision)
    kafka_dir = Path(arguments.kafka_dir) if arguments.kafka_dir else None
    topology_dir = [arguments.topology_dir] if arguments.topology_dir else []
    return WorkerSettings(
        app=app,
        name=name,
        application=ApplicationSettings(
            config=with_state_dir(config_of(streamapp, overrides, kafka_dir)),
            topology=topology_source(streamapp.spec.topology),
            import_path=(*arguments.import_path, *topology_dir),
        ),
        http_host=arguments.http_host,
        http_port=_number("--http-port", arguments.http_port),
        logs=LogSettings(levels={"": arguments.log_level}, format=_FORMATS[arguments.log_format]),
        watches_group=bool(arguments.namespace),
        import_timeout_ms=streamapp.spec.topology.import_timeout_ms,
        revision=revision,
        changed_files=changed_files,
        guard=_guard(arguments, streamapp.spec.http),
    )


def _guard(arguments: argparse.Namespace, http: HttpSpec) -> Guard | None:
    """Return who may ask by HTTP; in a pod, because elsewhere there are no Secrets."""
    from headwater.service.httpauth.guard import guard_of  # noqa: PLC0415

    if http.authentication is None or not arguments.namespace:
        return None
    directory = arguments.http_auth_dir
    return guard_of(
        http.authentication,
        Path(directory) if directory else None,
        operator=arguments.operator_account or "",
        namespace=arguments.namespace,
        service_account=Path(_required(arguments, "service_account_dir")),
    )


def _fields(parent: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the mapping under ``name``, to be changed; what is none is left for ``parse``."""
    fields = parent.setdefault(name, {})
    return fields if isinstance(fields, dict) else {}


def _document(arguments: argparse.Namespace, app: str) -> dict[str, Any]:
    """Read the StreamApp; flags alone will do if they name a topology."""
    import yaml  # noqa: PLC0415

    from headwater.model.cluster import API_VERSION  # noqa: PLC0415
    from headwater.model.streamapp import KIND  # noqa: PLC0415

    if arguments.namespace or arguments.streamapp:
        path = Path(_required(arguments, "streamapp"))
    else:
        path = _app_directory(arguments, app) / "streamapp.json"
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        if arguments.topology and not arguments.streamapp:
            return {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": app}}
        raise SpecError(
            f"there is no StreamApp at {path}; give --streamapp FILE, or --topology and --bootstrap"
        ) from error
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise SpecError(f"cannot read the StreamApp {path}: {error}") from error
    if not isinstance(document, dict):
        raise SpecError(f"{path}: expected a StreamApp, found {type(document).__name__}")
    return document


def _number(flag: str, text: str) -> int:
    if not text.isdigit():
        raise ConfigError(f"{flag}: {text!r} is not a number")
    return int(text)
