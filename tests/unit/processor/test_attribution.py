"""What user code logs names its task, wherever it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.tasks import TaskRig, raw

from headwater.attribution import TASK
from headwater.errors import ProcessingError

if TYPE_CHECKING:
    from headwater import StreamsBuilder


def named(value: str) -> str:
    """Return which task a line of log would name."""
    return f"{value} of {TASK.get()}"


async def named_async(value: str) -> str:
    """As ``named``."""
    return named(value)


@pytest.mark.parametrize("function", [named, named_async])
def test_a_call_names_the_task_of_its_record_and_not_what_its_thread_works_for(
    function: Any,
) -> None:
    rig = TaskRig(lambda builder: builder.stream("in").map_values_async(function).to("out"))
    rig.add("in", raw(0, "k", "v"))

    rig.process()
    rig.commit()

    assert [value for _, value, _ in rig.sent()] == [f"v of {rig.task.task_id}".encode()]
    assert TASK.get() is None


def test_what_runs_when_a_record_cache_is_flushed_names_the_task() -> None:
    def draw(builder: StreamsBuilder) -> None:
        counts: Any = builder.stream("in").group_by_key().count(store="counts")
        counts.to_stream().map_values(lambda count: named(str(count))).to("out")

    rig = TaskRig(draw, statestore_cache_max_bytes=1_000_000)
    rig.add("in", raw(0, "k", "v"), raw(1, "k", "v"))

    rig.process()
    assert rig.sent() == []
    rig.commit()

    assert [value for _, value, _ in rig.sent()] == [f"2 of {rig.task.task_id}".encode()]
    assert TASK.get() is None


def test_an_error_leaves_the_name_of_its_task() -> None:
    def fail(value: str) -> str:
        raise ValueError(value)

    rig = TaskRig(lambda builder: builder.stream("in").map_values(fail).to("out"))
    rig.add("in", raw(0, "k", "v"))

    with pytest.raises(ProcessingError):
        rig.process()

    assert TASK.get() == rig.task.task_id
    TASK.set(None)
