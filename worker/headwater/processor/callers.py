"""What stages need of whoever runs functions that wait (``native.calls`` does).

the task's thread   start(calls) ──────────► event loop or pool
outcomes.popleft() ◄──── append(outcome), end the wait
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable, Iterable


class Outcome(NamedTuple):
    """What became of a call: a value, or an error."""

    number: int
    value: Any
    error: BaseException | None


Started: TypeAlias = "tuple[int, tuple[Any, ...]]"
"""A call to be made: a number that no other call of the function has, and its arguments."""


class Calls(Protocol):
    """Calls one function, several times at once."""

    @property
    def outcomes(self) -> deque[Outcome]:
        """What is over; to be taken from the left."""
        ...

    def start(self, calls: list[Started]) -> None:
        """Begin these calls."""
        ...

    def unbegun(self, numbers: Iterable[int]) -> frozenset[int]:
        """Return those of the calls, started long ago, that another call keeps from beginning."""
        ...

    def cancel(self, numbers: Iterable[int]) -> None:
        """Give up calls whose outcomes nobody wants any more; they may end late, or never."""
        ...

    def close(self) -> None:
        """Give up every call."""
        ...


class Callers(Protocol):
    """Runs functions that wait beside the thread that processes records."""

    def monotonic(self) -> float:
        """Seconds by a clock that is never set."""
        ...

    def wait(self, timeout_s: float) -> None:
        """Return when a call is over that was not waited for yet, or after ``timeout_s``."""
        ...

    def coroutines(self, function: Callable[..., Any]) -> Calls:
        """Return what calls an async function."""
        ...

    def pool(self, function: Callable[..., Any], threads: int) -> Calls:
        """Return what calls a plain function, in at most ``threads`` threads."""
        ...
