"""What streams, tables and groups know of themselves while a topology is drawn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headwater.model.topology import StoreSpec

if TYPE_CHECKING:
    from headwater.dsl.graph import Graph, GraphNode
    from headwater.dsl.options import Materialized
    from headwater.serde.base import Serde


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where records come from.

    Attributes:
        graph: the builder's.
        node: children are drawn below it.
        name: of the topology node that forwards the records.
        key_serde: inherited by what follows; ``None`` when the key may have changed its type.
        value_serde: likewise for values.
        sources: names of the source nodes in the same sub-topology.
        rekeyed: the key may have changed since the records were last partitioned.
    """

    graph: Graph
    node: GraphNode
    name: str
    key_serde: Serde[Any] | None
    value_serde: Serde[Any] | None
    sources: frozenset[str]
    rekeyed: bool = False


def store_spec(name: str, materialized: Materialized[Any, Any]) -> StoreSpec:
    """Return the store that ``materialized`` describes, called ``name``."""
    return StoreSpec(
        name=name,
        persistent=materialized.persistent,
        key_serde=materialized.key_serde,
        value_serde=materialized.value_serde,
        caching=materialized.caching,
        logging=materialized.logging,
        topic_config=dict(materialized.topic_config),
    )
