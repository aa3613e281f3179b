"""The words that change an application: ``scale``, ``pause``, ``resume``, ``reset``."""
# ruff: noqa: PLC0415  # every command imports this module: nothing heavy at the top

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from headwater.errors import UserError
from headwater_operator.commands import completing
from headwater_operator.commands.arguments import Parsers, add_app, natural, set_completer
from headwater_operator.commands.places import Here, OnCluster, place_of
from headwater_operator.local import on_cluster

if TYPE_CHECKING:
    import argparse


def add_scale(parsers: Parsers[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    """Add ``scale``."""
    parser = parsers.add_parser(
        "scale", help="change an application's number of workers, or of StreamThreads in each"
    )
    add_app(parser, is_optional=False)
    parser.add_argument("--replicas", type=int, metavar="N", help="workers")
    parser.add_argument("--threads", type=int, metavar="N", help="StreamThreads in each worker")
    parser.set_defaults(run=run_scale)
    return parser


def add_pause(parsers: Parsers[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    """Add ``pause``."""
    parser = parsers.add_parser(
        "pause",
        help="have an application process nothing until it is resumed",
        description="Have an application process nothing. Its workers run on, what they have "
        "processed is committed, and copies of their state are kept up.",
    )
    add_app(parser, is_optional=False)
    parser.set_defaults(run=run_pause, paused=True)
    return parser


def add_resume(parsers: Parsers[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    """Add ``resume``."""
    parser = parsers.add_parser(
        "resume",
        help="have a paused application process again",
        description="Have a paused application process records again. It goes on with the first "
        "record that it has not processed.",
    )
    add_app(parser, is_optional=False)
    parser.set_defaults(run=run_pause, paused=False)
    return parser


def add_reset(parsers: Parsers[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    """Add ``reset``."""
    reset = parsers.add_parser(
        "reset",
        help="forget all that an application has computed",
        description="Stop an application and delete its internal topics, its committed offsets "
        "and its state, so that it begins anew. Its output topics stay as they are. Where it "
        "begins to read is up to auto.offset.reset, unless an option says it: these are the ones "
        "of kafka-streams-application-reset.",
    )
    add_app(reset, is_optional=False)
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
    reset.set_defaults(run=run_reset)
    return reset


def add_logs(parsers: Parsers[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    """Add ``logs``."""
    logs = parsers.add_parser("logs", help="show what an application's workers print")
    add_app(logs, is_optional=False)
    worker = logs.add_argument(
        "--worker", metavar="W", help="only this one: its name, or its number"
    )
    set_completer(worker, completing.workers)
    logs.add_argument("-f", "--follow", action="store_true", help="go on until Ctrl-C")
    logs.add_argument(
        "--tail", type=natural, default=100, metavar="N", help="last lines of each (default: 100)"
    )
    logs.set_defaults(run=run_logs)
    return logs


def run_scale(args: argparse.Namespace) -> int:
    """``scale``.

    Raises:
        SpecError: there is no such application, or a number is out of range.
        UserError: no number is given.
        KubeApiError: the API server refuses, or does not answer.
    """
    with place_of(args) as place:
        if isinstance(place, OnCluster):
            from headwater_operator.commands import changing

            return changing.scale(place, args.app, args.replicas, args.threads)
        from headwater_operator.local import asking

        return asking.scale(place.cluster, args.app, args.replicas, args.threads)


def run_pause(args: argparse.Namespace) -> int:
    """``pause`` and ``resume``.

    Raises:
        SpecError: there is no such application, or Spark runs it.
        InstanceRunningError: a driver that somebody started by hand runs it.
        KubeApiError: the API server refuses, or does not answer.
    """
    with place_of(args) as place:
        if isinstance(place, OnCluster):
            from headwater_operator.commands import changing

            return changing.pause(place, args.app, paused=args.paused)
        from headwater_operator.local import asking

        return asking.pause(place.cluster, args.app, paused=args.paused)


def run_reset(args: argparse.Namespace) -> int:
    """``reset``.

    Raises:
        HeadwaterError: there is no such application, or it was not reset.
    """
    from headwater.model.resetting import asked_for

    file = None if args.from_file is None else args.from_file.read_text(encoding="utf-8")
    to = asked_for(vars(args), file)
    if args.dry_run and on_cluster.is_meant(args):
        raise UserError(
            "--dry-run asks Kafka, and on a cluster only workers do; "
            "kafka-streams-application-reset --dry-run shows the same offsets"
        )
    with place_of(args) as place:
        if isinstance(place, Here):
            from headwater_operator.local import resetting

            return resetting.reset(
                place.cluster, args.app, is_confirmed=args.yes, to=to, is_dry_run=args.dry_run
            )
        from headwater_operator.local import cluster_resetting

        return cluster_resetting.reset(
            place.client, place.namespace, args.app, to=to, is_confirmed=args.yes
        )


def run_logs(args: argparse.Namespace) -> int:
    """``logs``.

    Raises:
        SpecError: there is no such application or worker.
        KubeApiError: the API server refuses, or does not answer.
    """
    with place_of(args) as place:
        if isinstance(place, OnCluster):
            from headwater_operator.commands import podlogs

            return podlogs.show(
                place, args.app, worker=args.worker, follow=args.follow, lines=args.tail
            )
        from headwater_operator.local import logs

        return logs.show(
            place.cluster, args.app, worker=args.worker, follow=args.follow, lines=args.tail
        )
