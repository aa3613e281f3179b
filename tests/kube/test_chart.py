"""What Helm makes of the chart, and what the API server says to it."""

from __future__ import annotations

import subprocess
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from headwater_operator.manifests.permissions import election_rules, namespace_rules, node_rules
from tests.golden.chart import CHART, SNAPSHOTS, render, snapshot_names
from tests.kube.programs import find

if TYPE_CHECKING:
    from tests.kube.fixtures import Command

pytestmark = pytest.mark.kube


def helm_says(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Helm without a cluster."""
    return subprocess.run(
        [str(find("helm")), *arguments], capture_output=True, text=True, timeout=60, check=False
    )


@cache
def rendered(*sets: str) -> list[dict[str, Any]]:
    # The definitions are long; who asks for them says so.
    options = [f"--set={each}" for each in ("crds.install=false", *sets)]
    done = helm_says("template", "headwater", str(CHART), "--namespace=system", *options)
    assert done.returncode == 0, done.stderr
    return [each for each in yaml.safe_load_all(done.stdout) if each]


def of_kind(kind: str, *sets: str) -> list[dict[str, Any]]:
    return [each for each in rendered(*sets) if each["kind"] == kind]


# -- without a cluster ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", snapshot_names())
def test_helm_finds_nothing_to_complain_about(name: str) -> None:
    values = SNAPSHOTS / f"{name}.values.yaml"

    done = helm_says("lint", "--strict", f"--values={values}", str(CHART))

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", snapshot_names())
def test_what_is_rendered_is_what_was_reviewed(name: str) -> None:
    reviewed = (SNAPSHOTS / f"{name}.rendered.yaml").read_text()

    assert render(find("helm"), name) == reviewed, "run: python -m tests.golden.chart"


REFUSED = {
    "a value that does not exist": ("replica=2", "replica"),
    "a value that does not exist within one that does": ("image.name=x", "name"),
    "a text for a number": ("replicas=two", "replicas"),
    "too many operators": ("replicas=6", "replicas"),
    "a floating tag": ("image.tag=latest", "tag"),
    "half a digest": ("image.digest=sha256:abc", "digest"),
    "a pull policy that is none": ("image.pullPolicy=Sometimes", "pullPolicy"),
    "no name of an image": ("image.repository=", "repository"),
    "a namespace that cannot be": ("watchNamespaces={Shop}", "watchNamespaces"),
    "a namespace twice": ("watchNamespaces={shop,shop}", "watchNamespaces"),
    "root as the workers' user": ("worker.user=0", "user"),
    "a broker without a port": ("kafka.bootstrapServers=kafka", "bootstrapServers"),
    "a Lease that is too short": ("leaderElection.leaseSeconds=2", "leaseSeconds"),
    "no hands": ("hands=0", "hands"),
    "a level that is none": ("logLevel=TRACE", "logLevel"),
    "a text for a switch": ("rbac.create=maybe", "create"),
    "an interval without a unit": ("metrics.serviceMonitor.interval=30", "interval"),
    "a secret without a name": ("imagePullSecrets[0].key=x", "imagePullSecrets"),
}


@pytest.mark.parametrize("case", REFUSED, ids=str)
def test_values_that_mean_nothing_are_refused_by_name(case: str) -> None:
    given, blamed = REFUSED[case]

    done = helm_says("template", "headwater", str(CHART), f"--set={given}")

    assert done.returncode != 0
    assert blamed in done.stderr


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["metrics.serviceMonitor.create=true", "metrics.service.create=false"], "its Service"),
        (["serviceAccount.name=headwater-worker-x"], "held for a worker's"),
    ],
    ids=["a monitor of no service", "an operator in the guise of a worker"],
)
def test_values_that_do_not_go_together_are_refused(given: list[str], said: str) -> None:
    done = helm_says("template", "headwater", str(CHART), *[f"--set={each}" for each in given])

    assert done.returncode != 0
    assert said in done.stderr


def test_for_all_namespaces_the_operator_has_its_rules_and_no_others() -> None:
    [role] = [each for each in of_kind("ClusterRole") if each["metadata"]["name"].endswith("tor")]
    [election] = of_kind("Role")

    assert role["rules"] == namespace_rules() + node_rules()
    assert election["rules"] == election_rules()
    assert election["metadata"]["namespace"] == "system"


def test_for_some_namespaces_it_has_them_there_only() -> None:
    given = "watchNamespaces={shop,billing}"
    roles = {each["metadata"]["namespace"]: each["rules"] for each in of_kind("Role", given)}
    bound = {each["metadata"]["namespace"] for each in of_kind("RoleBinding", given)}
    cluster = [each["rules"] for each in of_kind("ClusterRole", given, "rbac.aggregate=false")]

    assert roles == {
        "shop": namespace_rules(),
        "billing": namespace_rules(),
        "system": election_rules(),
    }
    assert bound == roles.keys()
    assert cluster == [node_rules()]


def test_with_rights_in_namespaces_only_nothing_is_made_outside_of_them() -> None:
    text = (SNAPSHOTS / "namespaced.rendered.yaml").read_text()
    made = [each for each in yaml.safe_load_all(text) if each]

    assert [each["kind"] for each in made if "namespace" not in each["metadata"]] == []


@pytest.mark.parametrize(("keep", "policy"), [("true", "keep"), ("false", None)])
def test_definitions_stay_unless_it_is_said_that_they_go(keep: str, policy: str | None) -> None:
    given = ("crds.install=true", f"crds.keep={keep}")
    definitions = of_kind("CustomResourceDefinition", *given)

    assert len(definitions) == 2
    for each in definitions:
        annotations = each["metadata"].get("annotations", {})
        assert annotations.get("helm.sh/resource-policy") == policy
        committed = yaml.safe_load(
            (CHART / "files" / "crds" / f"{each['metadata']['name']}.yaml").read_text()
        )
        assert each["spec"] == committed["spec"]


def test_without_a_name_the_workers_image_is_that_of_this_version() -> None:
    def told(*sets: str) -> str:
        [deployment] = of_kind("Deployment", *sets)
        env = deployment["spec"]["template"]["spec"]["containers"][0]["env"]
        [found] = [each["value"] for each in env if each["name"] == "HEADWATER_WORKER_IMAGE"]
        return str(found)

    assert told() == "headwater-worker:0.1.0"
    assert told("image.registry=example.com/a") == "example.com/a/headwater-worker:0.1.0"
    assert told("worker.image=mine:2", "image.registry=example.com/a") == "mine:2"


# -- with one -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", snapshot_names())
def test_the_api_server_takes_everything_that_is_rendered(
    name: str, crds: None, namespace: str, kubectl: Command
) -> None:
    documents = [each for each in yaml.safe_load_all(render(find("helm"), name)) if each]
    # Its definition belongs to the Prometheus operator.
    sent = [each for each in documents if each["kind"] != "ServiceMonitor"]
    for each in sent:
        if "namespace" in each["metadata"]:
            each["metadata"]["namespace"] = namespace

    done = kubectl("create", "--dry-run=server", "--filename=-", stdin=yaml.safe_dump_all(sent))

    assert done.count("(server dry run)") == len(sent)
