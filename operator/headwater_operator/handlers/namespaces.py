"""The watched namespaces, each read by itself: one that cannot be read holds up no other.

The rights in a namespace go with it, so one that was deleted answers as one without rights does:
it is *closed*. That is said once, and it is asked again only now and then. But not at the first
refusal: an API server that has just started refuses what it will allow a moment later.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from headwater_operator.kube.errors import ForbiddenError, KubeApiError, NotFoundError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

log = logging.getLogger(__name__)

Found = TypeVar("Found")

REFUSED_MS: Final = 10_000
"""A namespace that has refused for so long is closed."""
CLOSED_MS: Final = 20_000
"""A closed namespace is left alone for so long, unless it is the only one."""


@dataclass(frozen=True, slots=True)
class _Refusal:
    error: KubeApiError
    since_ms: int
    at_ms: int

    @property
    def is_right(self) -> bool:
        """Whether it is about what is there or allowed."""
        return isinstance(self.error, ForbiddenError | NotFoundError)

    @property
    def is_for_long(self) -> bool:
        """Whether it will stay so until somebody does something."""
        return self.is_right and self.at_ms - self.since_ms >= REFUSED_MS


class Namespaces:
    """Reads namespace by namespace.

    Args:
        namespaces: to read; ``(None,)`` for all at once.
        what: is read, for the log.
        now_ms: a clock that never goes back.
    """

    def __init__(
        self, namespaces: Sequence[str | None], what: str, now_ms: Callable[[], int]
    ) -> None:
        self._namespaces = tuple(namespaces)
        self._what = what
        self._now_ms = now_ms
        self._refused: dict[str | None, _Refusal] = {}

    @property
    def closed(self) -> frozenset[str | None]:
        """Those that did not let us read when they were asked last."""
        refused = self._refused.copy()
        return frozenset(each for each, refusal in refused.items() if refusal.is_for_long)

    @property
    def failing(self) -> frozenset[str | None]:
        """Those that could not be read when they were asked last, for a reason that may pass."""
        return frozenset(self._refused.copy()) - self.closed

    def each(self, read: Callable[[str | None], Found]) -> dict[str | None, Found]:
        """Read all of them; return what was found in those that could be read.

        Args:
            read: reads one namespace.

        Raises:
            KubeApiError: none could be read.
        """
        found: dict[str | None, Found] = {}
        for namespace in self._namespaces:
            if self._is_left_alone(namespace):
                continue
            try:
                found[namespace] = read(namespace)
            except KubeApiError as error:
                self._note(namespace, error)
            else:
                if self._refused.pop(namespace, None) is not None:
                    log.warning("%s of namespace %s can be read again", self._what, namespace)
        if not found and self._refused:
            raise next(iter(self._refused.values())).error
        return found

    def _is_left_alone(self, namespace: str | None) -> bool:
        refusal = self._refused.get(namespace)
        if refusal is None or not refusal.is_for_long or len(self._namespaces) == 1:
            return False
        return self._now_ms() - refusal.at_ms < CLOSED_MS

    def _note(self, namespace: str | None, error: KubeApiError) -> None:
        before = self._refused.get(namespace)
        now_ms = self._now_ms()
        since_ms = before.since_ms if before and before.is_right else now_ms
        refusal = self._refused[namespace] = _Refusal(error, since_ms, now_ms)
        if len(self._namespaces) == 1 or (before and before.is_for_long == refusal.is_for_long):
            return  # Of the only one its caller tells.
        log.warning(
            "%s of namespace %s cannot be read, the others go on: %s%s",
            self._what,
            namespace,
            error,
            f"; {_next_step(namespace)}" if refusal.is_for_long else "",
        )


def _next_step(namespace: str | None) -> str:
    bare = '{"metadata":{"finalizers":null}}'
    return (
        "if it was deleted, take it out of the chart's watchNamespaces, and if it stays "
        "Terminating, take the finalizer off its StreamApps (kubectl patch streamapp NAME "
        f"--namespace {namespace} --type merge --patch '{bare}'); else give the operator its Role "
        "and RoleBinding there back (helm upgrade)"
    )
