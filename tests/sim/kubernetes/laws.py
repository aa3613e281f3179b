"""What must hold on a cluster: at every write, and in the end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headwater.model.appstatus import ConditionStatus, ConditionType
from headwater.model.changes import base_of, revision_of
from headwater.model.movewindows import may_move
from headwater.model.streamapp import parse
from headwater_operator.actions import WriteWorkerSpec
from headwater_operator.decide import Intent, ProcessState
from headwater_operator.decide.autoscaling.owner import wanted_workers
from headwater_operator.kube.api import (
    CLAIMS,
    CONFIG_MAPS,
    LEASES,
    PODS,
    STREAM_APPS,
    STREAM_WORKERS,
    Manifest,
    Resource,
)
from headwater_operator.manifests.effective import effective
from headwater_operator.manifests.names import REVISION_LABEL
from headwater_operator.manifests.settings import Installation
from tests.sim import laws
from tests.sim.kubernetes.actions import open_actions
from tests.sim.kubernetes.autoscaling import wanted_by
from tests.sim.kubernetes.growth import too_small
from tests.sim.kubernetes.shards import may_write
from tests.sim.kubernetes.world import APP, KubeWorld
from tests.sim.warm import no_warm_copy_is_given_up
from tests.sim.world import PARTITIONS, ViolationError
from tests.support.kstatus import CURRENT, kstatus, wait_returns

if TYPE_CHECKING:
    from collections.abc import Collection

    from headwater_operator.decide import Decision, Observed
    from tests.sim.kubernetes.operators import Operator

SETTLE_MS = 420_000
"""So long after the last fault all must be well: Leases run out, starts that failed are waited out,
and a worker that is to go may wait for copies elsewhere."""
_TIDY_MS = 900_000
"""And so long until what an operator wrote after its time is looked for, which is done seldom."""
_CONFIGS = "ConfigMaps"
_OVER = {"Succeeded", "Failed"}


class Laws:
    """Looks at every write."""

    def __init__(self, world: KubeWorld) -> None:
        self.world = world
        self.epochs: dict[str, int] = {}
        self.known: dict[Operator, Manifest] = {}
        """The StreamApp as each operator has read or written it last."""
        world.observers.append(self.saw)
        world.judges.append(no_warm_copy_is_given_up)
        if world.exactly_once:
            world.judges.append(nothing_is_balanced_outside_a_window)
            world.watchers.append(lambda: laws.no_two_can_commit(world))
            world.watchers.append(lambda: laws.what_has_paused_is_committed(world))

    def saw(self, plural: str, manifest: Manifest) -> None:
        """One writer per task and epoch: epochs go up, and no task is granted twice."""
        if plural == STREAM_APPS.plural:
            self.done_means_done(manifest)
            self.paused_means_told(manifest)
        if plural != STREAM_WORKERS.plural:
            return
        uid, name = manifest["metadata"]["uid"], manifest["metadata"]["name"]
        epoch = int(manifest["spec"].get("epoch", 0))
        before = self.epochs.get(uid, 0)
        if epoch < before:
            raise ViolationError(f"the epoch of {name} goes down from {before} to {epoch}")
        if epoch == before:
            return
        self.epochs[uid] = epoch
        holders: dict[str, str] = {}
        for found in self.world.all(STREAM_WORKERS):
            for task in found["spec"].get("active", ()):
                other = holders.setdefault(task, found["metadata"]["name"])
                if other != found["metadata"]["name"]:
                    raise ViolationError(f"{task} is granted to {other} and to {name}")

    def done_means_done(self, app: Manifest) -> None:
        """Tools that wait go on when what is wanted serves, and not before."""
        if kstatus(app) != CURRENT and not wait_returns(app, "Ready"):
            return
        wanted = revision_of(effective(parse(app), Installation(), None).spec)
        for pod in self.world.all(PODS):
            name, labels = pod["metadata"]["name"], pod["metadata"]["labels"]
            is_over = (pod.get("status") or {}).get("phase") in _OVER
            if not is_over and base_of(labels[REVISION_LABEL]) != wanted:
                raise ViolationError(f"tools that wait go on while {name} runs another revision")
        ready, replicas = app["status"].get("readyReplicas", 0), wanted_by(parse(app), app)
        if kstatus(app) == CURRENT and ready < replicas:
            raise ViolationError(f"tools that wait go on with {ready} of {replicas} workers")

    def paused_means_told(self, app: Manifest) -> None:
        """The condition says that nothing is processed once every worker with tasks was told so."""
        listed = (app.get("status") or {}).get("conditions") or ()
        generation = app["metadata"].get("generation")
        is_said = any(
            (each["type"], each["status"], each["reason"]) == ("Paused", "True", "SpecPaused")
            and each.get("observedGeneration") == generation
            for each in listed
        )
        if not is_said or not app["spec"].get("paused"):
            return
        for worker in self.world.all(STREAM_WORKERS):
            if worker["spec"].get("active") and not worker["spec"].get("paused"):
                name = worker["metadata"]["name"]
                raise ViolationError(f"the application is said to have paused, and {name} has not")

    # -- intent before act -----------------------------------------------------------------------

    def after_call(self, operator: Operator, verb: str, resource: Resource, result: Any) -> None:
        """Note what an operator knows to be stored."""
        is_telling = verb in ("get", "apply status")
        if resource is STREAM_APPS and is_telling and result is not None:
            self.known[operator] = result

    def before_write(
        self, operator: Operator, verb: str, resource: Resource, name: str, manifest: Manifest
    ) -> None:
        """What an operator does stands in the StreamApp's status before."""
        is_of_apps = resource in (STREAM_APPS, STREAM_WORKERS, PODS, CLAIMS)
        if self.world.plan.shards and is_of_apps and not may_write(self.world, operator):
            raise ViolationError(f"{operator.name} writes in a namespace that is another's: {name}")
        known = self.known.get(operator)
        if known is None:
            return
        status = known.get("status") or {}
        if resource is STREAM_WORKERS and verb in ("create", "patch"):
            epoch, intended = _epoch_of(manifest), int(status.get("assignmentEpoch", 0))
            if epoch > intended:
                raise ViolationError(
                    f"{operator.name} acts before its intent: epoch {epoch} of {name}, "
                    f"but the status says {intended}"
                )
        if resource is CLAIMS and verb == "delete":
            self._may_delete_state(known, name)
        if "deletionTimestamp" in known["metadata"]:
            return
        doing = (status.get("operation") or {}).get("type", "")
        acting = self.world.action_laws
        if resource is CLAIMS and acting is not None and acting.may_delete(name):
            return  # The intent is the status of the action.
        if self._is_act(verb, resource, name) and not doing:
            raise ViolationError(
                f"{operator.name} acts before its intent: {verb} {resource.plural} {name}, "
                "but the status names no operation"
            )

    def _is_act(self, verb: str, resource: Resource, name: str) -> bool:
        if resource is PODS and verb == "create":
            return True
        if resource is PODS and verb == "delete":
            pod = self.world.find(PODS, name)
            is_over = pod is None or (pod.get("status") or {}).get("phase") in _OVER
            is_stray = self.world.find(STREAM_WORKERS, name) is None
            return not is_over and not is_stray
        return resource in (CLAIMS, STREAM_WORKERS) and verb == "delete"

    def _may_delete_state(self, known: Manifest, name: str) -> None:
        plan, acting = self.world.plan, self.world.action_laws
        if acting is not None and acting.may_delete(name):
            return
        is_deleting = "deletionTimestamp" in known["metadata"]
        if plan.keeps_deleted if is_deleting else plan.keeps_scaled:
            raise ViolationError(f"{name} is deleted, although it is to be kept")


def _epoch_of(manifest: Manifest) -> int:
    if "operations" not in manifest:
        return int(manifest["spec"]["epoch"])
    found = [each["value"] for each in manifest["operations"] if each["path"] == "/spec"]
    return max((int(spec["epoch"]) for spec in found), default=0)


def nothing_is_balanced_outside_a_window(observed: Observed, decision: Decision, _: int) -> None:
    """A task is taken from a worker that runs it only if that is needed, or a window is open."""
    app = observed.app
    if may_move(app.spec.assignment.move_windows, observed.minute):
        return
    staying = [view for view in observed.workers if not view.worker.spec.drain]
    wanted = wanted_workers(app, decision.status)
    is_scaled = len(staying) > wanted or app.spec.scale_down.workers_to_remove
    is_any_joining = any(view.worker.spec.joining for view in observed.workers)
    if observed.intent is not Intent.RUN or is_scaled or is_any_joining:
        return
    if any(each.is_effective(observed.clock) for each in observed.actions):
        return  # Somebody has asked for it.
    views = {view.worker.name: view for view in observed.workers}
    for action in decision.actions:
        if not isinstance(action, WriteWorkerSpec) or action.spec.fencing_epoch:
            continue
        view = views.get(action.worker)
        if view is None or view.process is not ProcessState.RUNNING:
            continue
        old, status = view.worker.spec, view.worker.status
        taken = set(old.active) - set(action.spec.active)
        if taken and old.incarnation == status.incarnation and status.error is None:
            tasks = " ".join(map(str, sorted(taken)))
            raise ViolationError(f"{tasks} moves from {action.worker} outside a window")


# -- in the end ----------------------------------------------------------------------------------


def settles(world: KubeWorld) -> None:
    """All tasks run once, the status says so, and nothing is left that nobody wants."""
    since_ms = world.now_ms
    while why := unsettled(world):
        if world.now_ms - since_ms > (_TIDY_MS if why.endswith(_CONFIGS) else SETTLE_MS):
            raise ViolationError(f"not settled: {why}; {world.read_app_status()}")
        world.run_until(world.now_ms + 1_000)


def unsettled(world: KubeWorld) -> str:
    """Say what is not yet as it is to be; empty when all is well."""
    app = world.find(STREAM_APPS, APP)
    if app is None or "deletionTimestamp" in app["metadata"]:
        return "there is no StreamApp"
    world.status = status = world.read_app_status()
    replicas = wanted_by(parse(app), app)
    ready = [each for each in status.conditions if each.type is ConditionType.READY]
    if not laws.is_settled(world):
        return f"the tasks: {status.tasks}"
    if [each.status for each in ready] != [ConditionStatus.TRUE]:
        return f"the condition: {ready}"
    said = (status.replicas, status.ready_replicas, status.updated_replicas)
    if said != (replicas,) * 3 or status.observed_generation != app["metadata"]["generation"]:
        return f"the numbers: {said} of {replicas}"
    if status.operation is not None:
        return f"the operation: {status.operation}"
    left = open_actions(world) or too_small(world) or leaked(world, replicas)
    return world.secret.unsettled() or left


def leaked(world: KubeWorld, replicas: int) -> str:
    """Say what is there that should not be, or the other way round."""
    workers = {each["metadata"]["name"]: each for each in world.all(STREAM_WORKERS)}
    granted = [task for each in workers.values() for task in each["spec"].get("active", ())]
    pods = world.all(PODS)
    running = [pod for pod in pods if (pod.get("status") or {}).get("phase") == "Running"]
    living = [each.name for machine in world.machines.values() for each in machine.workers]
    leases = {each["metadata"]["name"] for each in world.all(LEASES)}
    configs = world.all(CONFIG_MAPS)
    found = (
        (len(granted) == len({*granted}) == 2 * PARTITIONS, f"granted are {sorted(granted)}"),
        (len(pods) == len(running) == replicas, f"{len(pods)} pods, {len(running)} running"),
        (len(living) == replicas, f"processes: {living}"),
        (
            world.plan.keeps_scaled or len(workers) == replicas,
            f"StreamWorkers: {sorted(workers)}",
        ),
        (leases <= workers.keys(), f"Leases: {sorted(leases)}"),
        (len(configs) == 1, f"{len(configs)} {_CONFIGS}"),
    )
    return next((said for is_so, said in found if not is_so), "") or _leaked_state(world, workers)


def _leaked_state(world: KubeWorld, workers: Collection[str]) -> str:
    claims = world.all(CLAIMS)
    of_workers = {f"{name}-state" for name in workers}
    extra = [name for each in claims if (name := each["metadata"]["name"]) not in of_workers]
    if extra and not (world.was_deleted and world.plan.keeps_deleted):
        return f"claims without a worker: {extra}"
    if any("deletionTimestamp" in claim["metadata"] for claim in claims):
        return "a claim is being deleted"
    # One whose pod went before it came to a node is kept as it is, without a volume.
    bound = [each for each in claims if (each.get("status") or {}).get("phase") == "Bound"]
    if world.volumes.keys() != {claim["metadata"]["uid"] for claim in bound}:
        return f"volumes: {sorted(world.volumes)}"
    return ""
