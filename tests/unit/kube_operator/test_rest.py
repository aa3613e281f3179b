"""Applications at rest: what the operator spares itself, and what it must not miss meanwhile."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.support.kube_rig import NAMESPACE

from headwater.model.cluster import Lease
from headwater_operator.act.upkeep import Upkeep
from headwater_operator.decide.memory import Memory, WorkerMemory
from headwater_operator.decide.recall import renewed
from headwater_operator.kube.api import LEASES, STREAM_APPS, STREAM_WORKERS
from headwater_operator.manifests.names import PAUSE_ANNOTATION
from headwater_operator.manifests.settings import Installation
from headwater_operator.observe.leases import read_lease

if TYPE_CHECKING:
    from tests.support.kube_rig import KubeRig

LEASE = Lease(worker="wc-w-0", holder="one", duration_ms=30_000, renewals=7)
KNOWN = Memory(workers={"wc-w-0": WorkerMemory(lease=("one", 7), lease_ms=50_000)})


def counted(rig: KubeRig, name: str) -> float:
    """The sum of a metric of the operator."""
    return sum(
        sample.value
        for metric in rig.operator.metrics.registry.collect()
        for sample in metric.samples
        if sample.name.endswith(name)
    )


def decisions(rig: KubeRig) -> float:
    """How often it was decided from what was known."""
    return counted(rig, "looks_total")


def rounds(rig: KubeRig) -> float:
    """How often everything was read."""
    return counted(rig, "reconcile_duration_seconds_count")


def pass_s(rig: KubeRig, seconds: int) -> None:
    """Let time pass."""
    until_ms = rig.now_ms + seconds * 1_000
    while rig.now_ms < until_ms:
        rig.turn()


def test_while_nothing_but_leases_changes_it_is_decided_four_times_a_minute(
    ready: KubeRig,
) -> None:
    pass_s(ready, 20)
    before = decisions(ready)

    pass_s(ready, 60)

    assert 3 <= decisions(ready) - before <= 5


def test_with_autoscaling_there_is_no_rest(ready: KubeRig) -> None:
    ready.set("/spec/autoscaling", {"minReplicas": 1, "maxReplicas": 3, "targetLag": 100})
    ready.until(lambda: "autoscaling" in ready.status())
    pass_s(ready, 20)
    before = decisions(ready)

    pass_s(ready, 60)

    assert decisions(ready) - before >= 20


@pytest.mark.parametrize("rested_s", [60, 64, 68, 72])
def test_a_worker_that_dies_while_its_application_rests_is_found_when_its_lease_ends(
    ready: KubeRig, rested_s: int
) -> None:
    pass_s(ready, rested_s)
    worker = ready.workers["wc-w-0"]
    worker.frozen = True
    frozen_ms = ready.now_ms

    ready.until(lambda: "wc-w-0" not in ready.held() or not ready.held()["wc-w-0"])

    took_ms = ready.now_ms - frozen_ms
    assert worker.lease_s * 1_000 <= took_ms + 4_000
    assert took_ms <= worker.lease_s * 1_000 + 6_000


def test_a_change_ends_the_rest_at_once(ready: KubeRig) -> None:
    pass_s(ready, 60)

    ready.scale(3)
    changed_ms = ready.now_ms
    ready.until(lambda: len(ready.held()) == 3)

    assert ready.now_ms - changed_ms <= 3_000


def test_a_lease_that_somebody_deletes_is_made_anew_although_the_application_rests(
    ready: KubeRig,
) -> None:
    pass_s(ready, 60)

    ready.api.delete(LEASES, NAMESPACE, "wc-w-0")

    ready.until(lambda: ready.api.get(LEASES, NAMESPACE, "wc-w-0") is not None)
    assert ready.api.get(STREAM_APPS, NAMESPACE, "wc") is not None


def test_after_a_look_at_kafka_was_asked_for_only_the_answer_is_read(ready: KubeRig) -> None:
    pass_s(ready, 30)
    ready.api.calls.clear()
    ready.until(lambda: ("patch", "streamworkers") in ready.api.calls, turns=4_000)
    asked = rounds(ready)

    pass_s(ready, 30)

    assert rounds(ready) - asked == 1


def test_the_sweep_reads_nothing_anew_of_which_watches_have_told(ready: KubeRig) -> None:
    pass_s(ready, 30)
    before = rounds(ready)

    mark(ready, "one")
    pass_s(ready, 5)
    told = rounds(ready)
    ready.operator.sweep.run()
    pass_s(ready, 5)
    assert rounds(ready) == told > before

    ready.operator.deaf_to = {STREAM_WORKERS.plural}
    mark(ready, "two")
    pass_s(ready, 5)
    assert rounds(ready) == told
    ready.operator.sweep.run()
    pass_s(ready, 5)
    assert rounds(ready) > told


def mark(rig: KubeRig, text: str) -> None:
    """Change a StreamWorker in a way that means nothing."""
    operation = {"op": "add", "path": "/metadata/annotations/example.com~1mark", "value": text}
    rig.api.patch(STREAM_WORKERS, NAMESPACE, "wc-w-0", [operation])


def test_what_somebody_else_writes_meanwhile_is_not_taken_for_ours(ready: KubeRig) -> None:
    pass_s(ready, 30)
    found = ready.api.get(STREAM_APPS, NAMESPACE, "wc")
    assert found is not None
    view = ready.operator.reconciler.known()[NAMESPACE, "wc"]
    assert view is not None
    upkeep = Upkeep(ready.api, ready.operator.reconciler.gate, Installation(callers=()))
    is_ours = ready.operator.reconciler.gate.is_ours

    def version() -> str:
        now = ready.api.get(STREAM_APPS, NAMESPACE, "wc")
        assert now is not None
        return str(now["metadata"]["resourceVersion"])

    upkeep.write_status(view, replace(view.status, reason="one"))
    assert is_ours(version())
    ready.api.patch(
        STREAM_APPS,
        NAMESPACE,
        "wc",
        [{"op": "add", "path": "/metadata/annotations", "value": {PAUSE_ANNOTATION: "true"}}],
    )
    assert not is_ours(version())
    upkeep.write_status(view, replace(view.status, reason="two"))
    assert not is_ours(version())


def test_renewals_are_taken_in() -> None:
    found = renewed(KNOWN, {"wc-w-0": replace(LEASE, renewals=8)}, 60_000)

    assert found is not None
    assert found.workers["wc-w-0"] == WorkerMemory(lease=("one", 8), lease_ms=60_000)
    assert renewed(KNOWN, {"wc-w-0": LEASE}, 59_999) is KNOWN


@pytest.mark.parametrize(
    ("renew_time", "renewals"),
    [
        ("2026-11-28T12:10:00.123456Z", 20261128121000123456),
        ("2026-11-28t12:10:00.5+02:00", 2026112812100050200),
        ("", 0),
        (None, 0),
    ],
)
def test_a_lease_that_was_renewed_has_another_number(renew_time: str | None, renewals: int) -> None:
    spec = {"holderIdentity": "one", "leaseDurationSeconds": 15, "renewTime": renew_time}

    found = read_lease({"metadata": {"name": "wc-w-0"}, "spec": spec})

    assert found == Lease(worker="wc-w-0", holder="one", duration_ms=15_000, renewals=renewals)


@pytest.mark.parametrize(
    ("lease", "now_ms"),
    [
        pytest.param(None, 51_000, id="it is gone"),
        pytest.param(replace(LEASE, holder="two", renewals=1), 51_000, id="another process"),
        pytest.param(LEASE, 60_000, id="no renewal for a third of its duration"),
    ],
)
def test_what_is_more_than_a_renewal_is_decided_about(lease: Lease | None, now_ms: int) -> None:
    assert renewed(KNOWN, {"wc-w-0": lease}, now_ms) is None
