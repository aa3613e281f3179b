"""When a record cannot be handled: ask the handler, send dead letters, then drop it or stop."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from headwater.errors import (
    DeserializationError,
    HeadwaterError,
    ProcessingError,
    ProductionError,
    SerializationError,
)
from headwater.model.processor_api import Record
from headwater.processor.handlers import (
    ErrorHandlerContext,
    FailedChange,
    FailedOutput,
    Origin,
    RawInput,
    Response,
    Result,
)

if TYPE_CHECKING:
    from headwater.ids import TaskId
    from headwater.ports import Headers, OnRefused, RawRecord, RecordCollector, Send
    from headwater.processor.environment import Counters, Current, Warn
    from headwater.processor.handlers import Handlers

_OF_STRUCT: Final = "required argument is not"
"""How ``struct`` begins to say that a value has another type, not another size, than it packs."""

_NO_RECORD: Final = object()
_KEY_CHARACTERS_MAX: Final = 100

Fail: TypeAlias = Callable[[Exception, Any, Any, int, "Headers"], None]
"""``fail(exception, key, value, timestamp, headers)``: returns when the record is to be dropped."""


class OfNode:
    """What a node calls when its user function raised; it also says whose that function is.

    Attributes:
        node: the node's name.
    """

    __slots__ = ("_failures", "node")

    def __init__(self, failures: Failures, node: str) -> None:
        self._failures = failures
        self.node = node

    def __call__(
        self, exception: Exception, key: Any, value: Any, timestamp: int, headers: Headers
    ) -> None:
        """See ``Failures.of_node``."""
        record = Record(key, value, timestamp, headers)
        self._failures.processing_failed(self.node, exception, record)


class Failures:
    """Carries out what the handlers of one task answer.

    Args:
        task_id: whose.
        handlers: asked.
        collector: sends dead letters.
        current: the record under way.
        counters: count what is dropped, and dead letters.
        warn: told one sentence per record that is dropped.
        whose: what messages begin with; the task if not given.
        way_out: what to do so that records are dropped whose processing raises.
    """

    def __init__(
        self,
        *,
        task_id: TaskId,
        handlers: Handlers,
        collector: RecordCollector,
        current: Current,
        counters: Counters,
        warn: Warn,
        whose: str = "",
        way_out: str = "set processing.exception.handler to log-and-continue",
    ) -> None:
        self.whose = whose or f"task {task_id}"
        """What messages begin with."""
        self._way_out = way_out
        self._task_id = task_id
        self._handlers = handlers
        self._collector = collector
        self._senders: dict[str, Send] = {}
        self._current = current
        self._counters = counters
        self._warn = warn
        self._decided: SerializationError | None = None
        """Raised by a handler's decision, so not to be decided about again."""

    def of_node(self, node: str) -> Fail:
        """Return what a node calls when its user function raised.

        It returns when the handler says CONTINUE.

        Raises (the function, not this method):
            ProcessingError: the handler says FAIL, naming task, node, topic, partition, offset
                and key.
        """
        return OfNode(self, node)

    def punctuation_failed(self, node: str, exception: Exception) -> None:
        """Handle an error of a punctuator, as ``of_node`` does, without a record."""
        self.processing_failed(node, exception, None)

    def processing_failed(
        self, node: str, exception: Exception, record: Record[Any, Any] | None
    ) -> None:
        """Ask the processing handler about an exception of a node; return to drop the record."""
        is_undecided = isinstance(exception, SerializationError) and exception is not self._decided
        if isinstance(exception, HeadwaterError) and not is_undecided:
            raise exception  # a node below has had its say, or the task itself cannot go on
        headers = None if record is None else record.headers
        time = self._current.timestamp if record is None else record.timestamp
        context = self._context(node, time, headers)
        response = self._ask(
            "processing", lambda: self._handlers.processing(context, record, exception)
        )
        place = self._place(node) if record is None else self._place(node, record.key)
        if response.result is Result.CONTINUE:
            self._drop(f"{place}: the processing handler drops the record: {_described(exception)}")
            return
        raise ProcessingError(
            f"{place}: {_described(exception)}. To drop such records and go on, {self._way_out}"
        ) from exception

    def undecodable(self, record: RawRecord, half: str, exception: Exception) -> None:
        """Handle a key or value (``half``) that cannot be decoded; return when it is to be dropped.

        Raises:
            DeserializationError: the handler says FAIL.
        """
        offset, timestamp, key, value, headers = record
        current = self._current
        context = self._context(None, timestamp, headers)
        raw = RawInput(*current.source, offset, timestamp, key, value, headers)
        response = self._ask(
            "deserialization", lambda: self._handlers.deserialization(context, raw, exception)
        )
        if response.result is Result.CONTINUE:
            self._drop(f"{self._undecoded()}: the {half} cannot be decoded: {exception!r}")
            return
        place = f"{self.whose}: {current.source} offset {offset}"
        raise DeserializationError(
            f"{place}: the {half} cannot be decoded: {type(exception).__name__}: {exception}. "
            "Check the source's serde; to drop such records and go on, set "
            "deserialization.exception.handler to log-and-continue"
        ) from exception

    def unreadable(self, record: RawRecord, reason: str) -> None:
        """Handle a record that the client could not read; return when it is to be dropped.

        Args:
            record: without key and value.
            reason: why, with the next step.

        Raises:
            DeserializationError: the handler says FAIL.
        """
        exception = DeserializationError(reason)
        context = self._context(None, record[1], None)
        raw = RawInput(*self._current.source, record[0], record[1], None, None, None)
        response = self._ask(
            "deserialization", lambda: self._handlers.deserialization(context, raw, exception)
        )
        if response.result is not Result.CONTINUE:
            raise DeserializationError(
                f"{self.whose}: {self._current.source} offset {record[0]}: {reason}. To drop such "
                "records and go on, set deserialization.exception.handler to log-and-continue"
            )
        self._drop(f"{self._undecoded()}: {reason}")

    def unencodable(
        self, node: str, origin: Origin, output: FailedOutput, exception: Exception
    ) -> None:
        """Handle a result of a sink that cannot be encoded; return when it is to be dropped.

        A value of a type that the serde does not take is an error of the program: as in Kafka
        Streams the processing handler decides, about anything else the production handler.

        Raises:
            SerializationError: the handler says FAIL, or RETRY, which cannot help here.
        """
        context = self._context(node, output.timestamp, output.headers)
        handlers, is_of_wrong_type = self._handlers, has_wrong_type(exception)
        if is_of_wrong_type:
            record = Record(output.key, output.value, output.timestamp, output.headers)
            response = self._ask(
                "processing", lambda: handlers.processing(context, record, exception)
            )
            way_out = "set processing.exception.handler to log-and-continue"
        else:
            response = self._ask(
                "production",
                lambda: handlers.production.on_serialization(context, output, exception, origin),
            )
            way_out = "set a production.exception.handler that drops such records"
        place = f"{self._place(node, output.key)}: the {origin} for topic {output.topic}"
        if response.result is Result.CONTINUE:
            self._drop(f"{place} cannot be encoded, record dropped: {exception!r}")
            return
        self._decided = SerializationError(
            f"{place} cannot be encoded: {type(exception).__name__}: {exception}; it is "
            f"{_type_of(output, origin)}. Check {_serdes_of(output.topic)}, or {way_out}"
        )
        raise self._decided from exception

    def of_delivery(self, node: str, topic: str) -> OnRefused:
        """Return what is called for each output of a sink that was refused (KIP-210).

        It returns when the handler says CONTINUE. The handler is never offered RETRY: the client
        has tried as long as it may, or the record can never be taken.

        Raises (the function, not this method):
            ProductionError: the handler says FAIL, naming task, node, topic, partition and offset;
                of the class that it was given.
        """

        def refused(
            error: ProductionError,
            key: bytes | None,
            value: bytes | None,
            timestamp: int,
            headers: Headers,
            partition: int | None,
        ) -> None:
            context = self._context(node, timestamp, headers)
            output = FailedOutput(topic, partition, key, value, timestamp, headers)
            production = self._handlers.production
            response = self._ask(
                "production",
                lambda: production.on_delivery(context, output, error, retriable=False),
            )
            place = self._place(node, key)
            if response.result is Result.CONTINUE:
                self._drop(f"{place}: the production handler drops the output: {error}")
                return
            raise type(error)(f"{place}: {error}") from error

        return refused

    def _ask(self, kind: str, handler: Callable[[], Response]) -> Response:
        try:
            response = handler()
        except HeadwaterError:
            raise
        except Exception as error:
            raise ProcessingError(
                f"{self.whose}: the {kind} exception handler itself raised "
                f"{type(error).__name__}: {error}"
            ) from error
        if not isinstance(response, Response):
            raise ProcessingError(
                f"{self.whose}: the {kind} exception handler returned {response!r}, not a Response"
            )
        for letter in response.dead_letters:
            send = self._senders.get(letter.topic)
            if send is None:
                send = self._senders[letter.topic] = self._collector.sender(letter.topic)
            send(letter.key, letter.value, letter.timestamp, letter.headers, None)
            self._counters.dead_letters += 1
        return response

    def _undecoded(self) -> str:
        """Say as Kafka Streams that the record under way is dropped."""
        said = "Skipping record due to deserialization error."
        return f"{self.whose}: {said} {self._current.read_at}"

    def _drop(self, sentence: str) -> None:
        self._counters.dropped += 1
        self._warn(sentence)

    def _context(self, node: str | None, timestamp: int, headers: Headers) -> ErrorHandlerContext:
        current = self._current
        record = current.record
        return ErrorHandlerContext(
            task_id=self._task_id,
            node=node,
            topic=current.source_topic,
            partition=current.source_partition,
            offset=current.offset,
            timestamp=timestamp,
            headers=headers,
            source_key=record[2],
            source_value=record[3],
        )

    def _place(self, node: str, key: Any = _NO_RECORD) -> str:
        current = self._current
        of = "" if key is _NO_RECORD else f", key {_shown(key)}"
        if current.offset < 0:
            return f"{self.whose}, node {node} (no input record under way){of}"
        return (
            f"{self.whose}, node {node}, topic {current.source.topic}, "
            f"partition {current.source.partition}, offset {current.offset}{of}"
        )


def _described(exception: Exception) -> str:
    """Return type, text and notes of an exception."""
    notes = "".join(f" ({note})" for note in getattr(exception, "__notes__", ()))
    return f"{type(exception).__name__}: {exception}{notes}"


def _shown(key: Any) -> str:
    """Return a key as a message names it, on one line and not too long."""
    try:
        text = repr(key)
    except Exception:
        text = f"of type {type(key).__name__}"
    return text if len(text) <= _KEY_CHARACTERS_MAX else f"{text[:_KEY_CHARACTERS_MAX]}..."


def has_wrong_type(exception: Exception) -> bool:
    """Whether a serializer raised because of the value's type (Java's ``ClassCastException``)."""
    if isinstance(exception, struct.error):
        return _OF_STRUCT in str(exception)
    return isinstance(exception, TypeError)


def _type_of(output: FailedOutput, origin: Origin) -> str:
    shown = output.key if origin is Origin.KEY else output.value
    if origin is Origin.VALUE and isinstance(output, FailedChange):
        halves = {"new": shown[0], "old": shown[1]}
        said = (f"{half}: {type(of).__name__}" for half, of in halves.items() if of is not None)
        return f"a change of a table ({', '.join(said)})"
    return f"a {type(shown).__name__}"


def _serdes_of(topic: str) -> str:
    if topic.endswith("-repartition"):
        return "the serdes of the repartition topic (Grouped, Repartitioned)"
    return "the sink's serdes (Produced)"
