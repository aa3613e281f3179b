"""The pure parts of the kubelet of the tests: phases, conditions, commands, variables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.kube.kubelet.environment import (
    ContainerConfigError,
    Image,
    Sources,
    expand,
    on_this_machine,
    start_of,
)
from tests.kube.kubelet.status import ContainerState, phase_of, pod_status, says

WAITS = {"waiting": {"reason": "ContainerCreating"}}
RUNS = {"running": {"startedAt": "t"}}


def ended(code: int) -> dict[str, Any]:
    return {"terminated": {"exitCode": code}}


def state(now: dict[str, Any], last: dict[str, Any] | None = None) -> ContainerState:
    return ContainerState("c", "i", state=now, last=last or {}, is_ready="running" in now)


@pytest.mark.parametrize(
    ("states", "policy", "phase"),
    [
        ([state(WAITS)], "Always", "Pending"),
        ([state(RUNS), state(WAITS)], "Always", "Pending"),
        ([state(RUNS), state(ended(1))], "Never", "Running"),
        ([state(ended(0))], "Never", "Succeeded"),
        ([state(ended(0)), state(ended(1))], "Never", "Failed"),
        ([state(ended(0))], "OnFailure", "Succeeded"),
        ([state(WAITS, ended(1))], "OnFailure", "Running"),
        ([state(WAITS, ended(0))], "Always", "Running"),
    ],
)
def test_a_phase_follows_from_the_containers(
    states: list[ContainerState], policy: str, phase: str
) -> None:
    assert phase_of(states, policy, is_over=False) == phase


@pytest.mark.parametrize(
    ("last", "phase"),
    [(ended(0), "Succeeded"), (ended(137), "Failed"), (WAITS, "Failed")],
)
def test_a_pod_that_is_over_has_a_final_phase(last: dict[str, Any], phase: str) -> None:
    assert phase_of([state(last)], "Always", is_over=True) == phase


def test_a_condition_keeps_its_time_until_it_changes() -> None:
    pod: dict[str, Any] = {"spec": {"restartPolicy": "Always"}}
    pod["status"] = pod_status(pod, [state(RUNS)], now="early")

    same = pod_status(pod, [state(RUNS)], now="late")
    other = pod_status(pod, [state(WAITS, ended(1))], now="late")

    assert same == pod["status"]
    times = {each["type"]: each["lastTransitionTime"] for each in other["conditions"]}
    assert times == {
        "PodReadyToStartContainers": "early",
        "Initialized": "early",
        "ContainersReady": "late",
        "Ready": "late",
    }


def test_a_stored_status_that_says_more_says_it_too() -> None:
    wanted = pod_status({"spec": {}}, [state(RUNS)], now="t")
    more = {"type": "PodScheduled", "status": "True"}
    stored = {**wanted, "qosClass": "BestEffort", "conditions": [more, *wanted["conditions"]]}

    assert says(stored, wanted)
    assert not says({**stored, "phase": "Pending"}, wanted)
    assert not says({**stored, "conditions": [more]}, wanted)
    assert not says({}, wanted)


def test_references_are_expanded_and_unknown_ones_stay() -> None:
    assert expand("$(A)/$(B)/$$(A)/$A", {"A": "x"}) == "x/$(B)/$(A)/$A"


def test_the_longest_mount_of_a_value_counts() -> None:
    mounts = {"/a": Path("/m1"), "/a/b": Path("/m2")}

    found = [on_this_machine(value, mounts) for value in ("/a", "/a/c", "/a/b/c", "/ab", "x/a")]

    assert found == ["/m1", "/m1/c", "/m2/c", "/ab", "x/a"]


POD = {"metadata": {"name": "p", "namespace": "n", "uid": "u"}, "spec": {}}
SOURCES = Sources(
    pod=POD,
    mounts={"/data": Path("/here")},
    config_map={"c": {"k": "v"}}.get,
    secret={"s": {"k": "w"}}.get,
)


def test_what_a_container_says_wins_over_its_image() -> None:
    image = Image(("run",), {"A": "image", "B": "image"})
    env = [{"name": "A", "value": "/data/x"}, {"name": "A", "value": "/data/y"}]

    of_image = start_of({}, image, SOURCES, {})
    own = start_of(
        {"command": ["own"], "args": ["$(A)", "$(T)"], "env": env}, image, SOURCES, {"T": "t"}
    )

    assert of_image.command == ["run"]
    assert own.command == ["own", "/here/y", "t"]
    assert own.environment == {"A": "/here/y", "B": "image", "T": "t"}


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"secretKeyRef": {"name": "none", "key": "k"}}, 'secret "none" not found'),
        ({"secretKeyRef": {"name": "s", "key": "x"}}, "couldn't find key x in secret s"),
        ({"configMapKeyRef": {"name": "none", "key": "k"}}, 'configmap "none" not found'),
        ({"fieldRef": {"fieldPath": "spec.none"}}, "unsupported fieldPath: spec.none"),
        ({"resourceFieldRef": {"resource": "limits.cpu"}}, "unsupported source"),
    ],
)
def test_a_reference_that_leads_nowhere_is_named(entry: dict[str, Any], said: str) -> None:
    container = {"command": ["x"], "env": [{"name": "A", "valueFrom": entry}]}

    with pytest.raises(ContainerConfigError, match=said):
        start_of(container, Image(), SOURCES, {})


def test_a_whole_config_map_comes_with_its_prefix() -> None:
    sources = [
        {"prefix": "C_", "configMapRef": {"name": "c"}},
        {"secretRef": {"name": "none", "optional": True}},
    ]

    started = start_of({"command": ["x"], "envFrom": sources}, Image(), SOURCES, {})

    assert started.environment == {"C_k": "v"}
