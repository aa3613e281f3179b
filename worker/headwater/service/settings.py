"""Everything one worker is told at its start, from a StreamApp, flags and the environment."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from headwater.dsl.loading import SourceText
from headwater.errors import ConfigError
from headwater.logsettings import LogSettings
from headwater.model.livesettings import with_live
from headwater.model.streamapp_topology import IMPORT_TIMEOUT_MS
from headwater.native.logs import chosen
from headwater.native.messages import ChildSettings
from headwater.privatefiles import default_state_dir
from headwater.service.changedfiles import ChangedFiles
from headwater.service.credentials import registry_of, security_of
from headwater.service.decide.values import LEASE_MS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from headwater.config import StreamsConfig
    from headwater.model.livesettings import LiveSettings
    from headwater.model.streamapp import StreamApp, TopologySource
    from headwater.native.application import ApplicationSettings, Options
    from headwater.service.httpauth.guard import Guard

_LEASE_MIN_MS: Final = 3_000


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """One worker process.

    Attributes:
        app: the StreamApp's name.
        name: the worker's.
        application: what it runs; a password in it travels to the children through a pipe.
        http_host: where ``/metrics`` and the rest are served.
        http_port: 0 picks a free one; ``None`` serves nothing.
        logs: what its children log if the configuration does not say.
        watches_group: whether the worker looks for members of the consumer group by itself: on a
            cluster, where the control loop's looks are dear.
        import_timeout_ms: how long importing the topology may take.
        tells_restores: whether its children tell how stores are restored.
        revision: of the StreamApp that it is started from, to be shown among its metrics.
        changed_files: looks at what ``spec.upgrade.rollOn`` names.
        guard: says who may ask by HTTP; everybody, if there is none.
    """

    app: str
    name: str
    application: ApplicationSettings
    http_host: str = "127.0.0.1"
    http_port: int | None = 0
    logs: LogSettings = field(default_factory=LogSettings)
    watches_group: bool = False
    import_timeout_ms: int = IMPORT_TIMEOUT_MS
    tells_restores: bool = False
    revision: str = ""
    changed_files: ChangedFiles = field(default_factory=lambda: ChangedFiles({}, ""))
    guard: Guard | None = None

    def refused(self) -> Mapping[str, int]:
        """Return how many callers by HTTP were refused, by reason."""
        return {} if self.guard is None else self.guard.counts()

    def parsed(self) -> StreamsConfig:
        """Return the configuration, checked.

        Raises:
            ConfigError: an option is unknown or wrong, or there is no broker address.
        """
        config = self.application.parsed()
        if not config.bootstrap_servers:
            raise ConfigError(
                "bootstrap.servers is missing: set spec.kafka.bootstrapServers of the StreamApp, "
                "--bootstrap host:port, or 'bootstrap.servers' in the config of KafkaStreams"
            )
        return config

    def with_live(self, live: LiveSettings) -> WorkerSettings:
        """Return them with other live settings."""
        options = with_live(self.application.config, live)
        return replace(self, application=replace(self.application, config=options))

    def for_child(self, config: StreamsConfig, slot: int, threads: int) -> ChildSettings:
        """Return what the process of a slot, or a StateUpdater of that number, has to know.

        Args:
            config: the configuration, parsed.
            slot: its number.
            threads: how many StreamThreads share the record cache.
        """
        return ChildSettings(
            application_id=config.application_id,
            worker=self.name,
            slot=slot,
            application=self.application,
            state_dir=config.state_dir,
            cache_bytes=config.cache_share(threads),
            logs=chosen(config, self.logs),
            tells_restores=self.tells_restores,
        )


def with_state_dir(config: Options) -> dict[str, str | int | float | bool]:
    """Return a configuration with ``state.dir``; unless it says where, it is the default place.

    Raises:
        ConfigError: the user has no home directory.
    """
    if config.get("state.dir") or config.get("state_dir"):
        return dict(config)
    try:
        return {**config, "state.dir": str(default_state_dir())}
    except RuntimeError as error:
        raise ConfigError(f"state.dir is missing, and there is no default: {error}") from error


def lease_duration_ms(config: StreamsConfig) -> int:
    """Return after how long without a sign of life a worker is taken for dead.

    It is what ``session.timeout.ms`` of the consumer says, as in Kafka; 30 s by default.

    Raises:
        ConfigError: it is not a number, or too short for a renewal to be late.
    """
    given = config.consumer_overrides().get("session.timeout.ms", LEASE_MS)
    try:
        duration_ms = int(str(given))
    except ValueError:
        duration_ms = 0
    if duration_ms < _LEASE_MIN_MS:
        raise ConfigError(
            f"session.timeout.ms: {given!r} is not allowed; expected milliseconds, at least "
            f"{_LEASE_MIN_MS}: a worker that is silent for so long is replaced"
        )
    return duration_ms


def topology_source(source: TopologySource) -> str | SourceText:
    """Return where a StreamApp's topology comes from, as the worker's processes are told.

    Raises:
        ConfigError: it is in a ConfigMap, which workers do not read.
    """
    if source.module is not None:
        return source.module
    if source.inline is not None:
        return SourceText(text=source.inline, function=source.function_name)
    raise ConfigError(
        "spec.topology.configMapRef: the worker was to be handed the text itself; apply the "
        "StreamApp through the operator or `headwater up`, or give --topology module:function"
    )


def config_of(
    app: StreamApp, overrides: Mapping[str, str | int], kafka_dir: Path | None = None
) -> dict[str, str | int | float | bool]:
    """Return the configuration that a StreamApp asks for.

    Args:
        app: parsed and checked.
        overrides: options, by dotted name, that win over the StreamApp's.
        kafka_dir: where the credentials for Kafka lie, if it needs any.

    Raises:
        ConfigError: credentials are missing.
    """
    spec = app.spec
    config: dict[str, str | int | float | bool] = {
        **spec.kafka.config,
        **spec.config,
        **security_of(spec.kafka, kafka_dir),
        **registry_of(spec.kafka, kafka_dir),
        "application.id": app.application_id,
        "num.stream.threads": spec.threads_per_worker,
        "processing.guarantee": spec.processing_guarantee.value,
    }
    if spec.logging.level:
        config["logging.level"] = spec.logging.level
    if spec.logging.format:
        config["logging.format"] = spec.logging.format
    if spec.kafka.bootstrap_servers:
        config["bootstrap.servers"] = spec.kafka.bootstrap_servers
    return {**config, **overrides}
