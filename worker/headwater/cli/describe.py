"""``headwater describe``: what the topology looks like, without running it."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from headwater.cli import streamapps
from headwater.cli.options import add_topology
from headwater.drawing.graph import drawing_of, written_by
from headwater.drawing.mermaid import mermaid
from headwater.drawing.svg import svg
from headwater.model.nodes import SinkNode, SourceNode

if TYPE_CHECKING:
    import argparse

    from headwater.model.nodes import Node
    from headwater.model.topology import Topology


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
        choices=("text", "mermaid", "svg", "json"),
        default="text",
        help="text as Kafka Streams prints it (default), a Mermaid flowchart, a picture, or the "
        "nodes and the report that a worker sends",
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
        print(mermaid(drawing_of(topology)), end="")
    elif arguments.format == "svg":
        print(svg(drawing_of(topology)), end="")
    elif arguments.format == "json":
        application_id = arguments.application_id or ("app" if app is None else app.application_id)
        print(json.dumps(_document(topology, application_id), indent=2))
    else:
        print(topology.describe())
    return 0


def _document(topology: Topology, application_id: str) -> dict[str, Any]:
    """Return the report, with the nodes of each sub-topology."""
    document = asdict(topology.report(application_id))
    for reported, group in zip(document["subtopologies"], topology.subtopologies, strict=True):
        reported["nodes"] = [_node(node) for node in group.nodes]
    document["global_stores"] = [
        {"id": group.id, "store": group.stores[0].name, "nodes": [_node(n) for n in group.nodes]}
        for group in topology.global_subtopologies
    ]
    return document


def _node(node: Node) -> dict[str, Any]:
    if isinstance(node, SourceNode):
        return {"name": node.name, "kind": "source", "topics": list(node.reads)}
    about = {"name": node.name, "parents": list(node.parents)}
    if isinstance(node, SinkNode):
        return {**about, "kind": "sink", "topic": written_by(node)}
    operator = type(node.operator).__name__
    return {**about, "kind": "processor", "operator": operator, "stores": list(node.stores)}
