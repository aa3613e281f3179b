"""What a StreamThread does for queries: it reads stores in its memory, between two rounds.

Stores on disk are read by the query process, and cost a StreamThread nothing.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, cast

from headwater.native.queries.values import AskTask, TaskAnswered
from headwater.state.committed import answer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headwater.ids import TaskId
    from headwater.model.stores import StoreSpec
    from headwater.native.opening import RunningTask
    from headwater.state.store import LayeredStore


def answer_task(
    asked: AskTask, tasks: Mapping[TaskId, RunningTask], specs: Mapping[str, StoreSpec]
) -> TaskAnswered:
    """Answer a question from what one of the running tasks has committed.

    Args:
        asked: the question.
        tasks: those that run.
        specs: the topology's stores by name.
    """
    running = tasks.get(asked.task)
    if running is None:
        return TaskAnswered(id=asked.id, is_here=False)
    committed = cast("LayeredStore", running.stores[asked.store]).committed
    try:
        rows = list(islice(answer(specs[asked.store], committed, asked.ask), asked.limit))
    except Exception as error:  # noqa: BLE001 - a store may be the user's own
        return TaskAnswered(id=asked.id, problem=f"{type(error).__name__}: {error}")
    position = committed.position()
    if position is None:
        return TaskAnswered(id=asked.id, rows=rows)
    return TaskAnswered(
        id=asked.id, read=position.read, changelog_offset=position.offset, rows=rows
    )
