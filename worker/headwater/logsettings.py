"""What processes log, and how it looks: ``logging.level`` and ``logging.format``, checked.

Kafka Streams leaves this to Log4j's own file. Levels and formats are those of Python's ``logging``.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal

from headwater.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

LEVELS: Final = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
DEFAULT_FORMAT: Final = "%(asctime)s %(levelname)-7s %(processName)s %(message)s"
_LOGGER: Final = re.compile(r"[\w.-]+")
_FIELDS: Final = MappingProxyType(
    {
        **dict.fromkeys(
            (
                *("name", "levelname", "pathname", "filename", "module", "funcName", "asctime"),
                *("threadName", "taskName", "processName", "message"),
            ),
            "",
        ),
        **dict.fromkeys(("levelno", "lineno", "created", "msecs", "relativeCreated"), 0),
        **dict.fromkeys(("thread", "process"), 0),
    }
)
"""What a format may name, with a value that tells texts from numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings:
    """What a process of an application logs.

    Attributes:
        levels: by logger, for an application that does not set up its logging by itself; the root
            logger's under the empty name. One that a program has made itself is a number.
        given: levels that the configuration names: they hold for every application.
        format: of a line, with ``%(name)s`` and the like, or ``json``; for an application without
            a set-up.
        date_format: of ``%(asctime)s``; ``None`` is Python's own.
        style: how ``format`` names its fields, as ``logging.Formatter`` has it.
    """

    levels: Mapping[str, str | int] = field(default_factory=lambda: {"": "WARNING"})
    given: Mapping[str, str] = field(default_factory=dict)
    format: str = DEFAULT_FORMAT
    date_format: str | None = None
    style: Literal["%", "{", "$"] = "%"


def parse_levels(name: str, value: object) -> Mapping[str, str]:
    """Read ``WARNING,my.module=DEBUG``: of the root logger, then of others; either may be missing.

    Raises:
        ConfigError: it names no level, or one twice.
    """
    levels: dict[str, str] = {}
    for part in str(value).split(","):
        logger, _, level = part.rpartition("=")
        logger, level = logger.strip(), level.strip().upper()
        is_named = "=" not in part or _LOGGER.fullmatch(logger)
        if level not in LEVELS or not is_named or logger in levels:
            near = difflib.get_close_matches(level, LEVELS, n=1)
            hint = f"; did you mean {near[0]}?" if near and level not in LEVELS else ""
            raise ConfigError(
                f"{name}: {value!r} is not allowed; expected a level ({', '.join(LEVELS)}), and "
                f"others by logger: WARNING,my.module=DEBUG{hint}"
            )
        levels[logger] = level
    return levels


def parse_format(name: str, value: object) -> str:
    """Check the format of a line: ``json``, or fields that ``logging`` knows.

    Raises:
        ConfigError: it cannot be used, or leaves the message out.
    """
    text = str(value)
    if text.strip().lower() == "json":
        return "json"
    try:
        text % _FIELDS
        if "%(message)" in text:
            return text
        problem = "%(message)s is missing"
    except KeyError as error:
        problem = f"there is no field {error.args[0]!r}"
    except (TypeError, ValueError) as error:
        problem = str(error)
    raise ConfigError(
        f"{name}: {text!r} is not allowed: {problem}; write it as for Python's logging, for "
        f"example {DEFAULT_FORMAT!r}, or json"
    )
