"""The stage of a function that is called for many values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from headwater.errors import HeadwaterError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headwater.ids import TopicPartition
    from headwater.model.operators.asynchronous import MapBatch
    from headwater.ports import Forward, Headers, RawRecord
    from headwater.processor.environment import Current
    from headwater.processor.failures import Fail

_Rest: TypeAlias = "tuple[Any, int, Headers, RawRecord, TopicPartition]"
"""Key, timestamp and headers of a record, and what was under way when it came."""


class BatchStage:
    """Calls a function for a list of values (a ``Stage``).

    Args:
        operator: the function, how many values it is given and how long one waits for others.
        forward: to the nodes below.
        fail: given a record for which the function has failed.
        current: the record under way.
        monotonic: seconds.
    """

    def __init__(
        self,
        operator: MapBatch,
        *,
        forward: Forward,
        fail: Fail,
        current: Current,
        monotonic: Callable[[], float],
    ) -> None:
        self._function = operator.function
        self._max_size = operator.max_size
        self._max_wait_s = operator.max_wait_ms / 1000
        self._forward = forward
        self._fail = fail
        self._current = current
        self._monotonic = monotonic
        self._values: list[Any] = []
        self._rest: list[_Rest] = []
        """What belongs to each value."""
        self._since = 0.0

    @property
    def pending(self) -> int:
        """How many records wait for their batch."""
        return len(self._values)

    @property
    def room(self) -> int:
        """How many records the batch still takes."""
        return self._max_size - len(self._values)

    def submit(self, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        """Take a record (the node's closure)."""
        if not self._values:
            self._since = self._monotonic()
        current = self._current
        self._values.append(value)
        self._rest.append((key, timestamp, headers, current.record, current.source))

    def advance(self) -> None:
        """Call the function if a batch is full, or its first record has waited long enough.

        Raises:
            HeadwaterError: the function has failed for a record, and the handler said FAIL.
        """
        while len(self._values) >= self._max_size:
            self._call()
        if self._values and self._monotonic() - self._since >= self._max_wait_s:
            self._call()

    def flush(self) -> None:
        """Call the function for whatever waits.

        Raises:
            HeadwaterError: as ``advance``.
        """
        while self._values:
            self._call()

    def init(self) -> None:
        """Nothing: the first record begins the first batch."""

    def renew(self) -> None:
        """Forget every record, as after an aborted transaction."""
        self._values, self._rest = [], []

    def close(self) -> None:
        """Forget every record; whoever closes a task has committed what is over."""
        self.renew()

    def _call(self) -> None:
        """Call the function with one batch, and forward what it returns."""
        size = self._max_size
        values, self._values = self._values[:size], self._values[size:]
        rest, self._rest = self._rest[:size], self._rest[size:]
        current = self._current
        record, source = current.record, current.source
        try:
            # The function is given a list of its own: the values are needed if it fails.
            results = _checked(self._function(values.copy()), len(values))
        except HeadwaterError:
            raise
        except Exception as error:
            self._call_one_by_one(values, rest, error)
        else:
            forward = self._forward
            for result, (key, timestamp, headers, of, at) in zip(results, rest, strict=True):
                current.record, current.source = of, at
                forward(key, result, timestamp, headers)
        finally:
            current.record, current.source = record, source

    def _call_one_by_one(self, values: list[Any], rest: list[_Rest], error: Exception) -> None:
        """Find out for which of the values the function fails: the others go on."""
        current = self._current
        for value, (key, timestamp, headers, of, at) in zip(values, rest, strict=True):
            current.record, current.source = of, at
            if len(values) == 1:
                self._fail(error, key, value, timestamp, headers)
                return
            try:
                [result] = _checked(self._function([value]), 1)
            except HeadwaterError:
                raise
            except Exception as raised:
                self._fail(raised, key, value, timestamp, headers)
            else:
                self._forward(key, result, timestamp, headers)


def _checked(results: Sequence[Any], size: int) -> Sequence[Any]:
    if isinstance(results, str | bytes) or not hasattr(results, "__len__"):
        raise TypeError(
            f"the function returned a {type(results).__name__}, not a list of values: return as "
            "many values as it is given, in the same order"
        )
    if len(results) != size:
        raise ValueError(
            f"the function was given {size} values and returned {len(results)}: return as many, in "
            "the same order"
        )
    return results
