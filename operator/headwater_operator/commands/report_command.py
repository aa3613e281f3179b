"""The arguments of ``report``, and the file that it writes; what is in it: ``report``."""
# ruff: noqa: PLC0415  # every command imports this module: nothing heavy at the top

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headwater_operator.commands.arguments import Parsers, add_app, natural
from headwater_operator.commands.output import warn
from headwater_operator.commands.places import OnCluster, chosen, place_of

if TYPE_CHECKING:
    import argparse

_LINES: Final = 2_000


def add_report(parsers: Parsers[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    """Add ``report``."""
    parser = parsers.add_parser(
        "report",
        help="write a zip for a bug report, with secrets taken out",
        description="Write status, resources, events, logs, metrics and versions of an application "
        "into a zip. Values of environment variables, options with secrets, Secrets and the source "
        "text of topologies are left out. Look into it before you send it.",
    )
    add_app(parser)
    parser.add_argument(
        "--file", type=Path, metavar="ZIP", help="default: headwater-report-APP-TIME.zip"
    )
    parser.add_argument(
        "--tail",
        type=natural,
        default=_LINES,
        metavar="N",
        help="last lines of each log (default: %(default)s)",
    )
    parser.set_defaults(run=run_report)
    return parser


def run_report(args: argparse.Namespace) -> int:
    """``report``.

    Raises:
        SpecError: there is no such application.
        UserError: none is named, and there are several.
        KubeApiError: the API server refuses to show the application, or does not answer.
    """
    with place_of(args) as place:
        app = chosen(place, args.app)
        from headwater_operator.commands.report import Report

        report = Report()
        report.overview(place.look(app))
        if isinstance(place, OnCluster):
            from headwater_operator.commands import report_cluster

            report_cluster.collect(report, place, app, lines=args.tail)
        else:
            from headwater_operator.commands import report_here

            report_here.collect(report, place, app, lines=args.tail)
    now = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    file = args.file or Path(f"headwater-report-{app}-{now}.zip")
    report.write(file)
    for missing in report.missing:
        warn(missing)
    sys.stdout.write(f"{file}: {len(report.names)} files; look into it before you send it\n")
    return 0
