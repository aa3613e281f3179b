"""The client library's errors end here: each becomes one of ours, by what can be done about it."""

from __future__ import annotations

import logging
import re
import threading
import time
from typing import TYPE_CHECKING, Final, Self, cast

from confluent_kafka import KafkaError, KafkaException

from headwater.errors import (
    EnvironmentProblemError,
    FencedError,
    GroupInUseError,
    HeadwaterError,
    KafkaAuthError,
    KafkaUnavailableError,
    MissingTopicError,
    ProductionError,
    RecordTooLargeError,
)

if TYPE_CHECKING:
    from collections.abc import Callable

log = logging.getLogger(__name__)

MISSING: Final = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.UNKNOWN_TOPIC_ID,
        KafkaError.INCONSISTENT_TOPIC_ID,
        KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001 - the client's names for its own codes
        KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001
    }
)
"""The topic, or the partition, is not there."""
NOT_LOGGED_IN: Final = frozenset(
    {
        KafkaError._AUTHENTICATION,  # noqa: SLF001
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.UNSUPPORTED_SASL_MECHANISM,
        KafkaError.ILLEGAL_SASL_STATE,
    }
)
"""The broker does not take the user name and the password."""
NOT_TRUSTED: Final = frozenset({KafkaError._SSL})  # noqa: SLF001
"""There is no TLS with the broker; most often we do not trust its certificate."""
NOT_ALLOWED: Final = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        KafkaError.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    }
)
"""The broker knows who we are, and we may not do that."""
_NEEDED: Final = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "Read on the topic, Write if it is an output",
    KafkaError.GROUP_AUTHORIZATION_FAILED: (
        "Read on the consumer group, whose name is the application id"
    ),
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: (
        "Write on the transactional ids that begin with the application id and a dash"
    ),
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "IdempotentWrite on the cluster",
}
"""What somebody has to allow us, unless it is known better where it was refused."""
DENIED: Final = NOT_LOGGED_IN | NOT_TRUSTED | NOT_ALLOWED
"""The broker refuses us, or we do not trust it."""
_CERTIFICATE_REFUSED: Final = re.compile(r"SSL alert number (42|43|44|45|46|48|49|116)\b")
"""Alerts about a client's certificate, or that there is none. With TLS 1.3 they come once the
client takes the handshake for done, so it speaks of a broken connection."""
UNREACHABLE: Final = frozenset(
    {
        KafkaError._TRANSPORT,  # noqa: SLF001
        KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001
        KafkaError._RESOLVE,  # noqa: SLF001
        KafkaError._TIMED_OUT,  # noqa: SLF001
        KafkaError._TIMED_OUT_QUEUE,  # noqa: SLF001
        KafkaError._MSG_TIMED_OUT,  # noqa: SLF001
        KafkaError._WAIT_COORD,  # noqa: SLF001
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.NOT_COORDINATOR,
    }
)
"""Nobody answered: worth trying again."""
FENCED: Final = frozenset(
    {
        KafkaError._FENCED,  # noqa: SLF001
        KafkaError.PRODUCER_FENCED,
        KafkaError.INVALID_PRODUCER_EPOCH,
        KafkaError.FENCED_INSTANCE_ID,
        KafkaError.TRANSACTION_COORDINATOR_FENCED,
    }
)
"""Another producer has our transactional id."""
FOREIGN_MEMBER: Final = frozenset(
    {
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError.STALE_MEMBER_EPOCH,
        KafkaError.NON_EMPTY_GROUP,
    }
)
"""The group has members, and we are none of them."""
TOO_LARGE: Final = frozenset({KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE})
"""The record does not fit."""
_OVERSIZED: Final = "receive.message.max.bytes"
_NO_BROKER_YET: Final = re.compile(r"in state (APIVERSION_QUERY|AUTH_|SSL_)")
"""Whoever answers has not shown that it is a broker: a proxy that speaks HTTP, for example, whose
first four letters the client takes for a size."""
_NO_ANSWER_EVENTS: Final = frozenset(
    {KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT, KafkaError._RESOLVE}  # noqa: SLF001
)
RETRIED: Final = UNREACHABLE | {
    KafkaError.UNSTABLE_OFFSET_COMMIT,
    KafkaError.NOT_CONTROLLER,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError.KAFKA_STORAGE_ERROR,
    # A broker that has just started does not know who leads which partition.
    KafkaError._NOENT,  # noqa: SLF001 - the client's name for its own code
}
"""A request that fails so may be tried again."""


ClientError: Final[tuple[type[BaseException], ...]] = (
    KafkaException,
    cast("type[BaseException]", KafkaError),
)
"""What the client raises; a fatal error comes as a bare ``KafkaError``, from poll and flush too."""

ServingError: Final[tuple[type[BaseException], ...]] = (*ClientError, SystemError)
"""As ``ClientError``, from poll and flush. The client sets a fatal error and still calls back for
failed deliveries, which Python then takes for a ``SystemError`` caused by the fatal one."""


class TransactionAbortedError(HeadwaterError):
    """The transaction cannot be committed but the producer lives: abort, then go on."""


class OutputRefusedError(TransactionAbortedError):
    """An output was refused after it was sent: go back to the last commit.

    It is made again, and its sink asks what is to become of it while its input is at hand.
    """


def error_of(exception: BaseException) -> KafkaError:
    """Return the ``KafkaError`` inside one of ``ServingError``; never anything else."""
    if isinstance(exception, SystemError):
        if not isinstance(exception.__cause__, ClientError):
            raise exception
        return error_of(exception.__cause__)
    if not isinstance(exception, KafkaException):
        return cast("KafkaError", exception)
    inside = exception.args[0] if exception.args else None
    return inside if isinstance(inside, KafkaError) else KafkaError(KafkaError.UNKNOWN, str(inside))


def death_of(raised: BaseException, ask: Callable[[], object]) -> KafkaError:
    """Return what a client has died of that raised one of ``ServingError``.

    If it calls back for several deliveries after it has set a fatal error, it may have lost that by
    the end, and Python complains that nothing was set at all.

    Args:
        raised: by poll or flush.
        ask: a call that a dead client refuses with its fatal error.
    """
    is_lost = isinstance(raised, SystemError) and "without setting an exception" in str(raised)
    if not is_lost:
        return error_of(raised)
    try:
        ask()
    except ClientError as again:
        error = error_of(again)
        if error.fatal():
            return error
    why = "the client is dead, and has lost what of"
    return KafkaError(KafkaError._FATAL, why, fatal=True)  # noqa: SLF001


def cause(raised: BaseException) -> BaseException:
    """Return what to name after ``raise ... from``: a bare ``KafkaError`` breaks tracebacks."""
    kept = isinstance(raised, KafkaException | SystemError)
    return raised if kept else KafkaException(raised)


def translate(
    problem: KafkaError | BaseException, doing: str, *, needs: str = ""
) -> HeadwaterError:
    """Turn the client's error into ours.

    Args:
        problem: what the client said.
        doing: what was tried, in words that follow "while": ``"committing offsets of group g"``.
        needs: what we must be allowed for that on a topic: ``"Read on topic orders"``.
    """
    error = problem if isinstance(problem, KafkaError) else error_of(problem)
    code = error.code()
    said = f"{error.str()} ({error.name()}) while {doing}"
    kind: type[HeadwaterError] = EnvironmentProblemError
    advice = "see the broker's log"
    if code in FENCED:
        kind = FencedError
        advice = "another process has taken over, or the transaction timed out; tasks are dropped"
    elif error.txn_requires_abort() and code not in NOT_ALLOWED:  # or it would be for ever
        kind, advice = TransactionAbortedError, "the transaction is aborted and repeated"
    elif code in FOREIGN_MEMBER:
        kind = GroupInUseError
        advice = "stop the application that is a member of the group, wait for its session to end"
    elif code in DENIED or is_certificate_refused(error):
        kind, advice = KafkaAuthError, _advice_when_denied(error, needs)
    elif code in MISSING:
        kind, advice = MissingTopicError, "create the topic, then start again"
    elif code in TOO_LARGE:
        kind = RecordTooLargeError
        advice = "raise max.message.bytes of the topic and producer.max.request.size"
    elif code in UNREACHABLE:
        kind, advice = KafkaUnavailableError, "check bootstrap.servers and that the broker runs"
    return kind(f"{said}; {advice}")


def is_certificate_refused(error: KafkaError) -> bool:
    """Whether the broker ended the connection for want of a client certificate that it trusts."""
    return _CERTIFICATE_REFUSED.search(error.str()) is not None


def _advice_when_denied(error: KafkaError, needs: str) -> str:
    """Return the next step: in the words of a program's settings, and in those of a cluster."""
    code = error.code()
    if code in NOT_ALLOWED:
        is_of_topic = code == KafkaError.TOPIC_AUTHORIZATION_FAILED
        missing = (needs if is_of_topic else "") or _NEEDED.get(code, "it")
        return (
            f"allow {missing} by an ACL of the broker (docs/security.md lists all that an "
            "application needs); on a cluster then change spec.restartNonce"
        )
    if code in NOT_LOGGED_IN:
        settings, field = "security.protocol and sasl.*", "authentication"
    elif code in NOT_TRUSTED:
        settings, field = "ssl.*, above all ssl.ca.location", "tls"
    else:
        settings = "ssl.*: the broker asks for a client certificate that it trusts"
        field = "authentication (type TLS)"
    return (
        f"check {settings}; on a cluster spec.kafka.{field} and its Secret, then change "
        "spec.restartNonce"
    )


def production_error(
    error: KafkaError, topic: str, partition: int | None, *, is_optional: bool = True
) -> ProductionError:
    """Describe a record that could not be delivered.

    Args:
        error: what the client said.
        topic: where it was to go.
        partition: which of the topic's, if that is known.
        is_optional: whether a production handler is asked and may drop it: not a changelog entry.
    """
    where = topic if partition is None or partition < 0 else f"{topic}-{partition}"
    said = f"{error.str()} ({error.name()}) for a record to {where}"
    if error.code() in TOO_LARGE:
        if not is_optional:
            return RecordTooLargeError(
                f"{said}; no handler may drop it, for state would be lost. Raise "
                "producer.max.request.size and max.message.bytes of the topic "
                "(topic.max.message.bytes is for internal topics that are yet to be made), or keep "
                "less in one record, such as an aggregate"
            )
        return RecordTooLargeError(
            f"{said}; raise max.message.bytes of the topic and producer.max.request.size, or let "
            "production.exception.handler continue; if small records are refused, too, lower "
            "producer.batch.size to max.message.bytes"
        )
    if error.code() in MISSING:
        return ProductionError(f"{said}; create the topic, then start again")
    return ProductionError(f"{said}; see the broker's log")


class Refusals:
    """Topics about which we may not do something: all of them are named at the end of the block.

    Args:
        doing: what is done, in words before their names.
        operation: that we have to be allowed.
    """

    def __init__(self, doing: str, operation: str) -> None:
        self._doing = doing
        self._operation = operation
        self._refused: dict[str, KafkaError] = {}

    def note(self, topic: str, raised: BaseException) -> None:
        """Take notice of an error; one that is no refusal is raised."""
        error = error_of(raised)
        if error.code() not in NOT_ALLOWED:
            raise raised
        self._refused[topic] = error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None and self._refused:
            topics = ", ".join(sorted(self._refused))
            needs = f"{self._operation} on topic {topics}"
            error = next(iter(self._refused.values()))
            raise translate(error, f"{self._doing} {topics}", needs=needs)


def _is_oversized(said: str) -> bool:
    """Whether a broker's answer was larger than the client takes."""
    return _OVERSIZED in said and _NO_BROKER_YET.search(said) is None


class Connection:
    """What the clients say about the connection: told by their callbacks, asked by the loop.

    One is shared by all clients of a process, so that an outage is one outage.
    """

    def __init__(self, bootstrap_servers: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.bootstrap_servers = bootstrap_servers
        self._clock = clock
        self._lock = threading.Lock()
        self._lost_at: float | None = None
        self._denied: KafkaError | None = None
        self._last: KafkaError | None = None
        self.oversized: KafkaError | None = None
        """A broker's answer was larger than the client takes; it would be, again and again."""

    def on_error(self, error: KafkaError) -> None:
        """Take notice of an error event (the clients' ``error_cb``)."""
        code = error.code()
        with self._lock:
            if code in DENIED or is_certificate_refused(error):
                self._denied = error
            if code == KafkaError._BAD_MSG and _is_oversized(error.str()):  # noqa: SLF001
                self.oversized = error
            if code in _NO_ANSWER_EVENTS and code != KafkaError._ALL_BROKERS_DOWN:  # noqa: SLF001
                self._last = error
            # One broker that closes its connection is nothing; all of them gone is an outage.
            if code == KafkaError._ALL_BROKERS_DOWN and self._lost_at is None:  # noqa: SLF001
                self._lost_at = self._clock()
        log.debug("client error: %s", error)

    def answered(self) -> None:
        """Take notice that a broker answered."""
        if self._lost_at is not None:
            with self._lock:
                self._lost_at = self._denied = self._last = None

    @property
    def lost_for_s(self) -> float:
        """Seconds since the connection was lost; 0 while it is not known to be."""
        lost_at = self._lost_at
        return 0.0 if lost_at is None else max(self._clock() - lost_at, 1e-9)

    def problem(self, doing: str) -> HeadwaterError:
        """Say why nobody answered while ``doing`` something: refused, or not there."""
        with self._lock:
            denied, last = self._denied, self._last
        if denied is not None:
            return translate(denied, f"{doing} at {self.bootstrap_servers}")
        detail = f" ({last.str()})" if last is not None else ""
        return KafkaUnavailableError(
            f"no broker at {self.bootstrap_servers} answers while {doing}{detail}; "
            "check bootstrap.servers and that the broker runs"
        )

    def explain(
        self, problem: KafkaError | BaseException, doing: str, *, needs: str = ""
    ) -> HeadwaterError:
        """Translate, preferring what is known about the connection over "timed out"."""
        error = translate(problem, doing, needs=needs)
        return self.problem(doing) if isinstance(error, KafkaUnavailableError) else error
