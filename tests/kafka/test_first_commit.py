"""A task's first commit notes where it begins: no changelog entry is ever committed without it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.thread_rig import ThreadRig, Topics
from tests.support.waiting import wait_for

from headwater import Processor, Serdes, StoreSpec
from headwater.ids import TaskId
from headwater.kafka.errors import TransactionAbortedError
from headwater.model.topology import StoreKind
from headwater.native.commit import Committer
from headwater.native.messages import (
    AddTasks,
    Go,
    Initialized,
    Released,
    RevokeTasks,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from headwater import ProcessorContext, Record, StreamsBuilder

pytestmark = pytest.mark.kafka

TASK = TaskId(0, 0)
NEVER_MS = 10_000_000


class Marked(Processor[str, str, str, str]):
    """Writes an entry before there is any record."""

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        store: Any = context.get_state_store("marks")
        store.put("begun", 1)

    def process(self, record: Record[str, str]) -> None:
        self.context.forward(record)


def marked(app: str) -> Callable[[StreamsBuilder], None]:
    def build(builder: StreamsBuilder) -> None:
        marks = StoreSpec(
            name="marks",
            key_serde=Serdes.string,
            value_serde=Serdes.long,
            kind=StoreKind.KEY_VALUE,
        )
        (
            builder.stream(f"{app}-in", key_serde=Serdes.string, value_serde=Serdes.string)
            .process(Marked, marks)
            .to(f"{app}-out", key_serde=Serdes.string, value_serde=Serdes.string)
        )

    return build


def aborted_once(app: str) -> Callable[[StreamsBuilder], None]:
    """As ``marked``; the first commit of the process is aborted before it has done anything."""

    def build(builder: StreamsBuilder) -> None:
        settle = Committer._settle

        def abort(*_: Any) -> Any:
            Committer._settle = settle  # type: ignore[method-assign]
            raise TransactionAbortedError("aborted by the test")

        Committer._settle = abort  # type: ignore[method-assign]
        marked(app)(builder)

    return build


@pytest.fixture
def topics(bootstrap_servers: str, unique_name: str) -> Topics:
    made = Topics(bootstrap_servers)
    for topic in ("in", "out"):
        made.create(f"{unique_name}-{topic}")
    made.create(f"{unique_name}-marks-changelog", cleanup_policy="compact")
    # Without records there could not be any offsets that have expired.
    made.send(f"{unique_name}-in", [("a", "1"), ("b", "2")])
    return made


@pytest.fixture
def rig(topics: Topics, unique_name: str, tmp_path: Path) -> Iterator[ThreadRig]:
    with ThreadRig(
        topics,
        unique_name,
        marked(unique_name),
        tmp_path,
        processing_guarantee="exactly_once_v2",
        commit_interval_ms=NEVER_MS,
        producer_transaction_timeout_ms=300_000,
    ) as made:
        yield made


def test_a_task_that_goes_as_soon_as_it_came_leaves_its_offsets_beside_its_entries(
    topics: Topics, rig: ThreadRig, unique_name: str
) -> None:
    rig.start_initialising()
    rig.wait_for(Initialized)
    # What comes before Go is obeyed in one go.
    rig.child.send(AddTasks(tasks=(TASK,), epoch=1))
    rig.child.send(RevokeTasks(tasks=(TASK,), epoch=2))
    rig.child.send(Go(epoch=1))

    assert rig.wait_for(Released, task=TASK).offsets == {f"{unique_name}-in-0": 0}

    topics.wait_settled(unique_name)
    assert [key for key, _ in topics.read(f"{unique_name}-marks-changelog")] == ["begun"]
    assert topics.committed(unique_name, f"{unique_name}-in") == {0: 0}
    rig.stop()
    rig.start(TASK)
    rig.wait_processed(2)
    rig.stop()
    assert [key for key, _ in topics.read(f"{unique_name}-out")] == ["a", "b"]


def test_a_first_commit_that_is_aborted_is_repeated_before_any_record(
    topics: Topics, rig: ThreadRig, unique_name: str, tmp_path: Path
) -> None:
    with ThreadRig(
        topics,
        unique_name,
        aborted_once(unique_name),
        tmp_path / "aborted",
        processing_guarantee="exactly_once_v2",
        commit_interval_ms=NEVER_MS,
        producer_transaction_timeout_ms=300_000,
    ) as aborted:
        aborted.start(TASK)
        wait_for(
            lambda: topics.committed(unique_name, f"{unique_name}-in") == {0: 0},
            what="the offsets of a task that has just begun",
        )
        aborted.wait_processed(2)
        aborted.kill()

    rig.start(TASK)
    rig.wait_processed(2)
    rig.stop()
    assert [key for key, _ in topics.read(f"{unique_name}-out")] == ["a", "b"]
