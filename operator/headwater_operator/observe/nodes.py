"""Labels of nodes, where a pod does not carry them itself."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from headwater_operator.kube.api import NODES
from headwater_operator.kube.errors import ForbiddenError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from headwater_operator.kube.api import KubeApi
    from headwater_operator.views import PodView

log = logging.getLogger(__name__)

_AGAIN_MS: Final = 600_000
"""A node is read again after so long: its labels hardly ever change."""


class NodeBook:
    """Labels of nodes, each read once in a while.

    Kubernetes copies zone and region of a node to its pods. What else ``topologyKeys`` names, and
    all of it on a Kubernetes that does not copy yet, is read from the node.

    Args:
        api: the API server.
        now_ms: a clock that never goes back.
    """

    def __init__(self, api: KubeApi, now_ms: Callable[[], int]) -> None:
        self._api = api
        self._now_ms = now_ms
        self._known: dict[str, tuple[int, Mapping[str, str]]] = {}

    def place(self, pod: PodView, keys: Collection[str]) -> PodView:
        """Return a pod with those labels of its node that ``keys`` names.

        Raises:
            KubeApiError: the node could not be read.
        """
        missing = [key for key in keys if key not in pod.labels]
        if not pod.node or not missing or pod.state.is_proof_of_end:
            return pod
        labels = self._labels(pod.node)
        found = {key: labels[key] for key in missing if key in labels}
        return replace(pod, labels={**pod.labels, **found}) if found else pod

    def _labels(self, node: str) -> Mapping[str, str]:
        now_ms = self._now_ms()
        known = self._known.get(node)
        if known is not None and now_ms - known[0] < _AGAIN_MS:
            return known[1]
        try:
            manifest = self._api.get(NODES, None, node)
        except ForbiddenError as error:
            # An operator of some namespaces need not have been granted it: spread less, but run.
            log.warning("labels of nodes are not known: %s", error)
            manifest = None
        labels = dict((manifest or {}).get("metadata", {}).get("labels") or {})
        self._known[node] = (now_ms, labels)
        return labels
