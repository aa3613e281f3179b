"""Which nodes form a sub-topology, and its number (Kafka's ``InternalTopologyBuilder``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.errors import TopologyError
from headwater.model.description import parents_of
from headwater.model.nodes import ProcessorNode, Subtopology

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from headwater.model.nodes import Node
    from headwater.model.stores import StoreSpec


def grouped(
    nodes: Mapping[str, Node],
    stores: Mapping[str, StoreSpec],
    store_users: Iterable[Sequence[str]],
    global_stores: Mapping[str, StoreSpec],
) -> tuple[Subtopology, ...]:
    """Return the sub-topologies, numbered by their first node in insertion order.

    Args:
        nodes: by name, in insertion order.
        stores: by name.
        store_users: for each store the processors that share it.
        global_stores: by name; each is alone with its source and processor.
    """
    roots = {name: name for name in nodes}

    def root(name: str) -> str:
        while roots[name] != name:
            roots[name] = roots[roots[name]]
            name = roots[name]
        return name

    for node in nodes.values():
        for parent in parents_of(node):
            roots[root(parent)] = root(node.name)
    for users in store_users:
        for user in users[1:]:
            roots[root(user)] = root(users[0])
    groups: dict[str, list[Node]] = {}
    for name, node in nodes.items():
        groups.setdefault(root(name), []).append(node)
    known = {**stores, **global_stores}
    found = []
    for number, members in enumerate(groups.values()):
        names = _stores_of(members)
        found.append(
            Subtopology(
                id=number,
                nodes=tuple(members),
                stores=tuple(known[name] for name in names),
                is_global=any(name in global_stores for name in names),
            )
        )
    return tuple(found)


def _stores_of(nodes: Iterable[Node]) -> tuple[str, ...]:
    """Return the names of the stores that the nodes use, in registration order."""
    return tuple(
        dict.fromkeys(
            name for node in nodes if isinstance(node, ProcessorNode) for name in node.stores
        )
    )


def merged(groups: Iterable[Iterable[Iterable[str]]]) -> tuple[tuple[str, ...], ...]:
    """Return the topics of each group of co-partitioned sources; groups with one in common are one.

    Args:
        groups: of each group the topics of each of its sources.
    """
    found: list[dict[str, None]] = []
    for sources in groups:
        topics = dict.fromkeys(topic for source in sources for topic in source)
        apart = []
        for group in found:
            if topics.keys() & group.keys():
                topics = group | topics
            else:
                apart.append(group)
        found = [*apart, topics]
    return tuple(tuple(group) for group in found)


def check_enforced(groups: Iterable[Sequence[str]], repartition: Mapping[str, int | None]) -> None:
    """Check that repartition topics which are co-partitioned enforce one count.

    Raises:
        TopologyError: they enforce several.
    """
    for group in groups:
        if not all(topic in repartition for topic in group):
            continue
        enforced = {topic: count for topic in group if (count := repartition[topic]) is not None}
        if len(set(enforced.values())) > 1:
            counts = ", ".join(f"{topic} ({count})" for topic, count in sorted(enforced.items()))
            raise TopologyError(
                f"These repartition topics must have equal partition counts: {counts}; "
                "give them the same number"
            )
