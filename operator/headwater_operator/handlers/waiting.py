"""Pods whose containers wait: since when, and what Events tell about them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from headwater_operator.handlers.problems import event_problems

if TYPE_CHECKING:
    from headwater_operator.decide.observed import Observed
    from headwater_operator.handlers.app import App
    from headwater_operator.kube.api import KubeApi
    from headwater_operator.views import AppView

_FIRST_ASK_MS: Final = 3_000
_ASK_AGAIN_MS: Final = 10_000
"""A container that has been waiting for so long is asked about, and again after so long."""


def is_to_ask(app: App, now_ms: int) -> bool:
    """Whether Events are to be read now."""
    return now_ms - app.asked_ms >= _ASK_AGAIN_MS and has_waited(app, now_ms, _FIRST_ASK_MS)


def has_waited(app: App, now_ms: int, for_ms: int = _ASK_AGAIN_MS) -> bool:
    """Whether a container has been waiting for so long."""
    return any(now_ms - since >= for_ms for since in app.waiting_since.values())


def ask(api: KubeApi, app: App, view: AppView, now_ms: int) -> None:
    """Find out why containers wait, if they have for some time.

    Args:
        api: the API server.
        app: still with the memory from before this decision.
        view: as it was read just now.
        now_ms: of a clock that never goes back.
    """
    waiting = {name for name, pod in view.every_pod.items() if pod.waits_for}
    app.waiting_since = {
        worker: app.waiting_since.get(worker, now_ms) for worker in sorted(waiting)
    }
    if is_to_ask(app, now_ms):
        app.asked_ms = now_ms
        app.asked = tuple(event_problems(api, view, frozenset(waiting)))
    elif not waiting and not any(known.is_made_anew for known in app.memory.workers.values()):
        app.asked = ()


def with_missing_files(observed: Observed, app: App, view: AppView) -> Observed:
    """Return the same with the workers named whose pods wait for a Secret or ConfigMap."""
    told = {each.uid for each in app.asked if each.lacks_file}
    names = {name for name, pod in view.pods.items() if pod.uid in told and not pod.has_begun}
    if not names:
        return observed
    workers = tuple(
        replace(each, lacks_file=each.worker.name in names) for each in observed.workers
    )
    return replace(observed, workers=workers)
