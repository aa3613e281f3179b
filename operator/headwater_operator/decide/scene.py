"""One snapshot, judged: what every part of the decision looks at."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from headwater.errors import PartitionMismatchError, TopicError
from headwater.model.appstatus import Failure
from headwater.model.cluster import generation_of, make_epoch
from headwater.model.partitions import PartitionPlan, plan, with_unread
from headwater.model.streamapp_kafka import listed_topics
from headwater.model.streamapp_upgrade import OnFailure
from headwater_operator.decide.engines import driver_failure
from headwater_operator.decide.failures import hang_failure, worker_failure
from headwater_operator.decide.judge import Judged, judge
from headwater_operator.decide.observed import Intent
from headwater_operator.decide.streamactions.asked import Demands, demands_of
from headwater_operator.rollout import difference
from headwater_operator.wording import counted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headwater.model.appstatus import AutoscalingStatus
    from headwater.model.streamapp import StreamApp
    from headwater.model.topics import InternalTopic, TopologyReport
    from headwater_operator.decide.memory import Memory
    from headwater_operator.decide.observed import Observed


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What is known now.

    Attributes:
        observed: the snapshot.
        memory: brought up to date with it.
        now_ms: of the control loop's monotonic clock.
        workers: judged, by ordinal.
        failure: why the application does not run, or is given up; ``None`` if nothing is wrong.
        topology: as reported; ``None`` while nobody has.
        plan: tasks and internal topics; ``None`` until the topics were looked up in this run.
        misfits: why the topologies of workers of the new revision do not fit that of the others, by
            worker.
        is_outgrown: whether topics do not have the partitions any more that the topology needs,
            while workers run: records may wait that nobody reads.
        missing_listed: topics that the StreamApp lists and that do not exist; empty until the
            topics were looked up in this run.
        base_epoch: no epoch in use is greater.
        demands: what StreamActions that were begun ask for.
        autoscaling: how many workers there are to be by lag; ``None`` without autoscaling, and
            before that is decided.
    """

    observed: Observed
    memory: Memory
    now_ms: int
    workers: tuple[Judged, ...]
    failure: Failure | None
    topology: TopologyReport | None
    misfits: Mapping[str, str]
    plan: PartitionPlan | None
    is_outgrown: bool
    missing_listed: tuple[InternalTopic, ...]
    base_epoch: int
    demands: Demands
    autoscaling: AutoscalingStatus | None = None

    @property
    def app(self) -> StreamApp:
        """The StreamApp."""
        return self.observed.app

    @property
    def intent(self) -> Intent:
        """What is wanted: as observed, or to stop after a final failure."""
        is_final = self.failure is not None and self.failure.is_final
        if is_final and self.observed.intent is Intent.RUN:
            return Intent.STOP
        return self.observed.intent

    @property
    def is_anything_held(self) -> bool:
        """Whether any worker may hold a task."""
        return any(worker.held for worker in self.workers)

    @property
    def owes_fence(self) -> bool:
        """Whether the slots of any worker have to be fenced."""
        return any(worker.owes_fence for worker in self.workers)

    @property
    def is_adopted(self) -> bool:
        """Whether every spec carries an epoch of this run of the control loop.

        Before, a run that was replaced, but was frozen and has not noticed, could still write a
        spec from a decision of its own. Nothing may be granted until it no longer can.
        """
        return all(
            generation_of(worker.spec.epoch) == self.observed.generation for worker in self.workers
        )

    @property
    def is_replaced(self) -> bool:
        """Whether a later run of the control loop has written already: this one has to end."""
        return generation_of(self.base_epoch) > self.observed.generation

    def named(self, name: str) -> Judged | None:
        """Return a worker by name."""
        for worker in self.workers:
            if worker.name == name:
                return worker
        return None


def set_scene(observed: Observed, memory: Memory, now_ms: int) -> Scene:
    """Judge everything that was observed.

    Args:
        observed: the snapshot.
        memory: brought up to date with it (``recall.remember``).
        now_ms: of the control loop's monotonic clock.
    """
    workers = tuple(
        judge(view, memory.of(view.worker.name), now_ms)
        for view in sorted(observed.workers, key=lambda view: _order(view.worker.name))
    )
    misfits = _misfits(observed, workers)
    topology, failure = _topology(observed, workers, misfits)
    found: PartitionPlan | None = None
    is_outgrown = False
    listed = _missing_listed(observed.app, memory)
    if topology is not None and failure is None and memory.partitions is not None and not listed:
        try:
            found = plan(topology, memory.partitions)
        except PartitionMismatchError as error:
            is_outgrown = any(worker.spec.active for worker in workers)
            failure = _mismatch(error, memory, is_outgrown=is_outgrown)
        except TopicError as error:
            failure = Failure(error=type(error).__name__, message=str(error))
    failure = _failure(observed, workers, memory) or failure
    return Scene(
        observed=observed,
        memory=memory,
        now_ms=now_ms,
        workers=workers,
        failure=failure,
        topology=topology,
        misfits=misfits,
        plan=found,
        is_outgrown=is_outgrown,
        missing_listed=listed,
        base_epoch=_base_epoch(observed),
        demands=demands_of(observed.actions, observed.clock),
    )


def _mismatch(error: PartitionMismatchError, memory: Memory, *, is_outgrown: bool) -> Failure:
    """Return the failure; an application that runs is given up as soon as it is known what waits.

    Java ends it as well: records of a key may be in another partition than the key's state.
    """
    message = with_unread(str(error), memory.unread or {})
    is_final = is_outgrown and memory.unread is not None
    return Failure(error=type(error).__name__, message=message, is_final=is_final)


def _missing_listed(app: StreamApp, memory: Memory) -> tuple[InternalTopic, ...]:
    known = memory.partitions
    if known is None:
        return ()
    return tuple(topic for topic in listed_topics(app.spec.kafka) if topic.name not in known)


def differing_topics(app: StreamApp, memory: Memory) -> tuple[str, ...]:
    """Say which listed topics exist with another number of partitions; they are left as they are.

    Partitions cannot be taken away, and adding some moves the keys of what is already there.
    """
    known = memory.partitions or {}
    return tuple(
        f"topic {topic.name} has {counted(known[topic.name], 'partition')}, and spec.kafka.topics "
        f"lists {topic.partitions}: it stays as it is; correct the StreamApp"
        for topic in listed_topics(app.spec.kafka)
        if known.get(topic.name, topic.partitions) != topic.partitions
    )


def _order(name: str) -> tuple[int, str]:
    """Sort workers by ordinal: w-10 after w-9."""
    return len(name), name


def _is_outdated(observed: Observed, worker: Judged) -> bool:
    """Whether a worker's process is of another revision than the wanted one."""
    wanted = observed.revision
    return bool(wanted) and worker.view.revision not in ("", wanted)


def _is_of_failed(observed: Observed, worker: Judged) -> bool:
    """Whether a worker's status may be that of a process of the revision that is rolled back."""
    failed = observed.failed_revision
    return bool(failed) and worker.memory.heard_revision in ("", failed)


def is_on_trial(observed: Observed) -> bool:
    """Whether the wanted revision was never ready, and would be rolled back to one that was."""
    is_asked = observed.app.spec.upgrade.on_failure is OnFailure.ROLL_BACK
    return is_asked and observed.status.revision.last_stable not in ("", observed.revision)


def _is_rolling(observed: Observed, workers: tuple[Judged, ...]) -> bool:
    """Whether workers of another revision still serve."""
    return any(worker.is_live and _is_outdated(observed, worker) for worker in workers)


def _reports(workers: tuple[Judged, ...]) -> list[tuple[Judged, TopologyReport]]:
    """Return what live workers report, first what most tasks run on; then what others have left."""
    found = [
        (worker, worker.status.topology) for worker in workers if worker.status.topology is not None
    ]
    return sorted(found, key=lambda pair: (not pair[0].is_live, -len(pair[0].held)))


def _misfits(observed: Observed, workers: tuple[Judged, ...]) -> dict[str, str]:
    """Return the live workers that cannot share tasks with those that serve, and why."""
    reports = [pair for pair in _reports(workers) if pair[0].is_live]
    if not reports or not _is_rolling(observed, workers):
        return {}
    served = reports[0][1]
    return {
        worker.name: (
            f"its topology does not fit the running topology: {why}. Take the change back; or set "
            "spec.suspend, wait until all have stopped, and go on with the new topology; or run it "
            "under another applicationId"
        )
        for worker, report in reports
        if (why := difference(served, report))
    }


def _topology(
    observed: Observed, workers: tuple[Judged, ...], misfits: Mapping[str, str]
) -> tuple[TopologyReport | None, Failure | None]:
    reports = [pair for pair in _reports(workers) if pair[0].name not in misfits]
    live = {report.hash: worker.name for worker, report in reversed(reports) if worker.is_live}
    # During a rolling change, two that fit run side by side.
    if len(live) > 1 and not _is_rolling(observed, workers):
        message = (
            f"workers run different topologies: {', '.join(sorted(live.values()))} differ; "
            "start them all from the same code"
        )
        return reports[0][1], Failure(error="TopologyError", message=message)
    return (reports[0][1] if reports else None), None


def _failure(observed: Observed, workers: tuple[Judged, ...], memory: Memory) -> Failure | None:
    """Return the failure to heed: a final one for ever, else the worst of now."""
    if observed.status.failure is not None and observed.status.failure.is_final:
        return observed.status.failure
    is_spared = _is_rolling(observed, workers) or is_on_trial(observed)
    found = []
    for worker in workers:
        failure = worker_failure(worker)
        if failure is None:
            continue
        is_asked = worker.status.error is not None and worker.status.error.shuts_down_application
        is_given_up = is_spared or _is_outdated(observed, worker) or _is_of_failed(observed, worker)
        if not is_asked and is_given_up:
            # The roll-out halts and the others go on; or it is replaced by what is wanted now, or
            # by the revision that was ready before.
            failure = replace(failure, is_final=False)
        found.append(failure)
    found += filter(None, map(hang_failure, workers))
    found += _group_failure(observed, workers, memory)
    found += filter(None, [driver_failure(observed, memory)])
    found += [
        Failure(error=failed.result.error, message=failed.result.message)
        for failed in memory.failed.values()
    ]
    return min(found, key=lambda failure: not failure.is_final, default=None)


def _group_failure(
    observed: Observed, workers: tuple[Judged, ...], memory: Memory
) -> list[Failure]:
    if not memory.members:
        return []
    runs = any(worker.spec.active for worker in workers)
    listed = ", ".join(str(member) for member in memory.members[:3])
    more = f" and {len(memory.members) - 3} more" if len(memory.members) > 3 else ""
    message = (
        f"consumer group {observed.app.application_id!r} has members that are not ours: "
        f"{listed}{more}; "
    )
    message += (
        "we stop, because both would process the same records. Stop the other application "
        "(a Java application stays a member for up to 45 s), then start again"
        if runs
        else "waiting until they leave (a Java application stays a member for up to 45 s)"
    )
    return [Failure(error="GroupInUseError", message=message, is_final=runs)]


def _base_epoch(observed: Observed) -> int:
    return max(
        make_epoch(observed.generation, 0),
        observed.status.assignment_epoch,
        *(
            epoch
            for view in observed.workers
            for epoch in (view.worker.spec.epoch, view.worker.status.acknowledged_epoch)
        ),
        0,
    )
