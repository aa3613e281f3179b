"""Which duties which worker is to have, and which of them are answered or out of date."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.config import StreamsConfig
from headwater.model.cluster import generation_of
from headwater.model.duties import (
    CreateTopics,
    DescribeGroup,
    DescribeTopics,
    Fence,
    IdsFenced,
    Reset,
)
from headwater.model.partitions import (
    external_topics,
    internal_topic_names,
    topics_to_describe,
)
from headwater.model.streamapp_kafka import listed_topics
from headwater_operator.decide.engines import owed_engine, take_engine
from headwater_operator.decide.limits import LOOK_SOONER_MS, RETRY_DUTY_MS
from headwater_operator.decide.observed import Intent
from headwater_operator.decide.recall import failure_key

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headwater.model.duties import Duty
    from headwater_operator.decide.judge import Judged
    from headwater_operator.decide.scene import Scene


def executor(scene: Scene, wanted: frozenset[str]) -> Judged | None:
    """Choose who carries out new duties: the first live worker that stays.

    A worker that was just found to be lost is passed over, even if its next process is live: its
    spec takes its tasks away in this round, and what it is to fence must come after that.
    """
    for worker in scene.workers:
        if (
            worker.is_live
            and not worker.is_lost
            and not worker.spec.drain
            and worker.name in wanted
        ):
            return worker
    return None


def is_fenced(scene: Scene, worker: Judged) -> bool:
    """Whether every slot of a worker was fenced after its tasks were taken away.

    Under at-least-once there is nothing to fence: its process has ended, or has stopped by itself
    because it lost its Lease.
    """
    assert worker.spec.is_fencing
    if not scene.app.is_exactly_once:
        return True
    ids = set(worker.worker.transactional_ids(scene.app.application_id))
    return any(
        isinstance(duty, Fence)
        and ids <= set(duty.transactional_ids)
        and is_current_fence(duty, worker)
        and isinstance(other.status.result_of(duty.id), IdsFenced)
        for other in scene.workers
        for duty in other.spec.duties
    )


def is_current_fence(duty: Fence, worker: Judged) -> bool:
    """Whether a duty fences ``worker`` for its present loss, not for an earlier one."""
    return (
        duty.worker == worker.name
        and worker.spec.is_fencing
        and duty.epoch > worker.spec.fencing_epoch
    )


def kept_duties(scene: Scene, worker: Judged) -> tuple[Duty, ...]:
    """Return the duties of a worker that still stand: of this run, and without an answer."""
    return tuple(
        duty
        for duty in worker.spec.duties
        if (
            generation_of(duty.epoch) == scene.observed.generation
            or _may_still_reset(scene, worker, duty)
        )
        and not (isinstance(duty, Reset) and _is_taken_back(scene, worker))
        and (worker.status.result_of(duty.id) is None or _still_counts(scene, duty))
        and not (isinstance(duty, Fence) and _is_out_of_date(scene, duty))
    )


def is_reset_under_way(scene: Scene) -> bool:
    """Whether a worker may still carry out a reset although something else is wanted by now.

    Until it has ended nobody may be given a task: the reset would delete topics in use.
    """
    return scene.intent is not Intent.RESET and _is_resetting(scene)


def _is_resetting(scene: Scene) -> bool:
    return any(
        _may_still_reset(scene, worker, duty)
        for worker in scene.workers
        for duty in worker.spec.duties
    )


def _may_still_reset(scene: Scene, worker: Judged, duty: Duty) -> bool:
    return (
        isinstance(duty, Reset)
        and worker.status.result_of(duty.id) is None
        and not _is_taken_back(scene, worker)
    )


def _is_taken_back(scene: Scene, worker: Judged) -> bool:
    """Whether the process that had a reset has ended, and the next one need not go on with it."""
    return scene.intent is not Intent.RESET and worker.has_ended


def _still_counts(scene: Scene, duty: Duty) -> bool:
    """An answered fence stays until the fenced worker's spec says that it is fenced."""
    if not isinstance(duty, Fence):
        return False
    worker = scene.named(duty.worker)
    return worker is not None and is_current_fence(duty, worker) and is_fenced(scene, worker)


def _is_out_of_date(scene: Scene, duty: Fence) -> bool:
    """A late fence would hit whoever uses the slot by now."""
    worker = scene.named(duty.worker)
    return worker is None or not is_current_fence(duty, worker)


def has_dangerous_duty(scene: Scene, worker: Judged) -> bool:
    """Whether a fence that is out of date must be taken from a worker before it is carried out."""
    return any(
        isinstance(duty, Fence)
        and _is_out_of_date(scene, duty)
        and worker.status.result_of(duty.id) is None
        for duty in worker.spec.duties
    )


def new_duties(scene: Scene, epoch: int) -> tuple[Duty, ...]:
    """Return the duties to hand out now, all to one worker.

    Args:
        scene: what is known.
        epoch: of the write that hands them out; greater than that of every write that takes tasks
            from a lost worker in this round.
    """
    if not scene.is_adopted:
        return ()
    return (
        *_fences(scene, epoch),
        *_look_around(scene, epoch),
        *_create_topics(scene, epoch),
        *_reset(scene, epoch),
        *_take_engine(scene, epoch),
    )


def _fences(scene: Scene, epoch: int) -> Iterator[Duty]:
    if not scene.app.is_exactly_once:
        return
    for worker in scene.workers:
        # A worker lost in this round gets its fence in this round too: the writes are in order.
        if not worker.owes_fence or (worker.spec.is_fencing and is_fenced(scene, worker)):
            continue
        duty = Fence(
            id=f"fence-{worker.name}-{epoch}",
            epoch=epoch,
            worker=worker.name,
            transactional_ids=worker.worker.transactional_ids(scene.app.application_id),
        )
        if not _is_under_way(scene, duty) and not _failed_just_now(scene, duty):
            yield duty


def _look_around(scene: Scene, epoch: int) -> Iterator[Duty]:
    # What is seen while topics are being deleted is of no use.
    if not is_look_due(scene) or scene.topology is None or _is_resetting(scene):
        return
    yield DescribeGroup(id=f"group-{epoch}", epoch=epoch, group=scene.app.application_id)
    listed = {topic.name for topic in listed_topics(scene.app.spec.kafka)}
    topics = tuple(sorted(listed.union(topics_to_describe(scene.topology))))
    # Counting may wait for an open transaction, and a fence would wait behind it.
    is_counting = scene.is_outgrown and not scene.owes_fence
    inputs = external_topics(scene.topology) if is_counting else ()
    yield DescribeTopics(id=f"topics-{epoch}", epoch=epoch, topics=topics, inputs=inputs)


def is_look_due(scene: Scene) -> bool:
    """Whether the group and the topics are to be looked up (again) now."""
    if scene.intent not in (Intent.RUN, Intent.RESET) or scene.topology is None:
        return False
    memory = scene.memory
    if memory.looked_ms is None:
        return True
    group = DescribeGroup(id="", epoch=0, group="")
    if _is_under_way(scene, group):
        return False
    if memory.members is None and failure_key(group) not in memory.failed:
        return True  # who was to look has gone, or is to go, without an answer
    is_told = any(worker.status.group_in_use for worker in scene.workers if worker.is_live)
    is_stuck = memory.members != () or scene.plan is None
    period_ms = LOOK_SOONER_MS if is_stuck or is_told else _look_again_ms(scene)
    return scene.now_ms - memory.looked_ms >= period_ms


def _look_again_ms(scene: Scene) -> int:
    """Return how often to look: more often if ``metadata.max.age.ms`` asks for it."""
    spec = scene.app.spec
    config = StreamsConfig(
        application_id=scene.app.application_id, overrides={**spec.kafka.config, **spec.config}
    )
    try:
        wanted_ms = config.metadata_max_age_ms
    except ValueError:  # the workers say so
        return scene.observed.look_again_ms
    return min(scene.observed.look_again_ms, max(LOOK_SOONER_MS, wanted_ms))


def _create_topics(scene: Scene, epoch: int) -> Iterator[Duty]:
    if scene.intent is not Intent.RUN or scene.memory.members is None:
        return
    if scene.plan is None and not scene.missing_listed:
        return
    # An internal topic that vanishes under running tasks is not simply created anew: its data
    # is gone, and the tasks that used it say so. So with a listed topic that they read.
    if scene.memory.members or is_reset_under_way(scene):
        return
    # The topics that the StreamApp lists come first: the plan is made from their partitions.
    missing = scene.missing_listed
    if scene.is_anything_held:
        read = set() if scene.topology is None else set(topics_to_describe(scene.topology))
        missing = tuple(topic for topic in missing if topic.name not in read)
    elif scene.plan is not None:
        missing = scene.plan.missing_topics(scene.memory.partitions or {})
    duty = CreateTopics(id=f"create-{epoch}", epoch=epoch, topics=missing)
    if missing and not _is_under_way(scene, duty) and not _failed_just_now(scene, duty):
        yield duty


def _reset(scene: Scene, epoch: int) -> Iterator[Duty]:
    if scene.intent is not Intent.RESET or scene.memory.reset_done or scene.topology is None:
        return
    if scene.is_anything_held or scene.owes_fence or scene.memory.members != ():
        return
    if owed_engine(scene) is not None:
        return
    internal = internal_topic_names(scene.topology)
    duty = Reset(
        id=f"reset-{epoch}",
        epoch=epoch,
        application_id=scene.app.application_id,
        internal_topics=internal,
        input_topics=tuple(
            topic for topic in topics_to_describe(scene.topology) if topic not in internal
        ),
        to=scene.observed.reset_to,
        request=str(scene.observed.request),
    )
    if not _is_under_way(scene, duty) and not _failed_just_now(scene, duty):
        yield duty


def _take_engine(scene: Scene, epoch: int) -> Iterator[Duty]:
    duty = None if is_reset_under_way(scene) else take_engine(scene, epoch)
    if duty and not _is_under_way(scene, duty) and not _failed_just_now(scene, duty):
        yield duty


def _is_under_way(scene: Scene, duty: Duty) -> bool:
    """Whether a live worker has a duty of the same kind (and for the same worker) unanswered."""
    return any(
        failure_key(other) == failure_key(duty)
        and generation_of(other.epoch) == scene.observed.generation
        and not (isinstance(other, Fence) and _is_out_of_date(scene, other))
        and worker.status.result_of(other.id) is None
        for worker in scene.workers
        if worker.is_live and not worker.spec.drain
        for other in worker.spec.duties
    )


def _failed_just_now(scene: Scene, duty: Duty) -> bool:
    failed = scene.memory.failed.get(failure_key(duty))
    return failed is not None and scene.now_ms - failed.at_ms < RETRY_DUTY_MS
