"""Asks the application's handler what becomes of it when a StreamThread has ended with an error.

The handler runs in the worker's main process; for ``KafkaStreams`` that is the user's program. The
exception comes from the StreamThread's process: its class and message, and as its cause what user
code has raised, if that can be pickled.
"""

from __future__ import annotations

import logging
import pickle
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from headwater import errors
from headwater.errors import ConfigError, HeadwaterError
from headwater.model.callables import objection
from headwater.model.uncaught import StreamThreadExceptionResponse
from headwater.native.messages import Failed
from headwater.processor.resolving import resolve
from headwater.service.decide.failing import is_for_handler
from headwater.service.decide.observations import GlobalThreadSaid, ThreadSaid, UpdaterSaid

if TYPE_CHECKING:
    from headwater.config import StreamsConfig
    from headwater.model.uncaught import StreamsUncaughtExceptionHandler
    from headwater.service.decide.observations import Observation
    from headwater.service.decide.values import Table

log = logging.getLogger(__name__)

_OPTION = "uncaught.exception.handler"


class UncaughtHandler:
    """The handler of one application.

    Args:
        handler: a function of the exception, an object with a method ``handle``, or a class of
            such, which is called without arguments; ``None``: nobody is asked.

    Raises:
        ConfigError: it is none of these.
    """

    def __init__(self, handler: object | None) -> None:
        self._handle = None if handler is None else _callable(handler)

    @classmethod
    def of(cls, config: StreamsConfig) -> UncaughtHandler:
        """Return the handler that the configuration names.

        Raises:
            ConfigError: it cannot be imported, or cannot be called.
        """
        reference = config.uncaught_exception_handler
        if reference == StreamThreadExceptionResponse.SHUTDOWN_CLIENT:
            return cls(None)  # the default
        if isinstance(reference, str) and reference in list(StreamThreadExceptionResponse):
            answer = StreamThreadExceptionResponse(reference)
            return cls(lambda _: answer)
        return cls(resolve("uncaught_exception_handler", reference))

    def asked(self, table: Table, observation: Observation, now_ms: int) -> Observation:
        """Return an observation with the handler's answer, if it is one to decide about.

        A handler that raises, or gives no answer, counts as one that says SHUTDOWN_CLIENT.
        """
        if self._handle is None or not is_for_handler(table, observation, now_ms):
            return observation
        assert isinstance(observation, ThreadSaid | UpdaterSaid | GlobalThreadSaid)
        assert isinstance(observation.message, Failed)
        answer = self._ask(self._handle, exception_of(observation.message))
        return replace(observation, response=answer)

    @staticmethod
    def _ask(
        handle: StreamsUncaughtExceptionHandler, error: HeadwaterError
    ) -> StreamThreadExceptionResponse:
        try:
            answer: Any = handle(error)
        except Exception:
            log.exception("the uncaught exception handler raised; shutting down the client")
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT
        if not isinstance(answer, StreamThreadExceptionResponse):
            log.error(
                "the uncaught exception handler returned %r instead of a "
                "StreamThreadExceptionResponse; shutting down the client",
                answer,
            )
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT
        log.warning("the uncaught exception handler says %s to: %s", answer.name, error)
        return answer


def error_named(name: str, message: str) -> HeadwaterError:
    """Return an exception of ``headwater.errors`` by its name, else one that tells the name."""
    kind = getattr(errors, name, None)
    if isinstance(kind, type) and issubclass(kind, HeadwaterError):
        return kind(message)
    return HeadwaterError(f"{name}: {message}")


def exception_of(failure: Failed) -> HeadwaterError:
    """Return the exception that has ended a child, with its cause if that came along."""
    error = error_named(failure.error, failure.message)
    if failure.cause:
        try:
            error.__cause__ = pickle.loads(failure.cause)  # noqa: S301 - from our child
        except Exception:  # noqa: BLE001 - a class may refuse in any way
            log.debug("the cause of %s cannot be had here", failure.error)
    return error


def _callable(handler: object) -> StreamsUncaughtExceptionHandler:
    made: Any = handler() if isinstance(handler, type) else handler
    function: StreamsUncaughtExceptionHandler = getattr(made, "handle", made)
    if reason := objection(function):
        raise ConfigError(f"{_OPTION}: {reason}; a handler takes (exception)")
    return function
