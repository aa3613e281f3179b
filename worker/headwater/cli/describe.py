"""``headwater describe module:function``: what the topology looks like, without running it."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from headwater.cli.diagram import mermaid
from headwater.dsl.loading import load_topology

if TYPE_CHECKING:
    import argparse


def register(subparsers: Any) -> None:
    """Add the sub-command."""
    parser = subparsers.add_parser(
        "describe",
        help="print a topology",
        description="Build the topology that a function draws and print it, without Kafka.",
    )
    parser.add_argument(
        "topology", metavar="MODULE:FUNCTION", help="for example examples.word_count.app:build"
    )
    parser.add_argument(
        "--format",
        choices=("text", "mermaid", "json"),
        default="text",
        help="text as Kafka Streams prints it (default), a Mermaid flowchart, or the report that a "
        "worker sends",
    )
    parser.add_argument(
        "--application-id",
        default="app",
        help="prefix of internal topics with --format json (default: %(default)s)",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the topology and return the exit code."""
    topology = load_topology(arguments.topology)
    if arguments.format == "mermaid":
        print(mermaid(topology), end="")
    elif arguments.format == "json":
        print(json.dumps(asdict(topology.report(arguments.application_id)), indent=2))
    else:
        print(topology.describe())
    return 0
