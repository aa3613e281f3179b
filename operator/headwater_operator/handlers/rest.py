"""Applications at rest: nothing changes but that Leases are renewed, so nothing is decided.

To decide takes some milliseconds. An operator of many applications would do little else if it
decided about each of them every other second.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from headwater.model.duties import DescribeGroup, DescribeTopics
from headwater.model.lifecycle import ClientState
from headwater.model.streamapp import Engine
from headwater_operator.actions import WriteWorkerSpec
from headwater_operator.decide.recall import renewed
from headwater_operator.observe.lags import is_to_ask
from headwater_operator.rollout import Roll

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headwater.model.cluster import Lease
    from headwater_operator.decide import Decision
    from headwater_operator.handlers.app import App
    from headwater_operator.handlers.leases import Key, LeaseBook
    from headwater_operator.views import AppView

ANSWER_MS: Final = 10_000
"""A worker that was asked to look at Kafka is asked again after so long at the earliest."""
_REST_MS: Final = 15_000
"""For so long an application rests at most: what is done by the clock may come so much later."""


def go_to_rest(app: App, view: AppView, decision: Decision, now_ms: int) -> None:
    """Have an application rest, if all is as it is to be.

    Args:
        app: whose.
        view: as it was decided about.
        decision: without actions.
        now_ms: of a clock that never goes back.
    """
    app.rests_until_ms = now_ms + _REST_MS if _is_settled(app, view, decision) else 0


def only_asks(app: App, view: AppView, decision: Decision) -> bool:
    """Whether a decision, while all is as it is to be, only has a worker look at Kafka.

    Then there is nothing to do until the worker answers, which a watch tells.
    """
    before = {each.worker.name: each.worker.spec for each in view.workers}
    return _is_settled(app, view, decision) and all(
        isinstance(action, WriteWorkerSpec)
        and action.worker in before
        and all(isinstance(duty, DescribeTopics | DescribeGroup) for duty in action.spec.duties)
        and replace(before[action.worker], epoch=action.spec.epoch, duties=action.spec.duties)
        == action.spec
        for action in decision.actions
    )


def _is_settled(app: App, view: AppView, decision: Decision) -> bool:
    """Whether all is as it is to be, but for actions."""
    assert view.app is not None
    spec = view.app.spec
    open_ends = (
        *(decision.unsettled, decision.waits_for, decision.held_back, decision.importing),
        *(decision.rulings, decision.work, view.actions, app.held_up, app.stuck, app.waiting_since),
    )
    return (
        decision.status.state is ClientState.RUNNING
        and spec.engine is Engine.NATIVE
        and spec.autoscaling is None
        and decision.roll == Roll()
        and not any(open_ends)
        and not any(is_to_ask(worker) for worker in view.workers)
    )


def lacks_lease(app: App, leases: Mapping[str, Lease | None]) -> bool:
    """Whether a worker's Lease is gone, or its labels are: it is made anew in a round."""
    return any(
        known.lease is not None and leases.get(name) is None
        for name, known in app.memory.workers.items()
    )


def rests(app: App, key: Key, leases: LeaseBook, now_ms: int) -> bool:
    """Whether nothing has changed but that Leases were renewed; that is taken in.

    Args:
        app: nothing was heard of it since it went to rest.
        key: its own.
        leases: as they were read last.
        now_ms: of the clock of ``go_to_rest``.
    """
    if now_ms >= app.rests_until_ms:
        return False
    memory = renewed(app.memory, leases.of(key), leases.now_ms(key))
    if memory is None:
        return False
    app.memory = memory
    return True
