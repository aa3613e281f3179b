"""Requests of this process to its worker's query process, from any thread.

A connection carries one request at a time; there are as many as threads ask at once. Rows beyond
the first page come when they are wanted, over the same connection.
"""

from __future__ import annotations

import pickle
import queue
import threading
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Self, TypeVar

from headwater.errors import StreamsStoppedError
from headwater.native.queries.values import More, PartitionAnswer, StoreRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from multiprocessing.connection import Connection
    from types import TracebackType

    from headwater.state.asks import Found

R = TypeVar("R")


class Rows:
    """The rows of one partition: those at hand, and those that are still to come."""

    def __init__(self, answer: PartitionAnswer, scan: Scan | None) -> None:
        self._rows = answer.rows
        self._partition = answer.partition
        self._scan = scan if answer.more else None

    def __iter__(self) -> Iterator[Found]:
        yield from self._rows
        while self._scan is not None:
            answer = self._scan.more(self._partition)
            if not answer.more:
                self.close()
            yield from answer.rows

    def close(self) -> None:
        """Fetch no more rows."""
        scan, self._scan = self._scan, None
        if scan is not None:
            scan.leave()

    def __del__(self) -> None:
        self.close()


class Scan:
    """A connection over which rows of one answer are still to come.

    Args:
        connection: where to ask.
        partitions: how many have more rows.
        give_back: takes the connection when nobody needs it any more.
    """

    def __init__(
        self,
        connection: Connection[Any, Any],
        partitions: int,
        give_back: Callable[[Connection[Any, Any]], None],
    ) -> None:
        self._connection = connection
        self._open = partitions
        self._give_back = give_back
        self._guard = threading.RLock()

    def more(self, partition: int) -> PartitionAnswer:
        """Return the next rows of a partition.

        Raises:
            StreamsStoppedError: the query process has ended.
        """
        with self._guard:
            answer: PartitionAnswer = _exchange(self._connection, More(partition))
            return answer

    def leave(self) -> None:
        """One partition needs it no more."""
        with self._guard:
            self._open -= 1
            if self._open == 0:
                self._give_back(self._connection)


class Asked(NamedTuple):
    """What a partition answers, and its rows."""

    answer: PartitionAnswer
    rows: Rows


class QueryClient:
    """Puts requests to the query process.

    Args:
        connect: returns a new connection to it.
    """

    def __init__(self, connect: Callable[[], Connection[Any, Any]]) -> None:
        self._connect = connect
        self._free: queue.LifoQueue[Connection[Any, Any]] = queue.LifoQueue()

    def ask(self, request: StoreRequest) -> list[Asked]:
        """Return what each partition answers.

        Raises:
            StreamsStoppedError: the worker has ended.
        """
        while True:
            try:
                connection = self._free.get_nowait()
            except queue.Empty:
                connection = self._connect()
                answers = _exchange(connection, request)
                break
            try:
                answers = _exchange(connection, request)
                break
            except StreamsStoppedError:
                continue  # of a query process that has ended: there is another by now
        if isinstance(answers, Exception):
            self._free.put(connection)
            raise answers
        open_ones = sum(answer.more for answer in answers)
        if not open_ones:
            self._free.put(connection)
            return [Asked(answer, Rows(answer, None)) for answer in answers]
        scan = Scan(connection, open_ones, self._free.put)
        return [Asked(answer, Rows(answer, scan)) for answer in answers]

    def close(self) -> None:
        """Close the connections that nobody uses."""
        while True:
            try:
                self._free.get_nowait().close()
            except queue.Empty:
                return


class QueryIterator(Generic[R]):
    """Iterates what a query has found; close it, or read it to its end (``KeyValueIterator``)."""

    def __init__(self, rows: Rows, make: Callable[[Found], R]) -> None:
        self._rows = rows
        self._found = (make(row) for row in rows)

    def __iter__(self) -> Iterator[R]:
        return self

    def __next__(self) -> R:
        return next(self._found)

    def close(self) -> None:
        """Fetch no more rows."""
        self._found.close()
        self._rows.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def _exchange(connection: Connection[Any, Any], said: StoreRequest | More) -> Any:
    try:
        connection.send_bytes(pickle.dumps(said, pickle.HIGHEST_PROTOCOL))
        return pickle.loads(connection.recv_bytes())  # noqa: S301 - from our own child
    except (EOFError, OSError) as error:
        connection.close()
        raise StreamsStoppedError(
            "the query process has ended in the middle of an answer; ask again"
        ) from error
