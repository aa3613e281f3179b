"""``headwater operator``: the operator as its image starts it.

Every flag can be given as an environment variable (``--lease-name`` as ``HEADWATER_LEASE_NAME``),
which is how a container is told.
"""
# ruff: noqa: PLC0415  # every `headwater` command imports this module: nothing heavy at the top

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from headwater.errors import ConfigError, EnvironmentProblemError
from headwater.jsonlog import JSON, log_to

if TYPE_CHECKING:
    import argparse
    from collections.abc import Collection

_PREFIX: Final = "HEADWATER_"
_FORMATS: Final = {
    "text": "%(asctime)s %(levelname)-7s %(name)s %(message)s",
    "json": JSON,
}
_LEVELS: Final = ("DEBUG", "INFO", "WARNING", "ERROR")
_NAMESPACE_FILE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_NO_USER: Final = "none"


def register(subparsers: Any) -> None:
    """Add the sub-command."""
    parser = subparsers.add_parser(
        "operator",
        help="run the operator (on Kubernetes)",
        description="Run StreamApps on a Kubernetes cluster. Several may run: one leads, the "
        "others stand by.",
        epilog=f"Options may also be environment variables: --http-port is {_PREFIX}HTTP_PORT.",
    )
    _add_scope(parser)
    _option(parser, "--worker-image", metavar="IMAGE", help="for StreamApps without spec.image")
    _option(parser, "--spark-image", metavar="IMAGE", help="the same for StreamApps on Spark")
    _option(
        parser,
        "--bootstrap-servers",
        metavar="HOST:PORT,...",
        help="for StreamApps without spec.kafka.bootstrapServers",
    )
    _option(
        parser,
        "--worker-user",
        metavar="UID",
        default="10001",
        help="user and group of the workers; none: as image and platform say (default: 10001)",
    )
    _option(
        parser,
        "--worker-callers",
        metavar="JSON",
        help="make a NetworkPolicy for the pods of each StreamApp: a list of peers, as in a "
        "NetworkPolicy, that may call their HTTP port (default: no policy is made)",
    )
    _add_identity(parser)
    _option(parser, "--lease-name", metavar="NAME", help="of the Lease that the leader holds")
    _option(parser, "--lease-namespace", metavar="NAME", help="where that lives")
    _option(parser, "--pod-name", metavar="NAME", help="the pod that this process runs in")
    _option(
        parser,
        "--lease-seconds",
        metavar="N",
        default="15",
        help="a leader that has been silent for so long is replaced (default: 15, at least 3)",
    )
    _option(parser, "--hands", metavar="N", default="4", help="StreamApps seen to at a time")
    _option(
        parser,
        "--sweep-seconds",
        metavar="N",
        default="30",
        help="everything is listed so often, to find what no event has told (default: 30)",
    )
    _option(parser, "--http-host", metavar="ADDRESS", default="0.0.0.0", help="where to serve")  # noqa: S104
    _option(parser, "--http-port", metavar="PORT", default="8080", help="/healthz /readyz /metrics")
    _add_page(parser)
    _option(parser, "--log-level", choices=_LEVELS, default="INFO", help="default: %(default)s")
    _option(parser, "--log-format", choices=tuple(_FORMATS), default="text", help="text or json")
    parser.add_argument("--kubeconfig", type=Path, metavar="FILE", help="instead of KUBECONFIG")
    _add_deletion(parser)
    parser.set_defaults(run=run)


def _add_identity(parser: argparse.ArgumentParser) -> None:
    _option(
        parser,
        "--account",
        metavar="USER",
        help="system:serviceaccount:NAMESPACE:NAME, whose tokens this operator asks the API server "
        "for and shows to workers with spec.http.authentication (default: it shows none)",
    )


def _add_scope(parser: argparse.ArgumentParser) -> None:
    scope = parser.add_mutually_exclusive_group()
    scope.add_argument(
        "--namespace",
        action="append",
        dest="namespaces",
        metavar="NAME",
        help="run the StreamApps of this namespace; may be repeated",
    )
    scope.add_argument(
        "--all-namespaces", action="store_true", help="run the StreamApps of all namespaces"
    )
    _option(
        parser,
        "--namespace-selector",
        metavar="SELECTOR",
        help="with --all-namespaces: run the StreamApps of namespaces with these labels only, for "
        "example headwater.dev/shard=a; other operators, with Leases of their own, run the others",
    )


def _add_page(parser: argparse.ArgumentParser) -> None:
    _option(
        parser,
        "--web-port",
        metavar="PORT",
        help="serve a page there that shows all StreamApps and changes nothing (default: none)",
    )
    _option(
        parser,
        "--web-host-names",
        metavar="NAME,...",
        help="by which browsers reach the page, besides localhost and addresses",
    )


def _add_deletion(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--delete-streamapps",
        action="store_true",
        help="run no operator: delete the StreamApps, and wait until the running operator has let "
        "them go, as before it is uninstalled",
    )
    _option(
        parser,
        "--delete-timeout-seconds",
        metavar="N",
        default="240",
        help="--delete-streamapps gives up after so long (default: 240)",
    )


def _option(parser: argparse.ArgumentParser, flag: str, **options: Any) -> None:
    variable = _PREFIX + flag.removeprefix("--").upper().replace("-", "_")
    default = os.environ.get(variable, options.pop("default", ""))
    parser.add_argument(flag, default=default, **options)


def run(arguments: argparse.Namespace) -> int:
    """Run the operator until it is told to stop; return its exit code."""
    import signal

    if arguments.delete_streamapps:
        return _delete_streamapps(arguments)
    try:
        from headwater_operator.handlers.process import Operator, Options
        from headwater_operator.kube.election import LEASE_NAME, Terms
        from headwater_operator.manifests.settings import Installation
    except ModuleNotFoundError as error:
        raise _needs(error) from error
    _log_to_stderr(arguments.log_level, arguments.log_format)
    lease_ms = _number("--lease-seconds", arguments.lease_seconds, at_least=3) * 1000
    operator = Operator(
        Options(
            lease_namespace=arguments.lease_namespace or _own_namespace(),
            namespaces=_namespaces(arguments),
            namespace_selector=_selector(arguments),
            lease_name=arguments.lease_name or LEASE_NAME,
            place=arguments.pod_name,
            installation=Installation(
                worker_image=arguments.worker_image,
                spark_image=arguments.spark_image,
                bootstrap_servers=arguments.bootstrap_servers,
                user_id=_user(arguments.worker_user),
                callers=_callers(arguments.worker_callers),
                account=arguments.account,
            ),
            terms=Terms(
                lease_ms=lease_ms, renew_ms=lease_ms * 2 // 3, retry_ms=min(2_000, lease_ms // 6)
            ),
            http_host=arguments.http_host,
            http_port=_number("--http-port", arguments.http_port, at_least=0),
            web_port=_number("--web-port", arguments.web_port, at_least=0)
            if arguments.web_port
            else None,
            web_names=tuple(filter(None, arguments.web_host_names.split(","))),
            hands=_number("--hands", arguments.hands, at_least=1),
            sweep_ms=_number("--sweep-seconds", arguments.sweep_seconds, at_least=1) * 1000,
            kubeconfig=arguments.kubeconfig,
        )
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: operator.stop())
    return operator.run()


def _delete_streamapps(arguments: argparse.Namespace) -> int:
    """Delete the StreamApps, and wait until they are gone."""
    import logging
    import time

    try:
        from headwater_operator.handlers.shard import Shard
        from headwater_operator.handlers.uninstall import delete_stream_apps
        from headwater_operator.kube.client import KubeClient
        from headwater_operator.kube.clock import boot_ms
    except ModuleNotFoundError as error:
        raise _needs(error) from error
    flag = "--delete-timeout-seconds"
    seconds = _number(flag, arguments.delete_timeout_seconds, at_least=1)
    selector = _selector(arguments)
    namespaces: Collection[str | None] = _namespaces(arguments) or (None,)
    _log_to_stderr(arguments.log_level, arguments.log_format)
    client = KubeClient.from_environment(arguments.kubeconfig)
    try:
        if selector:
            namespaces = Shard(client, selector).read()
        count = delete_stream_apps(
            client,
            namespaces,
            timeout_ms=seconds * 1_000,
            now_ms=boot_ms,
            pause=lambda pause_ms: time.sleep(pause_ms / 1_000),
        )
    finally:
        client.close()
    logging.getLogger(__name__).info("no StreamApp is left; deleted: %d", count)
    return 0


def _needs(error: ModuleNotFoundError) -> EnvironmentProblemError:
    return EnvironmentProblemError(
        f"the operator needs {error.name}: pip install 'headwater[operator]'"
    )


def _log_to_stderr(level: str, format_: str) -> None:
    import logging

    if format_ not in _FORMATS:  # argparse checks a flag, but no variable
        raise ConfigError(f"--log-format: {format_!r} is not one of {', '.join(_FORMATS)}")
    log_to(sys.stderr, level, _FORMATS[format_])
    logging.getLogger("kopf").setLevel("WARNING")


def _namespaces(arguments: argparse.Namespace) -> tuple[str, ...]:
    if arguments.all_namespaces:
        return ()
    named = arguments.namespaces or os.environ.get(f"{_PREFIX}WATCH_NAMESPACES", "").split(",")
    found = tuple(name.strip() for name in named if name.strip())
    if not found:
        raise ConfigError(
            "say whose StreamApps to run: --namespace NAME (may be repeated) or --all-namespaces"
        )
    return found


def _selector(arguments: argparse.Namespace) -> str:
    selector: str = arguments.namespace_selector.strip()
    if selector and _namespaces(arguments):
        raise ConfigError(
            "--namespace-selector chooses among all namespaces: give --all-namespaces instead of "
            "--namespace"
        )
    return selector


def _own_namespace() -> str:
    try:
        return _NAMESPACE_FILE.read_text(encoding="ascii").strip()
    except OSError:
        return "default"


def _user(text: str) -> int | None:
    return None if text == _NO_USER else _number("--worker-user", text, at_least=1)


def _callers(text: str) -> list[dict[str, object]] | None:
    if not text:
        return None
    try:
        peers = json.loads(text)
    except ValueError:
        peers = None
    if not isinstance(peers, list) or not all(isinstance(peer, dict) and peer for peer in peers):
        raise ConfigError(
            "--worker-callers: expected a list of peers as in a NetworkPolicy, in JSON, for "
            f'example [{{"namespaceSelector": {{}}}}], got {text!r:.200}'
        )
    return peers


def _number(flag: str, text: str, *, at_least: int) -> int:
    if not text.isdigit() or int(text) < at_least:
        raise ConfigError(f"{flag}: expected a number, at least {at_least}, got {text!r}")
    return int(text)
