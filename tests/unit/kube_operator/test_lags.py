"""Whom the operator asks for exact lags, and what it makes of the answers."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.kube_fakes import ADDRESS
from tests.support.kube_rig import NAMESPACE, KubeRig, streamapp
from tests.support.numbers import answer_about

from headwater.ids import TaskId
from headwater.model.cluster import LAG_UNKNOWN
from headwater_operator.kube.api import PODS, STREAM_WORKERS
from headwater_operator.views import PodView

T10, T11 = TaskId(1, 0), TaskId(1, 1)


@pytest.fixture
def rig() -> KubeRig:
    """One worker with all tasks, and a second one on whose status nothing has caught up."""
    rig = KubeRig()
    rig.apply(streamapp(replicas=1))
    rig.until(rig.is_ready)
    rig.scale(2)
    rig.until(lambda: "wc-w-1" in rig.workers.workers)
    rig.workers["wc-w-1"].lag = 10_000_000
    rig.until(lambda: warmups(rig))
    rig.turn(20)
    return rig


def warmups(rig: KubeRig) -> list[str]:
    found: list[str] = rig.api.get(STREAM_WORKERS, NAMESPACE, "wc-w-1")["spec"].get("warmup", [])  # type: ignore[index]
    return found


def answer(rig: KubeRig, lag: int, incarnation: str = "") -> None:
    """Have the second worker answer."""
    lags = dict.fromkeys((T10, T11), lag)
    process = incarnation or rig.workers["wc-w-1"].incarnation
    rig.operator.numbers.answers["wc-w-1"] = answer_about(lags, process)


def test_a_warm_up_is_promoted_by_what_its_process_says(rig: KubeRig) -> None:
    task = warmups(rig)[0]
    answer(rig, 10_001)
    rig.turn(40)
    assert warmups(rig) == [task]

    answer(rig, 10_000)

    rig.until(lambda: task in rig.held()["wc-w-1"])


def test_another_process_of_its_name_says_nothing_about_it(rig: KubeRig) -> None:
    answer(rig, 0, incarnation="the one before")

    rig.turn(40)

    assert warmups(rig)


def test_a_worker_that_does_not_answer_is_judged_by_its_status(rig: KubeRig) -> None:
    rig.turn(40)
    task = warmups(rig)[0]

    rig.workers["wc-w-1"].lag = None

    rig.until(lambda: task in rig.held()["wc-w-1"])


def test_only_who_warms_up_is_asked_and_at_the_address_of_its_pod(rig: KubeRig) -> None:
    rig.operator.numbers.asked.clear()

    rig.turn(10)

    asked = rig.operator.numbers.asked
    assert asked
    assert all(each == {"wc-w-1": f"{ADDRESS}:8080"} for each in asked)


def test_nobody_is_asked_where_nothing_depends_on_it() -> None:
    rig = KubeRig()
    rig.apply(streamapp(assignment={"standbyReplicas": 1}))
    rig.until(lambda: rig.condition("StandbysReady")[0] == "True")
    rig.turn(20)
    rig.operator.numbers.asked.clear()

    rig.turn(40)

    assert rig.operator.numbers.asked == []


@pytest.mark.parametrize(
    ("acceptable", "bucket", "is_asked"),
    [
        (10_000, 0, False),
        (10_000, 1_000, False),
        (10_000, 10_000, True),
        (10_000, 100_000, True),
        (10_000, 1_000_000, False),
        (10_000, LAG_UNKNOWN, False),
        (0, 0, True),
        (0, 1_000, True),
        (0, 10_000, False),
    ],
)
def test_a_standby_is_asked_about_when_its_bucket_does_not_tell(
    acceptable: int, bucket: int, *, is_asked: bool
) -> None:
    rig = KubeRig()
    rig.apply(streamapp(assignment={"standbyReplicas": 1, "acceptableRecoveryLag": acceptable}))
    rig.until(lambda: rig.condition("StandbysReady")[0] == "True")
    rig.workers["wc-w-0"].lag = bucket
    rig.turn(20)
    rig.operator.numbers.asked.clear()

    rig.turn(40)

    asked = {name for each in rig.operator.numbers.asked for name in each}
    others = {"wc-w-1"} if acceptable == 0 else set()
    assert asked - others == ({"wc-w-0"} if is_asked else set())


def test_who_is_going_is_not_asked(rig: KubeRig) -> None:
    rig.node.lost = True
    rig.api.delete(PODS, NAMESPACE, "wc-w-1")
    rig.turn(4)
    rig.operator.numbers.asked.clear()

    rig.turn(20)

    assert not any("wc-w-1" in each for each in rig.operator.numbers.asked)


def test_a_pods_endpoint_is_its_own_address() -> None:
    pod = PodView(worker="w", uid="u", address="10.1.2.3")

    assert pod.endpoint == "10.1.2.3:8080"
    assert replace(pod, address="fd00::1").endpoint == "[fd00::1]:8080"
    assert replace(pod, address="").endpoint == ""
