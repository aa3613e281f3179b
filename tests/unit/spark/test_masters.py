"""What Spark is told for each kind of master, and the example of docs/backfill.md."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.pages import blocks

from headwater.cli import backfill
from headwater.cli.main import main
from headwater.errors import ConfigError
from headwater.model import drivercontract as contract
from headwater.model.streamapp import StreamApp, parse
from headwater.spark import masters
from headwater.spark.cluster import SparkCluster

ROOT = Path(__file__).parents[3]
KUBERNETES = "k8s://https://kubernetes.default.svc"
GIVEN = {
    "spark.kubernetes.container.image": "shop/orders:1",
    "spark.driver.host": "10.1.2.3",
}
OURS = "/usr/bin/python3"


def test_on_this_machine_spark_says_nothing_of_itself_unless_somebody_has_set_its_log() -> None:
    assert masters.quiet("local[2]", {}, {}) == masters.LOG_FILE
    for master, given, environment in (
        ("spark://one:7077", {}, {}),
        ("local[2]", {"spark.driver.extraJavaOptions": "-Dmine"}, {}),
        ("local[2]", {}, {"SPARK_CONF_DIR": "/etc/spark"}),
    ):
        assert masters.quiet(master, given, environment) == ""


def app(**spark: Any) -> StreamApp:
    return parse(
        {
            "apiVersion": "headwater.dev/v1alpha1",
            "kind": "StreamApp",
            "metadata": {"name": "orders"},
            "spec": {"topology": {"module": "orders:build"}, "spark": spark},
        }
    )


def command(*arguments: str) -> argparse.Namespace:
    """What the command line says, without running it."""
    parser = argparse.ArgumentParser()
    backfill.register(parser.add_subparsers())
    return parser.parse_args(["backfill", "-f", "streamapp.yaml", *arguments])


# -- who says what -------------------------------------------------------------------------------


def test_master_and_settings_are_the_streamapps_unless_the_command_line_says_otherwise() -> None:
    told = app(
        master="spark://one:7077", config={"spark.executor.memory": "4g", "spark.cores.max": 8}
    )

    found = backfill.spark_of(command(), told)
    other = backfill.spark_of(
        command("--master", KUBERNETES, "--spark-config", "spark.executor.memory=2g"), told
    )

    assert found == (
        "spark://one:7077",
        {"spark.executor.memory": "4g", "spark.cores.max": "8"},
    )
    assert other == (KUBERNETES, {"spark.executor.memory": "2g", "spark.cores.max": "8"})
    assert backfill.spark_of(command(), app()) == ("local[*]", {})


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*,4]", "local-cluster[2,1,1024]"])
def test_on_this_machine_its_name_need_not_lead_to_it(master: str) -> None:
    assert set(masters.defaults(master, {}, "").values()) == {"127.0.0.1"}


def test_of_a_spark_cluster_of_ones_own_nothing_is_assumed() -> None:
    assert masters.defaults("spark://one:7077", {}, "") == {}
    assert masters.defaults("yarn", {}, "") == {}


@pytest.mark.parametrize("name", sorted(GIVEN))
def test_what_only_the_user_can_know_of_kubernetes_is_asked_for_by_name(name: str) -> None:
    given = {other: value for other, value in GIVEN.items() if other != name}

    for refused in (
        lambda: masters.defaults(KUBERNETES, given, ""),
        lambda: SparkCluster(KUBERNETES, given).check(),
        lambda: SparkCluster(KUBERNETES, given).prepare(),
    ):
        with pytest.raises(ConfigError, match=rf"{re.escape(name)} is missing.*--spark-config"):
            refused()


def test_nothing_is_told_twice() -> None:
    """What the user says of Kubernetes reaches Spark as it is: no setting of ours is beside it."""
    ours = masters.defaults(KUBERNETES, GIVEN, "/cache/executor.json")

    assert not ours.keys() & GIVEN.keys()
    assert [name for name in ours if "namespace" in name or "serviceAccount" in name] == []
    assert ours[masters.TEMPLATE] == "/cache/executor.json"


def test_a_template_of_the_users_own_is_taken_as_it_is() -> None:
    ours = masters.defaults(KUBERNETES, {**GIVEN, masters.TEMPLATE: "/mine.yaml"}, "/cache/x.json")

    assert [name for name in ours if "podTemplate" in name] == []


def test_executors_of_the_template_begin_as_the_image_of_workers_can() -> None:
    spec = masters.executor_template()["spec"]
    ours = masters.defaults(KUBERNETES, GIVEN, "/cache/executor.json")

    [container] = spec["containers"]
    assert container["command"] == ["python3", "-m", "headwater.spark.executor"]
    assert container["name"] == ours["spark.kubernetes.executor.podTemplateContainerName"]
    assert container["securityContext"]["readOnlyRootFilesystem"]
    # So what it writes needs a place.
    mounted = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert {entry["value"] for entry in container["env"]} == mounted == {"/tmp"}
    assert not spec["automountServiceAccountToken"]


def test_python_is_this_one_unless_executors_are_elsewhere_and_have_another() -> None:
    said, told = {"PYSPARK_PYTHON": "/opt/python3"}, {"spark.pyspark.python": "/app/python3"}

    for master in (KUBERNETES, "spark://one:7077"):
        assert masters.python_of(master, {}, {}, OURS) == OURS
        assert masters.python_of(master, {}, said, OURS) == "/opt/python3"
        assert masters.python_of(master, told, said, OURS) == "/app/python3"
    assert masters.python_of("local[2]", told, said, OURS) == OURS


# -- the command ---------------------------------------------------------------------------------


def test_the_command_says_what_is_missing_before_it_looks_for_a_broker(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = ROOT / "examples" / "word_count" / "streamapp.yaml"

    code = main(
        ["backfill", "-f", str(file), "--home", str(tmp_path), "--master", KUBERNETES, "--dry-run"]
    )

    said = capsys.readouterr().err
    assert code == 2, said
    assert "spark.kubernetes.container.image is missing" in said
    assert masters.PAGE in said


# -- the page ------------------------------------------------------------------------------------


def test_the_example_of_the_page_says_all_that_is_needed() -> None:
    [block] = blocks("backfill.md", "yaml")
    account, role, binding, job = yaml.safe_load_all(block)
    pod = job["spec"]["template"]["spec"]
    [driver] = pod["containers"]
    arguments = driver["args"]
    told = [entry for entry in driver["env"] if "valueFrom" in entry]
    for entry in told:
        path = entry["valueFrom"]["fieldRef"]["fieldPath"].replace(".", "-")
        arguments = [each.replace(f"$({entry['name']})", path) for each in arguments]
    parser = argparse.ArgumentParser()
    backfill.register(parser.add_subparsers())

    told = parser.parse_args(arguments)
    master, given = backfill.spark_of(told, app())

    SparkCluster(master, given).check()
    assert master == KUBERNETES
    assert not [value for value in given.values() if "$" in value]
    assert given["spark.driver.host"] == "status-podIP"
    assert given["spark.kubernetes.namespace"] == "metadata-namespace"
    assert given["spark.kubernetes.driver.pod.name"] == "metadata-name"
    assert given["spark.kubernetes.container.image"] == driver["image"]
    # The account of the pod may do what the driver of a running application may.
    assert role["rules"] == contract.driver_rules()
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    [subject] = binding["subjects"]
    assert subject["name"] == account["metadata"]["name"] == pod["serviceAccountName"]
