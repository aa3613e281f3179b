"""What played and process machines have in common: the control plane has to take them in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater_operator.kube.api import NODES
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Collection

    from headwater_operator.kube.api import KubeApi


def until_taken_in(api: KubeApi, names: Collection[str]) -> None:
    """Wait until the scheduler may use all of these nodes.

    A new node is tainted until the controllers have seen that it is ready, one after the other: who
    is scheduled meanwhile is spread over those that come first.
    """

    def is_free(name: str) -> bool:
        found = api.get(NODES, None, name)
        return found is not None and not (found.get("spec") or {}).get("taints")

    wait_for(lambda: all(map(is_free, names)), what="all nodes to be schedulable")
