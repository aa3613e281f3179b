"""One leader among several operators: a Lease, taken and renewed by compare-and-swap.

    WAITING ──Lease free──► LEADING ──not renewed in time, or taken──► LOST (for good)

A Lease is free when nobody holds it, or when no renewal was *seen* for its whole duration by our
own clock; what is written in it is never compared with a clock. It is renewed well before its end,
and a leader that could not renew in time stops acting before anybody else can begin. That is not
a fence: a frozen leader may have one more write under way. So every leadership has a *generation*,
the Lease's ``leaseTransitions``, which stands in the high half of every epoch it writes.
"""

from __future__ import annotations

import threading
import uuid
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from headwater_operator.kube.api import LEASES, Manifest
from headwater_operator.kube.clock import boot_ms, micro_time
from headwater_operator.kube.errors import ConflictError, KubeApiError, NotFoundError

if TYPE_CHECKING:
    from collections.abc import Callable

    from headwater_operator.kube.api import KubeApi

LEASE_NAME: Final = "headwater-operator"


class NotLeadingError(KubeApiError):
    """The Lease is not ours any more, or cannot be renewed in time: this operator has to end."""


class Standing(StrEnum):
    """How an operator stands in the election."""

    WAITING = "Waiting"
    LEADING = "Leading"
    LOST = "Lost"
    """It has led, and somebody else does or may do so now; it never leads again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """Durations of an election, in milliseconds.

    Attributes:
        lease_ms: without a renewal for so long, others may take the Lease.
        renew_ms: without a renewal for so long, the leader itself stops acting.
        retry_ms: how often the Lease is looked at and renewed.
    """

    lease_ms: int = 15_000
    renew_ms: int = 10_000
    retry_ms: int = 2_000

    def __post_init__(self) -> None:
        assert self.retry_ms < self.renew_ms < self.lease_ms, self


class Election:
    """One operator's part in the election. ``step`` comes from one thread, the rest from any.

    Args:
        api: the API server.
        namespace: where the Lease lives.
        place: identifies what outlives this process and can hold only one of us at a time: the
            pod's uid. A predecessor in the same place has certainly ended. Empty: none.
        name: of the Lease.
        terms: durations.
        now_ms: the clock.
    """

    def __init__(
        self,
        api: KubeApi,
        namespace: str,
        *,
        place: str = "",
        name: str = LEASE_NAME,
        terms: Terms | None = None,
        now_ms: Callable[[], int] = boot_ms,
    ) -> None:
        self._api = api
        self._namespace = namespace
        self._name = name
        self._place = place
        self.identity: Final = f"{place or 'process'}_{uuid.uuid4()}"
        """How the Lease names this process."""
        self.terms: Final = terms or Terms()
        """Durations."""
        self._now_ms = now_ms
        self._guard = threading.RLock()
        self._lease: Manifest | None = None
        self._seen: tuple[object, ...] | None = None
        self._seen_ms = 0
        self._renewed_ms: int | None = None
        self._lost = ""
        self._generation = 0

    @property
    def standing(self) -> Standing:
        """How this operator stands at this moment."""
        with self._guard:
            if self._lost:
                return Standing.LOST
            if self._renewed_ms is None:
                return Standing.WAITING
            if self._now_ms() - self._renewed_ms >= self.terms.renew_ms:
                self._lost = "the Lease could not be renewed in time"
                return Standing.LOST
            return Standing.LEADING

    @property
    def generation(self) -> int:
        """Of this leadership; greater than that of any before."""
        with self._guard:
            return self._generation

    @property
    def why_lost(self) -> str:
        """Why this operator leads no longer; empty while it may."""
        with self._guard:
            return self._lost

    def require(self) -> None:
        """Make sure of the leadership; to be called right before anything is written.

        Raises:
            NotLeadingError: nothing may be written any more.
        """
        if self.standing is not Standing.LEADING:
            raise NotLeadingError(
                f"this operator does not lead: {self._lost or 'another one holds the Lease'}"
            )

    def step(self) -> Standing:
        """Look at the Lease once; take it if it is free, renew it if it is ours.

        Raises:
            KubeApiError: the Lease cannot be read or written now; worth another step.
        """
        if self.standing is Standing.LOST:
            return Standing.LOST
        at_ms = self._now_ms()
        lease = self._lease
        if self._renewed_ms is None or lease is None:
            lease = self._api.get(LEASES, self._namespace, self._name)
        try:
            if self._renewed_ms is not None:
                self._renew(lease, at_ms)
            elif self._is_free(lease, at_ms):
                self._take(lease, at_ms)
        except (ConflictError, NotFoundError):
            # Somebody else was faster. If we led, the next look tells whether we still do.
            self._lease = None
        return self.standing

    def raise_generation(self, seen: int) -> int:
        """Make this leadership's generation greater than ``seen``; return it.

        Needed when the Lease was deleted, and so counts from 1 again, or when an epoch was tampered
        with. Only who leads can do it.

        Raises:
            NotLeadingError: somebody else has the Lease.
            KubeApiError: the Lease could not be written.
        """
        with self._guard:
            self.require()
            if self._generation > seen:
                return self._generation
            at_ms = self._now_ms()
            lease = self._lease or self._api.get(LEASES, self._namespace, self._name)
            try:
                self._write(lease, at_ms, transitions=seen + 1)
            except ConflictError as error:
                self._lease = None
                raise NotLeadingError("somebody else has written the operator's Lease") from error
            return self._generation

    def release(self) -> None:
        """Give the Lease back, so that another operator need not wait for its end."""
        with self._guard:
            is_ours = self.standing is Standing.LEADING and self._lease is not None
            self._lost = self._lost or "it was given back"
            if is_ours and self._lease is not None:
                spec = {**self._lease["spec"], "holderIdentity": "", "leaseDurationSeconds": 1}
                self._api.replace(LEASES, {**self._lease, "spec": spec})

    def _is_free(self, lease: Manifest | None, at_ms: int) -> bool:
        spec = (lease or {}).get("spec") or {}
        seen = (spec.get("holderIdentity"), spec.get("renewTime"), spec.get("leaseTransitions"))
        if seen != self._seen:
            self._seen, self._seen_ms = seen, at_ms
        holder = spec.get("holderIdentity") or ""
        if holder in ("", self.identity):
            return True  # its own, if the answer to taking it was lost
        if self._place and holder.startswith(f"{self._place}_"):
            return True
        duration_ms = int(spec.get("leaseDurationSeconds") or 0) * 1000
        return at_ms - self._seen_ms >= max(duration_ms, self.terms.lease_ms)

    def _take(self, lease: Manifest | None, at_ms: int) -> None:
        transitions = int(((lease or {}).get("spec") or {}).get("leaseTransitions") or 0)
        with self._guard:
            self._write(lease, at_ms, transitions=transitions + 1)

    def _renew(self, lease: Manifest | None, at_ms: int) -> None:
        holder = ((lease or {}).get("spec") or {}).get("holderIdentity")
        with self._guard:
            if holder != self.identity:
                self._lost = (
                    "the Lease is gone" if lease is None else f"{holder or 'nobody'} has it"
                )
                return
            self._write(lease, at_ms, transitions=self._generation)

    def _write(self, lease: Manifest | None, at_ms: int, *, transitions: int) -> None:
        now = micro_time()
        before = (lease or {}).get("spec") or {}
        is_ours = before.get("holderIdentity") == self.identity
        spec = {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": -(-self.terms.lease_ms // 1000),
            "acquireTime": before.get("acquireTime", now) if is_ours else now,
            "renewTime": now,
            "leaseTransitions": transitions,
        }
        if lease is None:
            metadata = {"name": self._name, "namespace": self._namespace}
            written = self._api.create(LEASES, {"metadata": metadata, "spec": spec})
        else:
            written = self._api.replace(LEASES, {**lease, "spec": spec})
        # From before the call: the API server may have taken its time.
        self._lease, self._renewed_ms, self._generation = written, at_ms, transitions
