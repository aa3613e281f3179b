"""Watched namespaces of which one cannot be read: the others are seen to as ever."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from tests.support.kube_model import KubeModel
from tests.support.kube_rig import NAMESPACE, OPERATORS, KubeRig, streamapp

from headwater_operator.handlers.leases import STEP_MS, LeaseBook
from headwater_operator.handlers.namespaces import CLOSED_MS, REFUSED_MS, Namespaces
from headwater_operator.handlers.process import shut_out
from headwater_operator.handlers.sweep import SWEEP_MS
from headwater_operator.kube.api import NAMESPACES, STREAM_APPS
from headwater_operator.kube.errors import (
    ApiUnavailableError,
    ForbiddenError,
    KubeApiError,
    NotFoundError,
)

if TYPE_CHECKING:
    from headwater_operator.kube.api import Manifest, Resource

OTHER = "another"
"""Watched, too; it is read before ``NAMESPACE``."""

REFUSALS = [
    ForbiddenError("streamapps is forbidden"),
    NotFoundError("no such namespace"),
    ApiUnavailableError("not now"),
]


class Gates(KubeModel):
    """An API server that refuses to list what is in some namespaces.

    Attributes:
        refused: what is answered there.
        leaving: a namespace of which only StreamApps may be listed; whether it is being deleted.
    """

    def __init__(self) -> None:
        super().__init__((NAMESPACE, OTHER, OPERATORS))
        self.refused: dict[str, KubeApiError] = {}
        self.leaving: dict[str, bool] = {}

    def get(self, resource: Resource, namespace: str | None, name: str) -> Manifest | None:
        if resource is NAMESPACES:
            if name not in self.leaving:
                raise ForbiddenError("namespaces is forbidden")
            gone = {"deletionTimestamp": "now"} if self.leaving[name] else {}
            return {"metadata": {"name": name, **gone}}
        return super().get(resource, namespace, name)

    def list(
        self, resource: Resource, namespace: str | None, *, labels: str = "", fields: str = ""
    ) -> tuple[Manifest, ...]:
        if namespace in self.refused:
            raise self.refused[namespace]
        if namespace in self.leaving and resource is not STREAM_APPS:
            raise ForbiddenError(f"{resource.plural} is forbidden")
        return super().list(resource, namespace, labels=labels, fields=fields)


@pytest.fixture
def gates() -> Gates:
    return Gates()


@pytest.fixture
def rig(gates: Gates) -> KubeRig:
    """Word count runs in one of two namespaces."""
    rig = KubeRig(gates, watched=(OTHER, NAMESPACE))
    rig.apply(streamapp())
    rig.until(rig.is_ready)
    return rig


def elsewhere() -> Manifest:
    """The same application in the other namespace."""
    manifest = streamapp()
    return {**manifest, "metadata": {**manifest["metadata"], "namespace": OTHER}}


@pytest.mark.parametrize("error", REFUSALS, ids=lambda error: type(error).__name__)
def test_a_silent_worker_is_fenced_while_a_neighbouring_namespace_cannot_be_read(
    error: KubeApiError, rig: KubeRig, gates: Gates
) -> None:
    gates.refused[OTHER] = error
    rig.workers["wc-w-0"].frozen = True

    rig.until(lambda: "wc-wc-w-0-0" in rig.workers.of("wc").fenced)

    rig.until(lambda: len(rig.held()["wc-w-1"]) == 4)


def test_an_operator_that_starts_beside_a_closed_namespace_runs_the_others(
    rig: KubeRig, gates: Gates
) -> None:
    gates.refused[OTHER] = ForbiddenError("streamapps is forbidden")
    rig.operator = rig.new_operator()

    rig.scale(3)

    rig.until(lambda: rig.held().get("wc-w-2"))
    rig.until(lambda: rig.operator.sweep.closed == {OTHER})


def test_whether_watches_hear_is_compared_although_a_namespace_cannot_be_read(
    rig: KubeRig, gates: Gates
) -> None:
    gates.refused[OTHER] = ForbiddenError("streamapps is forbidden")
    rig.operator.deaf_to.add("pods")
    rig.node.end("wc-w-0")

    rig.until(lambda: rig.operator.hearing.deaf_ms()["pods"], turns=1_000)


def test_a_watch_that_hears_is_not_taken_for_deaf_once_its_namespace_can_be_read_again(
    rig: KubeRig, gates: Gates
) -> None:
    gates.create(STREAM_APPS, elsewhere())
    rig.turn(2 * SWEEP_MS // 250)
    gates.refused[OTHER] = ApiUnavailableError("not now")
    rig.turn(4 * SWEEP_MS // 250)

    del gates.refused[OTHER]

    for _ in range(4 * SWEEP_MS // 250):
        rig.turn()
        assert not any(rig.operator.hearing.deaf_ms().values())


def test_an_application_id_stays_in_use_while_its_namespace_cannot_be_read(gates: Gates) -> None:
    gates.create(STREAM_APPS, elsewhere())
    rig = KubeRig(gates, watched=(OTHER, NAMESPACE))
    rig.apply(streamapp())
    rig.until(lambda: rig.condition("SpecValid")[1] == "ApplicationIdInUse")
    gates.refused[OTHER] = ForbiddenError("streamapps is forbidden")

    rig.turn(4 * SWEEP_MS // 250)

    assert rig.condition("SpecValid")[1] == "ApplicationIdInUse"


@pytest.mark.parametrize("is_deleted", [True, False])
def test_streamapps_go_with_their_namespace_although_the_rights_in_it_went_first(
    rig: KubeRig, gates: Gates, *, is_deleted: bool
) -> None:
    """With ``departure_rules``. Where the rights alone are gone, the finalizer stays."""
    gates.create(STREAM_APPS, elsewhere())

    def finalizers() -> object:
        found = gates.get(STREAM_APPS, OTHER, "wc")
        return found and found["metadata"].get("finalizers")

    rig.until(finalizers)
    gates.leaving[OTHER] = is_deleted
    gates.delete(STREAM_APPS, OTHER, "wc")

    rig.turn(4 * SWEEP_MS // 250)

    assert bool(finalizers()) is not is_deleted
    assert rig.is_ready()


@dataclass
class Clock:
    """Turned by hand."""

    now_ms: int = 0
    asked: list[str | None] = field(default_factory=list)

    def __call__(self) -> int:
        return self.now_ms


@pytest.mark.parametrize("error", REFUSALS, ids=lambda error: type(error).__name__)
def test_the_clock_of_a_namespace_stands_still_while_it_alone_cannot_be_read(
    error: KubeApiError, gates: Gates
) -> None:
    clock = Clock()
    book = LeaseBook(gates, (OTHER, NAMESPACE), clock)
    gates.refused[OTHER] = error

    for _ in range(300):
        clock.now_ms += 2_000
        book.poll()

    assert book.now_ms((NAMESPACE, "wc")) == 600_000
    assert book.now_ms((OTHER, "wc")) == STEP_MS
    # What passed meanwhile is not made up for.
    del gates.refused[OTHER]
    book.poll()
    assert book.now_ms((OTHER, "wc")) == STEP_MS


def test_where_nothing_can_be_read_the_reason_is_raised(gates: Gates) -> None:
    book = LeaseBook(gates, (OTHER, NAMESPACE), Clock())
    gates.refused = dict.fromkeys((OTHER, NAMESPACE), ForbiddenError("leases is forbidden"))

    for _ in range(3):
        with pytest.raises(ForbiddenError, match="leases is forbidden"):
            book.poll()


def test_a_closed_namespace_is_told_of_once_and_asked_seldom(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock, error = Clock(), ForbiddenError("pods is forbidden")
    namespaces = Namespaces((OTHER, NAMESPACE), "objects", clock)

    def read(namespace: str | None) -> str:
        clock.asked.append(namespace)
        if namespace == OTHER:
            raise error
        return "found"

    with caplog.at_level(logging.WARNING):
        for _ in range(30):
            clock.now_ms += 2_000
            assert namespaces.each(read) == {NAMESPACE: "found"}

    assert (
        clock.asked.count(OTHER) == (REFUSED_MS // 2_000 + 1) + (60_000 - REFUSED_MS) // CLOSED_MS
    )
    assert clock.asked.count(NAMESPACE) == 30
    first, closed = caplog.messages
    assert first.startswith(f"objects of namespace {OTHER} cannot be read")
    assert "watchNamespaces" not in first
    assert "watchNamespaces" in closed
    assert namespaces.closed == {OTHER}
    assert namespaces.failing == frozenset()


def test_one_refusal_closes_no_namespace() -> None:
    clock, refusals = Clock(), [ForbiddenError("rights come a moment later")]
    namespaces = Namespaces((OTHER, NAMESPACE), "objects", clock)

    def read(namespace: str | None) -> str:
        if namespace == OTHER and refusals:
            raise refusals.pop()
        return "found"

    assert namespaces.each(read) == {NAMESPACE: "found"}
    assert (namespaces.closed, namespaces.failing) == (frozenset(), {OTHER})
    assert namespaces.each(read) == {OTHER: "found", NAMESPACE: "found"}
    assert namespaces.failing == frozenset()


def test_the_only_namespace_is_asked_every_time() -> None:
    clock = Clock()
    namespaces = Namespaces((None,), "objects", clock)

    def read(namespace: str | None) -> str:
        clock.asked.append(namespace)
        raise ForbiddenError("rights come a moment later")

    for _ in range(3):
        with pytest.raises(ForbiddenError):
            namespaces.each(read)

    assert clock.asked == [None] * 3


def test_what_the_readiness_probe_remarks() -> None:
    assert shut_out(frozenset()) == ""
    assert shut_out(frozenset({"b", "a"})) == "namespaces that cannot be read: a b"
