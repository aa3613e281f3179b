"""Loads what DataFrames have computed into the changelogs: one Spark task for each StreamTask.

    initialise the transactional id ──► is the manifest still ours? ──► write … commit … write

A task that is run again writes all of it once more. What it wrote before is the same, so the newest
record of each key is, too.
"""

from __future__ import annotations

import importlib
import pickle
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from headwater import failpoints
from headwater.config import StreamsConfig
from headwater.errors import FencedError, HeadwaterError
from headwater.kafka.consumer import PartitionConsumer
from headwater.native.clients import TaskClients
from headwater.native.garbage import tune_garbage_collection
from headwater.spark.frames.rows import for_dataframes
from headwater.spark.turns.messages import TakenOverError
from headwater.spark.work import check_not_taken_over, progress_group, transactional_id

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from headwater.ids import TaskId

_COMMIT_S: Final = 2.0
"""A fifth of the time after which the broker ends a transaction by itself."""
_RUN: Final = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadWork:
    """All that a Python worker is told.

    Attributes:
        tasks: by their number in the column ``task``.
        changelogs: by the column ``out``.
        config: the StreamsConfig as given (dotted names); there may be a password in it.
        generation: the backfill's.
        attempt: the driver's.
    """

    tasks: tuple[TaskId, ...]
    changelogs: tuple[str, ...]
    config: Mapping[str, str | int | float | bool] = field(repr=False)
    generation: str
    attempt: int


def load_rows(work: LoadWork, batches: Iterable[Any]) -> Iterator[Any]:
    """Load the rows ``task, out, key, value, t`` of one task; none of them, or all.

    Gives one row: pickled, how many there were, or the error that another attempt would meet, too.

    Raises:
        FencedError: another copy of this task has begun, and loads the same.
        HeadwaterError: for Spark to run the task again.
    """
    pa: Any = importlib.import_module("pyarrow")  # heavy, and untyped
    tune_garbage_collection()
    try:
        result: int | HeadwaterError = _loaded(work, batches)
    except TakenOverError as error:
        result = TakenOverError(str(error))  # without what it holds on to, it can be pickled
    yield pa.RecordBatch.from_pydict({"result": pa.array([pickle.dumps(result)], pa.binary())})


def _loaded(work: LoadWork, batches: Iterable[Any]) -> int:
    loader: _Loader | None = None
    count = 0
    try:
        for batch in batches:
            for start in range(0, batch.num_rows, _RUN):
                columns = [column.to_pylist() for column in batch.slice(start, _RUN).columns]
                loader = loader or _Loader(work, work.tasks[columns[0][0]])
                count += loader.write(*columns[1:])
        if loader is not None:
            loader.commit()
    except FencedError:
        # By another driver, which is final, or by a copy that Spark runs elsewhere.
        if loader is not None:
            loader.check()
        raise
    finally:
        if loader is not None:
            loader.close()
    return count


class _Loader:
    def __init__(self, work: LoadWork, task: TaskId) -> None:
        config = StreamsConfig.parse(for_dataframes(work.config))
        application_id = config.application_id
        self._work = work
        self._config = config
        self._task = task
        self._timeout_s = config.request_timeout_ms / 1000
        self._clients = TaskClients(
            config,
            name=f"spark-{task}",
            transactional_id=transactional_id(application_id, task),
            group=progress_group(application_id, work.generation),
            reader=PartitionConsumer,
        )
        self._producer = self._clients.producer
        self._send = [self._producer.sender(topic) for topic in work.changelogs]
        try:
            self._clients.admin.check_reachable(self._timeout_s)
            self._producer.init_transactions(self._timeout_s)
            failpoints.hit("backfill.task_initialized")
            self.check()
            self._producer.begin()
        except BaseException:
            self.close()
            raise
        self._due = time.monotonic() + _COMMIT_S

    def check(self) -> None:
        """Ask whether the backfill is still the one that this task belongs to.

        Raises:
            TakenOverError: it is not.
        """
        work = self._work
        check_not_taken_over(self._task, work.generation, work.attempt, self._clients.access)

    def write(
        self, outs: list[int], keys: list[bytes], values: list[bytes | None], times: list[int]
    ) -> int:
        partition = self._task.partition
        for out, key, value, at in zip(outs, keys, values, times, strict=True):
            self._send[out](key, value, at, None, partition)
        if time.monotonic() > self._due:
            self.commit()
            failpoints.hit("backfill.rows_committed")
            self._producer.begin()
            self._due = time.monotonic() + _COMMIT_S
        return len(keys)

    def commit(self) -> None:
        """Let the changelogs' readers see what was written."""
        self._producer.flush(self._timeout_s)
        failpoints.hit("commit.acknowledged")
        self._producer.commit_transaction(self._timeout_s)

    def close(self) -> None:
        """Release everything; what is not committed is given up."""
        self._clients.close()
