"""What pyspark raises when Spark gives something up, or is gone itself; and its end in peace."""

from __future__ import annotations

import importlib
import logging
import sys
import warnings
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

_PY4J_SAYS: Final = frozenset(
    f"{what} while sending command." for what in ("Exception", "KeyboardInterrupt")
)


def troubles() -> tuple[type[Exception], ...]:
    """Return what pyspark raises: an error of Spark's, or that its JVM is gone."""
    from pyspark.errors import PySparkException  # noqa: PLC0415 - heavy

    return PySparkException, *gone()


def gone() -> tuple[type[Exception], ...]:
    """Return what a call raises whose JVM is gone; a living one may, too (:func:`is_gone`)."""
    return _protocol().Py4JError, OSError


def is_gone(error: Exception) -> bool:
    """Whether one of :func:`troubles` says that the JVM is gone, not that it failed at this."""
    return isinstance(error, gone()) and not isinstance(error, _protocol().Py4JJavaError)


def _protocol() -> Any:
    return importlib.import_module("py4j.protocol")  # comes with pyspark, and is untyped


def hush(session: SparkSession) -> None:
    """Keep pyspark from printing tracebacks when its JVM goes: whoever calls it is told."""
    logging.getLogger().addFilter(_is_not_py4j)
    # It listens to the JVM in a thread of its own.
    server: Any = session.sparkContext._accumulatorServer  # noqa: SLF001
    server.handle_error = _handle_error


def _is_not_py4j(record: logging.LogRecord) -> bool:
    return record.msg not in _PY4J_SAYS


def _handle_error(*_: object) -> None:
    if not isinstance(sys.exception(), EOFError | OSError):
        log.warning("what Spark has told was not understood: %r", sys.exception())


def end(session: SparkSession) -> None:
    """Stop Spark, if it is still there."""
    with suppress(*troubles()), warnings.catch_warnings():
        # That it is not there.
        warnings.simplefilter("ignore", RuntimeWarning)
        session.stop()
