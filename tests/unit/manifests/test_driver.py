"""The pods of Spark's driver and executors: what Kubernetes and those in them rely on."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.golden.test_driver import APP, INSTALLATION, OWNER

from headwater.model import drivercontract as contract
from headwater.model import podcontract
from headwater.model.drivercontract import pull_policy_of
from headwater.model.streamapp import StreamApp, parse
from headwater_operator.manifests.config import config_map
from headwater_operator.manifests.driver import (
    driver_pod,
    driver_resources,
    executor_template,
    started_from,
)
from headwater_operator.manifests.names import EXECUTOR_COMPONENT, pod_labels


def app(**spark: Any) -> StreamApp:
    document = APP.to_dict()
    assert isinstance(document["spec"], dict)
    return parse({**document, "spec": {**document["spec"], "spark": spark}})


def driver(streamapp: StreamApp = APP) -> dict[str, Any]:
    return driver_pod(
        streamapp, OWNER, revision="abc", generation=7, executors=3, installation=INSTALLATION
    )


def containers() -> list[tuple[dict[str, Any], dict[str, Any]]]:
    pods = (driver()["spec"], executor_template(APP, INSTALLATION)["spec"])
    return [(spec, spec["containers"][0]) for spec in pods]


def test_both_pods_meet_the_restricted_security_standard() -> None:
    for spec, container in containers():
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert container["securityContext"] == podcontract.security_context()
        assert spec["automountServiceAccountToken"] is False


def test_the_driver_alone_has_a_token() -> None:
    told = [json.dumps(spec["volumes"]) for spec, _ in containers()]

    assert ["serviceAccountToken" in each for each in told] == [True, False]
    accounts = {spec["serviceAccountName"] for spec, _ in containers()}
    assert accounts == {contract.driver_account("orders")}


def test_every_path_that_is_told_is_mounted_and_every_mount_has_a_volume() -> None:
    for spec, container in containers():
        mounts = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
        told = [
            entry["value"]
            for entry in container["env"]
            if str(entry.get("value", "")).startswith("/")
            and entry["name"] != podcontract.ENV_TOPOLOGY_DIR
        ]
        assert [path for path in told if not path.startswith(tuple(mounts))] == []
        assert set(mounts.values()) <= {volume["name"] for volume in spec["volumes"]}
        # Credentials and the user's own volumes are where a worker has them.
        assert {podcontract.KAFKA_DIR, "/models"} <= set(mounts)


def test_every_argument_of_the_driver_is_filled_in_by_a_variable_that_it_has() -> None:
    container = driver()["spec"]["containers"][0]
    named = {entry["name"] for entry in container["env"]}
    used = {word[2:-1] for word in container["args"] if word.startswith("$(")}

    assert used
    assert used <= named


def test_the_users_variables_never_take_the_place_of_ours() -> None:
    for _, container in containers():
        names = [entry["name"] for entry in container["env"]]
        assert names[0] == "MODE"
        assert set(names[1:]) <= set(contract.own_variables())


def test_executors_are_found_by_what_status_selects() -> None:
    made = executor_template(APP, INSTALLATION)["metadata"]["labels"]

    assert made.items() >= pod_labels("orders", EXECUTOR_COMPONENT).items()
    assert made["team"] == "shop"


@pytest.mark.parametrize(
    ("config", "memory", "cpu"),
    [
        ({}, "1536Mi", "1"),
        ({"spark.driver.memory": "4g"}, "5734Mi", "1"),
        ({"spark.driver.memory": "2048", "spark.driver.memoryOverhead": "1g"}, "3072Mi", "1"),
        ({"spark.driver.memory": "512m", "spark.driver.cores": 2}, "1024Mi", "2"),
        ({"spark.kubernetes.driver.request.cores": "100m"}, "1536Mi", "100m"),
        ({"spark.driver.memory": "plenty"}, None, "1"),
    ],
)
def test_the_driver_asks_for_what_sparks_settings_say(
    config: dict[str, Any], memory: str | None, cpu: str
) -> None:
    found = driver_resources(app(config=config))

    assert found["requests"]["cpu"] == cpu
    assert found["requests"].get("memory") == found["limits"].get("memory") == memory


def test_what_a_driver_is_started_from_changes_with_sparks_part_of_the_specification() -> None:
    digests = {
        started_from(app()),
        started_from(app(triggerInterval="1s")),
        started_from(app(config={"spark.executor.memory": "1g"})),
    }

    assert len(digests) == 3
    # As many executors as there are is another annotation.
    assert started_from(APP.with_replicas(9)) == started_from(APP)


def test_the_template_lies_beside_the_streamapp_on_spark_only() -> None:
    native = parse({**APP.to_dict(), "spec": {**APP.to_dict()["spec"], "engine": "Native"}})  # type: ignore[dict-item]

    on_spark = config_map(APP, OWNER, "abc", INSTALLATION)["data"]

    assert json.loads(on_spark[contract.EXECUTOR_KEY]) == executor_template(APP, INSTALLATION)
    assert set(config_map(native, OWNER, "abc", INSTALLATION)["data"]) == {
        podcontract.STREAMAPP_KEY
    }


@pytest.mark.parametrize(
    ("image", "chosen", "policy"),
    [
        ("words:1", None, "IfNotPresent"),
        ("registry:5000/words", None, "Always"),
        ("registry:5000/words:latest", None, "Always"),
        ("words@sha256:00", None, "IfNotPresent"),
        ("words:latest", "Never", "Never"),
    ],
)
def test_executors_are_pulled_as_kubernetes_would(
    image: str, chosen: str | None, policy: str
) -> None:
    assert pull_policy_of(image, chosen) == policy
