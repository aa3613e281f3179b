"""The namespaces that this operator runs, where several share a cluster by a label of namespaces.

Everybody lists everything, and each acts in its own namespaces only. Which these are is read with
every sweep, so for as long as one sweep two operators may act in a namespace whose label has
changed. Epochs keep them apart, as they keep a leader from its predecessor: the new one outranks
every epoch that it finds, and the old one, once outranked, asks the API server before it writes
again whose the namespace is.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Final

from headwater_operator.kube.api import NAMESPACES
from headwater_operator.kube.errors import ApiUnavailableError, KubeApiError

if TYPE_CHECKING:
    from headwater_operator.kube.api import KubeApi
    from headwater_operator.kube.election import Election
    from headwater_operator.views import AppView

log = logging.getLogger(__name__)

_NAMED: Final = 10
"""So many namespaces are named in the log."""


class NotOursError(Exception):
    """A namespace has gone to another operator: nothing may be written in it any more."""


class Shard:
    """Which namespaces are ours. It is read by one thread and asked by any.

    Args:
        api: the API server.
        selector: of labels of namespaces, as in ``kubectl get --selector``; empty: all are ours.
    """

    def __init__(self, api: KubeApi, selector: str = "") -> None:
        self._api = api
        self._selector = selector
        self._guard = threading.Lock()
        self._names: frozenset[str] = frozenset()
        self._was_read = False
        self.refusal = ""
        """Why our namespaces cannot be listed, until somebody does something; else empty."""

    def read(self) -> frozenset[str]:
        """Read anew which namespaces are ours, and return them; none if all are.

        Raises:
            KubeApiError: they cannot be listed; what was known still holds.
        """
        if not self._selector:
            return frozenset()
        try:
            listed = self._api.list(NAMESPACES, None, labels=self._selector)
        except ApiUnavailableError:
            raise
        except KubeApiError as error:
            self.refusal = f"namespaces with the label {self._selector} cannot be listed: {error}"
            raise
        self.refusal = ""
        found = frozenset(str(each["metadata"]["name"]) for each in listed)
        with self._guard:
            self._tell(found)
            self._names, self._was_read = found, True
        return found

    def has(self, namespace: str) -> bool:
        """Whether a namespace was ours when it was read last."""
        return not self._selector or namespace in self._names

    def require(self, namespace: str) -> None:
        """Make sure that a namespace is ours at this moment.

        Raises:
            NotOursError: it is not.
            KubeApiError: nobody can tell now.
        """
        if not self._selector:
            return
        name = f"metadata.name={namespace}"
        if not self._api.list(NAMESPACES, None, labels=self._selector, fields=name):
            with self._guard:
                self._names -= {namespace}
            raise NotOursError(f"namespace {namespace} has no label {self._selector} any more")

    def _tell(self, found: frozenset[str]) -> None:
        if not found and (self._names or not self._was_read):
            log.warning(
                "no namespace has the label %s: nothing is run until one has "
                "(kubectl label namespace NAME %s)",
                self._selector,
                self._selector,
            )
            return
        for what, names in (("new here", found - self._names), ("gone", self._names - found)):
            if names:
                some = " ".join(sorted(names)[:_NAMED])
                more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
                log.info("namespaces with the label %s, %s: %s%s", self._selector, what, some, more)


def outrank(election: Election, shard: Shard, view: AppView, *, is_first: bool) -> int:
    """Make our epochs greater than those of anybody else who has written about a StreamApp.

    Higher ones were written under a Lease that was deleted since, by hand, or by the operator of
    another shard. So were those that equal ours when we look for the first time.

    Args:
        election: under which we write.
        shard: the namespaces that are ours.
        view: what is there.
        is_first: nothing was written about the StreamApp under this generation.

    Returns:
        the generation of our leadership.

    Raises:
        NotOursError: the namespace has gone to another operator.
        NotLeadingError: this operator has to end.
        KubeApiError: nobody can tell now, or the Lease could not be written.
    """
    found = view.highest_generation
    is_theirs = found >= election.generation if is_first and found else found > election.generation
    if not is_theirs:
        return election.generation
    shard.require(view.owner.namespace)
    if not is_first:
        log.warning(
            "%s/%s: somebody else has written epochs of generation %d: the operator's Lease was "
            "deleted, or another operator runs the same namespace (compare their "
            "--namespace-selector)",
            view.owner.namespace,
            view.owner.name,
            found,
        )
    return election.raise_generation(found)
