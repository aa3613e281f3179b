"""``headwater reset``: stops an application, and has all deleted that it has computed."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from headwater.errors import EnvironmentProblemError, ResetError, UserError
from headwater.model.resetting import Beginning
from headwater_operator.decide.observed import Intent
from headwater_operator.local import control
from headwater_operator.local.observe import read_record, read_report
from headwater_operator.local.patience import Patience
from headwater_operator.local.running import (
    expect_no_driver,
    final_failure,
    standing_failure,
    wait_until,
)

if TYPE_CHECKING:
    from headwater.model.streamapp import StreamApp
    from headwater_operator.local.control import Supervision
    from headwater_operator.local.layout import ClusterDir

_RESET_S: Final = 180.0
_STOP_S: Final = 60.0


def reset(
    cluster: ClusterDir,
    name: str,
    *,
    is_confirmed: bool,
    to: Beginning | None = None,
    is_dry_run: bool = False,
) -> int:
    """Stop an application and delete what it has computed.

    Args:
        cluster: its cluster.
        name: of the application.
        is_confirmed: nobody is asked.
        to: where it begins to read then.
        is_dry_run: only show the offsets that it would get.

    Raises:
        HeadwaterError: there is no such application, or it could not be reset.
    """
    to = to or Beginning()
    app = control.require(cluster, name).app
    if to.commits or is_dry_run:
        control.show_reset_plan(cluster, name, to)
    if is_dry_run:
        return 0
    expect_no_driver(cluster, app, again=f"headwater reset {name} again")
    if not is_confirmed and not confirmed(question_before_reset(app)):
        sys.stdout.write("nothing was changed\n")
        return 1
    supervision = None
    if control.running_supervisor(cluster) is None:
        if app.spec.kafka.bootstrap_servers is None:
            control.fetch_private_kafka()
        control.leave_stopped(cluster, but=[name])
        request = control.want(cluster, name, Intent.RESET, reset_to=str(to)).applied
        supervision = control.start_supervisor(cluster, detached=False)
    else:
        request = control.want(cluster, name, Intent.RESET, reset_to=str(to)).applied
    waiting = _Waiting(cluster, app, request, supervision)
    try:
        is_reset = wait_until(waiting.is_done, timeout_s=_RESET_S)
        reason = read_report(cluster.app(name)).status.reason
    finally:
        if supervision is not None:
            supervision.stop()
            supervision.wait(_STOP_S)
    if not is_reset:
        raise EnvironmentProblemError(
            f"{name} was not reset within {_RESET_S:.0f} s: {reason}; "
            "try again, it goes on where it stopped"
        )
    where = "at these offsets" if to.commits else "from the beginning of its input"
    sys.stdout.write(f"{name} is reset; headwater up starts it {where}\n")
    return 0


class _Waiting:
    """Waits for the end of a reset."""

    def __init__(
        self, cluster: ClusterDir, app: StreamApp, request: int, supervision: Supervision | None
    ) -> None:
        self._cluster = cluster
        self._app = app
        self._request = request
        self._supervision = supervision
        self._patience = Patience()

    def is_done(self) -> bool:
        """Tell whether it is done.

        Raises:
            ResetError: the offsets cannot be chosen; the application stays stopped.
            HeadwaterError: it will not be done.
        """
        name = self._app.name
        standing = standing_failure(self._cluster, [self._app], self._patience)
        if isinstance(standing, ResetError):
            control.want(self._cluster, name, Intent.STOP)
            raise standing
        failure = final_failure(self._cluster, [self._app])
        if failure is not None:
            raise failure
        if self._supervision is None and control.running_supervisor(self._cluster) is None:
            raise EnvironmentProblemError(
                f"{name} is not reset: somebody has stopped the cluster meanwhile; "
                f"again: headwater reset {name}"
            )
        record = read_record(self._cluster.app(name))
        is_reset = None if record is None else record.is_reset(self._request)
        if is_reset is None:
            wish = "" if record is None else f" ({record.intent})"
            raise EnvironmentProblemError(
                f"{name} is not reset: somebody has asked for something else meanwhile{wish}; "
                f"again: headwater reset {name}"
            )
        return is_reset


def question_before_reset(app: StreamApp) -> str:
    """Return what is asked before a reset: the application id only if it is another name."""
    is_named_so = app.application_id == app.name
    named = app.name if is_named_so else f"{app.name} (application id {app.application_id})"
    return f"Delete internal topics, committed offsets and state of {named}?"


def confirmed(question: str) -> bool:
    """Ask a person; return whether the answer is yes.

    Raises:
        UserError: nobody can be asked.
    """
    if not sys.stdin.isatty():
        raise UserError(f"{question} Say --yes where nobody can be asked")
    sys.stdout.write(f"{question} [y/N] ")
    sys.stdout.flush()
    return sys.stdin.readline().strip().lower() in {"y", "yes"}
