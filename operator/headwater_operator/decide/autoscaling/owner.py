"""Who says how many workers there are: ``spec.replicas``, or what autoscaling has decided last."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.model.streamapp_autoscaling import AutoscalingMode

if TYPE_CHECKING:
    from headwater.model.appstatus import AppStatus
    from headwater.model.streamapp import StreamApp


def is_automatic(app: StreamApp) -> bool:
    """Whether autoscaling decides about an application that is to run."""
    spec = app.spec
    is_wanted = spec.autoscaling is not None and spec.autoscaling.mode is AutoscalingMode.AUTO
    return is_wanted and spec.replicas > 0


def is_patient(app: StreamApp) -> bool:
    """Whether a worker that goes waits for copies elsewhere for as long as they take."""
    return is_automatic(app) and not app.spec.suspend


def wanted_workers(app: StreamApp, status: AppStatus) -> int:
    """Return how many workers there are to be.

    Args:
        app: the StreamApp.
        status: as decided or written last.
    """
    if app.spec.suspend or not is_automatic(app) or status.autoscaling is None:
        return app.wanted_workers
    return status.autoscaling.replicas or app.spec.replicas


def news_of(before: AppStatus, after: AppStatus) -> str | None:
    """Tell people that autoscaling has changed the number of workers; ``None`` if it has not."""
    then, now = before.autoscaling, after.autoscaling
    if then is None or now is None or now.mode is not AutoscalingMode.AUTO:
        return None
    if then.replicas == now.replicas or not then.replicas:
        return None
    return f"autoscaling, from {then.replicas} to {now.replicas} workers: {now.reason}"
