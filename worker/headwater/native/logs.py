"""Sets up logging in the processes of an application, unless the application does so itself.

The topology's module is imported first. If it has given the root logger a handler (``basicConfig``,
``dictConfig``), that stays as it is.
"""

from __future__ import annotations

import contextlib
import logging
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from headwater.jsonlog import JSON, JsonFormatter, formatter_of
from headwater.logsettings import LogSettings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from headwater.config import StreamsConfig

_OURS: Final = "headwater"


def settle(settings: LogSettings) -> None:
    """Set logging up after the topology was imported."""
    root = logging.getLogger()
    has_own = bool(root.handlers)
    if not has_own:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(_formatter(settings))
        logging.basicConfig(handlers=[handler])
        set_levels(settings.levels)
    give_levels(settings.given)


@contextlib.contextmanager
def ours_kept() -> Iterator[None]:
    """Keep our loggers as they are: ``dictConfig`` turns off what it does not name."""
    ours = [logger for name, logger in _loggers() if name.partition(".")[0] == _OURS]
    before = [logger.disabled for logger in ours]
    try:
        yield
    finally:
        for logger, disabled in zip(ours, before, strict=True):
            logger.disabled = disabled


def reset(settings: LogSettings) -> None:
    """Change what a program of ours logs, once it knows its configuration."""
    for handler in logging.getLogger().handlers:
        handler.setFormatter(_formatter(settings))
    set_levels(settings.levels)
    give_levels(settings.given)


_before_given: dict[str, int] = {}
"""Levels that loggers had before the configuration named others."""


def give_levels(levels: Mapping[str, str]) -> None:
    """Set the levels that the configuration names; loggers it names no more go back to theirs."""
    set_levels(_before_given)
    _before_given.clear()
    _before_given.update({name: logging.getLogger(name).level for name in levels})
    set_levels(levels)


def set_levels(levels: Mapping[str, str | int] | Mapping[str, str]) -> None:
    """Set the level of each logger."""
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)


def chosen(config: StreamsConfig, otherwise: LogSettings) -> LogSettings:
    """Return what the configuration says, and for what it does not say, what holds otherwise."""
    settings = otherwise
    if config.logging_level:
        settings = replace(settings, given=config.logging_level)
    if config.logging_format:
        settings = replace(settings, format=config.logging_format, date_format=None, style="%")
    return settings


def of_this_program() -> LogSettings:
    """Return how this program logs, as far as its other processes can do the same.

    Levels of all loggers, and the format of the root logger's first handler. Handlers stay here: a
    file cannot be written by several processes. So do filters, and with them a format whose fields
    they add.
    """
    root = logging.getLogger()
    if not root.handlers:
        return LogSettings()
    # Numbers: only this program may know names that it has added.
    levels: dict[str, str | int] = {"": root.level or logging.DEBUG}
    levels |= {name: logger.level for name, logger in _loggers() if logger.level}
    settings = LogSettings(levels=levels)
    formatter = root.handlers[0].formatter
    if isinstance(formatter, JsonFormatter):
        return replace(settings, format=JSON)
    if type(formatter) is not logging.Formatter:
        return settings
    # A Formatter does not tell otherwise how it was made.
    made, kinds = vars(formatter), vars(logging)["_STYLES"]
    style = next(sign for sign, (kind, _) in kinds.items() if type(made["_style"]) is kind)
    found = replace(settings, format=made["_fmt"], date_format=formatter.datefmt, style=style)
    return found if _is_complete(found) else settings


def _formatter(settings: LogSettings) -> logging.Formatter:
    return formatter_of(settings.format, settings.date_format, settings.style)


def _loggers() -> list[tuple[str, logging.Logger]]:
    # A copy: another thread may make a logger meanwhile.
    known = list(logging.Logger.manager.loggerDict.items())
    return [(name, logger) for name, logger in known if isinstance(logger, logging.Logger)]


def _is_complete(settings: LogSettings) -> bool:
    """Whether every field of the format is one that each record has."""
    try:
        formatter = logging.Formatter(settings.format, settings.date_format, settings.style)
        formatter.format(logging.makeLogRecord({}))
    except (ValueError, TypeError):
        return False
    return True
