"""Containers beside ours in the pods of workers, of Spark's driver and of its executors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.model import podcontract
from headwater.model.codec import encode_object

if TYPE_CHECKING:
    from headwater.model.streamapp import StreamApp
    from headwater.model.streamapp_containers import Container
    from headwater_operator.manifests.names import Manifest


def containers(app: StreamApp, ours: Manifest) -> Manifest:
    """Return the fields of a pod's spec that hold its containers.

    Args:
        app: the application.
        ours: the container with its process; it comes first.
    """
    template = app.spec.pod_template
    found: Manifest = {"containers": [ours, *map(_container, template.containers)]}
    if template.init_containers:
        found["initContainers"] = [_container(each) for each in template.init_containers]
    return found


def _container(container: Container) -> Manifest:
    """Return a container as restricted as ours is."""
    chosen = container.security_context
    security: Manifest = {
        **podcontract.security_context(),
        "readOnlyRootFilesystem": chosen.read_only_root_filesystem,
    }
    if chosen.run_as_user is not None:
        security["runAsUser"] = chosen.run_as_user
    if chosen.run_as_group is not None:
        security["runAsGroup"] = chosen.run_as_group
    return {
        **encode_object(container),
        "securityContext": security,
        # If it cannot even say why it ended, the end of its log does.
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
