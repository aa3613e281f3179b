"""What a configuration says of metrics, as one value: ``metrics.recording.level`` and the like.

``metrics.otlp.endpoint`` and ``metrics.otlp.interval.ms`` are our own: where numbers are pushed to.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from headwater.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class RecordingLevel(StrEnum):
    """How much is measured (``metrics.recording.level``)."""

    OFF = "off"
    """Only what the control loop and ``/tasks`` need; Kafka Streams has no such level."""
    INFO = "info"
    DEBUG = "debug"
    TRACE = "trace"

    @property
    def number(self) -> int:
        """As Kafka's ``Sensor.RecordingLevel`` numbers them; -1 for none."""
        return list(RecordingLevel).index(self) - 1

    def records(self, level: RecordingLevel) -> bool:
        """Whether a metric of ``level`` is measured at this one."""
        return level.number <= self.number


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsSettings:
    """What is measured, and where it is pushed to.

    Attributes:
        level: from which level metrics are measured (``metrics.recording.level``).
        samples: how many windows an average covers (``metrics.num.samples``).
        window_ms: how long each is (``metrics.sample.window.ms``).
        otlp_endpoint: base address of a receiver of OTLP over HTTP; empty: nothing is pushed.
        otlp_interval_ms: how often.
    """

    level: RecordingLevel = RecordingLevel.INFO
    samples: int = 2
    window_ms: int = 30_000
    otlp_endpoint: str = ""
    otlp_interval_ms: int = 10_000

    @classmethod
    def parse(cls, given: Mapping[str, tuple[str, object]]) -> MetricsSettings:
        """Check options.

        Args:
            given: by the names that ``metrics_setting`` returns, the name as written and the value.

        Raises:
            ConfigError: a value is not allowed.
        """
        options: dict[str, Any] = {}
        for option, (name, value) in given.items():
            field, parse = _OPTIONS[option]
            options[field] = parse(name, value)
        return cls(**options)


def _level(name: str, value: object) -> RecordingLevel:
    text = str(value).strip().lower()
    try:
        return RecordingLevel(text)
    except ValueError:
        levels = [level.upper() for level in RecordingLevel]
        near = difflib.get_close_matches(text.upper(), levels, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise ConfigError(
            f"{name}: {value!r} is not allowed; expected {', '.join(levels)}{hint}"
        ) from None


def _at_least(minimum: int) -> Callable[[str, object], int]:
    def parse(name: str, value: object) -> int:
        try:
            number = int(str(value))
        except ValueError:
            number = minimum - 1
        if isinstance(value, bool) or number < minimum:
            raise ConfigError(
                f"{name}: {value!r} is not allowed; expected a whole number, at least {minimum}"
            )
        return number

    return parse


def _endpoint(name: str, value: object) -> str:
    text = str(value).strip().rstrip("/")
    try:
        parts = urlsplit(text)
        is_address = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_address = False
    if not is_address:
        raise ConfigError(
            f"{name}: {value!r} is not allowed; expected the address of a receiver of OTLP over "
            "HTTP, such as http://collector:4318"
        )
    return text


_OPTIONS: Final[Mapping[str, tuple[str, Callable[[str, object], Any]]]] = {
    "metrics.recording.level": ("level", _level),
    "metrics.num.samples": ("samples", _at_least(1)),
    "metrics.sample.window.ms": ("window_ms", _at_least(1)),
    "metrics.otlp.endpoint": ("otlp_endpoint", _endpoint),
    "metrics.otlp.interval.ms": ("otlp_interval_ms", _at_least(100)),
}
METRICS_OPTIONS: Final = frozenset(_OPTIONS)
"""Their names."""


def metrics_setting(name: str) -> str | None:
    """Return the dotted name of an option of metrics, whichever way it is spelt; else ``None``."""
    dotted = name.strip().replace("_", ".").replace("-", ".")
    return dotted if dotted in _OPTIONS else None
