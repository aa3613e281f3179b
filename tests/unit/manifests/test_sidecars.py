"""The containers beside ours, in the pods of workers, of Spark's driver and of executors."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from tests.golden.test_driver import INSTALLATION
from tests.support.documents import FULL

from headwater.model import podcontract
from headwater.model.streamapp import StreamApp, parse
from headwater_operator.manifests.driver import driver_pod, executor_template
from headwater_operator.manifests.names import Owner
from headwater_operator.manifests.pod import worker_pod

OWNER = Owner(name="counter", namespace="shop", uid="u-1")
APP = parse(yaml.safe_load(FULL))


def specs(app: StreamApp = APP) -> dict[str, dict[str, Any]]:
    driver = driver_pod(
        app, OWNER, revision="abc", generation=7, executors=3, installation=INSTALLATION
    )
    return {
        "worker": worker_pod(app, OWNER, "counter-w-0", revision="abc", installation=INSTALLATION)[
            "spec"
        ],
        "driver": driver["spec"],
        "executor": executor_template(app, INSTALLATION)["spec"],
    }


@pytest.mark.parametrize("name", ["worker", "driver", "executor"])
def test_containers_beside_ours_are_restricted_and_come_after_it(name: str) -> None:
    spec = specs()[name]

    assert [each["name"] for each in spec["containers"]] == [name, "shipper"]
    assert [each["name"] for each in spec["initContainers"]] == ["proxy", "fetch"]
    for each in (*spec["containers"], *spec["initContainers"]):
        security = each["securityContext"]
        assert security["allowPrivilegeEscalation"] is False
        assert security["runAsNonRoot"] is True
        assert security["capabilities"] == {"drop": ["ALL"]}
    proxy, fetch = spec["initContainers"]
    assert (proxy["securityContext"]["runAsUser"], proxy["restartPolicy"]) == (1000, "Always")
    assert fetch["securityContext"] == podcontract.security_context()


@pytest.mark.parametrize("name", ["worker", "driver", "executor"])
def test_every_mount_of_every_container_has_a_volume(name: str) -> None:
    spec = specs()[name]
    volumes = [each["name"] for each in spec["volumes"]]

    mounted = {
        mount["name"]
        for each in (*spec["containers"], *spec["initContainers"])
        for mount in each.get("volumeMounts", ())
    }
    assert len(volumes) == len(set(volumes))
    assert mounted <= set(volumes)


def test_executors_have_no_token_whatever_is_projected() -> None:
    told = {name: json.dumps(spec["volumes"]) for name, spec in specs().items()}

    assert [name for name, text in told.items() if "sts.example" in text] == ["worker", "driver"]
    assert "serviceAccountToken" not in told["executor"]


def test_a_pod_has_the_time_to_end_that_is_asked_for_or_what_its_process_needs() -> None:
    document = yaml.safe_load(FULL)
    del document["spec"]["podTemplate"]["terminationGracePeriodSeconds"]
    usual = specs(parse(document))

    assert usual["worker"]["terminationGracePeriodSeconds"] == podcontract.GRACE_S
    assert usual["driver"]["terminationGracePeriodSeconds"] == 60
    for name in ("worker", "driver"):
        assert specs()[name]["terminationGracePeriodSeconds"] == 120


def test_an_app_that_asks_for_nothing_has_the_pods_it_had() -> None:
    document = yaml.safe_load(FULL)
    del document["spec"]["podTemplate"]
    spec = specs(parse(document))["worker"]

    assert [each["name"] for each in spec["containers"]] == ["worker"]
    assert not {"initContainers", "affinity", "dnsConfig", "hostAliases"} & spec.keys()
    assert "envFrom" not in spec["containers"][0]
