"""Kafka Streams' configuration as one frozen value, parsed and checked once. Touches no device.

Options are Kafka's, written with dots (``commit.interval.ms``) or in snake_case. Settings of the
clients carry Kafka's prefixes; the more specific one wins: ``main.consumer.`` over ``consumer.``
over a bare client setting.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from headwater.client_settings import (
    COMMON,
    COMMON_FAMILIES,
    CONSUMER,
    DEFAULT_SERDES,
    PREFIXES,
    PRODUCER,
    REGISTRY,
    TRANSACTION_TIMEOUT_MS,
    is_client_setting,
    is_serde_setting,
)
from headwater.errors import ConfigError
from headwater.logsettings import parse_format, parse_levels
from headwater.metrics_settings import METRICS_OPTIONS, MetricsSettings, metrics_setting
from headwater.option_names import ALIASES, NOT_HERE
from headwater.references import (
    Reference,
    deserialization_handler,
    extractor,
    import_path,
    processing_handler,
    production_handler,
    refuse,
    serde_reference,
    uncaught_handler,
)
from headwater.rocksdb_settings import ROCKSDB_OPTIONS, RocksSettings, rocksdb_option
from headwater.topology_settings import (
    WINDOW_CHANGELOG_SLACK_MS,
    Optimization,
    parse_default_dsl_store,
    parse_dsl_store_format,
    parse_dsl_stores,
    parse_flag,
    parse_native,
    parse_optimizations,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_AFTER_GUARANTEE: Final = -1
"""Stands for the default that depends on the processing guarantee."""
_METADATA_MAX_AGE_MS: Final = 300_000
_MAX_POLL_INTERVAL_MS: Final = 300_000


class ProcessingGuarantee(StrEnum):
    """What a crash may cost (``processing.guarantee``)."""

    AT_LEAST_ONCE = "at_least_once"
    EXACTLY_ONCE_V2 = "exactly_once_v2"


def _whole(minimum: int, maximum: int = 2**63 - 1) -> Callable[[str, object], int]:
    expected = f"a whole number, at least {minimum}"
    if maximum < 2**63 - 1:
        expected += f" and at most {maximum}"

    def parse(name: str, value: object) -> int:
        if isinstance(value, str):
            try:
                value = int(value)
            except ValueError:
                raise refuse(name, value, expected) from None
        if not isinstance(value, int) or isinstance(value, bool) or not minimum <= value <= maximum:
            raise refuse(name, value, expected)
        return value

    return parse


def _text(name: str, value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise refuse(name, value, "a text that is not empty")
    return value.strip()


def _application_id(name: str, value: object) -> str:
    text = _text(name, value)
    if len(text) > 249 or not all(c.isascii() and (c.isalnum() or c in "._-") for c in text):
        expected = "letters, digits, '.', '_' and '-' (it becomes part of topic names)"
        raise refuse(name, value, expected)
    return text


def _addresses(name: str, value: object) -> str:
    text = ",".join(value) if isinstance(value, list | tuple) else _text(name, value)
    for address in text.split(","):
        host, _, port = address.strip().rpartition(":")
        if not host or not port.isdigit() or not 0 < int(port) < 65536:
            raise refuse(name, value, "host:port, several joined by commas")
    return ",".join(address.strip() for address in text.split(","))


def _optional_text(name: str, value: object) -> str | None:
    return None if value is None else _text(name, value)


def _topics(name: str, value: object) -> tuple[str, ...]:
    """Accept topic names as a list, or as a text in which commas separate them."""
    found = value if isinstance(value, list | tuple) else _text(name, value).split(",")
    return tuple(_text(name, topic) for topic in found)


def _guarantee(name: str, value: object) -> ProcessingGuarantee:
    try:
        return ProcessingGuarantee(str(value))
    except ValueError:
        raise refuse(name, value, " or ".join(ProcessingGuarantee)) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsConfig:
    """Every option of an application (Kafka's ``StreamsConfig``). Milliseconds and bytes.

    Build it with ``StreamsConfig.parse``; the constructor itself checks nothing but fills in what
    depends on the processing guarantee.
    """

    application_id: str
    bootstrap_servers: str = ""
    """Empty only where no broker is involved (``TopologyTestDriver``)."""
    processing_guarantee: ProcessingGuarantee = ProcessingGuarantee.AT_LEAST_ONCE
    commit_interval_ms: int = _AFTER_GUARANTEE
    """30,000, and 100 under exactly-once."""
    statestore_cache_max_bytes: int = 10 * 1024 * 1024
    """Record caches of the instance, shared evenly by its StreamThreads; 0 turns caching off."""
    max_uncommitted_bytes: int = 64 * 1024 * 1024
    """Writes held in memory until the commit; a StreamThread over this commits at once."""
    num_stream_threads: int = 1
    state_dir: str = ""
    """Empty: ``$XDG_STATE_HOME/headwater``, else ``~/.local/state/headwater``, found at a start."""
    buffered_records_per_partition: int = 10_000
    """A partition with more is paused. Java's 1,000 would pause after every batch we fetch."""
    max_task_idle_ms: int = 0
    """How long to wait for an empty partition without data on the broker; -1 never waits."""
    windows_emit_interval_ms: int = 1_000
    """By the wall clock, between two looks at which windows have closed (private in Kafka)."""
    joins_emit_interval_ms: int = 1_000
    """Likewise, at what finds no partner any more in a join of streams."""
    poll_ms: int = 100
    task_timeout_ms: int = 300_000
    repartition_purge_interval_ms: int = 30_000
    default_key_serde: Reference = None
    default_value_serde: Reference = None
    default_timestamp_extractor: Reference = "fail-on-invalid"
    deserialization_exception_handler: Reference = "log-and-fail"
    processing_exception_handler: Reference = "log-and-fail"
    processing_exception_handler_global_enabled: bool = False
    """Whether it is asked about records of global stores, too (KIP-1270)."""
    production_exception_handler: Reference = "default"
    uncaught_exception_handler: Reference = "shutdown-client"
    """What becomes of a StreamThread that ends with an error; asked in the worker's process."""
    processor_wrapper_class: Reference = None
    """A ``ProcessorWrapper``: the class, or ``"module:Class"``; used where a topology is built."""
    errors_dead_letter_queue_topic_name: str | None = None
    """Where the built-in handlers send what could not be handled; ``None`` sends nothing."""
    allow_lost_changelogs: tuple[str, ...] = ()
    """Changelogs whose stores may begin empty although what they held is gone."""
    client_id: str = ""
    logging_level: Mapping[str, str] = field(default_factory=dict)
    """By logger, the root logger's under the empty name; empty: as ``LogSettings`` has it."""
    logging_format: str = ""
    """Of the lines of processes whose application does not set up logging itself."""
    metrics: MetricsSettings = field(default_factory=MetricsSettings)
    """What is measured, and where it is pushed to."""
    replication_factor: int = -1
    """Of internal topics; -1 is the broker's default."""
    request_timeout_ms: int = 40_000
    headwater_native: str = "auto"
    """Whether records take the path in C: ``true``, ``false``, or ``auto``: if it is there."""
    topology_optimization: frozenset[Optimization] = frozenset()
    """Rewrites of the topology; used where it is built."""
    dsl_store_suppliers_class: Reference = None
    """How stores of the DSL are kept: a ``DslStoreSuppliers``, the class or ``"module:Class"``,
    ``rocksdb`` or ``in-memory``; ``None`` leaves it to ``default_dsl_store``."""
    default_dsl_store: str = "rocksdb"
    """Likewise, deprecated: ``rocksDB`` or ``in_memory``."""
    dsl_store_format: str = "DEFAULT"
    """``HEADERS``: stores of the DSL in RocksDB keep headers beside values (KIP-1271)."""
    rocksdb: RocksSettings = field(default_factory=RocksSettings)
    """What is set of RocksDB's options: ``rocksdb.write_buffer_size`` and the like."""
    rocksdb_config_setter: Reference = None
    """A ``RocksDBConfigSetter``: the class, or ``"module:Class"``; used where stores are opened."""
    windowstore_changelog_additional_retention_ms: int = WINDOW_CHANGELOG_SLACK_MS
    """So much longer than their stores do changelogs of windows and sessions keep entries."""
    ensure_explicit_internal_resource_naming: bool = False
    """Generated names of topics and stores are refused (KIP-1111); used where it is built."""
    overrides: Mapping[str, object] = field(default_factory=dict)
    """Prefixed and bare client settings as given, with Kafka's dotted names."""
    serde_settings: Mapping[str, object] = field(default_factory=dict)
    """What serdes are told, by its dotted names: a schema registry's, and the default ones."""
    originals: Mapping[str, object] = field(default_factory=dict)
    """Everything as given, for ``ProcessorContext.app_configs``."""

    def __post_init__(self) -> None:
        if self.commit_interval_ms == _AFTER_GUARANTEE:
            object.__setattr__(self, "commit_interval_ms", 100 if self.exactly_once else 30_000)

    @property
    def exactly_once(self) -> bool:
        """Whether output, changelogs and offsets are committed in one transaction."""
        return self.processing_guarantee is ProcessingGuarantee.EXACTLY_ONCE_V2

    @property
    def metadata_max_age_ms(self) -> int:
        """How often topics are looked up again (``metadata.max.age.ms``), 5 minutes by default."""
        found = self.consumer_overrides().get("metadata.max.age.ms", _METADATA_MAX_AGE_MS)
        return int(str(found))

    def cache_share(self, threads: int) -> int:
        """Return the bytes of record caches that each of so many StreamThreads may hold."""
        total = self.statestore_cache_max_bytes
        return max(1, total // threads) if total else 0

    @classmethod
    def parse(cls, given: Mapping[str, object]) -> StreamsConfig:
        """Check ``given`` and fill in the defaults.

        Args:
            given: options by Kafka's dotted name or in snake_case; texts become numbers.

        Raises:
            ConfigError: an option is unknown (with the nearest name), has a wrong value, is given
                twice, or the application id is missing.
        """
        options: dict[str, Any] = {}
        overrides: dict[str, object] = {}
        registry: dict[str, object] = {}
        measured: dict[str, tuple[str, object]] = {}
        stored: dict[str, tuple[str, object]] = {}
        for name, value in given.items():
            if not isinstance(name, str):
                raise ConfigError(f"option names are texts, not {name!r}")
            if is_client_setting(name):
                overrides[name] = value
                continue
            if is_serde_setting(dotted := name.replace("_", ".")):
                registry[dotted] = value
                continue
            if (option := metrics_setting(name)) is not None and option not in measured:
                measured[option] = name, value
                continue
            if (rocks := rocksdb_option(name)) is not None and rocks not in stored:
                stored[rocks] = name, value
                continue
            snake = option or rocks or _canonical(name)
            if snake in options or snake in measured or snake in stored:
                raise ConfigError(f"{name} is given twice; keep one spelling")
            options[snake] = _PARSERS[snake](name, value)
        if "application_id" not in options:
            raise ConfigError(
                "application.id is missing: it names the consumer group and the internal topics"
            )
        config = cls(
            **options,
            metrics=MetricsSettings.parse(measured),
            rocksdb=RocksSettings.parse(stored),
            overrides=overrides,
            serde_settings=registry,
            originals=dict(given),
        )
        _check_overrides(config)
        return config

    def consumer_overrides(self, role: str = "main") -> dict[str, object]:
        """Return the consumer settings for ``role``: ``main``, ``restore`` or ``global``."""
        return self._client(CONSUMER | COMMON, "consumer.", f"{role}.consumer.")

    def producer_overrides(self) -> dict[str, object]:
        """Return the producer settings."""
        return self._client(PRODUCER | COMMON, "producer.")

    @property
    def max_poll_interval_ms(self) -> int:
        """After how long without a poll a StreamThread is taken to hang."""
        return _max_poll_interval_ms(self.consumer_overrides())

    @property
    def transaction_timeout_ms(self) -> int:
        """How long a broker lets a transaction stay open (``transaction.timeout.ms``)."""
        given = self.producer_overrides().get("transaction.timeout.ms", TRANSACTION_TIMEOUT_MS)
        return int(str(given))

    def admin_overrides(self) -> dict[str, object]:
        """Return the admin client's settings."""
        return self._client(COMMON, "admin.")

    def topic_overrides(self) -> dict[str, object]:
        """Return the settings of internal topics, without the prefix."""
        return self._client(frozenset(), "topic.")

    def _client(self, bare: frozenset[str], *prefixes: str) -> dict[str, object]:
        # Without bare names it is about topics, to which a client's security means nothing.
        families = COMMON_FAMILIES if bare else ()
        settings = {
            name: value
            for name, value in self.overrides.items()
            if name in bare or name.startswith(families)
        }
        for prefix in prefixes:
            settings |= {
                name.removeprefix(prefix): value
                for name, value in self.overrides.items()
                if name.startswith(prefix)
            }
        return settings


_PARSERS: Final[Mapping[str, Callable[[str, object], Any]]] = {
    "application_id": _application_id,
    "bootstrap_servers": _addresses,
    "processing_guarantee": _guarantee,
    "commit_interval_ms": _whole(0),
    "statestore_cache_max_bytes": _whole(0),
    "max_uncommitted_bytes": _whole(0),
    "num_stream_threads": _whole(1, 512),
    "state_dir": _text,
    "buffered_records_per_partition": _whole(1),
    "max_task_idle_ms": _whole(-1),
    "windows_emit_interval_ms": _whole(0),
    "joins_emit_interval_ms": _whole(0),
    "poll_ms": _whole(0),
    "task_timeout_ms": _whole(0),
    "repartition_purge_interval_ms": _whole(0),
    "default_key_serde": serde_reference,
    "default_value_serde": serde_reference,
    "default_timestamp_extractor": extractor,
    "processor_wrapper_class": import_path,
    "deserialization_exception_handler": deserialization_handler,
    "processing_exception_handler": processing_handler,
    "processing_exception_handler_global_enabled": parse_flag,
    "production_exception_handler": production_handler,
    "uncaught_exception_handler": uncaught_handler,
    "errors_dead_letter_queue_topic_name": _optional_text,
    "allow_lost_changelogs": _topics,
    "client_id": _text,
    "logging_level": parse_levels,
    "logging_format": parse_format,
    "replication_factor": _whole(-1, 2**15 - 1),
    "request_timeout_ms": _whole(0),
    "headwater_native": parse_native,
    "topology_optimization": parse_optimizations,
    "rocksdb_config_setter": import_path,
    "windowstore_changelog_additional_retention_ms": _whole(0),
    "dsl_store_suppliers_class": parse_dsl_stores,
    "default_dsl_store": parse_default_dsl_store,
    "dsl_store_format": parse_dsl_store_format,
    "ensure_explicit_internal_resource_naming": parse_flag,
}
"""How each option is checked; the fields that hold several options have none."""


def field_of(name: str) -> str:
    """Return the field that an option sets, whichever way it is spelt; of others the snake_case."""
    snake = name.strip().replace(".", "_").replace("-", "_")
    return ALIASES.get(snake, snake)


def _canonical(name: str) -> str:
    """Turn a dotted or snake_case name into the field's, or say which name was probably meant."""
    snake = field_of(name)
    if snake in _PARSERS:
        return snake
    if snake in NOT_HERE:
        raise ConfigError(f"{name} has no effect here: {NOT_HERE[snake]}; remove it")
    candidates = {option.replace("_", "."): option for option in [*_PARSERS, *ALIASES]}
    candidates |= {
        setting: setting
        for setting in (
            *(COMMON | CONSUMER | PRODUCER | REGISTRY | DEFAULT_SERDES),
            *(METRICS_OPTIONS | ROCKSDB_OPTIONS),
        )
    }
    near = difflib.get_close_matches(snake.replace("_", "."), candidates, n=1, cutoff=0.6)
    hint = f"; did you mean {near[0]}?" if near else ""
    prefixes = ", ".join(f"{prefix}*" for prefix in PREFIXES)
    raise ConfigError(f"unknown option {name}{hint} (client settings take a prefix: {prefixes})")


def _check_overrides(config: StreamsConfig) -> None:
    """Refuse client settings that would break what the engine promises."""
    consumer = {**config.consumer_overrides("restore"), **config.consumer_overrides()}
    producer = config.producer_overrides()
    refused: list[tuple[str, bool, str]] = [
        (
            "enable.auto.commit",
            _on(consumer.get("enable.auto.commit", "false")),
            "offsets are committed with the tasks",
        ),
        ("group.id", "group.id" in consumer, "the group is the application.id"),
        ("group.instance.id", "group.instance.id" in consumer, NOT_HERE["group_instance_id"]),
        (
            "transactional.id",
            "transactional.id" in producer,
            "it is made from the application.id and the worker",
        ),
        (
            "enable.idempotence",
            not _on(producer.get("enable.idempotence", "true")),
            "producers are idempotent under both guarantees",
        ),
        (
            "isolation.level",
            config.exactly_once
            and consumer.get("isolation.level", "read_committed") != "read_committed",
            "exactly-once reads committed records only",
        ),
    ]
    for name, wrong, reason in refused:
        if wrong:
            raise ConfigError(f"{name} cannot be set: {reason}; remove it")
    # These we read ourselves; the client checks all others.
    for settings, name in (
        (consumer, "max.poll.interval.ms"),
        (consumer, "metadata.max.age.ms"),
        (producer, "buffer.memory"),
    ):
        if name in settings:
            _whole(1)(name, settings[name])
    _check_session(consumer)


def _check_session(consumer: Mapping[str, object]) -> None:
    """Refuse what the client would refuse only when a StreamThread makes its consumer."""
    session = str(consumer.get("session.timeout.ms", ""))
    longest = _max_poll_interval_ms(consumer)
    if session.isdecimal() and int(session) > longest:
        raise ConfigError(
            f"session.timeout.ms: {session} is more than max.poll.interval.ms, {longest}; "
            "make it shorter, or raise max.poll.interval.ms with it"
        )


def _max_poll_interval_ms(consumer: Mapping[str, object]) -> int:
    return int(str(consumer.get("max.poll.interval.ms", _MAX_POLL_INTERVAL_MS)))


def _on(value: object) -> bool:
    return str(value).lower() in {"true", "1"}
