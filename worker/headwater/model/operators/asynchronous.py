"""Functions that wait: calls that overlap, and functions over batches of values.

Kafka Streams has no such operators. To everything below, results come as if the function had
returned at once (``docs/adr/0069-functions-that-wait.md``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

from headwater.model.operators.base import Operator

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Order: TypeAlias = Literal["key", "partition", "none"]
"""Which results leave in the order of their records: of one key, of one partition, or none.

With ``key``, calls for one key never overlap, and records without a key have no order.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallPolicy:
    """How calls are made; times in milliseconds.

    Attributes:
        max_in_flight: so many records wait for their calls, in each task.
        order: which results leave in order.
        timeout_ms: of one attempt.
        retries: attempts after the first.
        retry_backoff_ms: before the first of them; doubled for each further one.
    """

    max_in_flight: int
    order: Order
    timeout_ms: int
    retries: int
    retry_backoff_ms: int

    @property
    def longest_ms(self) -> int:
        """How long a record may take with all its attempts."""
        waits = self.retry_backoff_ms * ((1 << self.retries) - 1)
        return self.timeout_ms * (1 + self.retries) + waits


@dataclass(frozen=True, slots=True, kw_only=True)
class MapValuesAsync(Operator):
    """KStream.map_values_async: ``mapper(value)``, or ``mapper(key, value)`` when ``with_key``."""

    keeps_keys: ClassVar = True
    changes_values: ClassVar = True

    mapper: Callable[..., Any]
    with_key: bool = False
    calls: CallPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessValuesAsync(Operator):
    """KStream.process_values_async: ``function(record)`` gives records of the same key."""

    keeps_keys: ClassVar = True
    changes_values: ClassVar = True

    function: Callable[[Any], Any]
    calls: CallPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class ForEachAsync(Operator):
    """KStream.for_each_async: ``action(key, value)``; nothing is below."""

    keeps_keys: ClassVar = True

    action: Callable[[Any, Any], Any]
    calls: CallPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class MapBatch(Operator):
    """KStream.map_batch: ``function(values)`` gives as many values, in the same order.

    A batch has at most ``max_size`` values; its first waits at most ``max_wait_ms``.
    """

    keeps_keys: ClassVar = True
    changes_values: ClassVar = True

    function: Callable[[list[Any]], Sequence[Any]]
    max_size: int
    max_wait_ms: int
