"""Settings that the processes of a worker take over while they run: no pod is replaced.

    StreamApp.spec ──► LiveSettings ──► StreamWorker.spec.live ──► main process ──► its children

Kafka calls the like of a broker its dynamic configuration. Everything else of a StreamApp's
configuration is read once, when a process starts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from headwater.metrics_settings import RecordingLevel
from headwater.model.fields import Rule, meta
from headwater.rocksdb_settings import (
    LIVE_MINIMA,
    MAXIMA,
    NUMBER,
    ORDERED,
    PREFIX,
    TRIGGERS,
    expected_number,
    expected_order,
    is_allowed,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headwater.model.streamapp import StreamAppSpec

METRICS_LEVEL: Final = "metrics.recording.level"
LOGGING_LEVEL: Final = "logging.level"
ROCKSDB_LEAST: Final[Mapping[str, int]] = {
    f"{PREFIX}{name}": least for name, least in LIVE_MINIMA.items()
}
LIVE_OPTIONS: Final = (METRICS_LEVEL, *ROCKSDB_LEAST)
"""Options of ``spec.config`` that are taken over; by this spelling only."""

_LEVELS: Final = tuple(
    text for level in RecordingLevel for text in (level.name, level.name.lower())
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveSettings:
    """What a worker takes over while it runs.

    Attributes:
        logging_level: as spec.logging.level; empty: processes log what they did without it.
        metrics_level: as metrics.recording.level; empty: the default.
        rocksdb: options of RocksDB as it writes them, such as ``write_buffer_size=1048576``, with
            semicolons between them; empty: nothing is set.
    """

    logging_level: str = field(default="", metadata=meta(max_length=1_000))
    metrics_level: str = field(default="", metadata=meta(max_length=32))
    rocksdb: str = field(default="", metadata=meta(max_length=1_000))

    def options(self) -> dict[str, str]:
        """Return them as options of a StreamsConfig; one that is left out has its default."""
        given = {LOGGING_LEVEL: self.logging_level, METRICS_LEVEL: self.metrics_level}
        pairs = (pair.partition("=") for pair in self.rocksdb.split(";") if pair)
        stores = {f"{PREFIX}{name}": value for name, _, value in pairs}
        return {**{name: value for name, value in given.items() if value}, **stores}


def live_settings(spec: StreamAppSpec) -> LiveSettings:
    """Return what a StreamApp says of them."""
    return LiveSettings(
        logging_level=spec.logging.level or "",
        metrics_level=str(spec.config.get(METRICS_LEVEL, "")).upper(),
        rocksdb=_rocksdb(spec.config),
    )


def live_options(options: Mapping[str, str | int | float | bool]) -> LiveSettings:
    """Return what a configuration says of them."""
    return LiveSettings(
        logging_level=str(options.get(LOGGING_LEVEL, "")),
        metrics_level=str(options.get(METRICS_LEVEL, "")).upper(),
        rocksdb=_rocksdb(options),
    )


def with_live(
    options: Mapping[str, str | int | float | bool], live: LiveSettings
) -> dict[str, str | int | float | bool]:
    """Return a configuration with these settings in place of those that it has."""
    taken = (LOGGING_LEVEL, *LIVE_OPTIONS)
    others = {name: value for name, value in options.items() if name not in taken}
    return {**others, **live.options()}


def _rocksdb(options: Mapping[str, str | int | float | bool]) -> str:
    return ";".join(
        f"{name.removeprefix(PREFIX)}={options[name]}"
        for name in sorted(ROCKSDB_LEAST)
        if name in options
    )


def live_option_rules() -> tuple[Rule, ...]:
    """Return the rules for the values of :data:`LIVE_OPTIONS`.

    A running worker must not be told what a new one would refuse to start with.
    """
    return (
        Rule(
            cel=(
                f"!has(self.config) || !('{METRICS_LEVEL}' in self.config) || "
                f"self.config['{METRICS_LEVEL}'] in [{', '.join(map(repr, _LEVELS))}]"
            ),
            message=f"{METRICS_LEVEL}: expected one of OFF, INFO, DEBUG and TRACE",
            field="config",
            holds=lambda spec: spec.config.get(METRICS_LEVEL, "INFO") in _LEVELS,
        ),
        *(_number_rule(name) for name in LIVE_MINIMA),
        *(_order_rule(low, high) for low, high in ORDERED),
    )


def _number_rule(option: str) -> Rule:
    name, least, most = f"{PREFIX}{option}", LIVE_MINIMA[option], MAXIMA[option]
    given = f"string(self.config['{name}'])"
    return Rule(
        cel=(
            f"!has(self.config) || !('{name}' in self.config) || "
            f"({given}.matches('^{NUMBER}$') && int({given}) >= {least} && int({given}) <= {most})"
        ),
        message=f"{name}: {expected_number(option)}",
        field="config",
        holds=lambda spec: is_allowed(option, str(spec.config.get(name, least))),
    )


def _order_rule(low: str, high: str) -> Rule:
    """Return the rule for two of RocksDB's triggers, of which either may be left out.

    It says nothing of values that another rule refuses.
    """

    def holds(spec: StreamAppSpec) -> bool:
        least, value = (
            str(spec.config.get(f"{PREFIX}{name}", TRIGGERS[name])) for name in (low, high)
        )
        are_allowed = is_allowed(low, least) and is_allowed(high, value)
        return not are_allowed or int(least) <= int(value)

    least, value = (
        f"('{PREFIX}{name}' in self.config ? string(self.config['{PREFIX}{name}']) : "
        f"'{TRIGGERS[name]}')"
        for name in (low, high)
    )
    is_number = "matches('^0*[1-9][0-9]{0,9}$')"
    return Rule(
        cel=(
            f"!has(self.config) || !{least}.{is_number} || !{value}.{is_number} || "
            f"int({least}) <= int({value})"
        ),
        message=f"{PREFIX}{high}: {expected_order(low, high)}",
        field="config",
        holds=holds,
    )
