"""Options that name an object: what they may hold. ``processor.resolving`` finds the object."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from headwater.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Reference: TypeAlias = Any
"""A built-in name, ``"module:attribute"``, or the object itself; resolved where it is used."""

REPLACE_THREAD: Final = "replace-thread"
SHUTDOWN_CLIENT: Final = "shutdown-client"
SHUTDOWN_APPLICATION: Final = "shutdown-application"


def refuse(name: str, value: object, expected: str) -> ConfigError:
    """Return the error about a value that is not allowed."""
    return ConfigError(f"{name}: {value!r} is not allowed; expected {expected}")


def _named(
    *built_in: str, java: Mapping[str, str] | None = None
) -> Callable[[str, object], Reference]:
    """Accept a built-in name, Kafka's class name for it, ``module:attribute`` or an object."""
    java = java or {}

    def parse(name: str, value: object) -> Reference:
        if not isinstance(value, str):
            return value
        text = value.strip()
        by_class = java.get(text.replace("$", ".").rpartition(".")[2])
        if by_class is not None:
            return by_class
        module, _, attribute = text.partition(":")
        if text in built_in or (module and attribute):
            return text
        near = difflib.get_close_matches(text, built_in, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise refuse(name, value, f'one of {", ".join(built_in)}, or "module:attribute"{hint}')

    return parse


SERDE_NAMES: Final = (
    "bytes", "string", "short", "integer", "long", "float", "double", "boolean", "uuid", "void",
    "json",
)  # fmt: skip
"""The built-in serdes that need no argument, by their names in ``headwater.serde.Serdes``."""
COMPOSED_SERDE_NAMES: Final = ("list", "time_windowed", "session_windowed")
"""Those that as default serdes are made of what further options say."""

_SERDE_CLASSES: Final = {
    "StringSerde": "string",
    "ShortSerde": "short",
    "IntegerSerde": "integer",
    "LongSerde": "long",
    "FloatSerde": "float",
    "DoubleSerde": "double",
    "BooleanSerde": "boolean",
    "UUIDSerde": "uuid",
    "VoidSerde": "void",
    "ByteArraySerde": "bytes",
    "BytesSerde": "bytes",
    "ByteBufferSerde": "bytes",
    "ListSerde": "list",
    "TimeWindowedSerde": "time_windowed",
    "SessionWindowedSerde": "session_windowed",
}
_LOG_AND = ("log-and-fail", "log-and-continue")
_EXTRACTORS: Final = {
    "FailOnInvalidTimestamp": "fail-on-invalid",
    "LogAndSkipOnInvalidTimestamp": "log-and-skip-on-invalid",
    "UsePartitionTimeOnInvalidTimestamp": "use-partition-time-on-invalid",
    "WallclockTimestampExtractor": "wallclock",
}

serde_reference = _named(*SERDE_NAMES, *COMPOSED_SERDE_NAMES, java=_SERDE_CLASSES)
extractor = _named(*_EXTRACTORS.values(), java=_EXTRACTORS)
deserialization_handler = _named(
    *_LOG_AND,
    java={
        "LogAndFailExceptionHandler": "log-and-fail",
        "LogAndContinueExceptionHandler": "log-and-continue",
    },
)
processing_handler = _named(
    *_LOG_AND,
    java={
        "LogAndFailProcessingExceptionHandler": "log-and-fail",
        "LogAndContinueProcessingExceptionHandler": "log-and-continue",
    },
)


def import_path(name: str, value: object) -> Reference:
    """Accept a class, or its import path."""
    module, _, attribute = value.partition(":") if isinstance(value, str) else (value, "", value)
    if value is None or not (module and attribute):
        raise refuse(name, value, 'a Python class, or "module:Class"')
    return value


production_handler = _named("default", java={"DefaultProductionExceptionHandler": "default"})
uncaught_handler = _named(REPLACE_THREAD, SHUTDOWN_CLIENT, SHUTDOWN_APPLICATION)
