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
from headwater.model.streamapp_kafka import AuthenticationType
from headwater_operator.manifests.names import (
    Manifest,
    Owner,
    claim_name,
    config_name,
    metadata,
    pod_labels,
)

if TYPE_CHECKING:
    from headwater.model.streamapp import StreamApp
    from headwater.model.streamapp_pod import PodTemplate
    from headwater_operator.manifests.settings import Installation

_STATE: Final = "headwater-state"
_TMP: Final = "headwater-tmp"
_STREAMAPP: Final = "headwater-streamapp"
_TOKEN: Final = "headwater-token"  # noqa: S105 - the name of a volume
_KAFKA: Final = "headwater-kafka"

_TMP_SIZE: Final = "256Mi"
_SPREAD_OVER: Final = ("topology.kubernetes.io/zone", "kubernetes.io/hostname")

_CREDENTIALS: Final = {"username": podcontract.USERNAME_FILE, "password": podcontract.PASSWORD_FILE}
_CERTIFICATE: Final = {
    "tls.crt": podcontract.CERTIFICATE_FILE,
    "tls.key": podcontract.KEY_FILE,
}


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
        "terminationGracePeriodSeconds": podcontract.GRACE_S,
        "securityContext": _pod_security(installation.user_id),
        "containers": [_container(app)],
        "volumes": _volumes(app, worker, revision),
        "topologySpreadConstraints": _spread(app),
    }
    if app.spec.image_pull_secrets:
        spec["imagePullSecrets"] = [{"name": each.name} for each in app.spec.image_pull_secrets]
    if template.node_selector:
        spec["nodeSelector"] = dict(template.node_selector)
    if template.tolerations:
        spec["tolerations"] = [encode_object(each) for each in template.tolerations]
    if template.priority_class_name:
        spec["priorityClassName"] = template.priority_class_name
    return {"apiVersion": "v1", "kind": "Pod", "metadata": made, "spec": spec}


def _pod_security(user_id: int | None) -> Manifest:
    security: Manifest = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    if user_id is None:
        return security
    return {
        **security,
        "runAsUser": user_id,
        "runAsGroup": user_id,
        # The volume's files are made the group's own; a large volume is not walked at every start.
        "fsGroup": user_id,
        "fsGroupChangePolicy": "OnRootMismatch",
    }


def _container(app: StreamApp) -> Manifest:
    template = app.spec.pod_template
    container: Manifest = {
        "name": podcontract.CONTAINER,
        "image": app.spec.image,
        "command": list(podcontract.COMMAND),
        # The last of two variables of one name counts: ours.
        "env": [*_environment(template), *podcontract.environment(app.name)],
        "ports": [{"name": podcontract.PORT_NAME, "containerPort": podcontract.HTTP_PORT}],
        "securityContext": podcontract.security_context(),
        "volumeMounts": _mounts(app),
        # If it cannot even say why it ended, the end of its log does.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        **podcontract.probes(),
    }
    if app.spec.image_pull_policy is not None:
        container["imagePullPolicy"] = app.spec.image_pull_policy.value
    resources = encode_object(template.resources)
    if resources:
        container["resources"] = resources
    return container


def _environment(template: PodTemplate) -> list[Manifest]:
    ours = {str(entry["name"]) for entry in podcontract.environment("")}
    return [encode_object(entry) for entry in template.env if entry.name not in ours]


def _mounts(app: StreamApp) -> list[Manifest]:
    mounts: list[Manifest] = [
        {"name": _STATE, "mountPath": podcontract.STATE_DIR},
        {"name": _TMP, "mountPath": podcontract.TMP_DIR},
        {"name": _STREAMAPP, "mountPath": podcontract.STREAMAPP_DIR, "readOnly": True},
        {"name": _TOKEN, "mountPath": podcontract.SERVICE_ACCOUNT_DIR, "readOnly": True},
    ]
    if _kafka_sources(app):
        mounts.append({"name": _KAFKA, "mountPath": podcontract.KAFKA_DIR, "readOnly": True})
    return [*mounts, *(encode_object(mount) for mount in app.spec.pod_template.volume_mounts)]


def _volumes(app: StreamApp, worker: str, revision: str) -> list[Manifest]:
    volumes: list[Manifest] = [
        {"name": _STATE, "persistentVolumeClaim": {"claimName": claim_name(worker)}},
        {"name": _TMP, "emptyDir": {"sizeLimit": _TMP_SIZE}},
        {"name": _STREAMAPP, "configMap": {"name": config_name(app.name, revision)}},
        podcontract.token_volume(_TOKEN),
    ]
    if sources := _kafka_sources(app):
        volumes.append({"name": _KAFKA, "projected": {"sources": sources}})
    return [*volumes, *(encode_object(volume) for volume in app.spec.pod_template.volumes)]


def _kafka_sources(app: StreamApp) -> list[Manifest]:
    """Return what of which Secret the worker finds in its Kafka directory."""
    kafka = app.spec.kafka
    sources: list[Manifest] = []
    if kafka.tls is not None and kafka.tls.ca_secret_ref is not None:
        authorities = kafka.tls.ca_secret_ref
        items = {authorities.key: podcontract.CA_FILE}
        sources.append(podcontract.secret_source(authorities.name, items))
    if kafka.authentication is not None:
        is_tls = kafka.authentication.type is AuthenticationType.TLS
        items = _CERTIFICATE if is_tls else _CREDENTIALS
        sources.append(podcontract.secret_source(kafka.authentication.secret_ref.name, items))
    return sources


def _spread(app: StreamApp) -> list[Manifest]:
    """Return how the workers are spread: as the user says, else over zones and nodes if it fits."""
    selector = {"matchLabels": pod_labels(app.name)}
    chosen = app.spec.pod_template.topology_spread_constraints
    if not chosen:
        return [
            {
                "topologyKey": key,
                "maxSkew": 1,
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": selector,
            }
            for key in _SPREAD_OVER
        ]
    return [
        {
            "topologyKey": each.topology_key,
            "maxSkew": each.max_skew,
            "whenUnsatisfiable": each.when_unsatisfiable.value,
            "labelSelector": selector,
        }
        for each in chosen
    ]
