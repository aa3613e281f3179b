"""The StreamApp's ``spec.logging``: what the processes of an application log, and how it looks."""

from __future__ import annotations

from dataclasses import dataclass, field

from headwater.logsettings import DEFAULT_FORMAT, LEVELS
from headwater.model.fields import Change, meta

_LEVEL = f"({'|'.join(LEVELS)})"
_OF_A_LOGGER = rf"[A-Za-z0-9_.-]+={_LEVEL}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggingSpec:
    """What workers, their StreamThreads and StateUpdaters log; an application may set up its own.

    Attributes:
        level: of the root logger, and of others by name: INFO,my.module=DEBUG. It holds for an
            application that sets up its logging by itself, too. Left out: INFO. Processes take a
            change over while they run; on Spark the driver is replaced.
        format: of a line, for an application that sets up no handler by itself: as Python's
            logging writes it, or json. Left out: time, level, process and message.
    """

    level: str | None = field(
        default=None,
        metadata=meta(
            pattern=f"({_LEVEL}|{_OF_A_LOGGER})(,{_OF_A_LOGGER})*",
            meaning="a level, and others by logger, such as INFO,my.module=DEBUG",
            max_length=1_000,
            change=Change.LIVE,
        ),
    )
    format: str | None = field(
        default=None,
        metadata=meta(
            pattern=r"json|.*%\(message\).*",
            meaning=f"json, or a format of Python's logging, such as {DEFAULT_FORMAT}",
            max_length=1_000,
        ),
    )
