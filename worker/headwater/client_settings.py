"""The settings of Kafka's clients that a configuration may hold, by name and by prefix."""

from __future__ import annotations

from typing import Final

PREFIXES: Final = (
    "main.consumer.",
    "restore.consumer.",
    "global.consumer.",
    "consumer.",
    "producer.",
    "admin.",
    "topic.",
)

COMMON: Final = frozenset(
    {
        "security.protocol",
        "metadata.max.age.ms",
        "reconnect.backoff.ms",
        "reconnect.backoff.max.ms",
        "retry.backoff.ms",
        "retry.backoff.max.ms",
        "receive.buffer.bytes",
        "send.buffer.bytes",
        "connections.max.idle.ms",
        "socket.connection.setup.timeout.ms",
        "socket.timeout.ms",
        "client.rack",
        "client.dns.lookup",
        "broker.address.family",
        "debug",
        "log_level",
        "statistics.interval.ms",
        "socket.keepalive.enable",
        "enable.ssl.certificate.verification",
    }
)
COMMON_FAMILIES: Final = ("sasl.", "ssl.")
CONSUMER: Final = frozenset(
    {
        "auto.offset.reset",
        "fetch.min.bytes",
        "fetch.max.bytes",
        "fetch.max.wait.ms",
        "fetch.wait.max.ms",
        "isolation.level",
        "max.partition.fetch.bytes",
        "max.poll.interval.ms",
        "max.poll.records",
        "session.timeout.ms",
        "heartbeat.interval.ms",
        "check.crcs",
        "queued.min.messages",
        "queued.max.messages.kbytes",
        "fetch.message.max.bytes",
        "enable.auto.commit",
        "allow.auto.create.topics",
        "exclude.internal.topics",
    }
)
PRODUCER: Final = frozenset(
    {
        "acks",
        "batch.size",
        "buffer.memory",
        "compression.type",
        "compression.codec",
        "compression.level",
        "delivery.timeout.ms",
        "enable.idempotence",
        "linger.ms",
        "max.block.ms",
        "max.in.flight.requests.per.connection",
        "max.request.size",
        "message.max.bytes",
        "batch.num.messages",
        "queue.buffering.max.messages",
        "queue.buffering.max.kbytes",
        "queue.buffering.max.ms",
        "retries",
        "transaction.timeout.ms",
        "transactional.id",
        "sticky.partitioning.linger.ms",
        "message.timeout.ms",
    }
)


TRANSACTION_TIMEOUT_MS: Final = 10_000
"""``transaction.timeout.ms`` of producers that are not told otherwise."""

REGISTRY_PREFIX: Final = "schema.registry."
REGISTRY: Final = frozenset(
    {
        "auto.register.schemas",
        "basic.auth.credentials.source",
        "basic.auth.user.info",
        "key.subject.name.strategy",
        "normalize.schemas",
        "use.latest.version",
        "value.subject.name.strategy",
    }
)
"""What serdes of a schema registry are told, beside what begins with the prefix."""


DEFAULT_SERDES: Final = frozenset(
    {
        "windowed.inner.class.serde",
        "window.size.ms",
        *(f"{of}serializer.encoding" for of in ("", "key.", "value.")),
        *(f"{of}deserializer.encoding" for of in ("", "key.", "value.")),
        *(
            f"default.list.{of}.serde.{what}"
            for of in ("key", "value")
            for what in ("inner", "type")
        ),
    }
)
"""What the default serdes are made with."""


def is_serde_setting(name: str) -> bool:
    """Whether a setting is for serdes: about the schema registry, or about the default serdes."""
    return name.startswith(REGISTRY_PREFIX) or name in REGISTRY or name in DEFAULT_SERDES


def is_client_setting(name: str) -> bool:
    """Whether a setting is a client's, with a prefix or without."""
    if name.startswith(PREFIXES):
        return True
    return (
        name.startswith(COMMON_FAMILIES) or name in COMMON or name in CONSUMER or name in PRODUCER
    )
