"""The commands of the local cluster: ``up``, ``get``, ``promote`` and ``down``.

This module names the arguments; what the commands do is in ``running``, ``asking`` and
``promoting``. The words that are for Kubernetes,
too, are in ``headwater_operator.commands``.
"""
# ruff: noqa: PLC0415  # every `headwater` command imports this module: nothing heavy at the top

from __future__ import annotations

import argparse
from pathlib import Path

from headwater.errors import EnvironmentProblemError
from headwater_operator.local import on_cluster
from headwater_operator.local.layout import HOME_VARIABLE, ClusterDir, default_root
from headwater_operator.web.starting import WebOptions, add_token_arguments


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the commands of the local cluster."""
    for add in (
        _add_up,
        _add_get,
        _add_promote,
        _add_down,
    ):
        parser = add(subparsers)
        parser.add_argument(
            "--home",
            type=Path,
            metavar="DIR",
            help=f"the cluster's directory (default: ${HOME_VARIABLE}, else ./.headwater)",
        )


def run_up(args: argparse.Namespace) -> int:
    """``headwater up``."""
    try:
        from headwater_operator.local import running
    except ModuleNotFoundError as error:
        raise EnvironmentProblemError(
            f"the local cluster needs {error.name}: pip install 'headwater[local]'"
        ) from error
    return running.up(
        _cluster(args),
        args.file,
        detach=args.detach,
        plain=args.plain,
        lost=args.allow_lost_changelog,
        threads=args.threads,
        web=None
        if args.web is None
        else WebOptions(args.web, args.web_token_file, tuple(args.web_host_name)),
    )


def run_get(args: argparse.Namespace) -> int:
    """``headwater get``."""
    from headwater_operator.local import asking

    return asking.get(_cluster(args), args.app, as_json=args.json)


def run_promote(args: argparse.Namespace) -> int:
    """``headwater promote``."""
    if on_cluster.is_meant(args):
        with on_cluster.connected(args) as client:
            from headwater_operator.local import cluster_promoting

            return cluster_promoting.promote(
                client,
                on_cluster.namespace_of(args),
                args.new,
                over=args.over,
                max_lag=args.max_lag,
                wait_s=args.wait,
                is_confirmed=args.yes,
            )
    from headwater_operator.local import promoting

    return promoting.promote(
        _cluster(args),
        args.new,
        over=args.over,
        max_lag=args.max_lag,
        wait_s=args.wait,
        is_confirmed=args.yes,
    )


def run_down(args: argparse.Namespace) -> int:
    """``headwater down``."""
    from headwater_operator.local import running

    return running.down(_cluster(args), args.app, delete=args.delete)


_Parsers = argparse._SubParsersAction  # noqa: SLF001  # argparse has no public name for it


def _add_up(subparsers: _Parsers[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    up = subparsers.add_parser(
        "up",
        help="run StreamApps on this machine",
        description="Run the StreamApps of a file on this machine, on a private Kafka if they name "
        "no broker. Shows them until Ctrl-C, which stops everything in order. Where a cluster runs "
        "in the directory already, it takes them over, and Ctrl-C leaves it running.",
    )
    up.add_argument("-f", "--file", type=Path, required=True, help="YAML file with StreamApps")
    up.add_argument("--detach", action="store_true", help="return when they run; they run on")
    up.add_argument("--plain", action="store_true", help="lines instead of the live view")
    up.add_argument(
        "--allow-lost-changelog",
        action="append",
        default=[],
        metavar="TOPIC",
        help="let the store of this changelog, which is gone, begin empty, for as long as it runs; "
        "repeat it for others (the setting allow.lost.changelogs)",
    )
    up.add_argument(
        "--threads",
        type=int,
        metavar="N",
        help="StreamThreads in each worker, instead of what the file says (threadsPerWorker)",
    )
    up.add_argument(
        "--web",
        nargs="?",
        const="",
        metavar="HOST:PORT",
        help="serve a page that shows them, too (default: 127.0.0.1:8780)",
    )
    add_token_arguments(up)
    up.set_defaults(run=run_up)
    return up


def _add_get(subparsers: _Parsers[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    get = subparsers.add_parser("get", help="show the applications, or one in full")
    get.add_argument("app", nargs="?", metavar="APP")
    get.add_argument("--json", action="store_true", help="as JSON")
    get.set_defaults(run=run_get)
    return get


def _add_promote(subparsers: _Parsers[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    promote = subparsers.add_parser(
        "promote",
        help="stop an application that a new version replaces",
        description="Stop OLD once NEW runs and has read everything. State and offsets of OLD are "
        "kept, and no topic is renamed. Compare the two with `headwater diff` first.",
    )
    promote.add_argument("new", metavar="NEW", help="the version that goes on")
    promote.add_argument("--over", metavar="OLD", required=True, help="the version that stops")
    promote.add_argument(
        "--max-lag",
        type=_natural,
        default=0,
        metavar="N",
        help="how many records NEW may have left to read (default: 0)",
    )
    promote.add_argument(
        "--wait", type=float, default=0, metavar="SECONDS", help="for NEW to run and catch up"
    )
    promote.add_argument("--yes", action="store_true", help="do not ask")
    on_cluster.add_arguments(promote)
    promote.set_defaults(run=run_promote)
    return promote


def _add_down(subparsers: _Parsers[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    down = subparsers.add_parser("down", help="stop an application, or everything")
    down.add_argument("app", nargs="?", metavar="APP")
    down.add_argument(
        "--delete",
        action="store_true",
        help="also forget APP and its workers; their state as its StreamApp says",
    )
    down.set_defaults(run=run_down)
    return down


def _natural(text: str) -> int:
    if not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number")
    return int(text)


def _cluster(args: argparse.Namespace) -> ClusterDir:
    return ClusterDir(default_root() if args.home is None else args.home.absolute())
