"""What is checked when a node is added to a topology."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.errors import TopologyError
from headwater.model.naming import check_name
from headwater.model.nodes import SinkNode
from headwater.model.operators.user import UserProcessor
from headwater.model.suppliers import stores_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headwater.model.nodes import Node, ProcessorNode
    from headwater.model.operators.base import Operator


def check_new(name: str, nodes: Mapping[str, Node]) -> None:
    """Check the name of a node that is to be added.

    Raises:
        TopologyError: it is not legal, or taken.
    """
    check_name("node", name)
    if name in nodes:
        raise TopologyError(f"Node {name!r} is already added: give one of them another name")


def check_parents(node: ProcessorNode | SinkNode, nodes: Mapping[str, Node]) -> None:
    """Check that a node has parents, which are there and forward.

    Raises:
        TopologyError: it has none, or one is missing, a sink or the node itself.
    """
    if not node.parents:
        raise TopologyError(
            f"Node {node.name!r} has no parent: name at least one source or processor"
        )
    for parent in node.parents:
        if parent == node.name:
            raise TopologyError(f"Node {node.name!r} cannot be its own parent: name another one")
        if parent not in nodes:
            raise TopologyError(
                f"Parent {parent!r} of {node.name!r} is not added yet: add it first"
            )
        if isinstance(nodes[parent], SinkNode):
            raise TopologyError(
                f"Sink {parent!r} cannot be the parent of {node.name!r}: read its topic instead"
            )


def check_keeper(source: str, processor: str, operator: Operator) -> None:
    """Check what keeps the store of a topic: it has no other stores.

    Raises:
        TopologyError: its supplier brings some, or it is called like its source.
    """
    if source == processor:
        raise TopologyError(
            f"Source and processor {processor!r} need different names: rename one of them"
        )
    if isinstance(operator, UserProcessor) and stores_of(processor, operator.supplier):
        raise TopologyError(
            f"{processor!r} keeps the store of a topic, so it has no other stores: "
            "let its supplier bring none"
        )
