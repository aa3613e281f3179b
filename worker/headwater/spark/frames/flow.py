"""What is known of records on their way, and what each operator makes of it.

``computed`` finds the rule of an operator by its type. The rules stand in ``rules``, one module per
family of operators; each registers what its operators become, or the sentence that refuses them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import singledispatch
from typing import TYPE_CHECKING, Any

from headwater.model.nodes import ProcessorNode
from headwater.processor.resolving import find_serde
from headwater.spark.frames.kinds import Kind, Refused, written_as
from headwater.spark.frames.plan import Fold, Output, Path, Step

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headwater.config import StreamsConfig
    from headwater.model.nodes import Subtopology
    from headwater.model.operators.base import Operator
    from headwater.model.stores import StoreSpec
    from headwater.processor.resolving import Half
    from headwater.serde import Serde


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """What is known of the records that a node forwards.

    Attributes:
        key: what their keys are.
        value: what their values are.
        paths: how they come here.
        table: the store whose updates they are; how many those are is nobody's promise.
        overflow: an expression on the way may raise, and nothing behind it has looked yet.
    """

    key: Kind
    value: Kind
    paths: tuple[Path, ...]
    table: str = ""
    overflow: bool = False

    def then(self, step: Step, **changes: Any) -> Flow:
        """Return the flow behind one more step."""
        paths = tuple(Path(path.read, (*path.steps, step)) for path in self.paths)
        return replace(self, paths=paths, **changes)


def merged(flows: Sequence[Flow]) -> Flow:
    """Return what is known of the records of several flows.

    Raises:
        Refused: they are of different kinds.
    """
    first, *others = flows
    for other in others:
        if (other.key, other.value, bool(other.table)) != (
            first.key,
            first.value,
            bool(first.table),
        ):
            raise Refused("merges records of different kinds")
    return replace(
        first,
        paths=tuple(path for flow in flows for path in flow.paths),
        overflow=any(flow.overflow for flow in flows),
    )


@dataclass(kw_only=True)
class Surroundings:
    """What rules look up, and what they find while one topology is translated.

    Attributes:
        config: the application's.
        repartition_topics: undecorated.
        written: by repartition topic: what a sub-topology that is no StreamTask sends there.
        wants_outputs: topics that are not the application's own are written to.
        outputs: stores found.
        shuffled: repartition topics that a sub-topology sends to.
    """

    config: StreamsConfig
    repartition_topics: frozenset[str]
    written: dict[str, Flow] = field(default_factory=dict)
    wants_outputs: bool = False
    outputs: list[Output] = field(default_factory=list)
    shuffled: list[str] = field(default_factory=list)

    def serde(self, half: Half, given: Serde[Any] | None) -> Serde[Any]:
        """Return the serde given or the configured one.

        Raises:
            Refused: there is none.
        """
        found = find_serde(self.config, half, given)
        if found is None:
            raise Refused(f"it has no {half} serde, and default.{half}.serde is not set")
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where an operator stands, and what reaches it.

    Attributes:
        node: whose operator it is.
        flow: what its parents forward.
        group: the node's sub-topology.
        around: what else is known.
    """

    node: ProcessorNode
    flow: Flow
    group: Subtopology
    around: Surroundings

    def keep(self, fold: Fold, store: str, made: Kind) -> Flow:
        """Note what a store keeps, and return what is known of its updates.

        Args:
            fold: what is made of the records of a key.
            store: its name.
            made: what its values are.

        Raises:
            Refused: the store is not the node's alone, or cannot be written as a task would.
        """
        flow, around = self.flow, self.around
        spec = self._own_store(store)
        key = written_as(flow.key, around.serde("key", spec.key_serde), "key")
        value = written_as(made, around.serde("value", spec.value_serde), "value")
        if flow.paths[0].shuffle and key is not flow.key:
            raise Refused("writes keys to its changelog in other bytes than it reads")
        output = Output(
            subtopology=self.group.id,
            store=spec.name,
            fold=fold,
            paths=flow.paths,
            key=key,
            value=value,
        )
        around.outputs.append(output)
        return replace(flow, value=made, table=spec.name, paths=(), overflow=False)

    def _own_store(self, name: str) -> StoreSpec:
        users = [
            node.name
            for node in self.group.nodes
            if isinstance(node, ProcessorNode) and name in node.stores
        ]
        if users != [self.node.name] or self.node.stores != (name,):
            raise Refused(f"shares the store {name} with other nodes")
        spec = next(store for store in self.group.stores if store.name == name)
        if not spec.logging:
            raise Refused(f"store {name} has no changelog that could be written")
        if not spec.kind.timestamped:
            raise Refused(f"store {name} keeps no timestamps")
        if spec.kind.keeps_headers:
            raise Refused(f"store {name} keeps headers, too")
        if spec.kind.versioned:
            raise Refused(f"store {name} keeps the values of the past, too")
        return spec


@singledispatch
def computed(_operator: Operator, _at: Place) -> tuple[Flow, str]:
    """Return what an operator forwards, and a sentence about how it is computed.

    Raises:
        Refused: it cannot be computed as a DataFrame.
    """
    raise Refused("it is not on the list of what is computed as DataFrames")


def refuse(operator: type[Operator], why: str) -> None:
    """Register that an operator is never computed as a DataFrame."""

    def refused(_operator: Operator, _at: Place) -> tuple[Flow, str]:
        raise Refused(why)

    computed.register(operator, refused)
