"""A worker's pod: what ``headwater.model.podcontract`` promises the worker, as one manifest.

It meets the restricted pod security standard: a numeric user, a read-only root, no capabilities.
It is never restarted in place (``restartPolicy: Never``): a container that has ended is proof that
its process has, and whether, when and as what revision the worker starts again is the operator's
decision.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headwater.model import podcontract
from headwater.model.codec import encode_object
from headwater_operator.manifests.mounted import with_roll_on
from headwater_operator.manifests.names import (
    WORKER_COMPONENT,
    Manifest,
    Owner,
    claim_name,
    config_name,
    metadata,
)
from headwater_operator.manifests.parts import (
    HTTP_AUTH,
    STATE,
    STREAMAPP,
    TMP,
    TOKEN,
    environment,
    environment_from,
    grace_s,
    own_mounts,
    own_volumes,
    placement,
    pod_security,
    spread,
)
from headwater_operator.manifests.sidecars import containers

if TYPE_CHECKING:
    from headwater.model.streamapp import StreamApp
    from headwater_operator.manifests.settings import Installation

_TMP_SIZE: Final = "256Mi"


def worker_pod(
    app: StreamApp, owner: Owner, worker: str, *, revision: str, installation: Installation
) -> Manifest:
    """Return the pod of a worker.

    Args:
        app: with everything filled in that the installation supplies; it has an image.
        owner: the StreamApp.
        worker: whose pod.
        revision: of ``app``.
        installation: defaults of this installation.
    """
    template = app.spec.pod_template
    made = metadata(owner, worker, worker=worker, revision=revision)
    # What the user may not set is refused by the StreamApp's rules; ours win all the same.
    made["labels"] = {**template.labels, **made["labels"]}
    made["annotations"] = dict(template.annotations)
    spec: Manifest = {
        "restartPolicy": "Never",
        "serviceAccountName": podcontract.service_account(app.name),
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": grace_s(app, podcontract.GRACE_S),
        "securityContext": pod_security(installation.user_id),
        **containers(app, _container(app, installation)),
        "volumes": _volumes(app, worker, revision),
        "topologySpreadConstraints": spread(app, WORKER_COMPONENT),
        **placement(app),
    }
    pod: Manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": made, "spec": spec}
    return with_roll_on(app, revision, pod)


def _container(app: StreamApp, installation: Installation) -> Manifest:
    template = app.spec.pod_template
    ours = [*podcontract.environment(app.name), *_http_environment(app, installation)]
    container: Manifest = {
        "name": podcontract.CONTAINER,
        "image": app.spec.image,
        "command": list(podcontract.COMMAND),
        "env": environment(app, ours),
        **environment_from(app),
        "ports": [{"name": podcontract.PORT_NAME, "containerPort": podcontract.HTTP_PORT}],
        "securityContext": podcontract.security_context(),
        "volumeMounts": _mounts(app),
        # If it cannot even say why it ended, the end of its log does.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        **podcontract.probes(app.spec.topology.import_timeout_ms),
    }
    if app.spec.image_pull_policy is not None:
        container["imagePullPolicy"] = app.spec.image_pull_policy.value
    resources = encode_object(template.resources)
    if resources:
        container["resources"] = resources
    return container


def _mounts(app: StreamApp) -> list[Manifest]:
    mounts: list[Manifest] = [
        {"name": STATE, "mountPath": podcontract.STATE_DIR},
        {"name": TMP, "mountPath": podcontract.TMP_DIR},
        {"name": STREAMAPP, "mountPath": podcontract.STREAMAPP_DIR, "readOnly": True},
        {"name": TOKEN, "mountPath": podcontract.SERVICE_ACCOUNT_DIR, "readOnly": True},
    ]
    if app.spec.http.authentication is not None:
        tokens = {"name": HTTP_AUTH, "mountPath": podcontract.HTTP_AUTH_DIR, "readOnly": True}
        mounts.append(tokens)
    return [*mounts, *own_mounts(app)]


def _http_environment(app: StreamApp, installation: Installation) -> list[Manifest]:
    """Return what a worker is told of its callers' tokens."""
    if app.spec.http.authentication is None:
        return []
    told = {podcontract.ENV_HTTP_AUTH_DIR: podcontract.HTTP_AUTH_DIR}
    if installation.account:
        told[podcontract.ENV_OPERATOR_ACCOUNT] = installation.account
    return [{"name": name, "value": value} for name, value in told.items()]


def _volumes(app: StreamApp, worker: str, revision: str) -> list[Manifest]:
    volumes: list[Manifest] = [
        {"name": STATE, "persistentVolumeClaim": {"claimName": claim_name(worker)}},
        {"name": TMP, "emptyDir": {"sizeLimit": _TMP_SIZE}},
        {"name": STREAMAPP, "configMap": {"name": config_name(app.name, revision)}},
        podcontract.token_volume(TOKEN),
    ]
    if (asked := app.spec.http.authentication) is not None:
        # As a whole, so that the kubelet replaces its files when it changes, and adds the key
        # token-previous once it is there.
        secret = {"secretName": asked.secret_ref.name}
        volumes.append({"name": HTTP_AUTH, "secret": secret})
    return [*volumes, *own_volumes(app)]
