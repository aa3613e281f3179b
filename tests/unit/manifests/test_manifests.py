"""The objects that the operator makes: what Kubernetes and the worker rely on in them."""

from __future__ import annotations

import argparse
import json
from typing import Any

import pytest
import yaml
from tests.support.pages import blocks

from headwater.errors import ConfigError, SpecError
from headwater.model import podcontract
from headwater.model.cluster import StreamWorker, WorkerSpec
from headwater.model.streamapp import StreamApp, parse
from headwater.model.streamapp_http import Protected
from headwater_operator.handlers.commands import register
from headwater_operator.manifests.access import (
    disruption_budget,
    network_policy,
    role,
    role_binding,
    spark_budget,
)
from headwater_operator.manifests.config import config_map
from headwater_operator.manifests.effective import effective
from headwater_operator.manifests.names import APP_LABEL, COMPONENT_LABEL, Owner, pod_labels
from headwater_operator.manifests.pod import worker_pod
from headwater_operator.manifests.settings import Installation
from headwater_operator.manifests.storage import claim
from headwater_operator.manifests.worker import is_as_written, spec_patch, stream_worker

OWNER = Owner(name="orders", namespace="shop", uid="u-1")
WORKER = "orders-w-0"


def app(**spec: Any) -> StreamApp:
    return parse(
        {
            "apiVersion": "headwater.dev/v1alpha1",
            "kind": "StreamApp",
            "metadata": {"name": "orders"},
            "spec": {
                "topology": {"module": "shop.orders:build"},
                "image": "shop/orders:1",
                "kafka": {"bootstrapServers": "broker:9092"},
                **spec,
            },
        }
    )


def pod(**spec: Any) -> dict[str, Any]:
    return worker_pod(
        app(**spec), OWNER, WORKER, revision="abc", installation=Installation(user_id=1234)
    )


def test_a_pod_meets_the_restricted_security_standard() -> None:
    spec = pod()["spec"]
    security, inner = spec["securityContext"], spec["containers"][0]["securityContext"]

    assert security["runAsNonRoot"] is True
    assert security["runAsUser"] == security["fsGroup"] == 1234
    assert security["seccompProfile"] == {"type": "RuntimeDefault"}
    assert inner["allowPrivilegeEscalation"] is False
    assert inner["readOnlyRootFilesystem"] is True
    assert inner["capabilities"] == {"drop": ["ALL"]}
    assert spec["automountServiceAccountToken"] is False


def test_the_platform_may_choose_the_user() -> None:
    made = worker_pod(app(), OWNER, WORKER, revision="abc", installation=Installation(user_id=None))

    assert not {"runAsUser", "fsGroup"} & made["spec"]["securityContext"].keys()
    assert made["spec"]["securityContext"]["runAsNonRoot"] is True


def test_a_pod_is_the_streamapps_and_is_never_restarted_in_place() -> None:
    made = pod()

    assert made["metadata"]["name"] == WORKER
    assert [owner["controller"] for owner in made["metadata"]["ownerReferences"]] == [True]
    assert made["metadata"]["labels"].items() >= pod_labels("orders").items()
    assert made["metadata"]["labels"]["headwater.dev/revision"] == "abc"
    assert made["spec"]["restartPolicy"] == "Never"
    assert made["spec"]["terminationGracePeriodSeconds"] == podcontract.GRACE_S


def test_every_path_that_the_worker_is_told_is_mounted_and_every_mount_has_a_volume() -> None:
    authentication = {"type": "SCRAM-SHA-512", "secretRef": {"name": "user"}}
    kafka = {"bootstrapServers": "b:1", "tls": {}, "authentication": authentication}
    spec = pod(kafka=kafka)["spec"]
    mounts = {mount["mountPath"]: mount["name"] for mount in spec["containers"][0]["volumeMounts"]}
    told = [
        entry["value"]
        for entry in spec["containers"][0]["env"]
        if str(entry.get("value", "")).startswith("/")
        and entry["name"] != podcontract.ENV_TOPOLOGY_DIR
    ]

    assert [path for path in told if not path.startswith(tuple(mounts))] == []
    assert set(mounts.values()) <= {volume["name"] for volume in spec["volumes"]}
    assert mounts[podcontract.STATE_DIR] == "headwater-state"


def test_credentials_are_mounted_read_only_and_under_the_names_that_the_worker_knows() -> None:
    kafka = {
        "bootstrapServers": "b:1",
        "tls": {"caSecretRef": {"name": "authority", "key": "root.pem"}},
        "authentication": {"type": "TLS", "secretRef": {"name": "certificate"}},
        "schemaRegistry": {"url": "https://r", "secretRef": {"name": "registry"}},
    }
    spec = pod(kafka=kafka)["spec"]
    volume = next(each for each in spec["volumes"] if each["name"] == "headwater-kafka")
    mount = next(
        each for each in spec["containers"][0]["volumeMounts"] if each["name"] == "headwater-kafka"
    )

    assert mount["readOnly"] is True
    assert volume["projected"]["sources"] == [
        {"secret": {"name": "authority", "items": [{"key": "root.pem", "path": "ca.crt"}]}},
        {
            "secret": {
                "name": "certificate",
                "items": [
                    {"key": "tls.crt", "path": "tls.crt"},
                    {"key": "tls.key", "path": "tls.key"},
                ],
            }
        },
        {
            "secret": {
                "name": "registry",
                "items": [
                    {"key": "username", "path": "registry-username"},
                    {"key": "password", "path": "registry-password"},
                ],
            }
        },
    ]


def test_what_asks_for_a_roll_out_is_mounted_by_itself_and_may_be_missing() -> None:
    roll_on = [{"kind": "Secret", "name": "db"}, {"kind": "ConfigMap", "name": "rates"}]
    spec = pod(upgrade={"rollOn": roll_on})["spec"]
    volumes = {each["name"]: each for each in spec["volumes"]}
    mounts = {each["mountPath"]: each for each in spec["containers"][0]["volumeMounts"]}
    told = {each["name"]: each.get("value") for each in spec["containers"][0]["env"]}

    assert volumes["headwater-roll-on-0"]["secret"] == {"secretName": "db", "optional": True}
    assert volumes["headwater-roll-on-1"]["configMap"] == {"name": "rates", "optional": True}
    for number in range(2):
        mount = mounts[str(told[f"HEADWATER_ROLL_ON_{number}"])]
        assert (mount["name"], mount["readOnly"]) == (f"headwater-roll-on-{number}", True)
    assert told["HEADWATER_REVISION"]


def test_the_secret_with_callers_tokens_is_mounted_as_a_whole_so_that_it_may_change() -> None:
    http = {"authentication": {"secretRef": {"name": "callers"}}}
    spec = pod(http=http)["spec"]
    [volume] = [each for each in spec["volumes"] if each["name"] == "headwater-http"]
    [mount] = [
        each for each in spec["containers"][0]["volumeMounts"] if each["name"] == "headwater-http"
    ]

    assert volume == {"name": "headwater-http", "secret": {"secretName": "callers"}}
    assert mount == {
        "name": "headwater-http",
        "mountPath": podcontract.HTTP_AUTH_DIR,
        "readOnly": True,
    }
    told = {entry["name"]: entry.get("value") for entry in spec["containers"][0]["env"]}
    assert told[podcontract.ENV_HTTP_AUTH_DIR] == podcontract.HTTP_AUTH_DIR
    assert podcontract.ENV_OPERATOR_ACCOUNT not in told, "it is not known"


def test_a_worker_of_the_page_finds_the_token_of_the_page() -> None:
    [page] = blocks("security.md", "yaml")
    secret, app = yaml.safe_load_all(page)
    parsed = parse(app)

    asked = parsed.spec.http.authentication
    assert asked is not None
    assert (asked.secret_ref.name, asked.protects) == (secret["metadata"]["name"], Protected.ALL)
    assert list(secret["stringData"]) == [podcontract.TOKEN_FILE]
    installation = Installation(account="system:serviceaccount:system:headwater-operator")
    made = worker_pod(parsed, OWNER, "word-count-w-0", revision="1", installation=installation)
    told = {entry["name"]: entry.get("value") for entry in made["spec"]["containers"][0]["env"]}
    assert told[podcontract.ENV_OPERATOR_ACCOUNT] == installation.account


def test_without_credentials_no_secret_is_mounted() -> None:
    assert "secret" not in json.dumps(pod()["spec"]["volumes"])


def test_a_variable_that_every_pod_sets_is_refused_and_the_message_names_it() -> None:
    reference = {"secretRef": {"name": "tokens"}}
    rolled = {"rollOn": [{"kind": "Secret", "name": "db"}]}
    installation = Installation(account="system:serviceaccount:op:op")
    asking = app(http={"authentication": reference}, upgrade=rolled)
    made = worker_pod(asking, OWNER, WORKER, revision="abc", installation=installation)
    names = [entry["name"] for entry in made["spec"]["containers"][0]["env"]]

    assert {podcontract.ENV_HTTP_AUTH_DIR, f"{podcontract.ENV_ROLL_ON}0", "HOME"} <= set(names)
    for name in names:
        with pytest.raises(
            SpecError, match=r"spec\.podTemplate\.env: .*take other names"
        ) as raised:
            pod(podTemplate={"env": [{"name": name, "value": "mine"}]})
        assert name.rstrip("0") in str(raised.value)


def test_what_the_user_says_of_pods_is_taken_over_but_never_in_place_of_ours() -> None:
    template = {
        "labels": {"team": "shop"},
        "annotations": {"note": "n"},
        "env": [{"name": "MODE", "value": "x"}],
        "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}},
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "dedicated", "operator": "Exists", "effect": "NoSchedule"}],
        "volumes": [{"name": "models", "configMap": {"name": "models"}}],
        "volumeMounts": [{"name": "models", "mountPath": "/models", "readOnly": True}],
        "priorityClassName": "high",
    }
    made = pod(podTemplate=template)
    inner = made["spec"]["containers"][0]

    assert made["metadata"]["labels"]["team"] == "shop"
    assert made["metadata"]["annotations"] == {"note": "n"}
    assert {"name": "MODE", "value": "x"} in inner["env"]
    assert inner["resources"] == {"requests": {"cpu": "500m", "memory": "1Gi"}}
    assert made["spec"]["nodeSelector"] == {"disk": "ssd"}
    assert made["spec"]["tolerations"] == [
        {"key": "dedicated", "operator": "Exists", "effect": "NoSchedule"}
    ]
    assert {"name": "models", "configMap": {"name": "models"}} in made["spec"]["volumes"]
    assert inner["volumeMounts"][-1] == {"name": "models", "mountPath": "/models", "readOnly": True}
    assert made["spec"]["priorityClassName"] == "high"


@pytest.mark.parametrize(
    ("template", "keys"),
    [
        ({}, ["topology.kubernetes.io/zone", "kubernetes.io/hostname"]),
        ({"topologySpreadConstraints": [{"topologyKey": "rack", "maxSkew": 2}]}, ["rack"]),
    ],
)
def test_workers_are_spread(template: dict[str, Any], keys: list[str]) -> None:
    spread = pod(podTemplate=template)["spec"]["topologySpreadConstraints"]

    assert [each["topologyKey"] for each in spread] == keys
    for each in spread:
        assert each["labelSelector"] == {"matchLabels": pod_labels("orders")}
        assert each["maxSkew"] >= 1
        assert each["whenUnsatisfiable"] == "ScheduleAnyway"


def test_a_claim_is_as_the_streamapp_says_and_goes_with_it_only_if_told() -> None:
    state = {"size": "5Gi", "storageClassName": "fast", "accessMode": "ReadWriteOncePod"}
    kept = claim(app(state=state), OWNER, WORKER)
    going = claim(app(state={"retention": {"whenDeleted": "Delete"}}), OWNER, WORKER)

    assert kept["spec"] == {
        "accessModes": ["ReadWriteOncePod"],
        "resources": {"requests": {"storage": "5Gi"}},
        "storageClassName": "fast",
    }
    assert "ownerReferences" not in kept["metadata"]
    assert going["metadata"]["ownerReferences"][0]["uid"] == "u-1"
    assert "storageClassName" not in going["spec"]


def test_workers_may_do_what_the_contract_says_and_nothing_else() -> None:
    assert role(OWNER)["rules"] == podcontract.role_rules()
    assert role_binding(OWNER)["subjects"] == [
        {
            "kind": "ServiceAccount",
            "name": podcontract.service_account("orders"),
            "namespace": "shop",
        }
    ]


def test_the_budget_lets_one_worker_go_and_never_protects_a_broken_one() -> None:
    spec = disruption_budget(app(), OWNER)["spec"]

    assert spec["maxUnavailable"] == 1
    assert spec["unhealthyPodEvictionPolicy"] == "AlwaysAllow"
    assert spec["selector"]["matchLabels"] == pod_labels("orders")


_FETCH = {"name": "fetch", "image": "fetch:1"}
_PROXY = {"name": "proxy", "image": "proxy:1", "restartPolicy": "Always"}
_READY = {"readinessProbe": {"tcpSocket": {"port": 9000}}}


@pytest.mark.parametrize(
    ("template", "policy"),
    [
        ({"initContainers": [_FETCH]}, "AlwaysAllow"),
        ({"initContainers": [_FETCH, _PROXY]}, "IfHealthyBudget"),
        ({"initContainers": [{**_PROXY, **_READY}]}, "IfHealthyBudget"),
        ({"containers": [_FETCH]}, "IfHealthyBudget"),
    ],
)
def test_a_pod_that_others_make_not_ready_is_no_broken_one(
    template: dict[str, Any], policy: str
) -> None:
    for made in (
        disruption_budget(app(podTemplate=template), OWNER),
        spark_budget(app(podTemplate=template, engine="Spark"), OWNER),
    ):
        assert made["spec"]["unhealthyPodEvictionPolicy"] == policy


def test_whom_a_policy_lets_in_is_the_application_itself_and_whom_the_installation_names() -> None:
    operator = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "system"}}}
    spec = network_policy(app(), OWNER, [operator])["spec"]
    [own, others] = spec["ingress"]

    assert spec["policyTypes"] == ["Ingress"]  # nothing that workers call is restricted
    assert own == {"from": [{"podSelector": {"matchLabels": {APP_LABEL: "orders"}}}]}
    assert others == {
        "ports": [{"port": podcontract.HTTP_PORT, "protocol": "TCP"}],
        "from": [operator],
    }
    # A rule without peers would let everybody in.
    assert network_policy(app(), OWNER, [])["spec"]["ingress"] == [own]
    chosen = spec["podSelector"]
    assert pod()["metadata"]["labels"].items() >= chosen["matchLabels"].items()
    assert pod()["metadata"]["labels"][COMPONENT_LABEL] in chosen["matchExpressions"][0]["values"]


@pytest.mark.parametrize("told", ["{", "{}", "[1]", "[{}]", '"all"'])
def test_callers_that_are_no_peers_are_refused(told: str) -> None:
    parser = argparse.ArgumentParser()
    register(parser.add_subparsers())
    arguments = parser.parse_args(["operator", "--namespace", "shop", "--worker-callers", told])

    with pytest.raises(ConfigError, match="--worker-callers"):
        arguments.run(arguments)


def test_the_worker_reads_back_the_streamapp_that_was_meant() -> None:
    meant = app(config={"commit.interval.ms": 100})
    made = config_map(meant, OWNER, "abc", Installation())

    assert parse(json.loads(made["data"][podcontract.STREAMAPP_KEY])) == meant


def test_what_is_said_nowhere_is_asked_for_by_its_field() -> None:
    bare = parse({**app().to_dict(), "spec": {"topology": {"module": "a:b"}}})

    with pytest.raises(SpecError, match=r"spec\.image: say which"):
        effective(bare, Installation(bootstrap_servers="b:1"), None)
    with pytest.raises(SpecError, match=r"spec\.kafka\.bootstrapServers: say which"):
        effective(bare, Installation(worker_image="i:1"), None)
    filled = effective(bare, Installation(worker_image="i:1", bootstrap_servers="b:1"), None)
    assert (filled.spec.image, filled.spec.kafka.bootstrap_servers) == ("i:1", "b:1")


def test_a_topology_in_a_configmap_becomes_the_workers_own() -> None:
    reference = app(topology={"configMapRef": {"name": "flow"}, "function": "make"})

    filled = effective(reference, Installation(), "def make(builder): ...")

    assert filled.spec.topology.inline == "def make(builder): ..."
    assert filled.spec.topology.config_map_ref is None
    assert filled.spec.topology.function_name == "make"
    with pytest.raises(SpecError, match=r"there is no ConfigMap 'flow' with the key 'topology.py'"):
        effective(reference, Installation(), None)


def test_a_streamworker_tells_whether_somebody_else_has_changed_it() -> None:
    spec = WorkerSpec(app="orders", epoch=1 << 32, slots=(0, 1))
    made = stream_worker(OWNER, WORKER, spec)
    read = StreamWorker.from_dict(made).spec

    assert read == spec
    assert is_as_written(made, read)
    made["spec"]["drain"] = True
    assert not is_as_written(made, StreamWorker.from_dict(made).spec)


def test_a_spec_is_written_only_in_place_of_the_one_it_was_decided_from() -> None:
    patch = spec_patch(WorkerSpec(app="orders", epoch=9), replaces=8)

    assert patch[0] == {"op": "test", "path": "/spec/epoch", "value": 8}
    assert [step["op"] for step in patch] == ["test", "replace", "add"]
