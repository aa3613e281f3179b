"""``report`` has all that a bug report needs; of secrets that were planted everywhere, nothing."""

from __future__ import annotations

import json
import zipfile
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from tests.support.kube_rig import NAMESPACE

from headwater_operator.commands.redacting import REDACTED, Redactor
from headwater_operator.kube.api import CONFIG_MAPS, PODS, STREAM_APPS

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.commands.conftest import Plugin

SECRETS = {
    "environment": "planted-in-environment-1",
    "option": "planted-in-option-2",
    "annotation": "planted-in-annotation-3",
    "config_map": "planted-in-config-map-4",
    "log": "planted-in-log-5",
    "argument": "planted-in-argument-6",
    "source": "planted-in-source-7",
    "jaas": "planted-in-jaas-8",
    "bearer": "planted-in-bearer-9",
    "url": "planted-in-url-10",
    "key": "plantedinkey11",
    "reason": "planted-in-reason-12",
    "tasks": "planted-in-tasks-13",
    "task message": "planted-in-task-message-14",
    "separate argument": "planted-in-separate-argument-15",
}


def plant(plugin: Plugin) -> None:
    """Put secrets wherever a user may have them."""
    jaas = f'org.apache.kafka...PlainLoginModule required password="{SECRETS["jaas"]}";'
    app = plugin.rig.api.get(STREAM_APPS, NAMESPACE, "wc")
    assert app is not None
    variables = [
        {"name": "DATABASE", "value": SECRETS["environment"]},
        {"name": "OTHER", "valueFrom": {"secretKeyRef": {"name": "db", "key": "password"}}},
    ]
    kafka = {
        **app["spec"]["kafka"],
        "config": {"sasl.password": SECRETS["option"], "sasl.jaas.config": jaas},
    }
    spec = {**app["spec"], "kafka": kafka, "podTemplate": {"env": variables}}
    last = {"kubectl.kubernetes.io/last-applied-configuration": SECRETS["annotation"]}
    plugin.rig.api.replace(
        STREAM_APPS, {**app, "metadata": {**app["metadata"], "annotations": last}, "spec": spec}
    )
    for pod in plugin.rig.api.list(PODS, NAMESPACE):
        containers = [
            {
                **pod["spec"]["containers"][0],
                "env": variables,
                "args": [
                    f"--password={SECRETS['argument']}",
                    "--quiet",
                    "--token",
                    SECRETS["separate argument"],
                ],
            }
        ]
        changed = {**pod, "spec": {**pod["spec"], "containers": containers}}
        plugin.rig.api.replace(PODS, changed)
    for found in plugin.rig.api.list(CONFIG_MAPS, NAMESPACE):
        inner = {"spec": {"config": {"ssl.key.password": SECRETS["config_map"]}}}
        data = {"streamapp.json": json.dumps(inner), "topology.py": f"KEY = '{SECRETS['source']}'"}
        plugin.rig.api.replace(CONFIG_MAPS, {**found, "data": data})
    plugin.served.logs["wc-w-0"] = (
        f"connecting with {SECRETS['environment']}\n"
        f"ssl.keystore.password = {SECRETS['log']}\n"
        f"Authorization: Bearer {SECRETS['bearer']}\n"
        f"https://ann:{SECRETS['url']}@registry:8081\n"
        f"-----BEGIN PRIVATE KEY-----\n{SECRETS['key']}\n-----END PRIVATE KEY-----\n"
        "offset 4711 is committed\n"
    )
    reason = f"KafkaError: sasl.password={SECRETS['reason']}"
    plugin.rig.api.set_status(
        STREAM_APPS, NAMESPACE, "wc", {**plugin.rig.status(), "reason": reason}
    )
    told = {
        "worker": "wc-w-0",
        "incarnation": "i",
        "threads": [],
        "tasks": [],
        "problem": f"no login: password={SECRETS['task message']}",
        "sasl.password": SECRETS["tasks"],
    }
    plugin.served.pods["wc-w-0", "/tasks"] = json.dumps(told).encode()
    plugin.served.pods["wc-w-0", "/metrics"] = b"# HELP kafka_streams_x y\nkafka_streams_x 7\n"


def contents(file: Path) -> dict[str, str]:
    with zipfile.ZipFile(file) as archive:
        return {name: archive.read(name).decode() for name in archive.namelist()}


def test_planted_secrets_are_nowhere_in_a_report(plugin: Plugin, tmp_path: Path) -> None:
    plant(plugin)
    file = tmp_path / "report.zip"

    assert plugin.run(f"report wc --file {file}") == 0

    found = contents(file)
    left = {
        (name, where)
        for name, text in found.items()
        for where, secret in SECRETS.items()
        if secret in text
    }
    assert left == set()
    assert file.stat().st_mode & 0o077 == 0


def test_a_report_has_status_resources_events_logs_metrics_and_versions(
    plugin: Plugin, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plant(plugin)
    file = tmp_path / "report.zip"

    assert plugin.run(f"report wc --file {file}") == 0

    found = contents(file)
    assert {"status.txt", "tasks.txt", "lag.txt", "overview.json", "topology.txt"} <= found.keys()
    assert json.loads(found["overview.json"])["app"] == "wc"
    assert json.loads(found["http/wc-w-0/tasks.json"])["sasl.password"] == REDACTED
    for kind in ("streamapps", "streamworkers", "pods", "leases", "configmaps", "events"):
        assert f"resources/{kind}.yaml" in found
    [app] = yaml.safe_load_all(found["resources/streamapps.yaml"])
    assert app["spec"]["podTemplate"]["env"] == [
        {"name": "DATABASE", "value": REDACTED},
        {"name": "OTHER", "valueFrom": {"secretKeyRef": {"name": "db", "key": "password"}}},
    ]
    assert "offset 4711 is committed" in found["logs/wc-w-0.log"]
    assert "kafka_streams_x 7" in found["http/wc-w-0/metrics.txt"]
    versions = json.loads(found["versions.json"])
    assert {"command", "operator", "kubernetes", "python"} <= versions.keys()
    # The other worker answers nothing.
    assert "/metrics of wc-w-1: not in the report" in found["missing.txt"]
    assert "/metrics of wc-w-1: not in the report" in capsys.readouterr().err


def test_only_its_owner_may_read_a_report_that_overwrites_a_file(
    plugin: Plugin, tmp_path: Path
) -> None:
    file = tmp_path / "report.zip"
    file.write_bytes(b"")
    file.chmod(0o644)

    assert plugin.run(f"report wc --file {file}") == 0

    assert file.stat().st_mode & 0o777 == 0o600


def test_a_worker_that_answers_no_json_is_missing_in_a_report(
    plugin: Plugin, tmp_path: Path
) -> None:
    plugin.served.pods["wc-w-0", "/tasks"] = b"[" * 100_000
    plugin.served.pods["wc-w-1", "/tasks"] = b"<html>"
    file = tmp_path / "report.zip"

    assert plugin.run(f"report wc --file {file}") == 0

    missing = contents(file)["missing.txt"]
    for worker in ("wc-w-0", "wc-w-1"):
        assert f"/tasks of {worker}: not in the report" in missing


def test_a_report_is_written_with_the_rights_that_there_are(plugin: Plugin, tmp_path: Path) -> None:
    plugin.served.refuse = lambda _verb, resource: resource in {"pods/log", "configmaps", "events"}
    file = tmp_path / "report.zip"

    assert plugin.run(f"report wc --file {file}") == 0

    missing = contents(file)["missing.txt"]
    for what in ("configmaps", "events", "the log of wc-w-0"):
        assert f"{what}: not in the report: " in missing


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("password=hunter22 next", "password=REDACTED next"),
        ('"apiKey": "abc", "n": 1', '"apiKey": REDACTED, "n": 1'),
        ("token: 'x y z'", "token: REDACTED"),
        ("authorization: Basic dXNlcjpwYXNz", "authorization: Basic REDACTED"),
        ("kafka://u:p@host:9092/x", "kafka://REDACTED@host:9092/x"),
        ("eyJhbGciOiJI.eyJzdWIiOiIx.sig", "REDACTED"),
        ("run --token abcdefghij --quiet", "run --token REDACTED --quiet"),
        ("['--password', 'x1']", "['--password', REDACTED]"),
        ("redis://:hunter2@cache", "redis://REDACTED@cache"),
        ("http://u:p@ss@host/x", "http://REDACTED@host/x"),
        ("https://ghp_abcdefgh@github.com/x", "https://REDACTED@github.com/x"),
        ("http://host:9092/x a@b", "http://host:9092/x a@b"),
        (
            r'{"m": "{\"password\": \"x\", \"n\": 1}"}',
            r'{"m": "{\"password\": REDACTED, \"n\": 1}"}',
        ),
        (r'"password": "a\"b c", "n": 1', '"password": REDACTED, "n": 1'),
        ("password=b'hunter2'", "password=REDACTED"),
        ("pwd=hunter2", "pwd=REDACTED"),
        ('password: "no end', "password: REDACTED"),
        ("offset=12 partition: 3", "offset=12 partition: 3"),
        ("key.serializer=StringSerializer", "key.serializer=StringSerializer"),
        ("tokenized: not a secret", "tokenized: REDACTED a secret"),
    ],
)
def test_what_looks_secret_in_a_text_is_taken_out(text: str, wanted: str) -> None:
    assert Redactor().text(text) == wanted


def test_a_secret_keeps_its_keys_nowhere_and_a_reference_its_name() -> None:
    redactor = Redactor()
    secret: dict[str, Any] = {"kind": "Secret", "data": {"password": "aHVudGVyMg=="}}
    pod = {
        "kind": "Pod",
        "metadata": {"managedFields": [{}], "name": "w"},
        "spec": {"volumes": [{"secret": {"secretName": "kafka"}}], "restartPolicy": "Never"},
    }

    assert "aHVudGVyMg==" not in json.dumps(redactor.resource(secret))
    assert redactor.resource(pod) == {**pod, "metadata": {"name": "w"}}


def test_short_and_common_values_are_hidden_where_they_stand_and_kept_elsewhere() -> None:
    redactor = Redactor()
    pod = {"env": [{"name": "A", "value": "1"}, {"name": "B", "value": "true"}]}

    assert [each["value"] for each in redactor.resource(pod)["env"]] == [REDACTED, REDACTED]
    assert redactor.text("1 is true") == "1 is true"
