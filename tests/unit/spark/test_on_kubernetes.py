"""What a driver in a pod tells Spark, and what an executor's pod becomes."""

from __future__ import annotations

import pytest

from headwater.errors import ConfigError
from headwater.model import drivercontract as contract
from headwater.spark.executor import command
from headwater.spark.on_kubernetes import executors

POD = {
    "KUBERNETES_SERVICE_HOST": "10.0.0.1",
    "KUBERNETES_SERVICE_PORT": "443",
    contract.ENV_POD: "orders-driver",
    contract.ENV_EXECUTORS: "3",
    contract.ENV_EXECUTOR_IMAGE: "shop/orders:1",
    contract.ENV_EXECUTOR_PULL_POLICY: "IfNotPresent",
    contract.ENV_EXECUTOR_TEMPLATE: "/etc/headwater/streamapp/executor.json",
    "HEADWATER_NAMESPACE": "shop",
    "HEADWATER_HTTP_HOST": "10.1.2.3",
    "HEADWATER_STATE_DIR": "/var/lib/headwater",
}
EXECUTOR = {
    "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@10.1.2.3:7078",
    "SPARK_EXECUTOR_ID": "4",
    "SPARK_EXECUTOR_CORES": "1",
    "SPARK_EXECUTOR_MEMORY": "512m",
    "SPARK_APPLICATION_ID": "spark-1",
    "SPARK_RESOURCE_PROFILE_ID": "0",
    "SPARK_EXECUTOR_POD_IP": "10.1.2.9",
    "SPARK_EXECUTOR_POD_NAME": "orders-1-exec-4",
    "SPARK_JAVA_OPT_10": "-Dlast=1",
    "SPARK_JAVA_OPT_2": "-Dfirst=a b",
    "SPARK_JAVA_OPTIONS": "-Dnone=1",
}


def test_by_hand_nothing_is_told() -> None:
    without = {name: value for name, value in POD.items() if name != contract.ENV_POD}

    assert executors("orders", without) is None


def test_executors_dial_the_pods_address_never_a_wildcard() -> None:
    told = executors("orders", POD)

    assert told is not None
    assert told.master == "k8s://https://10.0.0.1:443"
    addresses = {told.fixed[f"spark.driver.{name}"] for name in ("host", "bindAddress")}
    assert addresses == {"10.1.2.3"}
    assert told.fixed["spark.executor.instances"] == "3"
    assert told.fixed["spark.kubernetes.driver.pod.name"] == "orders-driver"


def test_an_address_of_the_new_kind_stands_in_brackets() -> None:
    told = executors("orders", {**POD, "KUBERNETES_SERVICE_HOST": "fd00::1"})

    assert told is not None
    assert told.master == "k8s://https://[fd00::1]:443"


@pytest.mark.parametrize("name", sorted(POD.keys() - {contract.ENV_POD}))
def test_a_pod_without_a_variable_is_refused_by_its_name(name: str) -> None:
    without = {other: value for other, value in POD.items() if other != name}

    with pytest.raises(ConfigError, match=name):
        executors("orders", without)


def test_spark_is_told_to_ask_for_nothing_but_pods() -> None:
    told = executors("orders", POD)

    assert told is not None
    assert told.fixed["spark.kubernetes.executor.disableConfigMap"] == "true"
    for name in (
        "spark.kubernetes.driver.service.deleteOnTermination",
        "spark.kubernetes.driver.ownPersistentVolumeClaim",
        "spark.kubernetes.driver.reusePersistentVolumeClaim",
    ):
        assert told.fixed[name] == "false"


def test_an_executor_becomes_what_its_variables_say_with_options_by_their_numbers() -> None:
    words = command(EXECUTOR, "/java", "/jars")

    assert words[:6] == ["/java", "-Dfirst=a b", "-Dlast=1", "-Xms512m", "-Xmx512m", "-cp"]
    assert words[6] == "/jars/*"
    assert words[words.index("--podName") + 1] == "orders-1-exec-4"
    assert words[words.index("--bind-address") + 1] == "10.1.2.9"
    assert "-Dnone=1" not in words


def test_an_executor_by_hand_is_told_who_starts_them() -> None:
    with pytest.raises(ConfigError, match=r"SPARK_DRIVER_URL is missing: executors are started by"):
        command({"SPARK_EXECUTOR_MEMORY": "1g"}, "/java", "/jars")
