"""Functions that wait: calls of a web service or a model, several at once, and batches.

Kafka Streams has no such operators; ``docs/functions-that-wait.md`` shows how they are used.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, TypedDict, TypeVar, Unpack, overload

from headwater.dsl.origin import Drawn
from headwater.errors import TopologyError
from headwater.model.callables import check_call, check_function
from headwater.model.durations import millis
from headwater.model.operators.asynchronous import (
    CallPolicy,
    ForEachAsync,
    MapBatch,
    MapValuesAsync,
    ProcessValuesAsync,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from headwater.dsl.options import Named
    from headwater.dsl.stream import KStream
    from headwater.model.durations import Duration
    from headwater.model.operators.asynchronous import Order
    from headwater.model.operators.base import Operator
    from headwater.model.processor_api import FixedKeyRecord
    from headwater.model.processors import FixedKeyRecords

K = TypeVar("K")
V = TypeVar("V")
VR = TypeVar("VR")

_ORDERS: Final = ("key", "partition", "none")
_MAX_WAIT: Final = timedelta(milliseconds=100)


class CallOptions(TypedDict, total=False):
    """How calls of a function that waits are made; the keywords of the ``_async`` operations.

    Attributes:
        max_in_flight: calls at once, in each task; 100 if not given.
        order: which results leave in the order of their records: those of one ``"key"``, whose
            calls never overlap, of one ``"partition"``, or ``"none"``. If not given, ``"key"``.
        timeout: of one call, 5 seconds if not given; what returns later is ignored.
        retries: further calls after one that raised or took too long; none if not given.
        retry_backoff: before the first of them, 100 ms if not given; doubled each time.
    """

    max_in_flight: int
    order: Order
    timeout: Duration
    retries: int
    retry_backoff: Duration


class AsynchronousOfStream(Drawn[K, V]):
    """Operations of ``KStream`` whose functions wait."""

    __slots__ = ()

    @overload
    def map_values_async(
        self,
        mapper: Callable[..., Awaitable[VR]],
        *,
        with_key: bool = False,
        name: str | Named | None = None,
        **options: Unpack[CallOptions],
    ) -> KStream[K, VR]: ...
    @overload
    def map_values_async(
        self,
        mapper: Callable[..., VR],
        *,
        with_key: bool = False,
        name: str | Named | None = None,
        **options: Unpack[CallOptions],
    ) -> KStream[K, VR]: ...
    def map_values_async(
        self,
        mapper: Callable[..., Any],
        *,
        with_key: bool = False,
        name: str | Named | None = None,
        **options: Unpack[CallOptions],
    ) -> KStream[K, Any]:
        """Replace every value by what ``mapper(value)`` returns, once it has been waited for.

        ``mapper`` is an ``async def``, or a plain function, which runs in a pool of threads.
        ``with_key`` calls ``mapper(key, value)``. ``name`` names the node, as in ``map_values``.
        Other keywords are those of :class:`CallOptions`.

        Calls overlap, and what follows sees their results as if they had come at once. A commit
        waits for the calls in flight. A call may be made more than once for a record, as after a
        crash, so it should do no harm the second time.

        Raises:
            TopologyError: an argument is out of its range.
            ConfigError: when the topology is run, under exactly-once: a call with its retries may
                take longer than ``transaction.timeout.ms``.
        """
        calls = _policy("map_values_async()", mapper, options)
        operator = MapValuesAsync(mapper=mapper, with_key=with_key, calls=calls)
        return self._waiting("KSTREAM-MAPVALUES-ASYNC-", name, operator)

    @overload
    def process_values_async(
        self,
        function: Callable[[FixedKeyRecord[K, V]], Awaitable[FixedKeyRecords[K, VR]]],
        *,
        name: str | Named | None = None,
        **options: Unpack[CallOptions],
    ) -> KStream[K, VR]: ...
    @overload
    def process_values_async(
        self,
        function: Callable[[FixedKeyRecord[K, V]], FixedKeyRecords[K, VR]],
        *,
        name: str | Named | None = None,
        **options: Unpack[CallOptions],
    ) -> KStream[K, VR]: ...
    def process_values_async(
        self,
        function: Callable[[FixedKeyRecord[K, V]], Any],
        *,
        name: str | Named | None = None,
        **options: Unpack[CallOptions],
    ) -> KStream[K, Any]:
        """Replace every record by what ``function(record)`` returns, once it has been waited for.

        It returns a record made by ``with_value`` and its kin, several, or ``None``; the key stays.
        Keywords and errors are those of :meth:`map_values_async`.
        """
        calls = _policy("process_values_async()", function, options)
        operator = ProcessValuesAsync(function=function, calls=calls)
        return self._waiting("KSTREAM-PROCESSVALUES-ASYNC-", name, operator)

    def for_each_async(
        self,
        action: Callable[[K, V], Any],
        *,
        name: str | Named | None = None,
        **options: Unpack[CallOptions],
    ) -> None:
        """Call ``action(key, value)`` for its effect; a record is done when the call has returned.

        The effect may happen more than once. Keywords and errors are those of
        :meth:`map_values_async`.
        """
        calls = _policy("for_each_async()", action, options)
        operator = ForEachAsync(action=action, calls=calls)
        self.origin.processor("KSTREAM-FOREACH-ASYNC-", name, operator)

    def map_batch(
        self,
        function: Callable[[list[V]], Sequence[VR]],
        *,
        max_size: int = 256,
        max_wait: Duration = _MAX_WAIT,
        name: str | Named | None = None,
    ) -> KStream[K, VR]:
        """Replace values, many by one call: ``function(values)`` returns as many, in their order.

        For what is quicker over many values: arrays, a model. A commit waits for no batch to fill.
        If the function raises, it is called for each value of the batch by itself, and the
        processing handler decides about those for which it raises again.

        Args:
            function: called with a list; it returns a sequence, such as a list or an array.
            max_size: of a list.
            max_wait: the first of a batch waits no longer for others.
            name: the node's.

        Raises:
            TopologyError: an argument is out of its range.
        """
        place = "map_batch()"
        check_function(place, function)
        operator = MapBatch(
            function=function,
            max_size=_count(place, "max_size", max_size, 1),
            max_wait_ms=_at_least(0, place, "max_wait", max_wait),
        )
        return self._waiting("KSTREAM-MAPVALUES-BATCH-", name, operator)

    def _waiting(
        self, prefix: str, name: str | Named | None, operator: Operator
    ) -> KStream[K, Any]:
        below = self.origin.processor(prefix, name, operator)
        return replace(below, value_serde=None).as_stream()


def _policy(place: str, function: object, options: CallOptions) -> CallPolicy:
    check_call(place, function)
    if unknown := set(options) - CallOptions.__optional_keys__:
        known = ", ".join(sorted(CallOptions.__optional_keys__))
        raise TypeError(f"{place} has no keyword {', '.join(sorted(unknown))}; it has {known}")
    order = options.get("order", "key")
    if order not in _ORDERS:
        raise TopologyError(
            f"{place}: there is no order {order!r}; use one of {', '.join(map(repr, _ORDERS))}"
        )
    backoff = options.get("retry_backoff", timedelta(milliseconds=100))
    return CallPolicy(
        max_in_flight=_count(place, "max_in_flight", options.get("max_in_flight", 100), 1),
        order=order,
        timeout_ms=_at_least(1, place, "timeout", options.get("timeout", timedelta(seconds=5))),
        retries=_count(place, "retries", options.get("retries", 0), 0),
        retry_backoff_ms=_at_least(0, place, "retry_backoff", backoff),
    )


def _count(place: str, what: str, given: object, minimum: int) -> int:
    if not isinstance(given, int) or isinstance(given, bool) or given < minimum:
        raise TopologyError(f"{place}: {what} is {given!r}; it must be at least {minimum}")
    return given


def _at_least(minimum: int, place: str, what: str, given: Duration) -> int:
    found = millis(f"{place}: {what}", given)
    if found < minimum:
        raise TopologyError(f"{place}: {what} is {found} ms; it must be at least {minimum} ms")
    return found
