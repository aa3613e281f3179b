"""The one producer of a StreamThread: idempotent, or transactional with the slot's id.

No record that failed goes unnoticed, at no cost for those that did not: every record has a delivery
report, but the client calls Python for failures only (docs/adr/0014).
"""

from __future__ import annotations

import contextlib
import logging
import time
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka import TopicPartition as ClientPartition

from headwater.errors import HeadwaterError, KafkaUnavailableError, MissingTopicError
from headwater.kafka.connecting import connect
from headwater.kafka.errors import (
    DENIED,
    FENCED,
    MISSING,
    NOT_ALLOWED,
    UNREACHABLE,
    ClientError,
    OutputRefusedError,
    ServingError,
    TransactionAbortedError,
    cause,
    death_of,
    error_of,
    production_error,
    translate,
)
from headwater.kafka.refused import Output, RefusedOutputs
from headwater.kafka.settings import refused_settings
from headwater.ports import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from headwater.kafka.errors import Connection
    from headwater.ports import Headers, OnRefused, PartitionOffsets, Send

log = logging.getLogger(__name__)

_NEVER_ANY_ROOM: Final = KafkaError(
    KafkaError.MSG_SIZE_TOO_LARGE, "the record is larger than producer.buffer.memory"
)
"""What an empty queue does not take, no queue will (Kafka Streams says the same)."""
_QUEUE_WAIT_S: Final = 0.05
_REASON_S: Final = 1.0
_PURGED_S: Final = 5.0
_STATE: Final = KafkaError._STATE  # noqa: SLF001 - the client's name for its own code
_ENDED: Final = frozenset({KafkaError._FATAL, KafkaError._FENCED, _STATE})  # noqa: SLF001
"""The producer is dead, or its transaction waits to be aborted; the reason came by another way."""


class StreamsProducer:
    """Where the tasks of one StreamThread send to; implements ``ports.RecordCollector``.

    Used by one thread; only ``flush``, ``commit_transaction`` and ``abort_transaction`` may run in
    another while nothing is sent.

    Args:
        settings: from ``settings.producer_settings``.
        connection: told when the broker answers.
        block_s: how long ``send`` waits for room in a full queue.

    Raises:
        ConfigError: librdkafka refuses a setting.
    """

    def __init__(
        self,
        settings: Mapping[str, Any],
        connection: Connection,
        *,
        block_s: float = 60.0,
    ) -> None:
        self.transactional_id: str | None = settings.get("transactional.id")
        try:
            self._producer = Producer(
                {
                    **settings,
                    "on_delivery": self._on_failed_delivery,
                    "error_cb": self._on_error,
                }
            )
        except ClientError as error:
            raise refused_settings("producer", error_of(error)) from cause(error)
        self._queue_max = int(settings.get("queue.buffering.max.messages", 100_000))
        self._connection = connection
        self._block_s = block_s
        self._queue_wait_s = _QUEUE_WAIT_S
        self._fatal: KafkaError | None = None
        self._problem: HeadwaterError | None = None
        self._topics: set[str] = set()
        self._counters: list[Callable[[], int]] = []
        self._produce: Callable[..., None] = self._producer.produce
        self._target: Callable[..., None] = self._produce
        self._redirects: list[Callable[[Callable[..., None]], None]] = []
        self._held: list[tuple[Any, ...]] = []
        self._is_holding = False
        self._refused = RefusedOutputs(lambda: self.flush(block_s))
        self._begun = False
        self._sent_before = 0
        self._partitions: dict[str, int] = {}

    # -- sending ---------------------------------------------------------------------------------

    def sender(self, topic: str, on_refused: OnRefused | None = None) -> Send:
        """Return the function that sends to ``topic``. See ``ports.RecordCollector``.

        The function raises ``ProductionError`` for a record that can never be sent, unless
        ``on_refused`` lets it go, and ``KafkaUnavailableError`` when the queue stays full.
        """
        produce = self._target
        sent = 0
        self._topics.add(topic)
        if on_refused is not None:
            self._refused.ask(topic, on_refused)

        def redirect(target: Callable[..., None]) -> None:
            nonlocal produce
            produce = target

        def send(
            key: bytes | None,
            value: bytes | None,
            timestamp: int,
            headers: Headers,
            partition: int | None,
        ) -> None:
            nonlocal sent
            sent += 1
            number = -1 if partition is None else partition
            try:
                # By position, which is faster: ..., callback, on_delivery, timestamp, headers.
                produce(topic, value, key, number, None, None, timestamp, headers)
            except BufferError:
                self._send_when_there_is_room(topic, key, value, timestamp, headers, partition)
            except ClientError as error:
                record = Output(topic, key, value, timestamp, headers, partition)
                self._not_taken(error_of(error), record, on_refused)

        self._counters.append(lambda: sent)
        self._redirects.append(redirect)
        return counted(send, lambda: sent)

    def hold(self) -> None:
        """Keep what is sent from now on until ``release``: it belongs to the next commit."""
        self._is_holding = True
        self._redirect(self._keep)

    def _keep(self, *record: Any) -> None:
        self._held.append(record)

    @property
    def held(self) -> int:
        """Records kept by ``hold``."""
        return len(self._held)

    def release(self) -> None:
        """Send what was held, in its order, as the first of the next transaction if there is one.

        Raises:
            HeadwaterError: as the function that ``sender`` returned.
        """
        self.begin()
        held, self._held = self._held, []
        self._is_holding = False
        produce = self._produce
        self._redirect(produce)
        for record in held:
            try:
                produce(*record)
            except BufferError:
                topic, value, key, number, _, _, timestamp, headers = record
                self._send_when_there_is_room(topic, key, value, timestamp, headers, number)
            except ClientError as error:
                # Its input is not under way any more.
                self._not_delivered(error_of(error), *record[:4])

    def _redirect(self, target: Callable[..., None]) -> None:
        """Send by ``target`` from now on, but nothing that was refused."""
        target = self._refused.guarding(target)
        self._target = target
        for redirect in self._redirects:
            redirect(target)

    def _send_when_there_is_room(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        timestamp: int,
        headers: Headers,
        partition: int | None,
    ) -> None:
        number = -1 if partition is None else partition
        produce = self._produce
        deadline = time.monotonic() + self._block_s
        while True:
            self._serve(self._queue_wait_s)
            is_empty = not len(self._producer)  # asked before: it may empty itself meanwhile
            try:
                produce(topic, value, key, number, None, None, timestamp, headers)
            except BufferError:
                if is_empty:
                    self._not_delivered(_NEVER_ANY_ROOM, topic, value, key, number)
                    return
                if time.monotonic() > deadline:
                    raise self._connection.problem(f"sending to {topic}") from None
            except ClientError as error:
                self._not_delivered(error_of(error), topic, value, key, number)
                return
            else:
                return

    def _not_taken(self, error: KafkaError, output: Output, on_refused: OnRefused | None) -> None:
        """An output that the client did not queue, or that was refused before."""
        if not self._is_holding:  # or else another thread waits for the producer
            self.check()
        topic = output.topic
        if error.fatal() or error.code() in _ENDED:
            if not self._is_holding and self.drain(_REASON_S) and self._problem is not None:
                raise self._problem  # which is why
            raise self._ended(error, f"sending to {topic}")
        failure = production_error(error, topic, output.partition, is_optional=bool(on_refused))
        if error.code() in MISSING:
            raise MissingTopicError(str(failure))
        if on_refused is None:
            raise failure
        on_refused(failure, *output[1:])

    def settle_refused(self) -> None:
        """Forget what was refused: all that led to it has been processed again and is committed.

        An output that was not made again (by a punctuation, say) is asked about now, without an
        input.

        Raises:
            ProductionError: it is not to be dropped.
        """
        unmet = self._refused.clear()
        self._redirect(self._keep if self._is_holding else self._produce)
        for on_refused, failure, output in unmet:
            on_refused(failure, *output[1:])

    def _on_error(self, error: KafkaError) -> None:
        if error.fatal():
            self._fatal = error
        self._connection.on_error(error)

    def _ended(self, error: KafkaError, doing: str) -> HeadwaterError:
        """Why the producer, or its transaction, takes nothing more."""
        doing = f"{doing} as {self.transactional_id or 'an idempotent producer'}"
        fatal = self._fatal or (error if error.fatal() else None)
        why = fatal or error
        if why.code() in (NOT_ALLOWED if fatal is None else FENCED | DENIED):
            return translate(why, doing, needs=f"Write on topic {', '.join(sorted(self._topics))}")
        if fatal is None:
            return TransactionAbortedError(f"{error.str()} while {doing}")
        # Whether the last request came through may be open: what is committed says it.
        return KafkaUnavailableError(
            f"{fatal.str()} ({fatal.name()}) while {doing}: this producer is of no use any more; "
            "a new process goes on from what is committed"
        )

    def _on_failed_delivery(self, error: KafkaError | None, message: Message) -> None:
        """A record that was queued and could not be delivered; called within poll and flush."""
        if error is not None:
            sent = str(message.topic()), message.value(), message.key(), message.partition()
            self._not_delivered(error, *sent)

    def _not_delivered(
        self,
        error: KafkaError,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        partition: int | None,
    ) -> None:
        """Note why what was sent since the last commit cannot be committed."""
        code = error.code()
        if code in {KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT}:  # noqa: SLF001
            return  # we have thrown it away ourselves: the transaction is being aborted
        failure = production_error(error, topic, partition, is_optional=self._refused.asks(topic))
        problem: HeadwaterError = failure
        if error.fatal() or code in _ENDED:
            problem = self._ended(error, f"sending to {topic}")
        elif code in MISSING:
            problem = MissingTopicError(str(failure))
        elif code in DENIED:
            problem = translate(error, f"sending to {topic}", needs=f"Write on topic {topic}")
        elif code in UNREACHABLE:
            # Away for longer than a record may wait: the records are processed again.
            problem = TransactionAbortedError(str(failure))
        elif self._refused.note(error, failure, Output(topic, key, value, -1, None, partition)):
            problem = OutputRefusedError(str(failure))
        if self._problem is None or isinstance(self._problem, OutputRefusedError):
            self._problem = problem

    def check(self) -> None:
        """Serve delivery reports; raise why what was sent cannot be committed.

        To be called often: once per turn of the loop.
        """
        self._serve(0)
        if self._problem is not None:
            raise self._problem

    def _serve(self, timeout_s: float) -> None:
        """Call back for failed deliveries; a dead client raises."""
        try:
            self._producer.poll(timeout_s)
        except ServingError as error:
            raise self._died(error) from cause(error)

    def _died(self, raised: BaseException) -> HeadwaterError:
        self._fatal = self._fatal or death_of(raised, self._producer.begin_transaction)
        return self._ended(self._fatal, "sending")

    @property
    def is_congested(self) -> bool:
        """Whether the queue is half full although no broker answers: better send no more now."""
        return self._connection.lost_for_s > 0 and self.queued > self._queue_max // 2

    @property
    def queued(self) -> int:
        """Records that no broker has acknowledged yet."""
        return len(self._producer)

    @property
    def sent(self) -> int:
        """Records sent since the producer was made, outputs and changelogs."""
        return sum(counter() for counter in self._counters)

    def partitions(self, topic: str) -> int:
        """Return how many partitions ``topic`` has; asked once and remembered.

        Raises:
            MissingTopicError: it does not exist.
        """
        found = self._partitions.get(topic)
        if found is None:
            doing = f"looking up {topic}"
            try:
                described = self._producer.list_topics(topic, timeout=30).topics[topic]
            except ClientError as error:
                raise self._connection.explain(error, doing) from cause(error)
            if described.error is not None:
                raise translate(described.error, doing, needs=f"Write on topic {topic}")
            found = self._partitions[topic] = len(described.partitions)
        return found

    # -- commits ---------------------------------------------------------------------------------

    def drain(self, timeout_s: float) -> bool:
        """Wait until it is known of everything sent whether it was delivered; return whether it is.

        What was not is noted, to be raised by ``check`` or ``flush``.
        """
        try:
            return self._producer.flush(timeout_s) == 0
        except ServingError as error:
            raise self._died(error) from cause(error)

    def flush(self, timeout_s: float, *, doing: str = "") -> None:
        """Wait until everything sent is acknowledged, then raise what failed.

        Args:
            timeout_s: how long to wait.
            doing: why, in words that follow "while".

        Raises:
            KafkaUnavailableError: not all was acknowledged in time; nothing is lost, flush again.
            ProductionError: a record was refused, and nobody can be asked about it.
            TransactionAbortedError: one was refused or timed out; go back to the last commit.
        """
        is_drained = self.drain(timeout_s)
        if self._problem is not None:
            raise self._problem
        if not is_drained:
            doing = doing or f"waiting for {self.queued} records to be acknowledged"
            raise self._connection.problem(doing)
        self._connection.answered()

    def init_transactions(self, timeout_s: float) -> None:
        """Take the transactional id: aborts what its former owner left open, and fences it.

        Raises:
            KafkaUnavailableError: no coordinator answered in time.
            KafkaAuthError: the id is not allowed.
        """
        connect(self._producer)
        self._transact("initialising transactions", self._producer.init_transactions, timeout_s)

    def begin(self) -> None:
        """Begin a transaction unless one has; the broker hears of it with the first record."""
        if not self._begun and self.transactional_id is not None:
            self._transact("beginning", lambda _left_s: self._producer.begin_transaction(), 1)
            self._begun = True
            self._sent_before = self.sent - len(self._held)

    @property
    def is_transaction_open(self) -> bool:
        """Whether something was sent that no commit has covered."""
        return self._begun and self.sent > self._sent_before

    def add_offsets(
        self, offsets: Iterable[PartitionOffsets], group_metadata: Any, timeout_s: float
    ) -> None:
        """Put offsets into the transaction; records that were sent travel meanwhile.

        Raises:
            FencedError: another producer has the id now; nothing will be committed.
            TransactionAbortedError: the transaction must be aborted.
            KafkaUnavailableError: nobody answered in time.
        """
        assert self._begun, "no transaction has begun"
        positions = [
            ClientPartition(o.partition.topic, o.partition.partition, o.offset, o.metadata)
            for o in offsets
        ]
        if positions:
            self._transact(
                "adding offsets to the transaction",
                lambda left_s: self._producer.send_offsets_to_transaction(
                    positions, group_metadata, left_s
                ),
                timeout_s,
            )

    def commit_transaction(self, timeout_s: float) -> None:
        """Commit what was sent since ``begin``, and the offsets that were added.

        Raises:
            FencedError: another producer has the id now; nothing was committed.
            TransactionAbortedError: it must be aborted; nothing was committed.
            KafkaUnavailableError: nobody answered in time. Whether it was committed is unknown;
                calling again asks for the same transaction.
        """
        assert self._begun, "no transaction has begun"
        self._transact("committing the transaction", self._producer.commit_transaction, timeout_s)
        self._begun = False
        if self._problem is not None:
            raise self._problem

    def abort_transaction(self, timeout_s: float) -> None:
        """Abort what is open: nobody who reads committed records will see any of it.

        Without transactions, forget what went wrong; what was sent stays sent.

        Raises:
            FencedError: another producer has the id now, and has aborted it.
        """
        self._held.clear()
        self._is_holding = False
        self._refused.next_round()
        self._redirect(self._produce)
        if self._begun:
            self._transact("aborting the transaction", self._producer.abort_transaction, timeout_s)
            self._begun = False
        self._problem = None

    def _transact(self, doing: str, step: Callable[[float], None], timeout_s: float) -> None:
        """Run one step of the transaction protocol, again while the client says it may be."""
        deadline = time.monotonic() + timeout_s
        is_first = True
        while True:
            try:
                step(max(0.1, deadline - time.monotonic()))
            except ClientError as exception:
                error = error_of(exception)
                if is_first and error.txn_requires_abort() and error.code() == _STATE:
                    is_first = False  # the next answer tells what had gone wrong before
                    continue
                if error.retriable() and time.monotonic() < deadline:
                    continue
                if error.fatal() or self._fatal is not None:
                    raise self._ended(error, doing) from cause(exception)
                if error.txn_requires_abort():
                    raise self._problem or self._ended(error, doing) from cause(exception)
                what = f"{doing} of {self.transactional_id}"
                raise self._connection.explain(error, what) from cause(exception)
            else:
                self._connection.answered()
                return

    def discard(self) -> None:
        """Throw away what was sent but has not left; for a producer that will send no more.

        A record whose report was never served keeps the client alive for as long as the process.
        """
        with contextlib.suppress(*ServingError):  # one that is dead already says so again
            self._producer.purge()
            self._producer.flush(_PURGED_S)
