"""``headwater up`` and ``down``: what starts, shows and ends a local cluster."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headwater import driverlock, errors
from headwater.errors import (
    EnvironmentProblemError,
    HeadwaterError,
    KafkaUnavailableError,
    LocalKafkaError,
)
from headwater.model.changes import rolled_part
from headwater.model.lifecycle import ClientState
from headwater_operator.decide.observed import Intent
from headwater_operator.local import control, files, manifest
from headwater_operator.local.interrupts import Interrupts
from headwater_operator.local.observe import (
    process_state,
    read_process,
    read_record,
    read_report,
)
from headwater_operator.local.patience import Patience
from headwater_operator.local.records import ClusterPhase
from headwater_operator.local.view import View
from headwater_operator.local.web import page_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headwater.model.appstatus import Failure
    from headwater.model.streamapp import StreamApp
    from headwater_operator.local.control import Supervision
    from headwater_operator.local.layout import AppDir, ClusterDir
    from headwater_operator.web.serving import Server
    from headwater_operator.web.starting import WebOptions

_POLL_S: Final = 0.2
_DETACH_S: Final = 120.0
_STOP_S: Final = 60.0
_BROKER_TRIES: Final = 3
_LOOP_TRIES: Final = 5
_UNWATCHED: Final = 129
_KILLED: Final = 137


def up(
    cluster: ClusterDir,
    file: Path,
    *,
    detach: bool,
    plain: bool,
    lost: Sequence[str] = (),
    threads: int | None = None,
    web: WebOptions | None = None,
) -> int:
    """Run the StreamApps of a file until Ctrl-C; in the background if ``detach``.

    Args:
        cluster: where.
        file: with the StreamApps.
        detach: return once they run.
        plain: lines instead of the live view.
        lost: changelogs whose stores may begin empty.
        threads: StreamThreads in each worker; ``None``: as the file says.
        web: how the page is served; ``None``: there is none.

    Raises:
        HeadwaterError: the file is wrong, the cluster cannot be started, or an application has
            failed for good; or the page cannot be served.
    """
    if web is None:
        return _up(cluster, file, None, detach=detach, plain=plain, lost=lost, threads=threads)
    if detach:
        raise errors.UserError(
            "--detach returns, and the page would end with it: start headwater web beside it"
        )
    with page_of(cluster, web) as server:
        if plain:
            sys.stdout.write(f"page: {server.url}\n")
        return _up(cluster, file, server, detach=False, plain=plain, lost=lost, threads=threads)


def _up(
    cluster: ClusterDir,
    file: Path,
    page: Server | None,
    *,
    detach: bool,
    plain: bool,
    lost: Sequence[str],
    threads: int | None,
) -> int:
    apps = manifest.allow_lost(manifest.load(file), lost)
    if threads is not None:
        apps = [app.with_threads(threads) for app in apps]
    for app in apps:
        expect_no_driver(cluster, app, again="headwater up again")
    began_ms = int(time.time() * 1000)
    is_joining = control.running_supervisor(cluster) is not None
    if not is_joining:
        if any(app.spec.kafka.bootstrap_servers is None for app in apps):
            control.fetch_private_kafka()
        for name in control.leave_stopped(cluster, but=[app.name for app in apps]):
            sys.stdout.write(f"{name} stays stopped: it is not in {file}\n")
    for app in apps:
        before = read_record(cluster.app(app.name))
        control.apply(cluster, app, import_path=(Path.cwd(), file.absolute().parent))
        if is_joining and before is not None and not _is_carried_out_at_once(before.app, app):
            sys.stdout.write(
                f"{app.name}: what has changed takes effect when its workers start again: "
                f"headwater down {app.name}, then headwater up\n"
            )
    if is_joining:
        sys.stdout.write(f"applied to the cluster that runs in {cluster.root}\n")
    supervision = None if is_joining else control.start_supervisor(cluster, detached=detach)
    view = View(cluster, [app.name for app in apps], plain=plain or detach, since_ms=began_ms)
    if page is not None:
        view.page = page.url
        page.watch(app.name for app in apps)
    if detach:
        return _detached(cluster, apps, view)
    if supervision is None:
        return _watch(cluster, apps, view)
    return _foreground(cluster, apps, supervision, view)


def expect_no_driver(cluster: ClusterDir, app: StreamApp, *, again: str) -> None:
    """Refuse while somebody's ``headwater spark`` of this directory runs the application.

    Raises:
        InstanceRunningError: it does.
    """
    driver = driverlock.driver_of(cluster.root, app.application_id)
    if driver is not None:
        raise driver.refusal(again)


def _is_carried_out_at_once(before: StreamApp, after: StreamApp) -> bool:
    """Whether workers that run need not start again; or another engine starts all its programs."""
    is_other_engine = before.spec.engine is not after.spec.engine
    return is_other_engine or rolled_part(before.spec) == rolled_part(after.spec)


def _foreground(
    cluster: ClusterDir, apps: Sequence[StreamApp], supervision: Supervision, shown: View
) -> int:
    failure: HeadwaterError | None = None
    patience = Patience()
    with Interrupts() as interrupts, shown as view:
        view.footer = "Ctrl-C stops everything in order"
        is_watched = True
        while supervision.is_running():
            is_watched = is_watched and _is_shown(view)
            if not is_watched:
                # The terminal was closed, or who read from our pipe has ended.
                supervision.stop()
            if failure is None:
                failure = final_failure(cluster, apps) or standing_failure(cluster, apps, patience)
                if failure is not None:
                    supervision.stop()
            if interrupts.wait(view.pause_s) and interrupts.count == 1:
                view.footer = "stopping: the workers commit and close; Ctrl-C again kills"
                supervision.stop()
            elif interrupts.count > 1:
                supervision.kill()
        is_watched = is_watched and _is_shown(view)
    if failure is not None:
        raise failure
    if not is_watched:
        return _UNWATCHED
    _expect_stopped(cluster)
    names = ", ".join(app.name for app in apps)
    sys.stdout.write(f"{names} stopped; state is kept in {cluster.root}\n")
    return _KILLED if interrupts.count > 1 else 0


def _is_shown(view: View) -> bool:
    try:
        view.refresh()
    except OSError:
        return False
    return True


def _expect_stopped(cluster: ClusterDir) -> None:
    """Tell an end in order, asked for by Ctrl-C or by ``headwater down``, from any other."""
    record = control.last_supervisor(cluster)
    if record is None or record.phase is not ClusterPhase.STOPPED:
        raise EnvironmentProblemError(
            f"the supervisor ended by itself, and everything with it; {cluster.supervisor_log} "
            f"ends with:\n{files.tail(cluster.supervisor_log)}"
        )


def _watch(cluster: ClusterDir, apps: Sequence[StreamApp], shown: View) -> int:
    """Show a cluster that belongs to somebody else, until Ctrl-C or until ours have failed."""
    patience, names = Patience(), ", ".join(app.name for app in apps)
    with Interrupts() as interrupts, shown as view:
        view.footer = "Ctrl-C leaves it running; headwater down stops it"
        while not interrupts.count and control.running_supervisor(cluster) is not None:
            view.refresh()
            failure = final_failure(cluster, apps) or standing_failure(cluster, apps, patience)
            if failure is not None:
                raise type(failure)(
                    f"{failure}\nThe cluster in {cluster.root} stays up: look with headwater get, "
                    "stop it with headwater down"
                )
            interrupts.wait(view.pause_s)
    if interrupts.count:
        sys.stdout.write(f"{names}: left running; headwater down stops it\n")
    else:
        sys.stdout.write(f"the cluster in {cluster.root} was stopped\n")
    return 0


def _detached(cluster: ClusterDir, apps: Sequence[StreamApp], shown: View) -> int:
    """Wait until every application runs, and say meanwhile what happens."""
    due = 0.0

    def all_run() -> bool:
        nonlocal due
        if time.monotonic() >= due:
            _is_shown(shown)
            due = time.monotonic() + shown.pause_s
        failure = final_failure(cluster, apps)
        if failure is not None:
            raise failure
        if control.running_supervisor(cluster) is None:
            _expect_stopped(cluster)
            raise EnvironmentProblemError("somebody has stopped the cluster meanwhile")
        return all(_runs(cluster.app(app.name)) for app in apps)

    with shown:
        do_run = wait_until(all_run, timeout_s=_DETACH_S)
        _is_shown(shown)
    if not do_run:
        reasons = "; ".join(
            f"{app.name}: {read_report(cluster.app(app.name)).status.reason}" for app in apps
        )
        raise EnvironmentProblemError(
            f"not running after {_DETACH_S:.0f} s ({reasons}); it goes on trying: look with "
            "headwater get, stop it with headwater down"
        )
    for app in apps:
        sys.stdout.write(f"{app.name} is running\n")
    return 0


def _runs(directory: AppDir) -> bool:
    record, report = read_record(directory), read_report(directory)
    is_current = record is not None and report.applied >= record.applied
    return is_current and report.status.state is ClientState.RUNNING


def final_failure(cluster: ClusterDir, apps: Sequence[StreamApp]) -> HeadwaterError | None:
    """What an application has failed with for good, as an error; ``None`` if nothing."""
    supervisor = control.running_supervisor(cluster)
    if supervisor is not None and supervisor.kafka.failures >= _BROKER_TRIES:
        return LocalKafkaError(
            f"the private Kafka does not start; {cluster.kafka_log} ends with:\n"
            f"{files.tail(cluster.kafka_log)}"
        )
    if supervisor is not None and supervisor.loop_failures >= _LOOP_TRIES:
        return EnvironmentProblemError(
            f"the control loop fails again and again; {cluster.loop_log} ends with:\n"
            f"{files.tail(cluster.loop_log)}"
        )
    for app in apps:
        directory = cluster.app(app.name)
        record, report = read_record(directory), read_report(directory)
        failure = report.status.failure
        if failure is None or record is None or report.applied < record.applied:
            continue
        # A worker has tried for half a minute; a person who waits for the first start should know.
        is_unreachable = failure.error == KafkaUnavailableError.__name__
        never_ran = report.status.state is ClientState.CREATED
        if failure.is_final or (is_unreachable and never_ran):
            return error_of(app.name, failure)
    return None


def standing_failure(
    cluster: ClusterDir, apps: Sequence[StreamApp], patience: Patience
) -> HeadwaterError | None:
    """What an application has tried to overcome for so long that a person should not wait on."""
    for app in apps:
        record, report = read_record(cluster.app(app.name)), read_report(cluster.app(app.name))
        if record is None or report.applied < record.applied:
            continue
        failure = report.status.failure
        if patience.is_over(app.name, report.status) and failure is not None:
            return error_of(app.name, failure)
    return None


def error_of(app: str, failure: Failure) -> HeadwaterError:
    """The failure as an error of the class it names, so that the exit code is that of the class."""
    kind = getattr(errors, failure.error, None)
    is_ours = isinstance(kind, type) and issubclass(kind, HeadwaterError)
    where = f" ({failure.worker})" if failure.worker else ""
    message = f"{app}{where}: {failure.message}"
    return (
        kind(message)
        if is_ours and kind is not None
        else HeadwaterError(f"{failure.error}: {message}")
    )


def down(cluster: ClusterDir, name: str | None, *, delete: bool) -> int:
    """Stop an application, or the whole cluster.

    Raises:
        HeadwaterError: there is no such application, or it does not stop.
    """
    supervisor = control.running_supervisor(cluster)
    if name is None:
        if delete:
            raise errors.UserError("down --delete needs the name of an application to forget")
        if supervisor is None:
            sys.stdout.write(f"nothing runs in {cluster.root}\n")
            for driver in driverlock.drivers_of(cluster.root):
                sys.stdout.write(f"but {driver}; Ctrl-C there ends it\n")
        elif control.stop_supervisor(supervisor, timeout_s=_STOP_S):
            sys.stdout.write("stopped\n")
        else:
            raise EnvironmentProblemError(
                f"the cluster did not stop within {_STOP_S:.0f} s; kill its supervisor, "
                f"process {supervisor.pid}: everything ends with it"
            )
        return 0
    control.require(cluster, name)
    control.want(cluster, name, Intent.DELETE if delete else Intent.STOP)
    directory = cluster.app(name)
    if supervisor is None:
        if delete:
            control.forget(cluster, name)
        sys.stdout.write(f"{name} does not run{' and is forgotten' if delete else ''}\n")
        return 0
    is_gone = (lambda: not directory.app.exists()) if delete else (lambda: is_stopped(directory))
    if not wait_until(is_gone, timeout_s=_STOP_S):
        raise EnvironmentProblemError(
            f"{name} did not stop within {_STOP_S:.0f} s: {read_report(directory).status.reason}"
        )
    sys.stdout.write(f"{name} is {'stopped and forgotten' if delete else 'stopped'}\n")
    return 0


def is_stopped(directory: AppDir) -> bool:
    """Whether no process of an application runs."""
    return all(
        process_state(*read_process(worker)).is_proof_of_end for worker in directory.programs()
    )


def wait_until(condition: Callable[[], bool], *, timeout_s: float) -> bool:
    """Ask again and again; return whether the condition came true in time."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)
    return True
