"""The gate before every write: may we still write, and may a test end us here."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from headwater import failpoints

if TYPE_CHECKING:
    from collections.abc import Callable

    from headwater_operator.kube.api import Manifest
    from headwater_operator.status import Problem


STEPS: Final = (
    "add_finalizer",
    "apply_configmaps",
    "apply_networkpolicies",
    "apply_poddisruptionbudgets",
    "apply_rolebindings",
    "apply_roles",
    "apply_serviceaccounts",
    "apply_services",
    "create_claim",
    "create_driver",
    "create_lease",
    "create_pod",
    "create_snapshot",
    "create_worker",
    "delete_action",
    "delete_claim",
    "delete_config",
    "delete_driver",
    "delete_ended_driver",
    "delete_ended_pod",
    "delete_lease",
    "delete_leftover",
    "delete_pod",
    "delete_worker",
    "end_reset",
    "grow_claim",
    "own_claim",
    "remove_finalizer",
    "start_job",
    "take_claim",
    "write_action",
    "write_spec",
    "write_status",
)
"""Everything that is ever written; ``operator.<step>`` is the fail point right before it."""

_OURS_MAX: Final = 10_000


class OutdatedDecisionError(Exception):
    """What the decision was made from is no longer so: look and decide afresh."""


class HeldUpError(Exception):
    """One action cannot be carried out now; the others can.

    Attributes:
        problem: why, and what to do.
    """

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


class Gate:
    """Passed before every write; knows which versions of objects are our own writes.

    Args:
        require: raises if this operator does not lead any more.
    """

    def __init__(self, require: Callable[[], None]) -> None:
        self._require = require
        self._guard = threading.Lock()
        self._ours: OrderedDict[str, None] = OrderedDict()

    def wrote(self, manifest: Manifest) -> None:
        """Note an object as we have written it, where nobody else's change lies between.

        A watch that tells of this version tells nothing new. A resource version is that of a write
        to the whole store, so no two objects share it.
        """
        with self._guard:
            self._ours[str(manifest["metadata"]["resourceVersion"])] = None
            if len(self._ours) > _OURS_MAX:
                self._ours.popitem(last=False)

    def is_ours(self, version: str) -> bool:
        """Whether we have written this version of an object."""
        with self._guard:
            return version in self._ours

    def before(self, step: str) -> None:
        """Make sure that we may write.

        Args:
            step: what is about to be written: one of :data:`STEPS`.

        Raises:
            NotLeadingError: nothing may be written any more.
        """
        assert step in STEPS, step
        failpoints.hit(f"operator.{step}")
        self._require()
