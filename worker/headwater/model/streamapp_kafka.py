"""The StreamApp's ``spec.kafka``: which broker, how to prove who we are, what to set."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003  # read by the codec
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias

from headwater.model.fields import Change, Rule, meta
from headwater.model.topics import InternalTopic

if TYPE_CHECKING:
    from collections.abc import Callable

Scalar: TypeAlias = str | int
"""A setting's value. A truth value is written in quotes, as in a ConfigMap."""

TOPIC_PATTERN: Final = "[A-Za-z0-9._-]{1,249}"
NAME_PATTERN: Final = "[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?"
NAME_MEANING: Final = "the name of an object: lower-case letters, digits, '-' and '.'"
KEY_PATTERN: Final = "[-._a-zA-Z0-9]{1,253}"
KEY_MEANING: Final = "a key of a ConfigMap or Secret: letters, digits, '-', '_' and '.'"

OWN_FIELDS: Final[Mapping[str, str]] = {
    "acceptable.recovery.lag": "spec.assignment.acceptableRecoveryLag",
    "application.id": "spec.applicationId",
    "bootstrap.servers": "spec.kafka.bootstrapServers",
    "max.warmup.replicas": "spec.assignment.maxWarmupReplicas",
    "num.standby.replicas": "spec.assignment.standbyReplicas",
    "num.stream.threads": "spec.threadsPerWorker",
    "processing.guarantee": "spec.processingGuarantee",
}
"""These have a field of their own; a second place to say the same could only disagree."""

_ADDRESS: Final = "[A-Za-z0-9._-]{1,253}:[0-9]{1,5}"
_SECURITY: Final = (
    "security.protocol",
    "sasl.mechanism",
    "sasl.mechanisms",
    "sasl.username",
    "sasl.password",
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.key.location",
)

_REGISTRY: Final = ("schema.registry.url", "basic.auth.user.info")


def own_field_rules() -> tuple[Rule, ...]:
    """Return the rules that keep :data:`OWN_FIELDS` out of a field ``config``."""
    return tuple(
        Rule(
            cel=f"!has(self.config) || !('{key}' in self.config)",
            message=f"{key}: set {own} instead",
            field="config",
            holds=_config_without(key),
        )
        for key, own in OWN_FIELDS.items()
    )


def _config_without(key: str) -> Callable[[Any], bool]:
    return lambda part: key not in part.config


class AuthenticationType(StrEnum):
    """How a client proves who it is."""

    PLAIN = "PLAIN"
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"
    TLS = "TLS"


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretReference:
    """A Secret in the StreamApp's namespace.

    Attributes:
        name: the Secret's name.
    """

    name: str = field(metadata=meta(pattern=NAME_PATTERN, meaning=NAME_MEANING, max_length=253))


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateReference:
    """Certificates in a Secret of the StreamApp's namespace.

    Attributes:
        name: the Secret's name.
        key: the key with the certificates, as PEM.
    """

    name: str = field(metadata=meta(pattern=NAME_PATTERN, meaning=NAME_MEANING, max_length=253))
    key: str = field(
        default="ca.crt", metadata=meta(pattern=KEY_PATTERN, meaning=KEY_MEANING, max_length=253)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaTls:
    """TLS to the broker; present (even empty) means that connections are encrypted.

    Attributes:
        ca_secret_ref: the authorities whose signature on the broker's certificate is trusted. Left
            out: those that the worker image trusts.
    """

    ca_secret_ref: CertificateReference | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaAuthentication:
    """What the workers show the broker to prove who they are.

    Attributes:
        type: PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512 are SASL with a user name and a password; TLS
            is a client certificate.
        secret_ref: a Secret with the keys username and password, or for TLS tls.crt and tls.key.
    """

    type: AuthenticationType
    secret_ref: SecretReference


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaRegistrySpec:
    """Where the schemas of Avro, Protobuf and JSON Schema are.

    Attributes:
        url: the registry's address; several are joined by commas.
        secret_ref: a Secret with the keys username and password, for basic authentication.
    """

    url: str = field(
        metadata=meta(
            pattern="https?://[^@ ]+", meaning="an http address without a user", max_length=4_096
        )
    )
    secret_ref: SecretReference | None = field(default=None, metadata=meta(cluster_only=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSpec:
    """A topic to create before the application starts, unless it exists.

    Attributes:
        name: its name on the broker.
        partitions: how many partitions it has.
        config: the topic's settings, by Kafka's names.
    """

    name: str = field(metadata=meta(pattern=TOPIC_PATTERN, meaning="a topic name", max_length=249))
    partitions: int = field(default=1, metadata=meta(minimum=1, maximum=100_000))
    config: Mapping[str, Scalar] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSpec:
    """Which Kafka, and how to reach it.

    Attributes:
        bootstrap_servers: addresses of brokers, host:port, joined by commas. Left out: the Kafka
            that comes with the installation; on one machine that is a private one, on a cluster
            the one named when the operator was installed.
        tls: encrypt, and check the broker's certificate.
        authentication: prove who we are.
        schema_registry: the schema registry, for serdes that need one. Everything else about it is
            said in spec.config.
        config: settings for every client (consumer, producer, admin), by Kafka's names. Numbers
            and texts; write true and false in quotes.
        topics: topics to create before the application starts, unless they exist, so that one file
            is all an application needs. One that exists with another number of partitions is left
            as it is, and the StreamApp says so.
    """

    RULES: ClassVar[tuple[Rule, ...]] = (
        *own_field_rules(),
        Rule(
            cel="!has(self.authentication) || self.authentication.type != 'TLS' || has(self.tls)",
            message="a client certificate (type TLS) needs TLS to the broker: set spec.kafka.tls",
            field="authentication",
            holds=lambda kafka: (
                kafka.authentication is None
                or kafka.authentication.type is not AuthenticationType.TLS
                or kafka.tls is not None
            ),
        ),
        Rule(
            cel=(
                "!has(self.config) || (!has(self.tls) && !has(self.authentication)) || "
                f"[{', '.join(repr(key) for key in _SECURITY)}].all(k, !(k in self.config))"
            ),
            message=(
                "tls and authentication decide about security.protocol, sasl.* and ssl.*.location: "
                "take these out of config, or take tls and authentication out"
            ),
            field="config",
            holds=lambda kafka: (
                (kafka.tls is None and kafka.authentication is None)
                or not set(kafka.config) & set(_SECURITY)
            ),
        ),
        Rule(
            cel=(
                "!has(self.config) || !has(self.schemaRegistry) || "
                f"[{', '.join(repr(key) for key in _REGISTRY)}].all(k, !(k in self.config))"
            ),
            message="schemaRegistry says where the registry is: take it out of config",
            field="config",
            holds=lambda kafka: (
                kafka.schema_registry is None or not set(kafka.config) & set(_REGISTRY)
            ),
        ),
    )

    bootstrap_servers: str | None = field(
        default=None,
        metadata=meta(
            pattern=f" *{_ADDRESS}( *, *{_ADDRESS})* *",
            meaning="host:port[,host:port...]",
            max_length=4_096,
        ),
    )
    tls: KafkaTls | None = field(default=None, metadata=meta(cluster_only=True))
    authentication: KafkaAuthentication | None = field(
        default=None, metadata=meta(cluster_only=True)
    )
    schema_registry: SchemaRegistrySpec | None = None
    config: Mapping[str, Scalar] = field(default_factory=dict)
    topics: tuple[TopicSpec, ...] = field(
        default=(), metadata=meta(keys=("name",), change=Change.LIVE)
    )

    def settled(self, bootstrap_servers: str | None) -> KafkaSpec:
        """Return it with the brokers that it does not name itself.

        Args:
            bootstrap_servers: of the Kafka that comes with the installation; ``None`` if they are
                not known yet.
        """
        return replace(self, bootstrap_servers=self.bootstrap_servers or bootstrap_servers)


def listed_topics(kafka: KafkaSpec) -> tuple[InternalTopic, ...]:
    """Return the topics that a StreamApp lists, as they are to be created."""
    return tuple(
        InternalTopic(
            name=topic.name,
            partitions=topic.partitions,
            configs={name: _as_text(value) for name, value in topic.config.items()},
        )
        for topic in kafka.topics
    )


def _as_text(value: Scalar) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
