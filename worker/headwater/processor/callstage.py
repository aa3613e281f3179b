"""The stage of a function that is called for each record, several calls at once."""

from __future__ import annotations

import inspect
from collections import deque
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from headwater.ids import TopicPartition
    from headwater.model.operators.asynchronous import CallPolicy, Order
    from headwater.ports import Headers, RawRecord
    from headwater.processor.callers import Calls
    from headwater.processor.environment import Current
    from headwater.processor.failures import Fail

_KEY_DEPTH: Final = 16
"""So many records of one key may wait: more would hold up a commit for as many calls in a row."""


class CallTimeoutError(TimeoutError):
    """A function that waits has not returned in time; it is an error of its record."""


class Waiting:
    """A record that waits, with what was under way when it came."""

    __slots__ = (
        "attempts",
        "error",
        "headers",
        "is_over",
        "key",
        "line",
        "record",
        "source",
        "timestamp",
        "value",
    )

    def __init__(
        self, key: Any, value: Any, timestamp: int, headers: Headers, current: Current
    ) -> None:
        self.key = key
        self.value = value
        """Of the record; once the call is over, what it has returned."""
        self.timestamp = timestamp
        self.headers = headers
        self.record: RawRecord = current.record
        self.source: TopicPartition = current.source
        self.line: object = None
        """What leaves in the order in which it came has the same."""
        self.attempts = 0
        self.is_over = False
        self.error: Exception | None = None


class CallStage:
    """Calls a function for each record, several at once (a ``Stage``).

    Args:
        calls: makes them.
        arguments: of a record's call.
        policy: how many, in which order, how often.
        forward: given a record and what its call returned.
        fail: given a record whose calls have failed.
        current: the record under way.
        monotonic: seconds.
    """

    def __init__(
        self,
        *,
        calls: Calls,
        arguments: Callable[[Waiting], tuple[Any, ...]],
        policy: CallPolicy,
        forward: Callable[[Waiting, Any], None],
        fail: Fail,
        current: Current,
        monotonic: Callable[[], float],
    ) -> None:
        self._calls = calls
        self._arguments = arguments
        self._policy = policy
        self._forward = forward
        self._fail = fail
        self._current = current
        self._monotonic = monotonic
        self._line_of = _LINES[policy.order]
        self._overlaps = policy.order != "key"
        self.pending = 0
        """How many records wait here, in whatever state."""
        self._lines: dict[object, deque[Waiting]] = {}
        self._startable: deque[Waiting] = deque()
        self._number = 0
        self._in_flight: dict[int, Waiting] = {}
        self._deadlines: deque[tuple[float, int]] = deque()
        self._retries: list[tuple[float, int, Waiting]] = []
        self._is_deep = False

    @property
    def room(self) -> int:
        """How many more records may come."""
        return 0 if self._is_deep else self._policy.max_in_flight - self.pending

    def submit(self, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        """Take a record (the node's closure)."""
        waiting = Waiting(key, value, timestamp, headers, self._current)
        self.pending += 1
        line = waiting.line = self._line_of(waiting)
        if line is None:
            self._startable.append(waiting)
            return
        queue = self._lines.get(line)
        if queue is None:
            queue = self._lines[line] = deque()
        queue.append(waiting)
        if self._overlaps or len(queue) == 1:
            self._startable.append(waiting)
        elif len(queue) >= _KEY_DEPTH:
            self._is_deep = True

    def advance(self) -> None:
        """Forward results, give up calls that take too long, start what may begin.

        Raises:
            HeadwaterError: a call has failed for good, and the handler said FAIL.
        """
        self._take_outcomes()
        if self._deadlines:
            self._give_up_late_calls()
        if self._retries:
            self._retry()
        if self._startable:
            self._start()

    def flush(self) -> None:
        """Nothing is held back."""

    def init(self) -> None:
        """Nothing: the first record starts the first call."""

    def renew(self) -> None:
        """Forget every record, as after an aborted transaction, and cancel its call."""
        self._calls.cancel(self._in_flight)
        self._in_flight.clear()
        self._deadlines.clear()
        self._retries.clear()
        self._startable.clear()
        self._lines.clear()
        self.pending = 0
        self._is_deep = False

    def close(self) -> None:
        """Cancel what is in flight; whoever closes a task has committed what is over."""
        self.renew()
        self._calls.close()

    # ---- what is over --------------------------------------------------------------------------

    def _take_outcomes(self) -> None:
        outcomes = self._calls.outcomes
        while outcomes:
            number, value, error = outcomes.popleft()
            waiting = self._in_flight.pop(number, None)
            if waiting is None:
                continue  # it came after its time-out, or its record is processed again
            if error is not None:
                self._failed(waiting, error)
            else:
                waiting.value = value
                self._over(waiting)

    def _over(self, waiting: Waiting) -> None:
        """Forward what this record has kept waiting, in the order of its line."""
        waiting.is_over = True
        line = waiting.line
        if line is None:
            self._leave(waiting)
            return
        queue = self._lines[line]
        while queue and queue[0].is_over:
            self._leave(queue.popleft())
        if not queue:
            del self._lines[line]
            self._is_deep = self._is_deep and self._has_deep_line()
        elif not self._overlaps:
            self._startable.append(queue[0])
            if self._is_deep and len(queue) == _KEY_DEPTH - 1:
                self._is_deep = self._has_deep_line()

    def _has_deep_line(self) -> bool:
        return any(len(queue) >= _KEY_DEPTH for queue in self._lines.values())

    def _leave(self, waiting: Waiting) -> None:
        self.pending -= 1
        current = self._current
        record, source = current.record, current.source
        current.record, current.source = waiting.record, waiting.source
        try:
            if waiting.error is None:
                self._forward(waiting, waiting.value)
            else:
                key, timestamp, headers = waiting.key, waiting.timestamp, waiting.headers
                self._fail(waiting.error, key, waiting.value, timestamp, headers)
        finally:
            current.record, current.source = record, source

    # ---- errors --------------------------------------------------------------------------------

    def _failed(self, waiting: Waiting, error: BaseException) -> None:
        if waiting.attempts <= self._policy.retries:
            pause_ms = self._policy.retry_backoff_ms * 2 ** (waiting.attempts - 1)
            due = self._monotonic() + pause_ms / 1000
            self._number += 1
            heappush(self._retries, (due, self._number, waiting))
            return
        waiting.error = error if isinstance(error, Exception) else _as_exception(error)
        self._over(waiting)

    def _give_up_late_calls(self) -> None:
        now = self._monotonic()
        late: list[int] = []
        while self._deadlines and self._deadlines[0][0] <= now:
            _, number = self._deadlines.popleft()
            if number in self._in_flight:
                late.append(number)
        if not late:
            return
        unbegun = self._calls.unbegun(late)
        self._calls.cancel(late)
        for number in late:
            seconds = self._policy.timeout_ms / 1000
            said = (
                f"the call has not returned within {seconds:g} s, its time-out; give it more time "
                "with timeout=, or further tries with retries="
            )
            if number in unbegun:
                said = (
                    f"the call could not begin within {seconds:g} s, its time-out: another call "
                    "blocks the event loop"
                )
            self._failed(self._in_flight.pop(number), CallTimeoutError(said))

    def _retry(self) -> None:
        now = self._monotonic()
        while self._retries and self._retries[0][0] <= now:
            self._startable.append(heappop(self._retries)[2])

    # ---- calls ---------------------------------------------------------------------------------

    def _start(self) -> None:
        free = self._policy.max_in_flight - len(self._in_flight)
        startable, arguments = self._startable, self._arguments
        deadline = self._monotonic() + self._policy.timeout_ms / 1000
        calls = []
        while startable and free > 0:
            waiting = startable.popleft()
            waiting.attempts += 1
            self._number += 1
            number = self._number
            self._in_flight[number] = waiting
            self._deadlines.append((deadline, number))
            calls.append((number, arguments(waiting)))
            free -= 1
        if calls:
            self._calls.start(calls)


def _as_exception(error: BaseException) -> Exception:
    said = "it was cancelled" if _is_cancellation(error) else repr(error)
    return RuntimeError(f"the call has ended without a result: {said}")


def _is_cancellation(error: BaseException) -> bool:
    return type(error).__name__ == "CancelledError"


def refuse_awaitable(value: Any) -> Any:
    """Return what a plain function has returned.

    Raises:
        TypeError: it is to be awaited, which nobody does.
    """
    if inspect.isawaitable(value):
        if inspect.iscoroutine(value):
            value.close()
        raise TypeError("the function returned an awaitable: write it with async def")
    return value


def _hashable(key: Any) -> object:
    """Return what is equal for equal keys, and can be a key of a dict."""
    try:
        hash(key)
    except TypeError:
        if isinstance(key, dict):
            return frozenset((part, _hashable(value)) for part, value in key.items())
        if isinstance(key, list | tuple):
            return tuple(map(_hashable, key))
        return repr(key)
    return key


def _line_of_key(waiting: Waiting) -> object:
    # A null key is no key: nothing is in order with it.
    return None if waiting.key is None else (_hashable(waiting.key),)


def _line_of_partition(waiting: Waiting) -> object:
    return waiting.source


def _no_line(waiting: Waiting) -> object:
    del waiting
    return None


_LINES: Final[dict[Order, Callable[[Waiting], object]]] = {
    "key": _line_of_key,
    "partition": _line_of_partition,
    "none": _no_line,
}
