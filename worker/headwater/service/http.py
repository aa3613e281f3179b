"""What a worker serves by HTTP. The answers are made from one value; no request touches the worker.

/healthz   200 while the main loop turns
/readyz    200 when every task granted under the acknowledged epoch is processed, none restoring;
           also when none was granted for a while
/metrics   Prometheus
/state     stores, asked in the query process: headwater.native.queries.http
/tasks     JSON: threads and tasks with role, state, rates, exact lags and restore progress
"""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from headwater.httpserver import JSON, Answer, HttpServer, Limits, Request
from headwater.ids import SlotId
from headwater.model.cluster import Role
from headwater.model.metrics import Scope
from headwater.service.metrics import WorkerCollector

if TYPE_CHECKING:
    from collections.abc import Callable

    from headwater.httpserver import HandOver
    from headwater.service.httpauth.guard import Guard
    from headwater.service.view import TaskView, ThreadView, WorkerView

_STALLED_MS: Final = 10_000


def serve(
    host: str,
    port: int,
    view: Callable[[], WorkerView],
    now_ms: Callable[[], int],
    *,
    queries: HandOver | None = None,
    limits: Limits = Limits(),  # noqa: B008 - frozen
    guard: Guard | None = None,
) -> HttpServer:
    """Serve the view of one worker.

    Args:
        host: address to listen at.
        port: 0 picks a free one.
        view: returns the newest view.
        now_ms: the boot-time clock that views are stamped with.
        queries: takes callers who ask for stores.
        limits: what callers may use up.
        guard: says who may come; everybody, if there is none.

    Raises:
        ConfigError: the port cannot be used.
    """
    registry = CollectorRegistry()
    registry.register(WorkerCollector(view))
    routes: dict[str, Callable[[Request], Answer]] = {
        "/healthz": lambda _: _health(view(), now_ms()),
        "/readyz": lambda _: _readiness(view()),
        "/metrics": lambda _: Answer(HTTPStatus.OK, generate_latest(registry), CONTENT_TYPE_LATEST),
        "/tasks": lambda _: Answer(HTTPStatus.OK, _json(document(view())), JSON),
    }
    advice = "choose another --http-port, or http_port of KafkaStreams (0 picks a free one)"
    return HttpServer(
        host, port, routes, limits=limits, advice=advice, hand_over=queries, guard=guard
    )


def document(view: WorkerView) -> dict[str, object]:
    """Return ``/tasks`` as JSON values."""
    return {
        "applicationId": view.application_id,
        "worker": view.worker,
        "incarnation": view.incarnation,
        "stopping": view.is_stopping,
        "problem": view.problem,
        **view.numbers.shown(Scope.CLIENT),
        "threads": [_thread(view, thread) for thread in view.threads],
        "updaters": [{"updater": number, "pid": pid} for number, pid in view.updaters.items()],
        "globalThread": None if view.global_thread is None else view.global_thread.shown(),
        "tasks": [_task(view, task) for task in view.tasks],
    }


def _thread(view: WorkerView, thread: ThreadView) -> dict[str, object]:
    return {
        "slot": thread.slot,
        "state": thread.state,
        "pid": thread.pid,
        **view.numbers.shown(Scope.THREAD, SlotId(view.worker, thread.slot).thread_id),
        "problem": thread.problem,
    }


def _task(view: WorkerView, task: TaskView) -> dict[str, object]:
    return {
        "task": str(task.task),
        "role": task.role,
        "state": task.state,
        "slot": task.slot,
        **view.numbers.shown(Scope.TASK, str(task.task), role=task.role),
        "committed": dict(task.committed),
        "stateBytes": view.state_bytes_of(task),
        "caughtUp": task.caught_up,
        "problem": task.problem,
    }


def _health(view: WorkerView, now_ms: int) -> Answer:
    silent_ms = now_ms - view.at_ms
    if silent_ms > _STALLED_MS:
        text = f"the main loop has not turned for {silent_ms // 1000} s"
        return Answer.text(text, HTTPStatus.SERVICE_UNAVAILABLE)
    return Answer.text("ok")


def _readiness(view: WorkerView) -> Answer:
    if view.is_ready:
        return Answer.text("ok")
    if view.is_stopping:
        reason = "stopping"
    elif not view.epoch:
        reason = "waiting for the control loop"
    else:
        waiting = [
            str(task.task)
            for task in view.tasks
            if task.role is Role.ACTIVE and task.state != "RUNNING"
        ]
        listed = " ".join(waiting)
        if waiting and view.global_thread is not None and not view.global_thread.is_filled:
            listed += f"; global stores: {view.global_thread.remaining} records left to read first"
        reason = f"tasks not running yet: {listed}" if listed else "no tasks were granted yet"
    return Answer.text(reason, HTTPStatus.SERVICE_UNAVAILABLE)


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
