"""``headwater explain``: how a backfill computes each sub-topology, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from headwater.cli import streamapps
from headwater.cli.options import add_topology, pairs
from headwater.config import StreamsConfig
from headwater.drawing.graph import drawing_of
from headwater.drawing.mermaid import mermaid
from headwater.model.description import parents_of
from headwater.model.nodes import SinkNode, SourceNode
from headwater.spark.frames.plan import Target

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping

    from headwater.model.nodes import Node, Subtopology
    from headwater.model.topology import Topology
    from headwater.spark.frames.plan import Translation

_MEANINGS: Final = {
    Target.T1: "T1, the StreamTask itself",
    Target.T2: "T2, DataFrames",
    Target.T3: "T3, columns on the way to DataFrames",
}


def register(subparsers: Any) -> None:
    """Add the sub-command."""
    parser = subparsers.add_parser(
        "explain",
        help="say how a backfill computes a topology, and why",
        description="Say of each sub-topology whether `headwater backfill` computes it by the "
        "application's own StreamTasks (T1) or as DataFrames (T2; T3 is what leads to a T2), and "
        "of each node why. Without Kafka and Spark.",
    )
    add_topology(parser)
    parser.add_argument(
        "--format",
        choices=("text", "mermaid"),
        default="text",
        help="a tree with reasons (default), or a Mermaid flowchart",
    )
    parser.add_argument(
        "--outputs",
        choices=("none", "latest", "all"),
        default="none",
        help="as in `headwater backfill` (default: %(default)s)",
    )
    parser.add_argument(
        "--config",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="an option of the application, such as default.key.serde=string, instead of the "
        "StreamApp's; may be repeated",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print what is chosen and return the exit code."""
    from headwater.service.settings import config_of  # noqa: PLC0415
    from headwater.spark.frames.choose import choose  # noqa: PLC0415 - keeps `--help` fast

    topology, app = streamapps.topology_asked_for(arguments)
    given: dict[str, str | int] = dict(
        pairs("--config", arguments.config, "default.key.serde=string")
    )
    config = StreamsConfig.parse(
        {"application.id": "app", **given}
        if app is None
        else config_of(streamapps.without_credentials(app), given)
    )
    found = choose(topology, config, wants_outputs=arguments.outputs != "none")
    if arguments.format == "mermaid":
        titles = {
            number: f"Sub-topology {number}: {verdict.target.upper()}"
            for number, verdict in found.subtopologies.items()
        }
        print(mermaid(drawing_of(topology), titles), end="")
    else:
        print("\n".join(explained(topology, found)))
    return 0


def explained(topology: Topology, found: Translation) -> list[str]:
    """Return the lines of the text.

    Args:
        topology: what is explained.
        found: how it would be computed.
    """
    lines: list[str] = []
    for group in topology.global_subtopologies:
        kept, read = group.stores[0].name, ", ".join(group.source_topics)
        lines += [
            "",
            f"Sub-topology {group.id}: global store {kept}, filled from topic {read}",
            "Every StreamThread of a worker keeps it; on Spark the application does not run.",
        ]
    for group in topology.subtopologies:
        verdict = found.subtopologies.get(group.id)
        if verdict is None:
            continue
        lines += ["", f"Sub-topology {group.id}: {_MEANINGS[verdict.target]}", verdict.reason, ""]
        rows = list(_tree(group))
        width = max(len(drawn) for drawn, _ in rows)
        for drawn, node in rows:
            if node is None:
                lines.append(drawn)
                continue
            own = found.nodes[node.name]
            is_alone = verdict.target is Target.T1 and own.target is not Target.T1
            reason = f"because of the others; alone: {own.reason}" if is_alone else own.reason
            lines.append(f"{drawn:<{width}}  {verdict.target.upper()}  {reason}")
    return lines[1:]


def _tree(group: Subtopology) -> Iterator[tuple[str, Node | None]]:
    """Lines of the drawing with the nodes they stand for: topics, nodes, topics."""
    children: dict[str, list[Node]] = {}
    for node in group.nodes:
        for parent in parents_of(node)[:1]:
            children.setdefault(parent, []).append(node)
    for source in group.sources:
        yield f"[{', '.join(source.reads)}]", None
        yield from _below(source, children, "└─ ", "   ")


def _below(
    node: Node, children: Mapping[str, list[Node]], corner: str, indent: str
) -> Iterator[tuple[str, Node | None]]:
    yield f"{corner}{node.name}{_around(node)}", node
    below = children.get(node.name, [])
    for number, child in enumerate(below):
        is_last = number == len(below) - 1
        yield from _below(
            child,
            children,
            indent + ("└─ " if is_last else "├─ "),
            indent + ("   " if is_last else "│  "),
        )


def _around(node: Node) -> str:
    """What a node writes to, and who else feeds it."""
    if isinstance(node, SourceNode):
        return ""
    if isinstance(node, SinkNode):
        said = f" [{node.topic if isinstance(node.topic, str) else '?'}]"
    else:
        said = f" ({', '.join(node.stores)})" if node.stores else ""
    others = node.parents[1:]
    return f"{said} <- {', '.join(others)}" if others else said
