"""StreamWorker, Lease and status as JSON values."""

from __future__ import annotations

import json

import pytest

from headwater.errors import SpecError
from headwater.ids import TaskId, TopicPartition
from headwater.model.appstatus import AppStatus, Failure, TaskCounts
from headwater.model.cluster import (
    Lease,
    PartitionOffset,
    ReleasedTask,
    Role,
    StoredTask,
    StreamWorker,
    TaskStatus,
    WorkerError,
    WorkerSpec,
    WorkerStatus,
    changelogs_digest,
    format_epoch,
    generation_of,
    lag_bucket,
    make_epoch,
    offset_bucket,
    worker_name,
    worker_ordinal,
)
from headwater.model.duties import (
    CreateTopics,
    DescribeGroup,
    DescribeTopics,
    DutyFailed,
    Fence,
    GroupDescribed,
    GroupMember,
    IdsFenced,
    Reset,
    ResetDone,
    TopicsCreated,
    TopicsDescribed,
)
from headwater.model.lifecycle import ClientState, TaskState
from headwater.model.topics import (
    ChangelogTopic,
    InternalTopic,
    RepartitionTopic,
    SubtopologyReport,
    TopologyReport,
)

FULL = StreamWorker(
    name="word-count-w-0",
    spec=WorkerSpec(
        app="word-count",
        epoch=make_epoch(2, 7),
        incarnation="a",
        active=(TaskId(0, 0), TaskId(1, 0)),
        standby=(TaskId(1, 1),),
        warmup=(TaskId(1, 2),),
        revoking=(TaskId(0, 3),),
        duties=(
            DescribeTopics(id="d1", epoch=1, topics=("in",)),
            CreateTopics(
                id="d2",
                epoch=1,
                topics=(InternalTopic(name="x", partitions=4, configs={"retention.ms": "-1"}),),
            ),
            Fence(id="d3", epoch=2, worker="word-count-w-1", transactional_ids=("t-0", "t-1")),
            DescribeGroup(id="d4", epoch=2, group="word-count"),
            Reset(
                id="d5",
                epoch=2,
                application_id="word-count",
                internal_topics=("x",),
                input_topics=("in",),
            ),
        ),
        slots=(0, 1),
        drain=True,
        fencing_epoch=5,
    ),
    status=WorkerStatus(
        incarnation="a",
        acknowledged_epoch=make_epoch(2, 6),
        tasks=(TaskStatus(task=TaskId(0, 0), state=TaskState.RUNNING, role=Role.STANDBY, slot=1),),
        released=(
            ReleasedTask(
                task=TaskId(0, 3),
                epoch=4,
                offsets=(PartitionOffset(partition=TopicPartition("in", 3), offset=17),),
            ),
        ),
        stored=(StoredTask(task=TaskId(1, 3), offset_bucket=20_000),),
        fenced_slots=(1,),
        duty_results=(
            TopicsDescribed(id="d1", partitions={"in": 4}),
            TopicsCreated(id="d2", partitions={"x": 4}),
            IdsFenced(id="d3"),
            GroupDescribed(id="d4", members=(GroupMember(member_id="m", client_id="c", host="h"),)),
            ResetDone(id="d5", deleted_topics=("x",)),
            DutyFailed(id="d6", error="KafkaUnavailableError", message="no broker"),
        ),
        topology=TopologyReport(
            hash="abc",
            description="Topologies:\n",
            subtopologies=(
                SubtopologyReport(
                    id=1,
                    source_topics=("in",),
                    repartition_sources=(RepartitionTopic(name="r", partitions=3),),
                    sink_topics=("out",),
                    changelogs=(ChangelogTopic(name="c", store="s"),),
                    stores=("s",),
                ),
            ),
            copartition_groups=(("in", "r"),),
        ),
        endpoint="127.0.0.1:8080",
        error=WorkerError(error="ProcessingError", message="boom", task=TaskId(0, 0)),
    ),
)


def test_a_stream_worker_survives_json():
    assert StreamWorker.from_dict(json.loads(json.dumps(FULL.to_dict()))) == FULL


def test_copies_are_for_the_named_process_alone():
    spec = WorkerSpec(app="a", incarnation="me", standby=(TaskId(0, 1),), warmup=(TaskId(0, 2),))

    assert spec.copies_for("me") == {TaskId(0, 1): Role.STANDBY, TaskId(0, 2): Role.WARMUP}
    assert spec.copies_for("another") == {}
    assert WorkerSpec(app="a", standby=(TaskId(0, 1),)).copies_for("") == {}


def test_a_task_that_is_active_or_being_taken_away_is_not_followed_as_well():
    tasks = tuple(TaskId(0, number) for number in range(3))
    spec = WorkerSpec(
        app="a", incarnation="me", active=tasks[:1], revoking=tasks[1:2], standby=tasks
    )

    assert spec.copies_for("me") == {tasks[2]: Role.STANDBY}


def test_a_lease_survives_json():
    lease = Lease(worker="w", holder="a", duration_ms=5, renewals=9)

    assert Lease.from_dict(json.loads(json.dumps(lease.to_dict()))) == lease


def test_an_application_status_survives_json():
    status = AppStatus(
        state=ClientState.RUNNING,
        reason="all tasks run",
        assignment_epoch=9,
        tasks=TaskCounts(total=4, running=3),
        failure=Failure(error="GroupInUseError", message="m", is_final=True),
    )

    assert AppStatus.from_dict(json.loads(json.dumps(status.to_dict()))) == status


def test_what_holds_its_default_is_not_written():
    worker = StreamWorker(name="w", spec=WorkerSpec(app="a"))

    assert worker.to_dict()["spec"] == {"app": "a"}
    assert worker.to_dict()["status"] == {}


def test_fields_of_a_later_release_are_passed_over():
    data = FULL.to_dict()
    spec = data["spec"]
    assert isinstance(spec, dict)

    assert StreamWorker.from_dict({**data, "spec": {**spec, "colour": "red"}}) == FULL


def test_a_later_format_is_refused():
    with pytest.raises(SpecError, match="format version 2 is newer than 1"):
        StreamWorker.from_dict({**FULL.to_dict(), "formatVersion": 2})


def test_a_resource_of_another_kind_is_refused():
    with pytest.raises(SpecError, match="expected a Lease resource"):
        Lease.from_dict(FULL.to_dict())


def test_damage_is_reported_with_its_path():
    data = FULL.to_dict()
    spec = data["spec"]
    assert isinstance(spec, dict)

    with pytest.raises(SpecError, match=r"StreamWorker word-count-w-0: spec\.active\[0\]: not a"):
        StreamWorker.from_dict({**data, "spec": {**spec, "active": ["zero"]}})


def test_epochs_order_by_generation_first():
    assert make_epoch(2, 0) > make_epoch(1, 4_000_000_000)
    assert generation_of(make_epoch(7, 3)) == 7
    assert format_epoch(make_epoch(7, 3)) == "7.3"


def test_only_the_named_incarnation_may_hold_the_tasks():
    assert FULL.spec.active_for("a") == (TaskId(0, 0), TaskId(1, 0))
    assert FULL.spec.active_for("b") == ()
    assert WorkerSpec(app="x", active=(TaskId(0, 0),)).active_for("") == ()


def test_transactional_ids_cover_every_slot_ever_used():
    assert FULL.transactional_ids("app") == ("app-word-count-w-0-0", "app-word-count-w-0-1")


def test_worker_names_carry_their_ordinal():
    assert worker_ordinal(worker_name("word-count", 12)) == 12


def test_offsets_are_reported_in_buckets():
    assert offset_bucket(29_999) == 20_000
    assert offset_bucket(9_999) == 0


def test_results_are_found_by_the_id_of_their_duty():
    assert FULL.status.result_of("d3") == IdsFenced(id="d3")
    assert FULL.status.result_of("d9") is None


@pytest.mark.parametrize(
    ("lag", "bucket"),
    [(-1, 0), (0, 0), (1, 1_000), (1_000, 1_000), (1_001, 10_000), (99_999, 100_000)],
)
def test_a_lag_is_reported_by_its_order_of_magnitude_and_never_too_small(
    lag: int, bucket: int
) -> None:
    assert lag_bucket(lag) == bucket


def test_a_changelog_that_was_created_again_has_another_digest() -> None:
    digest = changelogs_digest({"a-changelog": "id-1", "b-changelog": "id-2"})

    assert digest == changelogs_digest({"b-changelog": "id-2", "a-changelog": "id-1"})
    assert digest != changelogs_digest({"a-changelog": "id-3", "b-changelog": "id-2"})
    assert len(digest) == 8
