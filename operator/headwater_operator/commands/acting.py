"""The words that are carried out step by step: ``move``, ``drain``, ``restart``.

Each creates a StreamAction, shows its progress, and ends when it has ended. Whoever presses Ctrl-C
leaves it running: the operator carries it out, not the command.
"""
# ruff: noqa: PLC0415  # every command imports this module: nothing heavy at the top

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any, Final

from headwater.errors import EnvironmentProblemError, SpecError
from headwater_operator.commands import completing
from headwater_operator.commands.arguments import Parsers, add_app, set_completer
from headwater_operator.commands.output import warn
from headwater_operator.commands.places import chosen, on_a_cluster_only, place_of

if TYPE_CHECKING:
    import argparse

    from headwater.model.streamaction import StreamAction
    from headwater_operator.commands.places import OnCluster

_POLL_S: Final = 0.5
_UNSEEN_S: Final = 15.0
_AWAY_S: Final = 60.0
"""So long the API server may give no answer before the command gives up; the action goes on."""
_TTL_S: Final = 86_400
"""An action that has ended is kept for a day."""


def add_move(parsers: Parsers[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    """Add ``move``."""
    parser = parsers.add_parser(
        "move",
        help="move a task to another worker",
        description="Move a task to another worker: behind a warm-up, if it has state.",
    )
    task = parser.add_argument("task", metavar="TASK", help="such as 0_3")
    set_completer(task, completing.tasks)
    _add_worker(parser, "worker", "that is to have it: its name, or its number")
    _add_waiting(parser)
    parser.set_defaults(run=run_move)
    return parser


def add_drain(parsers: Parsers[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    """Add ``drain``."""
    parser = parsers.add_parser(
        "drain",
        help="have a worker give up its tasks, and replace its process",
        description="Move all tasks of a worker to others, each behind a warm-up; then its process "
        "ends and is started anew.",
    )
    _add_worker(parser, "worker", "its name, or its number")
    parser.add_argument(
        "--keep-out",
        action="store_true",
        help="leave it without a process; another worker takes its place",
    )
    _add_waiting(parser)
    parser.set_defaults(run=run_drain)
    return parser


def add_restart(parsers: Parsers[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    """Add ``restart``."""
    parser = parsers.add_parser(
        "restart",
        help="replace the processes of an application, one at a time",
        description="Replace the processes of an application's workers, one at a time, as a "
        "roll-out does.",
    )
    add_app(parser)
    worker = parser.add_argument(
        "--worker",
        action="append",
        default=[],
        metavar="W",
        help="only this one: its name, or its number; may be repeated",
    )
    set_completer(worker, completing.workers)
    _add_waiting(parser, with_app=False)
    parser.set_defaults(run=run_restart)
    return parser


def _add_worker(parser: argparse.ArgumentParser, name: str, said: str) -> None:
    set_completer(parser.add_argument(name, metavar="WORKER", help=said), completing.workers)


def _add_waiting(parser: argparse.ArgumentParser, *, with_app: bool = True) -> None:
    if with_app:
        add_app(parser, is_option=True)
    parser.add_argument(
        "--timeout", metavar="DURATION", help="give up after so long, such as 30m (default: 1h)"
    )
    parser.add_argument(
        "--no-wait", action="store_true", help="ask for it, and do not wait until it is done"
    )


def run_move(args: argparse.Namespace) -> int:
    """``move``.

    Raises:
        HeadwaterError: see :func:`_carry_out`; or there is no such application, task or worker.
    """
    from headwater_operator.overview.reasons import task_named

    task = task_named(args.task)
    with place_of(args) as place:
        cluster = on_a_cluster_only(place, "move", "the control loop places tasks by itself")
        app, worker = _worker(cluster, args.app, args.worker)
        part = {"moveTask": {"task": str(task), "worker": worker}}
        return _carry_out(cluster, app, "MoveTask", part, args)


def run_drain(args: argparse.Namespace) -> int:
    """``drain``.

    Raises:
        HeadwaterError: see :func:`_carry_out`; or there is no such application or worker.
    """
    with place_of(args) as place:
        here = "`headwater scale` takes workers away behind warm-ups"
        cluster = on_a_cluster_only(place, "drain", here)
        app, worker = _worker(cluster, args.app, args.worker)
        more = {"keepOut": True} if args.keep_out else {}
        part = {"drainWorker": {"worker": worker, **more}}
        return _carry_out(cluster, app, "DrainWorker", part, args)


def run_restart(args: argparse.Namespace) -> int:
    """``restart``.

    Raises:
        HeadwaterError: see :func:`_carry_out`; or there is no such application or worker.
    """
    with place_of(args) as place:
        here = "`headwater down APP` and `headwater up -f FILE` start workers anew"
        cluster = on_a_cluster_only(place, "restart", here)
        app = chosen(cluster, args.app)
        cluster.read(app)
        workers = [_worker(cluster, app, named)[1] for named in args.worker]
        part = {"restart": {"workers": workers}} if workers else {}
        return _carry_out(cluster, app, "Restart", part, args)


def _worker(cluster: OnCluster, app: str | None, named: str) -> tuple[str, str]:
    """Return the application and the worker that are meant.

    Raises:
        SpecError: there is no such application or worker.
    """
    from headwater_operator.kube.api import STREAM_WORKERS
    from headwater_operator.manifests.names import of_app

    if app is None and not named.isdigit():
        found = cluster.client.get(STREAM_WORKERS, cluster.namespace, named)
        if found is not None:
            app = str(found["spec"]["app"])
    app = chosen(cluster, app)
    cluster.read(app)
    listed = cluster.client.list(STREAM_WORKERS, cluster.namespace, labels=of_app(app))
    names = sorted(str(each["metadata"]["name"]) for each in listed)
    for name in names:
        if named in (name, name.rpartition("-")[2]):
            return app, name
    raise SpecError(f"{app} has no worker {named!r} (there are: {', '.join(names) or 'none'})")


def _carry_out(
    cluster: OnCluster, app: str, kind: str, part: dict[str, Any], args: argparse.Namespace
) -> int:
    """Create a StreamAction, and wait for its end.

    Args:
        cluster: where the application is.
        app: its name.
        kind: what is to be done.
        part: of the specification, that says more.
        args: how to wait.

    Raises:
        SpecError: ``--timeout`` is no duration.
        EnvironmentProblemError: it has failed.
        KubeApiError: the API server refuses, or does not answer.
    """
    from headwater.model import streamaction
    from headwater.model.cluster import API_VERSION
    from headwater_operator.kube.api import STREAM_ACTIONS
    from headwater_operator.kube.errors import KubeApiError

    spec = {"app": app, "type": kind, **part, "ttlSecondsAfterFinished": _TTL_S}
    if args.timeout is not None:
        spec["timeout"] = args.timeout
    about = next((each["worker"] for each in part.values() if "worker" in each), app)
    metadata = {
        "namespace": cluster.namespace,
        "generateName": f"{kind.lower()}-{about}-"[:57],
    }
    manifest = {"apiVersion": API_VERSION, "kind": streamaction.KIND, "spec": spec}
    streamaction.parse({**manifest, "metadata": {"name": "unnamed"}})  # what is wrong, by its path
    made = cluster.client.create(STREAM_ACTIONS, {**manifest, "metadata": metadata})
    name = str(made["metadata"]["name"])
    if args.no_wait:
        sys.stdout.write(
            f"streamaction/{name} is created; see kubectl get streamaction {name} "
            f"--namespace {cluster.namespace}\n"
        )
        return 0
    try:
        return wait_for(cluster, name)
    except KeyboardInterrupt:
        warn(f"{name} goes on; to give it up: {_cancellation(cluster, name)}")
        raise
    except KubeApiError:
        warn(
            f"{name} goes on; see kubectl get streamaction {name} --namespace {cluster.namespace}; "
            f"to give it up: {_cancellation(cluster, name)}"
        )
        raise


def wait_for(cluster: OnCluster, name: str, *, away_s: float = _AWAY_S) -> int:
    """Show what becomes of an action until it has ended; return the exit code.

    Args:
        cluster: where it is.
        name: of the StreamAction.
        away_s: so long the API server may give no answer.

    Raises:
        EnvironmentProblemError: it has failed, or is gone.
        KubeApiError: the API server refuses, or gives no answer for too long.
    """
    from headwater.model.streamaction_status import ActionPhase
    from headwater_operator.kube.errors import ApiUnavailableError

    told, is_warned, began_s = "", False, time.monotonic()
    answered_s = began_s
    while True:
        try:
            action = _read(cluster, name)
        except ApiUnavailableError:
            if time.monotonic() - answered_s >= away_s:
                raise
            time.sleep(_POLL_S)
            continue
        answered_s = time.monotonic()
        status = action.status
        if (line := _progress(action)) != told:
            told = line
            sys.stdout.write(f"{line}\n")
            sys.stdout.flush()
        if status.phase is ActionPhase.COMPLETE:
            return 0
        if status.phase is ActionPhase.FAILED:
            raise EnvironmentProblemError(
                f"{name} has failed ({status.reason}): {status.message or 'no reason is given'}"
            )
        is_unseen = status.observed_generation <= 0 and time.monotonic() - began_s > _UNSEEN_S
        if is_unseen and not is_warned:
            is_warned = True
            warn(f"no operator has looked at {name} yet: is one running? Ctrl-C leaves it waiting")
        time.sleep(_POLL_S)


def _read(cluster: OnCluster, name: str) -> StreamAction:
    from headwater.model import streamaction
    from headwater_operator.kube.api import STREAM_ACTIONS

    found = cluster.client.get(STREAM_ACTIONS, cluster.namespace, name)
    if found is None:
        raise EnvironmentProblemError(
            f"somebody has deleted the StreamAction {name} meanwhile, so it goes no further: run "
            "the command again if that is still wanted"
        )
    return streamaction.parse(found)


def _progress(action: StreamAction) -> str:
    status = action.status
    done = f" {status.progress}" if status.progress else ""
    said = f": {status.message}" if status.message else ""
    return f"{action.name}: {status.phase}{done}{said}"


def _cancellation(cluster: OnCluster, name: str) -> str:
    return (
        f"kubectl patch streamaction {name} --namespace {cluster.namespace} --type=merge "
        """--patch='{"spec":{"cancel":true}}'"""
    )
