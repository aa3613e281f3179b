"""Kafka that asks who we are and what we may do, from Secrets to counts, with a real operator."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

from headwater.local.broker import KafkaBroker
from headwater_operator.kube.api import (
    CONFIG_MAPS,
    EVENTS,
    LEASES,
    PODS,
    STREAM_APPS,
    STREAM_WORKERS,
)
from tests.kube.kubelet.cluster import PYTHON
from tests.kube.kubelet.volumes import SECRETS
from tests.kube.pki import Authority
from tests.kube.story import APP
from tests.support.counting import PREFIX_VARIABLE
from tests.support.local_cluster import create_topics, read_counts, streamapp
from tests.support.rights import GUARDED, Right, allow, listed
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.kube.journey import Installation, Journey
    from tests.kube.kubelet.cluster import Cluster

pytestmark = [
    pytest.mark.usefixtures("crds"),
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.timeout(1_800),
]

USER = "alice"
PASSWORD = "not-to-be-seen-anywhere"
GUESS = "guessed-by-somebody"


@pytest.fixture
def clients(tmp_path: Path) -> Authority:
    """Signs the certificates of Kafka's clients."""
    return Authority(tmp_path / "clients")


@pytest.fixture
def secured(clients: Authority) -> Iterator[KafkaBroker]:
    with KafkaBroker(
        sasl_users={USER: PASSWORD},
        client_authorities=clients.files.certificate,
        overrides=GUARDED,
        heap_mb=256,
    ) as broker:
        yield broker


def put_secret(journey: Journey, name: str, **data: str) -> None:
    metadata = {"name": name, "namespace": journey.namespace}
    journey.api.delete(SECRETS, journey.namespace, name)
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": data}
    journey.api.create(SECRETS, body)


@dataclass
class Counted:
    """What was sent, and that it is counted."""

    journey: Journey
    bootstrap_servers: str
    prefix: str
    sent: Counter[str] = field(default_factory=Counter)

    @property
    def application_id(self) -> str:
        """Not how its topics' names begin: rights on its own topics are none on those."""
        return f"app-{self.prefix}"

    def rights(self) -> list[Right]:
        """What it has to be allowed."""
        return listed(self.application_id, [f"{self.prefix}-in"], [f"{self.prefix}-out"])

    def app(self, kafka: dict[str, object]) -> dict[str, object]:
        """The StreamApp."""
        return streamapp(
            None,
            self.application_id,
            image=PYTHON,
            replicas=1,
            podTemplate={"env": [{"name": PREFIX_VARIABLE, "value": self.prefix}]},
            kafka=kafka,
        )

    def _is_rolled_out(self) -> bool:
        """Whether it is the present specification that runs: a change leaves it ready meanwhile."""
        # In this order: the count is then of the specification that the report is about.
        return self.journey.is_settled() and self.journey.status()["updatedReplicas"] == 1

    def goes_on(self) -> None:
        """See that the StreamApp is well, and that what comes now is counted."""
        self.journey.until(self._is_rolled_out, "the StreamApp to be ready")
        producer = Producer({"bootstrap.servers": self.bootstrap_servers})
        for key in ("a", "b", "a"):
            producer.produce(f"{self.prefix}-in", key=key, value="x")
            self.sent[key] += 1
        assert producer.flush(30) == 0
        wait_for(
            lambda: read_counts(self.bootstrap_servers, self.prefix) == self.sent,
            what="exact counts",
            timeout_s=120,
            every_s=0.5,
        )


def test_credentials_go_from_secrets_to_kafka_and_what_is_wrong_with_them_is_named(
    journey: Journey,
    own_installation: Installation,
    cluster: Cluster,
    secured: KafkaBroker,
    clients: Authority,
    unique_name: str,
) -> None:
    create_topics(secured.bootstrap_servers, unique_name, partitions=1)
    counted = Counted(journey, secured.bootstrap_servers, unique_name)
    operator = own_installation.process("first")

    # No Secret is there.
    login = kafka(secured.secure_servers, "SCRAM-SHA-512", "account")
    journey.apply(counted.app(login))
    journey.until_degraded("VolumeUnavailable")
    said = journey.condition("Ready")[2]
    assert 'secret "authority" not found; spec.kafka.tls needs its key ca.crt; create the' in said

    # The pod goes on by itself, with a password that somebody has guessed.
    put_secret(journey, "account", username=USER, password=GUESS)
    put_secret(journey, "authority", **{"ca.crt": secured.ca_certificate.read_text()})
    journey.until_degraded("KafkaAuthError")
    said = journey.condition("Degraded")[2]
    assert "invalid credentials with SASL mechanism SCRAM-SHA-512" in said
    assert "spec.kafka.authentication and its Secret, then change spec.restartNonce" in said

    # As it was told.
    put_secret(journey, "account", username=USER, password=PASSWORD)
    rights = counted.rights()
    allow(secured.bootstrap_servers, USER, rights)
    journey.patch("/spec/restartNonce", 1)
    counted.goes_on()

    # With a certificate, from a Secret as cert-manager makes it.
    pair = clients.user("counting")
    key = pair.key.read_text()
    allow(secured.bootstrap_servers, "CN=counting", rights)
    files = {"tls.crt": pair.certificate.read_text(), "tls.key": key}
    put_secret(journey, "certificate", **files)
    journey.patch("/spec/kafka", kafka(secured.mutual_servers, "TLS", "certificate"))
    counted.goes_on()

    seen = everything_to_be_seen(journey)
    seen["operator"] = operator.log
    seen["worker"] = cluster.log(journey.namespace, f"{APP}-w-0")
    assert all(len(text) > 100 for text in seen.values())
    hidden = [PASSWORD, GUESS, *key.splitlines()[1:-1]]
    assert {what for what, text in seen.items() for secret in hidden if secret in text} == set()
    journey.kubectl("delete", "sapp", APP, "--timeout=220s")


def kafka(servers: str, kind: str, secret: str) -> dict[str, object]:
    """``spec.kafka`` of somebody who proves who he is."""
    return {
        "bootstrapServers": servers,
        "tls": {"caSecretRef": {"name": "authority"}},
        "authentication": {"type": kind, "secretRef": {"name": secret}},
    }


def everything_to_be_seen(journey: Journey) -> dict[str, str]:
    """What is stored in the namespace but its Secrets, by kind."""
    kinds = (STREAM_APPS, STREAM_WORKERS, PODS, CONFIG_MAPS, LEASES, EVENTS)
    return {kind.kind: json.dumps(journey.api.list(kind, journey.namespace)) for kind in kinds}
