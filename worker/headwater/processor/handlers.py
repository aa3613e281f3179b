"""Who decides about a record that cannot be handled: three handlers.

    deserialization   key or value cannot be decoded                 KIP-161
    processing        user code in a node raised                     KIP-1033
    production        a result cannot be encoded or delivered        KIP-210, KIP-399

Each answers FAIL, CONTINUE or RETRY. A handler is a plain function, or for production an object
with two methods. An answer may carry dead-letter records (KIP-1034); they are sent with the task's
other output, inside its transaction.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from headwater.errors import ConfigError
from headwater.model.callables import objection
from headwater.processor.resolving import resolve
from headwater.wire.dead_letter import DeadLetterRecord, error_headers

if TYPE_CHECKING:
    from headwater.config import StreamsConfig
    from headwater.ids import TaskId
    from headwater.model.processor_api import Record
    from headwater.ports import Headers


class Result(StrEnum):
    """What becomes of the record."""

    FAIL = "fail"
    """Stop the StreamThread with an error."""
    CONTINUE = "continue"
    """Drop the record, count it, go on (Java's RESUME)."""
    RETRY = "retry"
    """Send again; only for errors of delivery that may pass."""


@dataclass(frozen=True, slots=True)
class Response:
    """A handler's answer."""

    result: Result
    dead_letters: tuple[DeadLetterRecord, ...] = ()


FAIL = Response(Result.FAIL)
CONTINUE = Response(Result.CONTINUE)
RETRY = Response(Result.RETRY)


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorHandlerContext:
    """Where an error happened (Kafka's ``ErrorHandlerContext``).

    Inside a punctuation and at a flush there is no record: topic ``None``, partition and offset -1.
    """

    task_id: TaskId
    node: str | None
    """Name of the processor node; ``None`` while decoding."""
    topic: str | None
    partition: int
    offset: int
    timestamp: int
    headers: Headers
    source_key: bytes | None
    """The key as it was read from ``topic``."""
    source_value: bytes | None


class RawInput(NamedTuple):
    """An input record in bytes, as a deserialization handler sees it."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers


class FailedOutput(NamedTuple):
    """An output record that was not sent: values while encoding, bytes at delivery."""

    topic: str
    partition: int | None
    key: Any
    value: Any
    timestamp: int
    headers: Headers


class FailedChange(FailedOutput):
    """An output record whose value is a change of a table, ``(new, old)``: below a group_by."""


class Origin(StrEnum):
    """Which half of an output record could not be encoded."""

    KEY = "key"
    VALUE = "value"


class DeserializationExceptionHandler(Protocol):
    """Decides about a record whose key or value cannot be decoded."""

    def __call__(
        self, context: ErrorHandlerContext, record: RawInput, exception: Exception
    ) -> Response:
        """Answer FAIL or CONTINUE."""
        ...


class ProcessingExceptionHandler(Protocol):
    """Decides about a record whose processing raised in user code."""

    def __call__(
        self, context: ErrorHandlerContext, record: Record[Any, Any] | None, exception: Exception
    ) -> Response:
        """Answer FAIL or CONTINUE; ``record`` is ``None`` when a punctuation raised."""
        ...


@runtime_checkable
class ProductionExceptionHandler(Protocol):
    """Decides about results that cannot be encoded or delivered."""

    def on_delivery(
        self,
        context: ErrorHandlerContext,
        record: FailedOutput,
        exception: Exception,
        *,
        retriable: bool,
    ) -> Response:
        """Answer FAIL, CONTINUE or, if ``retriable``, RETRY."""
        ...

    def on_serialization(
        self,
        context: ErrorHandlerContext,
        record: FailedOutput,
        exception: Exception,
        origin: Origin,
    ) -> Response:
        """Answer FAIL or CONTINUE; RETRY counts as FAIL."""
        ...


def dead_letters(
    topic: str | None, context: ErrorHandlerContext, exception: Exception
) -> tuple[DeadLetterRecord, ...]:
    """Build what the built-in handlers send: the source record as it was read, with error headers.

    Args:
        topic: ``errors.dead.letter.queue.topic.name``; ``None`` gives nothing.
        context: names the source record.
        exception: what happened.
    """
    if topic is None:
        return ()
    headers = error_headers(
        exception,
        topic=context.topic,
        partition=context.partition,
        offset=context.offset,
        original=context.headers,
    )
    # Of a record that could not be read the time is not known; 0 is the time of sending.
    timestamp = max(context.timestamp, 0)
    record = DeadLetterRecord(topic, context.source_key, context.source_value, timestamp, headers)
    return (record,)


@dataclass(frozen=True, slots=True)
class LogAnd:
    """The built-in handlers ``log-and-fail`` and ``log-and-continue``.

    The task writes the log line, for these and for user handlers alike.
    """

    result: Result
    dead_letter_topic: str | None

    def __call__(self, context: ErrorHandlerContext, record: Any, exception: Exception) -> Response:
        """Answer always the same, with a dead-letter record if a topic is configured."""
        del record
        return Response(self.result, dead_letters(self.dead_letter_topic, context, exception))


@dataclass(frozen=True, slots=True)
class DefaultProductionHandler:
    """FAIL, but RETRY what may pass (Kafka's ``DefaultProductionExceptionHandler``)."""

    dead_letter_topic: str | None

    def on_delivery(
        self,
        context: ErrorHandlerContext,
        record: FailedOutput,
        exception: Exception,
        *,
        retriable: bool,
    ) -> Response:
        """Retry if that may help, else fail."""
        del record
        if retriable:
            return RETRY
        return Response(Result.FAIL, dead_letters(self.dead_letter_topic, context, exception))

    def on_serialization(
        self,
        context: ErrorHandlerContext,
        record: FailedOutput,
        exception: Exception,
        origin: Origin,
    ) -> Response:
        """Fail."""
        del record, origin
        return Response(Result.FAIL, dead_letters(self.dead_letter_topic, context, exception))


@dataclass(frozen=True, slots=True, kw_only=True)
class Handlers:
    """The three handlers of an application, resolved from its configuration."""

    deserialization: DeserializationExceptionHandler
    processing: ProcessingExceptionHandler
    production: ProductionExceptionHandler

    @classmethod
    def of(cls, config: StreamsConfig) -> Handlers:
        """Resolve the configured handlers; an imported class is called without arguments.

        Raises:
            ConfigError: a handler cannot be imported or does not have the right shape.
        """
        letters = config.errors_dead_letter_queue_topic_name
        log_and = {
            "log-and-fail": LogAnd(Result.FAIL, letters),
            "log-and-continue": LogAnd(Result.CONTINUE, letters),
        }
        production = _instance(
            "production_exception_handler",
            config.production_exception_handler,
            {"default": DefaultProductionHandler(letters)},
        )
        if not isinstance(production, ProductionExceptionHandler):
            raise ConfigError(
                f"production.exception.handler: {production!r} must have the methods "
                "on_delivery and on_serialization"
            )
        for method in (production.on_delivery, production.on_serialization):
            if reason := objection(method):
                raise ConfigError(f"production.exception.handler: {reason}")
        return cls(
            deserialization=_function(
                "deserialization_exception_handler",
                config.deserialization_exception_handler,
                log_and,
            ),
            processing=_function(
                "processing_exception_handler", config.processing_exception_handler, log_and
            ),
            production=production,
        )


def _instance(option: str, reference: object, built_in: dict[str, Any]) -> Any:
    if isinstance(reference, str) and reference in built_in:
        return built_in[reference]
    handler = resolve(option, reference)
    return handler() if isinstance(handler, type) else handler


def _function(option: str, reference: object, built_in: dict[str, Any]) -> Any:
    handler = _instance(option, reference, built_in)
    if reason := objection(handler):
        raise ConfigError(f"{option}: {reason}; a handler takes (context, record, exception)")
    return handler
