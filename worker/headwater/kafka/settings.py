"""What each client is told: our defaults, then the user's settings, in librdkafka's vocabulary.

Users write the names of Kafka's documentation. Most are librdkafka's too or have an alias there;
the rest are mapped here. A name that neither knows is refused when the client is made.
"""

from __future__ import annotations

import difflib
import logging
import re
from typing import TYPE_CHECKING, Any, Final

from headwater.client_settings import COMMON, CONSUMER, PRODUCER, TRANSACTION_TIMEOUT_MS
from headwater.errors import ConfigError, TopologyError
from headwater.model.offset_reset import OffsetReset

if TYPE_CHECKING:
    from collections.abc import Mapping

    from confluent_kafka import KafkaError

    from headwater.config import StreamsConfig
    from headwater.kafka.errors import Connection

client_log = logging.getLogger("headwater.librdkafka")
# Errors reach us as events. The log also has every retry: twenty lines a second in an outage.
client_log.setLevel(logging.CRITICAL)

_BATCH_RECORDS: Final = 2_000
_FETCH_BYTES: Final = 8 * 1024 * 1024
"""An answer with records has so much at most, however many partitions it is about. By default it is
as much as ``queued.max.messages.kbytes``; small records take several times that once unpacked."""
_BACKOFF_MS: Final = 20
"""The first wait before a broker is tried again; each further one is twice as long, up to
``reconnect.backoff.max.ms``. Half of it is also the wait between two brokers: the address that was
given and the broker behind it are two. With librdkafka's 100 every new client begins with 50 ms."""
_BACKOFF_MAX_MS: Final = 1_000
"""Java's default. With librdkafka's ten seconds a broker that is back is found that much later."""
_SYNONYMS: Final = {
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "max.partition.fetch.bytes": "fetch.message.max.bytes",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "max.request.size": "message.max.bytes",
    "request.timeout.ms": "socket.timeout.ms",
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
}
_KILOBYTES: Final = {"buffer.memory": "queue.buffering.max.kbytes"}
_WITHOUT_MEANING: Final = frozenset(
    {
        "max.block.ms",
        "max.poll.records",
        "exclude.internal.topics",
        "ssl.truststore.type",
        "ssl.keystore.type",
    }
)
"""Settings of Java clients that librdkafka lacks (``batch_records`` reads ``max.poll.records``)."""
_OF_LIBRDKAFKA: Final = frozenset(
    {
        "check.crcs",
        "enable.partition.eof",
        "enable.ssl.certificate.verification",
        "metadata.recovery.strategy",
        "partitioner",
        "receive.message.max.bytes",
        "sasl.jaas.config",
        "sasl.mechanism",
        "sasl.mechanisms",
        "sasl.password",
        "sasl.username",
        "ssl.ca.location",
        "ssl.certificate.location",
        "ssl.endpoint.identification.algorithm",
        "ssl.key.location",
        "ssl.key.password",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.truststore.location",
        "topic.metadata.propagation.max.ms",
    }
)
"""Further names that somebody may have meant; the client knows still more."""
_UNKNOWN: Final = re.compile(r'No such configuration property: "(.+?)"')
_JAAS: Final = re.compile(r"""\b(username|password)\s*=\s*(["'])(.*?)\2""")


def consumer_settings(
    config: StreamsConfig,
    connection: Connection,
    *,
    client_id: str,
    role: str = "main",
    group: str | None = None,
    is_bulk: bool = False,
) -> dict[str, Any]:
    """Settings of an ``assign()`` consumer in the group of the application.

    Args:
        config: the application's.
        connection: told of errors.
        client_id: shown in the broker's logs and metrics.
        role: ``main``, ``restore`` or ``global``. All but ``main`` read committed records only.
        group: where offsets are committed; the application's own if not given.
        is_bulk: whether one partition is read as fast as that goes.
    """
    committed_only = config.exactly_once or role != "main"
    ours = {
        "group.id": group or config.application_id,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        # We say where to start, and decide what to do about an offset that is gone.
        "auto.offset.reset": "error",
        "enable.partition.eof": True,
        "isolation.level": "read_committed" if committed_only else "read_uncommitted",
        # A partition that is resumed or added waits for the fetch under way to end.
        "fetch.wait.max.ms": 100,
        # Five times as many took 15 to 25 MB more for four partitions of a keyed count.
        "queued.min.messages": 20_000,
        "queued.max.messages.kbytes": 32 * 1024,
        # A full queue stops fetching for a second by default, and is empty long before that.
        "fetch.queue.backoff.ms": 10,
    }
    if is_bulk:
        # A short queue that is filled at once costs less: what is read is in the cache still.
        ours |= {"queued.min.messages": 5_000, "fetch.queue.backoff.ms": 1}
    given = config.consumer_overrides(role)
    given.pop("auto.offset.reset", None)
    settings = _complete(config, connection, client_id, ours, given)
    if "fetch.max.bytes" not in settings:
        settings["fetch.max.bytes"] = _fetch_bytes(settings)
    return settings


def _fetch_bytes(settings: Mapping[str, Any]) -> int:
    """Return ``fetch.max.bytes``, which the client wants to be no less than a record may be."""
    queued = _whole(settings, "queued.max.messages.kbytes") * 1024
    least = (_whole(settings, "message.max.bytes"), _whole(settings, "fetch.message.max.bytes"))
    return max(min(_FETCH_BYTES, queued), 1_000_000, *least)


def _whole(settings: Mapping[str, Any], name: str) -> int:
    """Return a setting as a number, 0 if it is none: the client says then what is wrong."""
    try:
        return int(str(settings.get(name, 0)))
    except ValueError:
        return 0


def producer_settings(
    config: StreamsConfig, connection: Connection, *, client_id: str, transactional_id: str | None
) -> dict[str, Any]:
    """Settings of a StreamThread's producer: idempotent, transactional when it has an id."""
    ours: dict[str, Any] = {
        "enable.idempotence": True,
        "partitioner": "murmur2_random",
        "linger.ms": 20,
        "queue.buffering.max.messages": 200_000,
        "queue.buffering.max.kbytes": 64 * 1024,
        # A delivery report costs as little as none when only failures are handed to Python.
        "delivery.report.only.error": True,
        # So long a topic may be missing: brokers hear of a new one within a second.
        "topic.metadata.propagation.max.ms": 3_000,
    }
    if transactional_id is None:
        # A record waits as long as it takes; task.timeout.ms ends the waiting, at a commit.
        ours["message.timeout.ms"] = 0
    else:
        ours |= {
            "transactional.id": transactional_id,
            "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
            # With the default, the client forgets its brokers when all are away, and with them who
            # its coordinator is: a transaction then waited for more than a minute.
            "metadata.recovery.strategy": "none",
            # What a commit flushes is to be on its way while the commit does other things.
            "linger.ms": 5,
        }
    settings = _complete(config, connection, client_id, ours, config.producer_overrides())
    if str(settings["linger.ms"]) in {"0", "0.0"}:
        # Java sends "at once" all that has come while it was busy. librdkafka would make a request
        # of each record, which keeps the broker busy and makes every record later.
        settings["linger.ms"] = 0.5
    return settings


def admin_settings(
    config: StreamsConfig, connection: Connection, *, client_id: str
) -> dict[str, Any]:
    """Settings of an admin client."""
    return _complete(config, connection, client_id, {}, config.admin_overrides())


def refused_settings(kind: str, error: KafkaError) -> ConfigError:
    """Describe settings that the client does not take, with the name that was probably meant.

    Args:
        kind: of the client: ``consumer``, ``producer`` or ``admin``.
        error: what the client said.
    """
    unknown = _UNKNOWN.search(error.str())
    if unknown is None:
        return ConfigError(f"{kind} settings: {error.str()}; correct it")
    name = unknown[1]
    known = COMMON | CONSUMER | PRODUCER | _OF_LIBRDKAFKA | _SYNONYMS.keys()
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    hint = f"; did you mean {kind}.{near[0]}?" if near else "; remove it"
    return ConfigError(f"{kind}.{name}: there is no such setting of a Kafka client{hint}")


def batch_records(config: StreamsConfig) -> int:
    """How many records one poll returns at most (``max.poll.records``)."""
    given = config.consumer_overrides().get("max.poll.records", _BATCH_RECORDS)
    try:
        records = int(str(given))
    except ValueError:
        records = 0
    if records < 1:
        raise ConfigError(f"max.poll.records: {given!r} is not a number of at least 1")
    return records


def offset_reset(config: StreamsConfig) -> OffsetReset:
    """Where a source without a policy starts (``auto.offset.reset``): ``earliest`` by default."""
    given = str(config.consumer_overrides().get("auto.offset.reset", "earliest"))
    policy = {"smallest": "earliest", "largest": "latest", "error": "none"}.get(given, given)
    try:
        return OffsetReset(policy)
    except TopologyError as error:
        raise ConfigError(f"auto.offset.reset: {error}") from error


def _complete(
    config: StreamsConfig,
    connection: Connection,
    client_id: str,
    ours: Mapping[str, Any],
    given: Mapping[str, object],
) -> dict[str, Any]:
    if "debug" in given:
        client_log.setLevel(logging.DEBUG)
    return {
        "bootstrap.servers": config.bootstrap_servers,
        "client.id": client_id,
        "error_cb": connection.on_error,
        "logger": client_log,
        "reconnect.backoff.ms": _BACKOFF_MS,
        "reconnect.backoff.max.ms": _BACKOFF_MAX_MS,
        **ours,
        **_translated(given),
    }


def _translated(given: Mapping[str, object]) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    for name, value in given.items():
        if name in _WITHOUT_MEANING:
            continue
        if name in _KILOBYTES:
            settings[_KILOBYTES[name]] = max(1, int(str(value)) // 1024)
        elif name == "sasl.jaas.config":
            settings |= _from_jaas(str(value))
        elif name in {"ssl.truststore.location", "ssl.keystore.location"}:
            settings |= _from_store(name, str(value))
        elif name == "ssl.endpoint.identification.algorithm":
            settings[name] = str(value) or "none"
        else:
            settings[_SYNONYMS.get(name, name)] = value
    return settings


def _from_jaas(text: str) -> dict[str, str]:
    found = {name: value for name, _, value in _JAAS.findall(text)}
    if set(found) != {"username", "password"}:
        raise ConfigError(
            "sasl.jaas.config: only a login module with username and password is understood; "
            "set sasl.username and sasl.password instead"
        )
    return {f"sasl.{name}": value for name, value in found.items()}


def _from_store(name: str, path: str) -> dict[str, str]:
    if path.endswith((".jks", ".p12", ".pfx")) and "truststore" in name:
        raise ConfigError(
            f"{name}: {path} is a Java key store; give a PEM file as ssl.ca.location instead"
        )
    return {"ssl.ca.location" if "truststore" in name else "ssl.keystore.location": path}
