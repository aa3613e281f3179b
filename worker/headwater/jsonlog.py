"""Log lines as JSON, one object each: ``--log-format json``, ``logging.format=json``.

    {"time": "2026-11-26T17:02:03.123Z", "level": "WARNING", "logger": "shop.orders",
     "message": "no price", "worker": "orders-w-0", "thread": "orders-w-0-StreamThread-1",
     "task": "1_3"}

What ``extra=`` gives a line becomes fields of it.
"""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Any, Final

from headwater.attribution import TASK

JSON: Final = "json"
"""As a format: lines are JSON."""
_OF_EVERY_RECORD: Final = frozenset(
    {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"}
)
_KINDS: Final = ("-StreamThread-", "-StateUpdater-", "-GlobalStreamThread")
_MAIN: Final = "MainProcess"


class JsonFormatter(logging.Formatter):
    """Writes a record as one line of JSON.

    ``worker`` and ``thread`` come from the name of the process, ``task`` from ``attribution``.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        at = datetime.fromtimestamp(record.created, UTC)
        fields: dict[str, Any] = {
            "time": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **_place(record.processName),
        }
        task = TASK.get()
        if task is not None:
            fields["task"] = str(task)
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        if record.stack_info:
            fields["stack"] = self.formatStack(record.stack_info)
        for name, value in vars(record).items():
            if name not in _OF_EVERY_RECORD:
                fields.setdefault(name, value)
        return json.dumps(fields, default=str, ensure_ascii=False)


def _place(process: str | None) -> dict[str, str]:
    if not process or process == _MAIN:
        return {}
    for kind in _KINDS:
        worker, found, _ = process.partition(kind)
        if found:
            return {"worker": worker, "thread": process}
    return {"worker": process}


def formatter_of(
    format_: str, date_format: str | None = None, style: Any = "%"
) -> logging.Formatter:
    """Return what writes lines of a format, which may be ``json``.

    Args:
        format_: as Python's ``logging`` has it, or ``json``.
        date_format: of the time, unless it is JSON.
        style: how the format names its fields.
    """
    return JsonFormatter() if format_ == JSON else logging.Formatter(format_, date_format, style)


def log_to(stream: Any, level: str, format_: str) -> None:
    """Let the root logger write to a stream.

    Args:
        stream: such as ``sys.stderr``.
        level: of the root logger.
        format_: as of ``formatter_of``.
    """
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter_of(format_))
    logging.basicConfig(level=level, handlers=[handler])
