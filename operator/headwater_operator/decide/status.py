"""The application's status, from what was seen and from what is being done about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.model.appstatus import AppStatus, TaskCounts
from headwater.model.cluster import Role
from headwater.model.lifecycle import ClientState, TaskState
from headwater_operator.decide.engines import (
    counts_on,
    engine_reason,
    engine_state,
    engine_status,
)
from headwater_operator.decide.observed import Intent
from headwater_operator.decide.placing import running_tasks
from headwater_operator.wording import counted, every

if TYPE_CHECKING:
    from headwater.model.cluster import WorkerSpec
    from headwater_operator.actions import WriteWorkerSpec
    from headwater_operator.decide.fleet import Fleet
    from headwater_operator.decide.judge import Judged
    from headwater_operator.decide.placing import Placing
    from headwater_operator.decide.scene import Scene


def app_status(scene: Scene, placing: Placing, writes: tuple[WriteWorkerSpec, ...]) -> AppStatus:
    """Return what to report."""
    tasks = counts_on(scene, count_tasks(scene))
    state = client_state(scene, tasks)
    epoch = max((write.spec.epoch for write in writes), default=scene.base_epoch)
    return AppStatus(
        state=state,
        reason=_reason(scene, placing, state, tasks),
        assignment_epoch=epoch,
        topology_hash=scene.topology.hash if scene.topology is not None else "",
        replicas=_executors(scene) + sum(not worker.has_ended for worker in scene.workers),
        ready_replicas=_ready_executors(scene, state) + sum(map(is_ready, scene.workers)),
        tasks=tasks,
        unread_records=sum((scene.memory.unread or {}).values()),
        paused=is_paused(scene),
        engine=engine_status(scene),
        autoscaling=scene.autoscaling,
        failure=scene.failure,
    )


def _executors(scene: Scene) -> int:
    """Count executors; where nobody sees them, all that there are to be while the driver runs."""
    driver = scene.observed.driver
    if driver.process.is_proof_of_end:
        return 0
    return driver.executors if driver.executors_there is None else driver.executors_there


def _ready_executors(scene: Scene, state: ClientState) -> int:
    """Count executors that do their work: none without the driver's."""
    driver = scene.observed.driver
    if driver.process.is_proof_of_end or state is not ClientState.RUNNING:
        return 0
    return driver.executors if driver.executors_there is None else driver.executors_ready


def why_waiting(scene: Scene, fleet: Fleet, placing: Placing) -> str:
    """Return what the assignment waits for, other than copies that warm up; empty for nothing.

    A worker that has just been wanted has no part in it before its process reports.
    """
    if not fleet.takes_tasks:
        return ""
    absent = {
        worker.name
        for worker in scene.workers
        if worker.name in fleet.wanted
        and (not worker.is_live or worker.owes_fence or worker.name in scene.misfits)
    }
    if absent := absent | set(fleet.new):
        verb = "has" if len(absent) == 1 else "have"
        return why_importing(scene) or f"{' and '.join(sorted(absent))} {verb} yet to join"
    return placing.waits_for


def why_unsettled(
    scene: Scene, fleet: Fleet, placing: Placing, writes: tuple[WriteWorkerSpec, ...]
) -> str:
    """Return why the assignment is not what it is to be, although all tasks may run.

    What this very decision moves is not seen in what was observed.
    """
    if not fleet.takes_tasks:
        return ""
    if waits_for := why_waiting(scene, fleet, placing):
        return waits_for
    if placing.away:
        count = len(placing.away)
        return f"{counted(count, 'task is', 'tasks are')} to move to another worker"
    if any(_is_move(scene.named(write.worker), write.spec) for write in writes):
        return "tasks or copies of them are being placed"
    return ""


def _is_move(worker: Judged | None, spec: WorkerSpec) -> bool:
    if worker is None:
        return True
    old = worker.spec
    return (spec.active, spec.standby, spec.warmup) != (old.active, old.standby, old.warmup)


def count_tasks(scene: Scene) -> TaskCounts:
    """Count tasks by what they are doing."""
    granted = {task for worker in scene.workers for task in worker.spec.active}
    # Of a task that was granted, somebody else may have to let go: a spec was changed by hand.
    revoking = {
        task for worker in scene.workers for task in worker.held if task not in worker.spec.active
    }
    running = {
        status.task
        for worker in scene.workers
        if worker.is_live and not worker.owes_fence
        for status in worker.status.tasks
        if status.task in worker.spec.active
        and status.role is Role.ACTIVE
        and status.state is TaskState.RUNNING
    } - revoking
    placed = granted | revoking
    every = placed if scene.plan is None else set(scene.plan.tasks)
    total = len(every) if scene.plan is not None else max(len(every), _last_total(scene))
    return TaskCounts(
        total=total,
        running=len(running),
        restoring=len(granted - revoking - running),
        revoking=len(revoking),
        unassigned=total - len(every & placed),
        standby=_wanted_standbys(scene),
        caught_up=sum(
            status.caught_up
            for worker in scene.workers
            for task, status in worker.copies.items()
            if task in worker.spec.standby
        ),
        warmup=sum(len(worker.spec.warmup) for worker in scene.workers),
    )


def _last_total(scene: Scene) -> int:
    """Return how many tasks the status counted last; 0 if no worker has a task.

    That number stands until this run has looked up the topics: a task that was taken from a lost
    worker is in no spec. If no worker has a task, the next topology may have fewer.
    """
    is_any_held = any(worker.spec.active or worker.held for worker in scene.workers)
    return scene.observed.status.tasks.total if is_any_held else 0


def _wanted_standbys(scene: Scene) -> int:
    """Count the standbys the StreamApp asks for, whether there are enough workers or not."""
    replicas = scene.app.spec.assignment.standby_replicas
    if scene.plan is not None:
        return len(scene.plan.can_stand_by) * replicas
    return scene.observed.status.tasks.standby if replicas and _last_total(scene) else 0


def is_ready(worker: Judged) -> bool:
    """Whether a live worker runs every task it was granted."""
    granted = set(worker.spec.active)
    return worker.is_live and (not granted or running_tasks(worker) >= granted)


def client_state(scene: Scene, tasks: TaskCounts) -> ClientState:
    """Return the state of the application in Kafka Streams' words."""
    is_over = all(worker.has_ended for worker in scene.workers)
    is_over = is_over and scene.observed.driver.process.is_proof_of_end
    is_over = is_over and not scene.is_anything_held and not scene.owes_fence
    if scene.failure is not None and scene.failure.is_final:
        return ClientState.ERROR if is_over else ClientState.PENDING_ERROR
    if scene.intent is not Intent.RUN or scene.app.wanted_workers == 0:
        is_over = is_over and _is_tidy(scene)
        return ClientState.NOT_RUNNING if is_over else ClientState.PENDING_SHUTDOWN
    if on_its_way := engine_state(scene):
        return on_its_way
    if tasks.total and tasks.running == tasks.total and not scene.is_outgrown:
        return ClientState.RUNNING
    if scene.is_anything_held or scene.owes_fence:
        return ClientState.REBALANCING
    return ClientState.CREATED


def _is_tidy(scene: Scene) -> bool:
    """Whether a reset or a deletion has left nothing to do."""
    if scene.intent is Intent.RESET and not scene.memory.reset_done:
        return False
    return scene.intent not in (Intent.RESET, Intent.DELETE) or not scene.workers


def _reason(scene: Scene, placing: Placing, state: ClientState, tasks: TaskCounts) -> str:
    fencing = [worker.name for worker in scene.workers if worker.owes_fence]
    if scene.failure is not None:
        return scene.failure.message
    on_its_way = state in (ClientState.RUNNING, ClientState.REBALANCING)
    if fencing:
        said = f"the slots of {' and '.join(fencing)} are being fenced"
    else:
        said = engine_reason(scene) if on_its_way else ""
    if said:
        return said
    match state:
        case ClientState.RUNNING:
            said = _all(scene, tasks.total)
            waits = placing.waiting.described
            return f"{said}; {waits}" if waits else said
        case ClientState.NOT_RUNNING:
            return "stopped: every slot is closed or fenced"
        case ClientState.PENDING_SHUTDOWN:
            return "stopping: workers release their tasks and end"
        case _:
            return why_importing(scene) or placing.waits_for or _progress(tasks)


def is_paused(scene: Scene) -> bool:
    """Whether nothing is processed, as ``spec.paused`` wants it."""
    if not scene.app.spec.paused:
        return False
    return all(
        worker.is_live and not worker.owes_fence and worker.spec.paused and worker.status.paused
        for worker in scene.workers
        if worker.held
    )


def _all(scene: Scene, total: int) -> str:
    if not scene.app.spec.paused:
        return every(total, "task runs", "tasks run")
    if is_paused(scene):
        return every(total, "task has paused", "tasks have paused")
    return every(total, "task runs; it is about to pause", "tasks run; they are about to pause")


def why_importing(scene: Scene) -> str:
    """Say which workers import their topology, and how long they may; empty if none does."""
    names = [worker.name for worker in scene.workers if worker.is_importing]
    if not names:
        return ""
    source = scene.app.spec.topology
    return (
        f"{' and '.join(names)} import{'s' if len(names) == 1 else ''} the topology "
        f"{source.described}, which may take {source.import_timeout_ms / 1000:g} s "
        "(spec.topology.importTimeout)"
    )


def _progress(tasks: TaskCounts) -> str:
    parts = (
        (tasks.running, "runs", "run"),
        (tasks.restoring, "starts or restores", "start or restore"),
        (tasks.revoking, "is being released", "are being released"),
        (tasks.unassigned, "waits for a worker", "wait for a worker"),
    )
    said = ", ".join(counted(count, one, many) for count, one, many in parts if count)
    return f"of {counted(tasks.total, 'task')} {said}"
