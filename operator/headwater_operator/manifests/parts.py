"""What the pods of workers, of Spark's driver and of its executors have in common."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from headwater.model import podcontract
from headwater.model.codec import encode_object
from headwater.model.streamapp_kafka import AuthenticationType
from headwater_operator.manifests.names import pod_labels

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headwater.model.podcontract import Json
    from headwater.model.streamapp import StreamApp
    from headwater.model.streamapp_volumes import Volume
    from headwater_operator.manifests.names import Manifest

STATE: Final = "headwater-state"
STREAMAPP: Final = "headwater-streamapp"
TMP: Final = "headwater-tmp"
TOKEN: Final = "headwater-token"  # noqa: S105 - the name of a volume
_KAFKA: Final = "headwater-kafka"
HTTP_AUTH: Final = "headwater-http"
_SPREAD_OVER: Final = ("topology.kubernetes.io/zone", "kubernetes.io/hostname")

_CREDENTIALS: Final = {"username": podcontract.USERNAME_FILE, "password": podcontract.PASSWORD_FILE}
_REGISTRY: Final = {
    "username": podcontract.REGISTRY_USERNAME_FILE,
    "password": podcontract.REGISTRY_PASSWORD_FILE,
}
_CERTIFICATE: Final = {
    "tls.crt": podcontract.CERTIFICATE_FILE,
    "tls.key": podcontract.KEY_FILE,
}


def pod_security(user_id: int | None) -> Manifest:
    """Return a pod's security context: no root, and the platform's choice if no user is named."""
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


def placement(app: StreamApp) -> Manifest:
    """Return the fields of a pod's spec that say where it may run, and how it finds others."""
    template = app.spec.pod_template
    found: Manifest = {}
    if app.spec.image_pull_secrets:
        found["imagePullSecrets"] = [{"name": each.name} for each in app.spec.image_pull_secrets]
    given: dict[str, object] = {
        "nodeSelector": dict(template.node_selector),
        "affinity": encode_object(template.affinity),
        "tolerations": [encode_object(each) for each in template.tolerations],
        "priorityClassName": template.priority_class_name,
        "schedulerName": template.scheduler_name,
        "runtimeClassName": template.runtime_class_name,
        "hostAliases": [encode_object(each) for each in template.host_aliases],
        "dnsPolicy": template.dns_policy.value if template.dns_policy is not None else None,
        "dnsConfig": encode_object(template.dns_config),
    }
    return {**found, **{name: value for name, value in given.items() if value}}


def grace_s(app: StreamApp, least_s: int) -> int:
    """Return how long a pod may take to end, in seconds: what its process needs, or longer."""
    return app.spec.pod_template.termination_grace_period_seconds or least_s


def environment(app: StreamApp, ours: Sequence[Json]) -> list[Manifest]:
    """Return the variables of a container: the user's, then ours.

    The StreamApp's rules refuse names of ours. The last of two variables of one name would count.
    """
    return [*(encode_object(entry) for entry in app.spec.pod_template.env), *ours]


def environment_from(app: StreamApp) -> Manifest:
    """Return ``envFrom`` of a container, if the user wants any. All other variables go first."""
    given = app.spec.pod_template.env_from
    return {"envFrom": [encode_object(each) for each in given]} if given else {}


def own_mounts(app: StreamApp) -> list[Manifest]:
    """Return the mounts of the credentials for Kafka, if it asks for any, and of the user's."""
    kafka = {"name": _KAFKA, "mountPath": podcontract.KAFKA_DIR, "readOnly": True}
    return [
        *([kafka] if _kafka_sources(app) else []),
        *(encode_object(mount) for mount in app.spec.pod_template.volume_mounts),
    ]


def own_volumes(app: StreamApp, *, with_tokens: bool = True) -> list[Manifest]:
    """Return the volumes that ``own_mounts`` and the user's containers mount.

    Args:
        app: the application.
        with_tokens: they may hold tokens of the pods' account.
    """
    sources = _kafka_sources(app)
    return [
        *([{"name": _KAFKA, "projected": {"sources": sources}}] if sources else []),
        *(_volume(each, with_tokens=with_tokens) for each in app.spec.pod_template.volumes),
    ]


def _volume(volume: Volume, *, with_tokens: bool) -> Manifest:
    if volume.projected is not None and not with_tokens:
        sources = tuple(
            each for each in volume.projected.sources if each.service_account_token is None
        )
        volume = replace(volume, projected=replace(volume.projected, sources=sources))
    return _in_full(encode_object(volume))


def _in_full(found: Manifest) -> Manifest:
    """Return a value with what Kubernetes requires, although it holds its default here."""
    if "ephemeral" in found:
        found["ephemeral"]["volumeClaimTemplate"].setdefault("metadata", {})
    return found


def _kafka_sources(app: StreamApp) -> list[Manifest]:
    """Return what of which Secret a process finds in its Kafka directory."""
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
    if (registry := kafka.schema_registry) is not None and registry.secret_ref is not None:
        sources.append(podcontract.secret_source(registry.secret_ref.name, _REGISTRY))
    return sources


def secrets_needed(app: StreamApp) -> list[tuple[str, str]]:
    """Return the Secrets that a StreamApp asks for: each name, and what of it is needed."""
    kafka = app.spec.kafka
    needed: list[tuple[str, str]] = []
    if kafka.tls is not None and kafka.tls.ca_secret_ref is not None:
        reference = kafka.tls.ca_secret_ref
        needed.append((reference.name, f"spec.kafka.tls needs its key {reference.key}"))
    if kafka.authentication is not None:
        is_tls = kafka.authentication.type is AuthenticationType.TLS
        keys = " and ".join(_CERTIFICATE if is_tls else _CREDENTIALS)
        said = f"spec.kafka.authentication needs its keys {keys}"
        needed.append((kafka.authentication.secret_ref.name, said))
    if (registry := kafka.schema_registry) is not None and registry.secret_ref is not None:
        said = f"spec.kafka.schemaRegistry needs its keys {' and '.join(_REGISTRY)}"
        needed.append((registry.secret_ref.name, said))
    if (asked := app.spec.http.authentication) is not None:
        said = f"spec.http.authentication needs its key {podcontract.TOKEN_FILE}"
        needed.append((asked.secret_ref.name, said))
    return needed


def spread(app: StreamApp, component: str) -> list[Manifest]:
    """Return how pods of a kind are spread: as the user says, else over zones and nodes."""
    selector = {"matchLabels": pod_labels(app.name, component)}
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
            **encode_object(each),
            "maxSkew": each.max_skew,
            "whenUnsatisfiable": each.when_unsatisfiable.value,
            "labelSelector": selector,
        }
        for each in chosen
    ]
