"""``headwater describe``: what the topology looks like, without running it."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from headwater.cli import streamapps
from headwater.cli.diagram import mermaid
from headwater.cli.options import add_topology

if TYPE_CHECKING:
    import argparse


def register(subparsers: Any) -> None:
    """Add the sub-command."""
    parser = subparsers.add_parser(
        "describe",
        help="print a topology",
        description="Build the topology that a function draws and print it, without Kafka.",
    )
    add_topology(parser)
    parser.add_argument(
        "--format",
        choices=("text", "mermaid", "json"),
        default="text",
        help="text as Kafka Streams prints it (default), a Mermaid flowchart, or the report that a "
        "worker sends",
    )
    parser.add_argument(
        "--application-id",
        help="prefix of internal topics with --format json (default: the StreamApp's, else app)",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the topology and return the exit code."""
    topology, app = streamapps.topology_asked_for(arguments)
    if arguments.format == "mermaid":
        print(mermaid(topology), end="")
    elif arguments.format == "json":
        application_id = arguments.application_id or ("app" if app is None else app.application_id)
        print(json.dumps(asdict(topology.report(application_id)), indent=2))
    else:
        print(topology.describe())
    return 0
