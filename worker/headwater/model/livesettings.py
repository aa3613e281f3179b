"""Settings that the processes of a worker take over while they run: no pod is replaced.

    StreamApp.spec ──► LiveSettings ──► StreamWorker.spec.live ──► main process ──► its children

Kafka calls the like of a broker its dynamic configuration. Everything else of a StreamApp's
configuration is read once, when a process starts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from headwater.metrics_settings import RecordingLevel
from headwater.model.fields import Rule, meta
from headwater.rocksdb_settings import LIVE_MINIMA, PREFIX

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

_NUMBER: Final = re.compile("[0-9]{1,12}")
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
        *(_number_rule(name, least) for name, least in ROCKSDB_LEAST.items()),
    )


def _number_rule(name: str, least: int) -> Rule:
    def holds(spec: StreamAppSpec) -> bool:
        text = str(spec.config.get(name, least))
        return _NUMBER.fullmatch(text) is not None and int(text) >= least

    given = f"string(self.config['{name}'])"
    return Rule(
        cel=(
            f"!has(self.config) || !('{name}' in self.config) || "
            f"({given}.matches('^[0-9]{{1,12}}$') && int({given}) >= {least})"
        ),
        message=f"{name}: expected a whole number, at least {least}",
        field="config",
        holds=holds,
    )
