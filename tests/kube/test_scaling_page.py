"""The commands and samples of docs/scaling.md and docs/autoscaling.md, on a real API server."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from headwater.model.appstatus import AutoscalingStatus
from headwater.model.codec import encode_object
from headwater_operator.observe.snapshot import scaled_by
from tests.golden.crds import ROOT
from tests.kube.definitions import APPS, GROUP, VERSION
from tests.kube.situations import RUNNING, facts_of, status
from tests.support.pages import blocks
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from tests.kube.definitions import Resources
    from tests.kube.fixtures import Command

pytestmark = pytest.mark.usefixtures("crds")

EXAMPLE = ROOT / "examples" / "word_count" / "streamapp.yaml"
WORD_COUNT = status("word-count", facts_of(RUNNING))
# A ScaledObject as far as the sample goes, typed by hand: no KEDA is run, nor its definition read.
KEDA: dict[str, Any] = {
    "scaleTargetRef": {"apiVersion": str, "kind": str, "name": str},
    "minReplicaCount": int,
    "maxReplicaCount": int,
    "pollingInterval": int,
    "advanced": {"horizontalPodAutoscalerConfig": {"behavior": dict}},
    "triggers": list,
}
KAFKA_TRIGGER = {
    "bootstrapServers",
    "consumerGroup",
    "topic",
    "lagThreshold",
    "offsetResetPolicy",
}


def samples() -> tuple[dict[str, Any], dict[str, Any]]:
    autoscaler, scaled_object = map(yaml.safe_load, blocks("scaling.md", "yaml"))
    return autoscaler, scaled_object


def test_the_commands_scale_and_show(kubectl: Command, stream_apps: Resources) -> None:
    kubectl("apply", "--filename", str(EXAMPLE))
    [block] = blocks("scaling.md")

    for line in block.splitlines():
        program, *arguments = line.split()
        assert program == "kubectl"
        assert "word-count" in kubectl(*arguments)

    assert stream_apps.read("word-count")["spec"]["replicas"] == 3


def test_the_page_about_autoscaling_is_applied_and_its_decision_shown(
    kubectl: Command, stream_apps: Resources
) -> None:
    [sample] = blocks("autoscaling.md", "yaml")
    [command] = blocks("autoscaling.md")
    kubectl("apply", "--filename=-", stdin=sample)
    decided = AutoscalingStatus(replicas=4, desired=4, reason="4 workers are needed", lag=5_000)
    stream_apps.write_status("word-count", {**WORD_COUNT, "autoscaling": encode_object(decided)})

    program, *arguments = command.split()
    assert program == "kubectl"
    said = kubectl(*arguments)
    assert '"reason":"4 workers are needed"' in said
    wide = kubectl("get", "streamapp/word-count", "--output=wide").splitlines()
    assert dict(zip(wide[0].split(), wide[1].split(), strict=False))["DESIRED"] == "2"
    assert "AUTOSCALED" in wide[0]
    # A user's kubectl is no autoscaler.
    kubectl("scale", "streamapp/word-count", "--replicas=3")
    assert scaled_by(stream_apps.read("word-count")["metadata"]) == ""


def test_the_autoscaler_of_the_page_finds_the_scale_and_keeps_its_bounds(
    kubectl: Command, stream_apps: Resources
) -> None:
    autoscaler, _ = samples()
    kubectl("apply", "--filename", str(EXAMPLE))
    kubectl("scale", "streamapp/word-count", "--replicas=9")
    stream_apps.write_status("word-count", WORD_COUNT)

    kubectl("apply", "--filename=-", stdin=json.dumps(autoscaler))

    def conditions() -> dict[str, tuple[str, str]]:
        found = json.loads(kubectl("get", "hpa/word-count", "--output=json"))
        listed = (found.get("status") or {}).get("conditions") or ()
        return {each["type"]: (each["status"], each["reason"]) for each in listed}

    # Once it has read the scale it says so, and that it may write it.
    wait_for(
        lambda: conditions().get("AbleToScale", ("", ""))[0] == "True",
        what="the autoscaler to find the scale of the StreamApp",
        timeout_s=120,
    )
    wait_for(
        lambda: stream_apps.read("word-count")["spec"]["replicas"] == 4,
        what="the autoscaler to scale to its maximum",
        timeout_s=120,
    )
    # So autoscaling by lag knows that somebody else decides.
    written = stream_apps.read("word-count")["metadata"]
    assert scaled_by(written) == "kube-controller-manager"
    kubectl("delete", "hpa/word-count")
    # The API server does not write what is there already.
    kubectl("scale", "streamapp/word-count", "--replicas=4")
    written = stream_apps.read("word-count")["metadata"]
    assert scaled_by(written) == "kube-controller-manager"
    kubectl("scale", "streamapp/word-count", "--replicas=3")
    assert scaled_by(stream_apps.read("word-count")["metadata"]) == ""


def test_the_scaled_object_of_the_page_has_kedas_fields_and_a_target_with_a_scale(
    kubectl: Command,
) -> None:
    autoscaler, scaled = samples()
    spec = scaled["spec"]
    example = yaml.safe_load(EXAMPLE.read_text())

    assert (scaled["apiVersion"], scaled["kind"]) == ("keda.sh/v1alpha1", "ScaledObject")
    assert fits(spec, KEDA)
    [trigger] = spec["triggers"]
    assert set(trigger) == {"type", "metadata"}
    assert trigger["type"] == "kafka"
    assert set(trigger["metadata"]) == KAFKA_TRIGGER
    assert all(isinstance(value, str) for value in trigger["metadata"].values())
    topics = [topic["name"] for topic in example["spec"]["kafka"]["topics"]]
    assert trigger["metadata"]["topic"] in topics
    assert trigger["metadata"]["consumerGroup"] == example["metadata"]["name"]

    # KEDA makes an autoscaler of it: the API server takes that.
    target, config = spec["scaleTargetRef"], spec["advanced"]["horizontalPodAutoscalerConfig"]
    made = {
        **autoscaler,
        "spec": {
            **autoscaler["spec"],
            "scaleTargetRef": target,
            "minReplicas": spec["minReplicaCount"],
            "maxReplicas": spec["maxReplicaCount"],
            "behavior": config["behavior"],
        },
    }
    kubectl("apply", "--dry-run=server", "--filename=-", stdin=json.dumps(made))
    served = json.loads(kubectl("get", "--raw", f"/apis/{target['apiVersion']}"))
    kinds = {each["name"]: each["kind"] for each in served["resources"]}
    assert target["apiVersion"] == f"{GROUP}/{VERSION}"
    assert kinds[APPS] == target["kind"]
    assert kinds[f"{APPS}/scale"] == "Scale"


def fits(value: Any, form: Any) -> bool:
    """Whether a value has no fields but those of a form, each of its type."""
    if isinstance(form, dict):
        return set(value) <= set(form) and all(fits(value[key], form[key]) for key in value)
    return isinstance(value, form)
