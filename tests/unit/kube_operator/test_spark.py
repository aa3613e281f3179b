"""Spark's driver in the operator's rounds: what is seen of it, and what is written about it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.support.kube_drivers import executors
from tests.support.kube_rig import NAMESPACE, KubeRig, streamapp

from headwater.model.drivercontract import END_WORDS
from headwater_operator.decide.observed import ProcessState
from headwater_operator.kube.api import (
    BUDGETS,
    CONFIG_MAPS,
    PODS,
    ROLES,
    SERVICE_ACCOUNTS,
    SERVICES,
    STREAM_APPS,
    Manifest,
)
from headwater_operator.observe.driver_pod import read_driver
from headwater_operator.observe.pods import read_pod

DRIVER = "wc-driver"


@pytest.fixture
def rig() -> KubeRig:
    """An application on Spark with two executors."""
    found = KubeRig()
    found.apply(streamapp(engine="Spark"))
    found.until(lambda: runs(found))
    return found


def runs(rig: KubeRig, replicas: int = 2) -> bool:
    """Whether Spark runs everything with so many executors, and nothing else is there."""
    pods = sorted([DRIVER, *executors(rig.api, NAMESPACE)])
    status = rig.status()
    return (
        rig.condition("Ready")[:2] == ("True", "Running")
        and rig.names(PODS) == pods
        and len(pods) == replicas + 1
        and status["replicas"] == status["readyReplicas"] == replicas
    )


def another(rig: KubeRig, before: str) -> bool:
    return rig.uid(PODS, DRIVER) not in ("", before)


def test_status_says_who_runs_the_tasks_with_counts_of_what_is_there(rig: KubeRig) -> None:
    status = rig.status()

    assert status["engine"] == {
        "name": "Spark",
        "generation": 1,
        "driver": "RUNNING",
        "lastBatch": 7,
        "inputRowsPerSecond": 120,
        "processedRowsPerSecond": 241,
    }
    assert (status["tasks"]["total"], status["tasks"]["running"]) == (4, 4)
    assert status["updatedReplicas"] == 2
    assert status["selector"] == ("headwater.dev/app=wc,app.kubernetes.io/component=executor")
    assert rig.condition("SpecValid")[0] == "True"


def test_with_a_master_of_the_users_own_executors_count_as_wanted(rig: KubeRig) -> None:
    before = rig.uid(PODS, DRIVER)
    rig.drivers.makes_executors = False

    rig.set("/spec/spark", {"master": "spark://elsewhere:7077"})
    rig.until(lambda: another(rig, before) and rig.names(PODS) == [DRIVER])
    counts = ("replicas", "readyReplicas", "updatedReplicas")
    rig.until(lambda: [rig.status()[name] for name in counts] == [2, 2, 2])

    assert rig.condition("Ready")[:2] == ("True", "Running")
    # The driver's is the only pod: a drain may take it.
    assert budget(rig)["minAvailable"] == 0


def test_what_a_driver_needs_is_there_before_it(rig: KubeRig) -> None:
    assert "headwater-driver-wc" in rig.names(SERVICE_ACCOUNTS)
    assert "headwater-driver-wc" in rig.names(ROLES)
    assert rig.names(SERVICES) == [DRIVER]
    [config] = rig.api.list(CONFIG_MAPS, NAMESPACE)
    assert set(config["data"]) == {"streamapp.json", "executor.json"}
    calls = [call for call in rig.api.calls if call[0] in ("create", "apply")]
    assert calls.index(("apply", "services")) < calls.index(("create", "pods"))


def test_the_budget_is_that_of_the_engine(rig: KubeRig) -> None:
    assert budget(rig)["minAvailable"] == 2
    rig.scale(5)
    rig.until(lambda: runs(rig, 5))
    assert budget(rig)["minAvailable"] == 5
    rig.set("/spec/engine", "Native")
    rig.until(lambda: rig.is_ready() and DRIVER not in rig.names(PODS))

    assert budget(rig)["maxUnavailable"] == 1
    assert "minAvailable" not in budget(rig)


def budget(rig: KubeRig) -> Manifest:
    found = rig.api.get(BUDGETS, NAMESPACE, "wc")
    assert found is not None
    return dict(found["spec"])


def test_without_a_micro_batch_it_is_not_ready(rig: KubeRig) -> None:
    rig.drivers.batches = 0
    rig.until(lambda: not rig.is_ready())
    assert rig.condition("Ready")[2].startswith("Spark's driver runs; its executors start")
    rig.drivers.batches = 1
    rig.until(rig.is_ready)


def test_numbers_change_all_the_time_and_are_written_now_and_then(rig: KubeRig) -> None:
    rig.turn(40)
    writes = len([call for call in rig.api.calls if call == ("apply", "streamapps/status")])
    answer = rig.drivers._answer

    def moving(pod: Manifest) -> Any:
        return replace(answer(pod), last_batch=rig.turns, batches=rig.turns)

    rig.drivers._answer = moving  # type: ignore[method-assign]
    rig.turn(240)  # a minute

    later = len([call for call in rig.api.calls if call == ("apply", "streamapps/status")])
    assert 3 <= later - writes <= 5
    assert rig.turns - rig.status()["engine"]["lastBatch"] <= 70


def test_a_driver_that_is_silent_for_a_moment_is_believed_and_then_killed(rig: KubeRig) -> None:
    before = rig.uid(PODS, DRIVER)
    rig.drivers.silent = True
    rig.turn(60)
    assert rig.status()["engine"]["driver"] == "RUNNING"
    assert rig.uid(PODS, DRIVER) == before
    writes = len([call for call in rig.api.calls if call == ("apply", "streamapps/status")])
    rig.turn(360)  # in all 105 s
    assert rig.uid(PODS, DRIVER) == before
    status = rig.status()
    assert (status["engine"]["driver"], status["engine"]["lastBatch"]) == ("RUNNING", 7)
    assert (status["tasks"]["total"], status["tasks"]["running"]) == (4, 4)
    assert "has not answered for 90 s" in rig.condition("Ready")[2]
    later = len([call for call in rig.api.calls if call == ("apply", "streamapps/status")])
    assert later - writes <= 4, "a status is written now and then only"

    rig.until(lambda: another(rig, before), turns=700)
    rig.turn(4)
    told = rig.condition("Degraded")[2]
    assert f"`kubectl logs wc-driver --namespace {NAMESPACE}` shows what the next one does" in told
    assert "spec.spark.master" not in told, "executors are pods"
    rig.drivers.silent = False
    rig.until(lambda: runs(rig))

    assert "DriverSilent" in [reason for reason, _ in rig.events()]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("/spec/replicas", 3),
        ("/spec/spark", {"triggerInterval": "1s"}),
        ("/spec/config", {"commit.interval.ms": 300}),
        ("/spec/image", "example/worker:2"),
    ],
)
def test_a_change_is_another_driver_of_the_same_generation(
    rig: KubeRig, path: str, value: object
) -> None:
    before = rig.uid(PODS, DRIVER)

    rig.set(path, value)
    rig.until(lambda: another(rig, before) and runs(rig, 3 if path == "/spec/replicas" else 2))

    assert rig.status()["engine"]["generation"] == 1
    assert len(rig.names(CONFIG_MAPS)) <= 2


def test_standbys_and_volumes_change_nothing_for_a_driver(rig: KubeRig) -> None:
    before = rig.uid(PODS, DRIVER)

    rig.set("/spec/assignment", {"standbyReplicas": 1})
    rig.turn(40)

    assert rig.uid(PODS, DRIVER) == before
    assert runs(rig)


def test_no_node_for_an_executor_is_told(rig: KubeRig) -> None:
    rig.node.images = {"example/other:1"}
    rig.scale(3)

    rig.until(lambda: rig.condition("Degraded")[1] == "ImagePullFailed")

    assert DRIVER in rig.condition("Degraded")[2]
    rig.turn(2_000)  # more than the time that a driver has to start in
    assert "DriverSilent" not in [reason for reason, _ in rig.events()]


def test_a_driver_that_ends_again_and_again_is_given_up_with_its_last_words(rig: KubeRig) -> None:
    said = "some lines\nended with ConfigError\nerror: spark.what: no such option"
    rig.node.end(DRIVER, exit_code=2, message=said)

    rig.until(lambda: rig.condition("Ready")[1] == "ConfigError")

    assert "spark.what: no such option" in rig.condition("Ready")[2]
    given_up = rig.uid(PODS, DRIVER)
    rig.turn(20)
    assert rig.uid(PODS, DRIVER) == given_up, "what it has said is kept"
    # Whoever has mended it is believed.
    rig.set("/spec/spark", {"config": {}, "triggerInterval": "1s"})
    rig.until(lambda: runs(rig))


def test_a_driver_on_a_machine_that_is_away_has_no_second_one_beside_it(rig: KubeRig) -> None:
    before = rig.uid(PODS, DRIVER)
    rig.node.lost = True
    rig.drivers.silent = True
    rig.turn(800)

    assert rig.uid(PODS, DRIVER) == before
    assert "deletionTimestamp" in (rig.api.get(PODS, NAMESPACE, DRIVER) or {})["metadata"]
    rig.node.lost = rig.drivers.silent = False
    rig.until(lambda: another(rig, before) and runs(rig))


def test_a_pod_that_took_the_drivers_name_is_told(rig: KubeRig) -> None:
    rig.set("/spec/suspend", True)
    rig.until(lambda: not rig.names(PODS))
    container = {"name": "x", "image": "example/other:1"}
    rig.api.create(
        PODS,
        {
            "metadata": {"name": DRIVER, "namespace": NAMESPACE},
            "spec": {"containers": [container]},
        },
    )

    rig.set("/spec/suspend", False)
    rig.until(lambda: rig.condition("Degraded")[1] == "NameTaken")

    rig.api.delete(PODS, NAMESPACE, DRIVER)
    rig.until(lambda: runs(rig))


def test_a_streamapp_that_is_deleted_ends_its_driver_first(rig: KubeRig) -> None:
    rig.delete()
    rig.until(lambda: not rig.names(STREAM_APPS))
    rig.turn(4)

    assert rig.names(PODS) == []


def pod(**status: object) -> Manifest:
    metadata = {"name": DRIVER, "uid": "u-1", "annotations": {"headwater.dev/executors": "3"}}
    return {"metadata": metadata, "status": {"phase": "Failed", **status}}


def ended(code: int, message: str = "") -> list[Manifest]:
    state = {"terminated": {"exitCode": code, "reason": "Error", "message": message}}
    return [{"name": "driver", "state": state}]


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"reason": "Evicted", "message": "low on memory"}, (True, "Evicted: low on memory", "")),
        ({}, (True, "the pod has ended", "")),
        ({"containerStatuses": ended(137)}, (False, "killed by SIGKILL", "")),
        ({"containerStatuses": ended(0), "phase": "Succeeded"}, (False, "", "")),
        (
            {"containerStatuses": ended(3, f"{END_WORDS}KafkaUnavailableError\nerror: no broker")},
            (False, "no broker", "KafkaUnavailableError"),
        ),
        (
            {
                "containerStatuses": ended(143),
                "conditions": [{"type": "DisruptionTarget", "status": "True"}],
            },
            (True, "killed by SIGTERM", ""),
        ),
    ],
)
def test_how_a_driver_ended_is_read_from_its_pod(
    status: Manifest, expected: tuple[bool, str, str]
) -> None:
    manifest = pod(**status)

    view = read_driver(manifest, read_pod(manifest), ())

    assert view.process is ProcessState.ENDED
    assert (view.was_disrupted, view.end, view.error) == expected
    assert (view.executors, view.generation) == (3, -1)
