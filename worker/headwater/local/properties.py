"""The configuration of the private broker: one node, broker and controller, for one machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headwater.local import accounts

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from headwater.local.certificates import Certificate

LOOPBACK = "127.0.0.1"
EVERY_ADDRESS = "0.0.0.0"  # noqa: S104 - only if asked for a listener that others reach

RETENTION_BYTES = 4 * 1024**3
"""So much a partition keeps at least, if its topic says nothing else: some 50 million records of
the word count. What is older goes in segments of up to 1 GiB. Changelogs are compacted instead."""

# Replication is off; the rest makes a private broker quick to answer and slow to forget:
# topics hold records with any timestamp until a partition is full, transactions left open are
# aborted within a second of their time-out, deleted topics leave the disk at once. No partition
# loses its only leader while the broker runs, at its end, or for a late heartbeat: see former.py.
_SETTINGS = {
    "process.roles": "broker,controller",
    "inter.broker.listener.name": "PLAINTEXT",
    "auto.create.topics.enable": "false",
    "default.replication.factor": "1",
    "min.insync.replicas": "1",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "controlled.shutdown.enable": "false",
    "broker.session.timeout.ms": "60000",
    "broker.heartbeat.interval.ms": "500",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "log.retention.ms": "-1",
    "log.retention.bytes": str(RETENTION_BYTES),
    "log.segment.delete.delay.ms": "1000",
    "log.cleaner.dedupe.buffer.size": "33554432",
    "num.network.threads": "2",
    "num.io.threads": "4",
}


@dataclass(frozen=True, slots=True)
class Listeners:
    """Addresses of the broker.

    Attributes:
        client: port of the plaintext listener on the loopback address.
        controller: port of the controller's listener on the loopback address.
        advertise: host by which others reach the extra listeners, or None.
        bind: address on which the extra listeners listen.
        external: port of the plaintext listener for ``advertise``, or None.
        secure: port of the SASL_SSL listener, or None.
        mutual: port of the listener that asks for a client certificate, or None.
    """

    client: int
    controller: int
    advertise: str | None = None
    bind: str = LOOPBACK
    external: int | None = None
    secure: int | None = None
    mutual: int | None = None

    @property
    def ports(self) -> tuple[int, ...]:
        """Every port that is listened on."""
        chosen = (self.client, self.controller, self.external, self.secure, self.mutual)
        return tuple(port for port in chosen if port is not None)

    @property
    def public_host(self) -> str:
        """Host under which the extra listeners are advertised."""
        return self.advertise or LOOPBACK


def render(
    listeners: Listeners,
    *,
    data: Path,
    users: Mapping[str, str],
    certificate: Certificate | None,
    client_authorities: Path | None = None,
    overrides: Mapping[str, str],
) -> str:
    """Text of ``server.properties``; ``overrides`` win."""
    settings = dict(_SETTINGS)
    settings["log.dirs"] = str(data)
    settings |= _quorum(listeners)
    settings |= _listener_settings(listeners)
    if certificate is not None and listeners.secure is not None:
        settings |= _secure_settings(users, certificate)
    if certificate is not None and client_authorities is not None:
        settings |= _mutual_settings(certificate, client_authorities)
    settings |= overrides
    return _lines(settings)


def render_controller(listeners: Listeners, *, data: Path) -> str:
    """Text of a properties file for the controller alone, which fences the broker at once."""
    settings = {
        "process.roles": "controller",
        **_quorum(listeners),
        "listeners": f"CONTROLLER://{LOOPBACK}:{listeners.controller}",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT",
        "log.dirs": str(data),
        "broker.session.timeout.ms": "100",
    }
    return _lines(settings)


def _quorum(listeners: Listeners) -> dict[str, str]:
    """Return who the one node is that votes."""
    return {
        "node.id": "1",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": f"1@{LOOPBACK}:{listeners.controller}",
    }


def _lines(settings: Mapping[str, str]) -> str:
    return "".join(f"{key}={_escape(value)}\n" for key, value in settings.items())


def _listener_settings(listeners: Listeners) -> dict[str, str]:
    bound = [
        f"PLAINTEXT://{LOOPBACK}:{listeners.client}",
        f"CONTROLLER://{LOOPBACK}:{listeners.controller}",
    ]
    advertised = [f"PLAINTEXT://{LOOPBACK}:{listeners.client}"]
    for name, port in (
        ("EXTERNAL", listeners.external),
        ("SECURE", listeners.secure),
        ("MUTUAL", listeners.mutual),
    ):
        if port is not None:
            bound.append(f"{name}://{listeners.bind}:{port}")
            advertised.append(f"{name}://{listeners.public_host}:{port}")
    return {
        "listeners": ",".join(bound),
        "advertised.listeners": ",".join(advertised),
        "listener.security.protocol.map": (
            "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,EXTERNAL:PLAINTEXT,SECURE:SASL_SSL,MUTUAL:SSL"
        ),
    }


def _secure_settings(users: Mapping[str, str], certificate: Certificate) -> dict[str, str]:
    prefix = "listener.name.secure."
    given = " ".join(f'user_{name}="{_quote(password)}"' for name, password in users.items())
    modules = "org.apache.kafka.common.security"
    return {
        f"{prefix}sasl.enabled.mechanisms": ",".join(accounts.MECHANISMS),
        f"{prefix}plain.sasl.jaas.config": f"{modules}.plain.PlainLoginModule required {given};",
        **{
            f"{prefix}{mechanism.lower()}.sasl.jaas.config": (
                f"{modules}.scram.ScramLoginModule required;"
            )
            for mechanism in accounts.SCRAM
        },
        **_own_certificate(prefix, certificate),
        f"{prefix}ssl.client.auth": "none",
    }


def _mutual_settings(certificate: Certificate, client_authorities: Path) -> dict[str, str]:
    prefix = "listener.name.mutual."
    return {
        **_own_certificate(prefix, certificate),
        f"{prefix}ssl.truststore.type": "PEM",
        f"{prefix}ssl.truststore.location": str(client_authorities),
        f"{prefix}ssl.client.auth": "required",
    }


def _own_certificate(prefix: str, certificate: Certificate) -> dict[str, str]:
    return {
        f"{prefix}ssl.keystore.type": "PKCS12",
        f"{prefix}ssl.keystore.location": str(certificate.key_store),
        f"{prefix}ssl.keystore.password": certificate.password,
        f"{prefix}ssl.key.password": certificate.password,
    }


def _quote(password: str) -> str:
    return password.replace("\\", "\\\\").replace('"', '\\"')


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\")
