"""What Helm makes of the chart, and what the API server says to it."""

from __future__ import annotations

import json
import shutil
import subprocess
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from headwater.model.podcontract import HTTP_PORT, PORT_NAME
from headwater_operator.dashboards import DASHBOARDS
from headwater_operator.manifests.names import (
    DRIVER_COMPONENT,
    EXECUTOR_COMPONENT,
    WORKER_COMPONENT,
    labels,
)
from headwater_operator.manifests.permissions import (
    caller_rules,
    departure_rules,
    election_rules,
    namespace_rules,
    node_rules,
)
from headwater_operator.spec import custom_resource_definitions
from tests.golden.alerts import ALERTS
from tests.golden.chart import CHART, PROMETHEUS, SNAPSHOTS, render, snapshot_names
from tests.kube.programs import find

if TYPE_CHECKING:
    from pathlib import Path

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
    place = ("--namespace=system", PROMETHEUS)
    done = helm_says("template", "headwater", str(CHART), *place, *options)
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


def of_release_with(values: str, directory: Path, *options: str) -> str:
    """Render for a release with these values and no defaults, as `helm upgrade --reuse-values`."""
    copy = directory / "headwater"
    shutil.copytree(CHART, copy)
    (copy / "values.yaml").write_text(values)
    done = helm_says("template", "headwater", str(copy), PROMETHEUS, *options)
    assert done.returncode == 0, done.stderr
    return done.stdout


ALERTING = ["metrics.prometheusRule.create=true", "metrics.serviceMonitor.create=true"]
MORE = (f"--set={','.join(ALERTING)},networkPolicy.create=true",)


@pytest.mark.parametrize("released", sorted((SNAPSHOTS / "released").iterdir()), ids=str)
@pytest.mark.parametrize(
    "options",
    [(), MORE],
    ids=["as it is", "with more"],
)
def test_values_that_a_release_does_not_have_are_the_defaults(
    released: Path, options: tuple[str, ...], tmp_path: Path
) -> None:
    expected = helm_says("template", "headwater", str(CHART), PROMETHEUS, *options).stdout

    assert of_release_with(released.read_text(), tmp_path, *options) == expected


def test_nothing_but_what_may_be_null_has_to_be_there(tmp_path: Path) -> None:
    all_values = yaml.safe_load((CHART / "values.yaml").read_text())
    kept = {"user": 10001, "worker": {"user": 10001}, "resources": all_values["resources"]}
    expected = helm_says("template", "headwater", str(CHART), PROMETHEUS).stdout

    assert of_release_with(yaml.safe_dump(kept), tmp_path) == expected


def test_what_is_null_or_false_is_not_put_back() -> None:
    given = ("user=null", "worker.user=null", "resources.limits=null", "rbac.aggregate=false")
    [deployment] = of_kind("Deployment", *given)
    pod = deployment["spec"]["template"]["spec"]

    assert "runAsUser" not in pod["securityContext"]
    assert "limits" not in pod["containers"][0]["resources"]
    env = {each["name"]: each.get("value") for each in pod["containers"][0]["env"]}
    assert env["HEADWATER_WORKER_USER"] == "none"
    roles = {each["metadata"]["name"] for each in of_kind("ClusterRole", *given)}
    assert not any("edit" in name or "view" in name for name in roles)


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
    "no time for StreamApps to go": ("crds.deleteTimeoutSeconds=0", "deleteTimeoutSeconds"),
    "a level that is none": ("logLevel=TRACE", "logLevel"),
    "a text for a switch": ("rbac.create=maybe", "create"),
    "an interval without a unit": ("metrics.serviceMonitor.interval=30", "interval"),
    "a secret without a name": ("imagePullSecrets[0].key=x", "imagePullSecrets"),
    "a volume without a name": ("extraVolumes[0].emptyDir.medium=Memory", "extraVolumes"),
    "a mount without a path": ("extraVolumeMounts[0].name=x", "extraVolumeMounts"),
    "no page for alerts": ("metrics.prometheusRule.runbook=", "runbook"),
    "an address of Grafana that is none": ("metrics.prometheusRule.grafana=grafana", "grafana"),
    "a port that cannot be": ("networkPolicy.egress.apiServerPorts={0}", "apiServerPorts"),
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
        (["metrics.prometheusRule.create=true", "metrics.service.create=false"], "'s Service"),
        (["metrics.serviceMonitor.create=true"], "install the Prometheus operator first"),
        (ALERTING, "install the Prometheus operator first"),
        (["metrics.prometheusRule.create=true"], "set metrics.serviceMonitor.create, too"),
        (["serviceAccount.name=headwater-worker-x"], "held for a worker's"),
    ],
    ids=[
        "a monitor of no service",
        "alerts of no service",
        "a monitor for nobody",
        "alerts for nobody",
        "alerts about an operator that is not read",
        "an operator in the guise of a worker",
    ],
)
def test_values_that_do_not_go_together_are_refused(given: list[str], said: str) -> None:
    done = helm_says("template", "headwater", str(CHART), *[f"--set={each}" for each in given])

    assert done.returncode != 0
    assert said in done.stderr


def test_for_all_namespaces_the_operator_has_its_rules_and_no_others() -> None:
    [role] = [each for each in of_kind("ClusterRole") if each["metadata"]["name"].endswith("tor")]
    election, caller = of_kind("Role")

    assert role["rules"] == namespace_rules() + node_rules()
    assert caller["rules"] == caller_rules("headwater-operator-caller")
    assert caller["metadata"]["namespace"] == "system"
    assert election["rules"] == election_rules()
    assert election["metadata"]["namespace"] == "system"


def test_for_some_namespaces_it_has_them_there_only() -> None:
    given = "watchNamespaces={shop,billing}"
    made = of_kind("Role", given)
    roles = {each["metadata"]["namespace"]: each["rules"] for each in made[:-1]}
    bound = {each["metadata"]["namespace"] for each in of_kind("RoleBinding", given)}
    cluster = [each["rules"] for each in of_kind("ClusterRole", given, "rbac.aggregate=false")]

    assert roles == {
        "shop": namespace_rules(),
        "billing": namespace_rules(),
        "system": election_rules(),
    }
    assert bound == roles.keys()
    assert cluster == [node_rules()]
    assert made[-1]["rules"] == caller_rules("headwater-operator-caller")
    assert made[-1]["metadata"]["namespace"] == "system"


def test_nobody_may_do_anything_with_a_token_that_workers_are_shown() -> None:
    bindings = [*of_kind("RoleBinding"), *of_kind("ClusterRoleBinding")]
    bound = {each["name"] for binding in bindings for each in binding["subjects"]}
    accounts = {each["metadata"]["name"] for each in of_kind("ServiceAccount")}

    assert accounts - bound == {"headwater-operator-caller"}


def test_only_who_asks_for_it_lets_the_operator_reach_into_every_namespace() -> None:
    some = ("watchNamespaces={shop,billing}", "rbac.aggregate=false", "rbac.nodes=false")

    assert of_kind("ClusterRole", *some) == []
    [asked] = of_kind("ClusterRole", *some, "rbac.finalizers=true")
    assert asked["rules"] == departure_rules()
    [everywhere] = of_kind("ClusterRole", "rbac.aggregate=false", "rbac.finalizers=true")
    assert everywhere["rules"] == [*namespace_rules(), *node_rules()]


def test_with_rights_in_namespaces_only_nothing_is_made_outside_of_them() -> None:
    text = (SNAPSHOTS / "namespaced.rendered.yaml").read_text()
    made = [each for each in yaml.safe_load_all(text) if each]

    assert [each["kind"] for each in made if "namespace" not in each["metadata"]] == []


@pytest.mark.parametrize(("keep", "policy"), [("true", "keep"), ("false", None)])
def test_definitions_stay_unless_it_is_said_that_they_go(keep: str, policy: str | None) -> None:
    given = ("crds.install=true", f"crds.keep={keep}")
    definitions = of_kind("CustomResourceDefinition", *given)

    assert len(definitions) == len(custom_resource_definitions())
    for each in definitions:
        annotations = each["metadata"].get("annotations", {})
        assert annotations.get("helm.sh/resource-policy") == policy
        committed = yaml.safe_load(
            (CHART / "files" / "crds" / f"{each['metadata']['name']}.yaml").read_text()
        )
        assert each["spec"] == committed["spec"]


GOES = ("crds.install=true", "crds.keep=false")


def hooks(*sets: str) -> dict[str, dict[str, Any]]:
    """Objects of hooks, by kind."""
    made = rendered(*sets)
    found = [each for each in made if "helm.sh/hook" in each["metadata"].get("annotations", {})]
    assert len({each["kind"] for each in found}) == len(found)
    return {each["kind"]: each for each in found}


@pytest.mark.parametrize(
    "sets",
    [(), ("crds.install=true",), ("crds.install=false", "crds.keep=false")],
    ids=["definitions of somebody else", "definitions that stay", "both"],
)
def test_streamapps_are_deleted_by_a_hook_only_if_their_definition_goes(sets: Any) -> None:
    assert hooks(*sets) == {}
    assert hooks(*GOES).keys() == {"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Job"}


def test_the_hook_has_its_account_before_it_runs_and_is_removed_after_it() -> None:
    found = hooks(*GOES, "networkPolicy.egress.create=true", "networkPolicy.create=true")
    annotations = {kind: each["metadata"]["annotations"] for kind, each in found.items()}
    weights = {kind: int(each["helm.sh/hook-weight"]) for kind, each in annotations.items()}
    [binding, job, account] = (found[k] for k in ("ClusterRoleBinding", "Job", "ServiceAccount"))

    assert {each["helm.sh/hook"] for each in annotations.values()} == {"pre-delete"}
    assert {each["helm.sh/hook-delete-policy"] for each in annotations.values()} == {
        "before-hook-creation,hook-succeeded"
    }
    assert max(weights, key=weights.__getitem__) == "Job"
    assert binding["roleRef"]["name"] == found["ClusterRole"]["metadata"]["name"]
    pod = job["spec"]["template"]
    for named in (binding["subjects"][0]["name"], pod["spec"]["serviceAccountName"]):
        assert named == account["metadata"]["name"]
    labels = pod["metadata"]["labels"].items()
    assert found["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"].items() <= labels
    # It is none of the Deployment's pods, nor of those that the Service and the budget count.
    [deployment] = of_kind("Deployment")
    assert not deployment["spec"]["selector"]["matchLabels"].items() <= labels


def test_the_hook_gives_up_before_kubernetes_and_helm_do() -> None:
    helm_s = 300
    job = hooks(*GOES)["Job"]["spec"]
    [container] = job["template"]["spec"]["containers"]
    env = {each["name"]: each["value"] for each in container["env"]}
    own_s = int(env["HEADWATER_DELETE_TIMEOUT_SECONDS"])

    assert own_s < job["activeDeadlineSeconds"] < helm_s
    longer = hooks(*GOES, "crds.deleteTimeoutSeconds=900")["Job"]["spec"]
    assert longer["activeDeadlineSeconds"] > 900


def test_without_roles_of_the_chart_the_hook_has_only_its_account() -> None:
    assert hooks(*GOES, "rbac.create=false").keys() == {"ServiceAccount", "Job"}


def test_without_a_name_the_workers_image_is_that_of_this_version() -> None:
    def told(*sets: str) -> str:
        [deployment] = of_kind("Deployment", *sets)
        env = deployment["spec"]["template"]["spec"]["containers"][0]["env"]
        [found] = [each["value"] for each in env if each["name"] == "HEADWATER_WORKER_IMAGE"]
        return str(found)

    assert told() == "headwater-worker:0.1.0"
    assert told("image.registry=example.com/a") == "example.com/a/headwater-worker:0.1.0"
    assert told("worker.image=mine:2", "image.registry=example.com/a") == "mine:2"


def alerts(*sets: str) -> list[dict[str, Any]]:
    [made] = of_kind("PrometheusRule", *ALERTING, *sets)
    return [rule for group in made["spec"]["groups"] for rule in group["rules"]]


def test_alerts_are_those_of_the_dashboards_about_this_release() -> None:
    grafana = "https://grafana.example.com"
    found = alerts(f"metrics.prometheusRule.grafana={grafana}")

    assert [rule["alert"] for rule in found] == [alert.name for alert in ALERTS]
    for rule, alert in zip(found, ALERTS, strict=True):
        expr = alert.promql.replace("$namespace", "system")
        assert rule["expr"] == expr.replace("$service", "headwater-operator-metrics")
        assert rule["for"] == alert.lasting
        assert rule["labels"] == {"severity": alert.severity}
        assert rule["annotations"] == {
            "summary": alert.summary,
            "description": alert.description,
            "runbook_url": f"docs/runbook.md#{alert.section}",
            "dashboard_url": grafana + alert.panel_url,
        }


def test_an_alert_can_be_left_out_by_its_name_and_by_no_other() -> None:
    less = alerts("metrics.prometheusRule.disabled={HeadwaterLagGrows,HeadwaterOperatorLate}")
    given = [*ALERTING, "metrics.prometheusRule.disabled={LagGrows}"]
    sets = [f"--set={each}" for each in given]
    done = helm_says("template", "headwater", str(CHART), PROMETHEUS, *sets)

    gone = {"HeadwaterLagGrows", "HeadwaterOperatorLate"}
    assert {rule["alert"] for rule in less} == {alert.name for alert in ALERTS} - gone
    assert done.returncode != 0
    assert 'there is no alert "LagGrows"' in done.stderr


def test_each_dashboard_is_a_map_that_grafanas_sidecar_finds() -> None:
    found = {
        name: map_["metadata"]
        for map_ in of_kind("ConfigMap", "metrics.dashboards.create=true")
        for name in map_["data"]
    }

    assert found.keys() == {f"{board.uid}.json" for board in DASHBOARDS}
    for made in found.values():
        assert made["labels"]["grafana_dashboard"] == "1"
        assert made["annotations"] == {"grafana_folder": "Headwater"}


def test_the_monitor_of_pods_selects_workers_and_drivers_by_the_port_that_they_have() -> None:
    [monitor] = of_kind("PodMonitor", "metrics.podMonitor.create=true")
    spec = monitor["spec"]
    [endpoint] = spec["podMetricsEndpoints"]
    [chosen] = spec["selector"]["matchExpressions"]
    kept = spec["selector"]["matchLabels"].items()

    for component in (WORKER_COMPONENT, DRIVER_COMPONENT):
        made = labels("shop", worker="shop-w-0", component=component)
        assert kept <= made.items()
        assert made[chosen["key"]] in chosen["values"]
    assert labels("shop", component=EXECUTOR_COMPONENT)[chosen["key"]] not in chosen["values"]
    assert (endpoint["port"], endpoint["path"]) == (PORT_NAME, "/metrics")
    assert spec["namespaceSelector"] == {"any": True}


def test_the_monitor_reads_the_metrics_service_and_not_the_page() -> None:
    sets = ("metrics.serviceMonitor.create=true", "web.create=true")
    [monitor] = of_kind("ServiceMonitor", *sets)
    [endpoint] = monitor["spec"]["endpoints"]
    wanted = monitor["spec"]["selector"]["matchLabels"].items()

    read = [
        service["metadata"]["name"]
        for service in of_kind("Service", *sets)
        if wanted <= service["metadata"]["labels"].items()
        and endpoint["port"] in [port["name"] for port in service["spec"]["ports"]]
    ]

    assert read == ["headwater-operator-metrics"]


def test_rules_for_labels_and_metrics_go_to_the_monitor_as_they_are() -> None:
    given = ("relabelings[0].targetLabel=a", "metricRelabelings[0].action=drop")
    sets = [f"metrics.serviceMonitor.{each}" for each in ("create=true", *given)]
    [monitor] = of_kind("ServiceMonitor", *sets)
    [endpoint] = monitor["spec"]["endpoints"]

    assert endpoint["relabelings"] == [{"targetLabel": "a"}]
    assert endpoint["metricRelabelings"] == [{"action": "drop"}]


def test_more_volumes_stand_beside_those_of_the_operator() -> None:
    volume, mount = (
        ("extraVolumes[0].name=more", "extraVolumes[0].configMap.name=more"),
        (
            "extraVolumeMounts[0].name=more",
            "extraVolumeMounts[0].mountPath=/etc/more",
        ),
    )
    [deployment] = of_kind("Deployment", *volume, *mount)
    pod = deployment["spec"]["template"]["spec"]

    assert [each["name"] for each in pod["volumes"]] == ["tmp", "token", "more"]
    mounts = {each["name"]: each["mountPath"] for each in pod["containers"][0]["volumeMounts"]}
    assert mounts["more"] == "/etc/more"


@pytest.mark.parametrize("namespaces", [[], ["shop"]], ids=["all namespaces", "one namespace"])
def test_the_operator_may_call_names_the_api_server_and_workers(namespaces: list[str]) -> None:
    given = ["networkPolicy.create=true", "networkPolicy.egress.create=true"]
    given += [f"watchNamespaces={{{','.join(namespaces)}}}"] if namespaces else []
    [policy] = of_kind("NetworkPolicy", *given)

    names, server, workers = policy["spec"]["egress"]

    assert policy["spec"]["policyTypes"] == ["Ingress", "Egress"]
    assert {each["port"] for each in names["ports"]} == {53}
    assert [each["port"] for each in server["ports"]] == [443, 6443]
    assert [each["port"] for each in workers["ports"]] == [HTTP_PORT]
    [pods] = workers["to"]
    assert pods["podSelector"]["matchLabels"].items() <= labels("shop", worker="shop-w-0").items()
    told = [each["values"] for each in pods["namespaceSelector"].get("matchExpressions", [])]
    assert told == ([namespaces] if namespaces else [])


def test_without_being_told_so_a_policy_keeps_the_operator_from_calling_nobody() -> None:
    [policy] = of_kind("NetworkPolicy", "networkPolicy.create=true")

    assert policy["spec"]["policyTypes"] == ["Ingress"]
    assert "egress" not in policy["spec"]


def test_workers_may_be_called_by_the_operator_and_by_who_reads_metrics() -> None:
    [deployment] = of_kind("Deployment", "networkPolicy.metricsFrom[0].ipBlock.cidr=192.0.2.0/24")
    pod = deployment["spec"]["template"]
    told = {each["name"]: each.get("value") for each in pod["spec"]["containers"][0]["env"]}
    [operator, reader] = json.loads(told["HEADWATER_WORKER_CALLERS"])

    assert operator["podSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    assert reader == {"ipBlock": {"cidr": "192.0.2.0/24"}}


# -- with one -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", snapshot_names())
def test_the_api_server_takes_everything_that_is_rendered(
    name: str, crds: None, namespace: str, kubectl: Command
) -> None:
    documents = [each for each in yaml.safe_load_all(render(find("helm"), name)) if each]
    # Their definitions belong to the Prometheus operator.
    theirs = {"PodMonitor", "ServiceMonitor", "PrometheusRule"}
    sent = [each for each in documents if each["kind"] not in theirs]
    for each in sent:
        if "namespace" in each["metadata"]:
            each["metadata"]["namespace"] = namespace

    done = kubectl("create", "--dry-run=server", "--filename=-", stdin=yaml.safe_dump_all(sent))

    assert done.count("(server dry run)") == len(sent)
