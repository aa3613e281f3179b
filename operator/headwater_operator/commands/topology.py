"""``topology``: the drawing of an application that runs, with tasks, lag and rate of its parts."""
# ruff: noqa: PLC0415  # every command imports this module: nothing heavy at the top

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any, Final

from headwater.errors import EnvironmentProblemError
from headwater_operator.commands.arguments import Parsers, add_app, add_output
from headwater_operator.commands.output import Form, print_document
from headwater_operator.commands.places import chosen, place_of
from headwater_operator.overview.texts import number
from headwater_operator.wording import counted

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from headwater.drawing.graph import Drawing
    from headwater.model.topics import TopologyReport
    from headwater_operator.overview.snapshot import Snapshot

_TEXT, _MERMAID, _SVG = "text", "mermaid", "svg"
_HEAD: Final = re.compile(r"^(\s*Sub-topology: (\d+)\b.*)$", re.MULTILINE)


def add_topology(parsers: Parsers[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    """Add ``topology``."""
    parser = parsers.add_parser(
        "topology",
        help="draw the topology of an application, with lag and rates",
        description="Draw the topology that an application runs, with tasks, lag and rate of each "
        "sub-topology: as Kafka Streams prints it, as a Mermaid flowchart, or as a picture.",
    )
    add_app(parser)
    add_output(parser, _TEXT, _MERMAID, _SVG)
    parser.set_defaults(run=run_topology)
    return parser


def run_topology(args: argparse.Namespace) -> int:
    """``topology``.

    Raises:
        SpecError: there is no such application.
        UserError: none is named, and there are several.
        EnvironmentProblemError: no worker has reported its topology yet.
        KubeApiError: the API server refuses, or does not answer.
    """
    with place_of(args) as place:
        found = place.look(chosen(place, args.app))
    report = found.topology
    if report is None or not report.description:
        raise EnvironmentProblemError(
            f"no worker of {found.app} has reported its topology yet "
            f"({found.reason or found.state}): try again when one runs"
        )
    loads = loads_of(found)
    if args.output == _TEXT:
        sys.stdout.write(with_loads(report.description, loads))
        return 0
    drawing = drawn(report)
    titles = {
        group.id: f"{group.title} · {loads[group.id]}" if group.id in loads else group.title
        for group in drawing.groups
    }
    if args.output == _MERMAID:
        from headwater.drawing.mermaid import mermaid

        sys.stdout.write(mermaid(drawing, titles))
    elif args.output == _SVG:
        from headwater.drawing.svg import svg

        sys.stdout.write(svg(drawing, titles))
    else:
        print_document(document(found, drawing), Form(args.output))
    return 0


def loads_of(found: Snapshot) -> dict[int, str]:
    """Return tasks, lag and rate of each sub-topology that has tasks, for people."""
    loads = {}
    for group in sorted({row.task.subtopology for row in found.tasks}):
        rows = [row for row in found.tasks if row.task.subtopology == group]
        known = [row.lag for row in rows if row.lag is not None]
        lag = number(sum(known)) if known else "not known"
        rate = number(sum(row.records_per_s for row in rows))
        loads[group] = f"{counted(len(rows), 'task')} · lag {lag} · {rate} records/s"
    return loads


def with_loads(description: str, loads: Mapping[int, str]) -> str:
    """Return what Kafka Streams prints of a topology, with the load behind each sub-topology."""

    def head(found: re.Match[str]) -> str:
        load = loads.get(int(found[2]))
        return found[1] if load is None else f"{found[1]}   ({load})"

    return f"{_HEAD.sub(head, description).rstrip()}\n"


def drawn(report: TopologyReport) -> Drawing:
    """Return what is drawn of a topology that a worker has reported."""
    from headwater.drawing.graph import Drawing, DrawnGroup, DrawnNode, NodeKind
    from headwater_operator.web.drawing import read_description

    read = read_description(report.description)
    kinds = {"source": NodeKind.SOURCE, "sink": NodeKind.SINK}
    parents: dict[str, list[str]] = {}
    members: dict[int, list[DrawnNode]] = {}
    for each in read.nodes.values():
        for child in each.children:
            parents.setdefault(child, []).append(each.name)
    for each in read.nodes.values():
        node = DrawnNode(
            name=each.name,
            kind=kinds.get(each.kind, NodeKind.PROCESSOR),
            parents=tuple(parents.get(each.name, ())),
            topics=each.topics,
            stores=each.stores,
        )
        members.setdefault(each.group, []).append(node)
    groups = tuple(
        DrawnGroup(
            id=group,
            nodes=tuple(nodes),
            stores=tuple(dict.fromkeys(store for node in nodes for store in node.stores)),
            is_global=group in read.global_groups,
        )
        for group, nodes in sorted(members.items())
    )
    # On the broker the application id stands before these names.
    internal = {topic.name for each in report.subtopologies for topic in each.repartition_sources}
    topics = {topic for group in groups for node in group.nodes for topic in node.topics}
    return Drawing(
        groups=groups,
        order=tuple(read.nodes),
        internal=frozenset(
            topic for topic in topics if any(f"-{name}".endswith(f"-{topic}") for name in internal)
        ),
    )


def document(found: Snapshot, drawing: Drawing) -> dict[str, Any]:
    """Return the graph as JSON values, with lag and rate of each sub-topology."""
    from headwater_operator.overview.document import as_json

    groups = []
    for group in drawing.groups:
        shown = as_json(group)
        assert isinstance(shown, dict)
        rows = [row for row in found.tasks if row.task.subtopology == group.id]
        known = [row.lag for row in rows if row.lag is not None]
        shown["tasks"] = [str(row.task) for row in rows]
        shown["lag"] = sum(known) if known else None
        shown["recordsPerS"] = sum(row.records_per_s for row in rows)
        groups.append(shown)
    return {"app": found.app, "subtopologies": groups, "internalTopics": sorted(drawing.internal)}
