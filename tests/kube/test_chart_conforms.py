"""What the chart makes, looked at strictly: by kubeconform, and under the restricted profile.

``helm lint --strict`` and what the API server itself says are in ``test_chart``.
"""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.golden import monitoring
from tests.golden.chart import SNAPSHOTS, snapshot_names
from tests.golden.crds import ROOT
from tests.kube.fixtures import Command
from tests.kube.programs import find
from tests.kube.schemas import LOCATION, write_schemas
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.kube


@pytest.fixture(scope="module")
def schemas(kubeconfig: Path, crds: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Schemas of all kinds that the chart makes: of Kubernetes, of us, of Prometheus' operator."""
    folder = tmp_path_factory.mktemp("schemas")
    kinds = [each for name in snapshot_names() for each in documents_of(name)]
    versions = {each["apiVersion"] for each in kinds if each["kind"] not in monitoring.KINDS}
    definitions = [*(ROOT / "crds").glob("*.yaml"), *monitoring.definitions()]
    write_schemas(Command(find("kubectl"), kubeconfig, "default"), folder, versions, definitions)
    return folder


def documents_of(name: str) -> list[dict[str, Any]]:
    """What is rendered of a snapshot, which a test of its own compares with the chart."""
    text = (SNAPSHOTS / f"{name}.rendered.yaml").read_text()
    return [each for each in yaml.safe_load_all(text) if each]


def conform(schemas: Path, text: str) -> dict[str, Any]:
    """What kubeconform says of documents."""
    done = subprocess.run(
        [
            str(find("kubeconform")),
            "-strict",
            "-summary",
            "-output=json",
            f"-schema-location={schemas}/{LOCATION}",
        ],
        input=text,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    assert (done.returncode == 0) == (not found.get("resources")), done.stderr
    return found


@pytest.mark.parametrize("name", snapshot_names())
def test_kubeconform_finds_nothing_that_the_kinds_do_not_have(name: str, schemas: Path) -> None:
    documents = documents_of(name)

    found = conform(schemas, yaml.safe_dump_all(documents))

    assert found.get("resources", []) == []
    summary = found["summary"]
    assert (summary["valid"], summary["skipped"]) == (len(documents), 0)


def test_kubeconform_finds_nothing_in_examples_that_our_kinds_do_not_have(schemas: Path) -> None:
    examples = sorted((ROOT / "examples").glob("*/*.yaml"))
    apps = [file.read_text() for file in examples if "kind: StreamApp" in file.read_text()]

    assert apps
    for text in apps:
        assert conform(schemas, text).get("resources", []) == []


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        ("Deployment", ("spec", "replcas")),
        ("Deployment", ("spec", "template", "spec", "containers", 0, "imagePullPolcy")),
        ("Deployment", ("spec", "template", "spec", "securityContext", "runAsNonroot")),
        ("ClusterRole", ("rules", 0, "verb")),
        ("ValidatingAdmissionPolicy", ("spec", "validations", 0, "mesage")),
        ("PodMonitor", ("spec", "podMetricsEndpoints", 0, "prot")),
        ("ServiceMonitor", ("spec", "selector", "matchLables")),
        ("PrometheusRule", ("spec", "groups", 0, "rules", 0, "exp")),
    ],
)
def test_kubeconform_refuses_a_field_that_a_kind_does_not_have(
    schemas: Path, kind: str, path: tuple[str | int, ...]
) -> None:
    made = [each for name in snapshot_names() for each in documents_of(name)]
    planted = next(each for each in made if each["kind"] == kind)
    place: Any = planted
    for part in path[:-1]:
        place = place[part]
    place[path[-1]] = 1

    [found] = conform(schemas, yaml.safe_dump(planted))["resources"]

    assert (found["kind"], found["status"]) == (kind, "statusInvalid")
    assert str(path[-1]) in found["msg"]


def test_kubeconform_refuses_a_field_that_a_streamapp_does_not_have(schemas: Path) -> None:
    app = yaml.safe_load((ROOT / "examples/word_count/streamapp.yaml").read_text())
    app["spec"]["replcas"] = 1

    [found] = conform(schemas, yaml.safe_dump(app))["resources"]

    assert found["status"] == "statusInvalid"
    assert "replcas" in found["msg"]


def pods_of(name: str) -> list[dict[str, Any]]:
    """The pods that the workloads of a snapshot would make."""
    found = []
    for each in documents_of(name):
        if each["kind"] in {"Deployment", "Job"}:
            pod = each["spec"]["template"]["spec"]
            # The account is not there, and what may run is not the account's affair.
            plain = {key: value for key, value in pod.items() if key != "serviceAccountName"}
            metadata = {"name": each["metadata"]["name"]}
            found.append({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": plain})
    return found


@pytest.mark.parametrize("name", snapshot_names())
def test_pods_of_the_chart_are_admitted_under_the_restricted_profile(
    name: str, namespace: str, kubectl: Command
) -> None:
    kubectl("label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted")
    pods = pods_of(name)

    def tried(pod: dict[str, Any]) -> str:
        done = kubectl.run("create", "--dry-run=server", "--filename=-", stdin=yaml.safe_dump(pod))
        return done.stdout + done.stderr

    refused = 'violates PodSecurity "restricted:latest": unrestricted capabilities'
    assert pods
    for pod in pods:
        planted = yaml.safe_load(yaml.safe_dump(pod))
        planted["spec"]["containers"][0]["securityContext"]["capabilities"] = {"drop": []}
        # The API server may still know the namespace without its label.
        wait_for(lambda planted=planted: refused in tried(planted), what="the refusal")
        said = tried(pod)
        assert f"pod/{pod['metadata']['name']} created (server dry run)" in said
        assert "PodSecurity" not in said
