"""The commands of the local cluster: ``up``, ``get``, ``scale``, ``pause``, ``resume`` and more.

This module names the arguments; what the commands do is in ``running``, ``asking`` and ``logs``.
``query`` and ``web`` have modules of their own, ``query_command`` and ``web_command``. ``query``,
``reset`` and ``promote`` are for StreamApps on Kubernetes, too (``on_cluster``).
"""
# ruff: noqa: PLC0415  # every `headwater` command imports this module: nothing heavy at the top

from __future__ import annotations

import argparse
from pathlib import Path

from headwater.errors import EnvironmentProblemError, UserError
from headwater_operator.local import on_cluster
from headwater_operator.local.layout import HOME_VARIABLE, ClusterDir, default_root
from headwater_operator.local.query_command import add_query
from headwater_operator.local.web_command import WebOptions, add_web
from headwater_operator.web.starting import add_token_arguments


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the commands of the local cluster."""
    for add in (
        _add_up,
        _add_get,
        _add_scale,
        _add_pause,
        _add_resume,
        _add_logs,
        _add_reset,
        _add_promote,
        _add_down,
        add_query,
        add_web,
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


def run_scale(args: argparse.Namespace) -> int:
    """``headwater scale``."""
    from headwater_operator.local import asking

    return asking.scale(_cluster(args), args.app, args.replicas, args.threads)


def run_pause(args: argparse.Namespace) -> int:
    """``headwater pause``."""
    from headwater_operator.local import asking

    return asking.pause(_cluster(args), args.app, paused=True)


def run_resume(args: argparse.Namespace) -> int:
    """``headwater resume``."""
    from headwater_operator.local import asking

    return asking.pause(_cluster(args), args.app, paused=False)


def run_logs(args: argparse.Namespace) -> int:
    """``headwater logs``."""
    from headwater_operator.local import logs

    return logs.show(
        _cluster(args), args.app, worker=args.worker, follow=args.follow, lines=args.tail
    )


def run_reset(args: argparse.Namespace) -> int:
    """``headwater reset``."""
    from headwater.model.resetting import asked_for
    from headwater_operator.local import resetting

    file = None if args.from_file is None else args.from_file.read_text(encoding="utf-8")
    to = asked_for(vars(args), file)
    if on_cluster.is_meant(args):
        if args.dry_run:
            raise UserError(
                "--dry-run asks Kafka, and on a cluster only workers do; "
                "kafka-streams-application-reset --dry-run shows the same offsets"
            )
        with on_cluster.connected(args) as client:
            from headwater_operator.local import cluster_resetting

            namespace = on_cluster.namespace_of(args)
            return cluster_resetting.reset(
                client, namespace, args.app, to=to, is_confirmed=args.yes
            )
    return resetting.reset(
        _cluster(args),
        args.app,
        is_confirmed=args.yes,
        to=to,
        is_dry_run=args.dry_run,
    )


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


def _add_scale(subparsers: _Parsers[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    scale = subparsers.add_parser(
        "scale", help="change an application's number of workers, or of StreamThreads in each"
    )
    scale.add_argument("app", metavar="APP")
    scale.add_argument("--replicas", type=int, metavar="N", help="workers")
    scale.add_argument("--threads", type=int, metavar="N", help="StreamThreads in each worker")
    scale.set_defaults(run=run_scale)
    return scale


def _add_pause(subparsers: _Parsers[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    pause = subparsers.add_parser(
        "pause",
        help="have an application process nothing until it is resumed",
        description="Have an application process nothing. Its workers run on, what they have "
        "processed is committed, and copies of their state are kept up.",
    )
    pause.add_argument("app", metavar="APP")
    pause.set_defaults(run=run_pause)
    return pause


def _add_resume(subparsers: _Parsers[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    resume = subparsers.add_parser(
        "resume",
        help="have a paused application process again",
        description="Have a paused application process records again. It goes on with the first "
        "record that it has not processed.",
    )
    resume.add_argument("app", metavar="APP")
    resume.set_defaults(run=run_resume)
    return resume


def _add_logs(subparsers: _Parsers[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    logs = subparsers.add_parser("logs", help="show what an application's workers print")
    logs.add_argument("app", metavar="APP")
    logs.add_argument("--worker", metavar="W", help="only this one: its name, or its number")
    logs.add_argument("-f", "--follow", action="store_true", help="go on until Ctrl-C")
    logs.add_argument(
        "--tail", type=_natural, default=100, metavar="N", help="last lines of each (default: 100)"
    )
    logs.set_defaults(run=run_logs)
    return logs


def _add_reset(subparsers: _Parsers[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    reset = subparsers.add_parser(
        "reset",
        help="forget all that an application has computed",
        description="Stop an application and delete its internal topics, its committed offsets "
        "and its state, so that it begins anew. Its output topics stay as they are. Where it "
        "begins to read is up to auto.offset.reset, unless an option says it: these are the ones "
        "of kafka-streams-application-reset.",
    )
    reset.add_argument("app", metavar="APP")
    reset.add_argument("--yes", action="store_true", help="do not ask")
    reset.add_argument(
        "--dry-run", action="store_true", help="show the offsets that it would get; change nothing"
    )
    reset.add_argument(
        "--input-topics",
        metavar="A,B",
        help="only these begin elsewhere; the others keep their committed offsets",
    )
    where = reset.add_mutually_exclusive_group()
    where.add_argument("--to-earliest", action="store_true", help="the first record that there is")
    where.add_argument("--to-latest", action="store_true", help="the end")
    where.add_argument(
        "--to-datetime",
        metavar="TIME",
        help="the first record of that time or later, such as 2026-01-31T08:00:00Z; UTC if it "
        "names no zone",
    )
    where.add_argument(
        "--by-duration", metavar="DURATION", help="so long before now, such as PT1H30M"
    )
    where.add_argument("--to-offset", metavar="N", help="that offset in every partition")
    where.add_argument(
        "--shift-by", metavar="N", help="so far from the committed offset; back if negative"
    )
    where.add_argument(
        "--from-file",
        type=Path,
        metavar="CSV",
        help="the offsets in a file of lines TOPIC,PARTITION,OFFSET",
    )
    on_cluster.add_arguments(reset)
    reset.set_defaults(run=run_reset)
    return reset


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
