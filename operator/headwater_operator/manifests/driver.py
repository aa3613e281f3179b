"""Spark on a cluster: the driver's pod and Service, and the template of its executors' pods.

The driver is made like a worker's pod: owned by the StreamApp, restricted, never restarted in
place. Its executors it makes itself, from the template, as many as it was started with; they are
owned by its pod, and go with it. Their processor and memory are Spark's settings, by Spark's names,
and so are the driver's: ``spec.podTemplate.resources`` is about workers.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

from headwater.model import drivercontract as contract
from headwater.model import podcontract
from headwater.model.changes import revision_of
from headwater.model.codec import encode_object
from headwater_operator.manifests.names import (
    DRIVER_COMPONENT,
    EXECUTOR_COMPONENT,
    EXECUTORS_ANNOTATION,
    GENERATION_ANNOTATION,
    STARTED_FROM_ANNOTATION,
    Manifest,
    Owner,
    config_name,
    driver_name,
    labels,
    metadata,
    pod_labels,
)
from headwater_operator.manifests.parts import (
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

_TMP_SIZE: Final = "1Gi"
_MEMORY: Final = re.compile(r"(\d+)([kmgt]?)b?", re.IGNORECASE)
_MIB: Final = {"k": 1 / 1024, "": 1, "m": 1, "g": 1024, "t": 1024 * 1024}
_DRIVER_MEMORY: Final = "1g"
_OVERHEAD_MIB: Final = 512
"""Two Python processes are in the driver's pod beside its JVM."""
_OVERHEAD_FACTOR: Final = 0.4


def started_from(app: StreamApp) -> str:
    """Return a digest of what a driver is started from, but for generation and executors."""
    return revision_of(app.spec, json.dumps(encode_object(app.spec.spark), sort_keys=True))


def driver_pod(
    app: StreamApp,
    owner: Owner,
    *,
    revision: str,
    generation: int,
    executors: int,
    installation: Installation,
) -> Manifest:
    """Return the pod of the driver.

    Args:
        app: with everything filled in that the installation supplies; it has an image.
        owner: the StreamApp.
        revision: of ``app``.
        generation: of the take-over that it is started for.
        executors: how many there are to be.
        installation: defaults of this installation.
    """
    template = app.spec.pod_template
    name = driver_name(app.name)
    made = metadata(owner, name, revision=revision, component=DRIVER_COMPONENT)
    made["labels"] = {**template.labels, **made["labels"]}
    made["annotations"] = {
        **template.annotations,
        GENERATION_ANNOTATION: str(generation),
        EXECUTORS_ANNOTATION: str(executors),
        STARTED_FROM_ANNOTATION: started_from(app),
    }
    spec: Manifest = {
        "restartPolicy": "Never",
        "serviceAccountName": contract.driver_account(app.name),
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": grace_s(app, contract.GRACE_S),
        "securityContext": pod_security(installation.user_id),
        **containers(app, _driver(app, generation, executors)),
        "volumes": [
            *_disks(),
            {"name": STREAMAPP, "configMap": {"name": config_name(app.name, revision)}},
            podcontract.token_volume(TOKEN),
            *own_volumes(app),
        ],
        **placement(app),
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": made, "spec": spec}


def _driver(app: StreamApp, generation: int, executors: int) -> Manifest:
    image, chosen = str(app.spec.image), app.spec.image_pull_policy
    policy = contract.pull_policy_of(image, chosen.value if chosen is not None else None)
    ours = contract.driver_environment(executors=executors, image=image, pull_policy=policy)
    container: Manifest = {
        "name": contract.DRIVER,
        "image": image,
        "imagePullPolicy": policy,
        "command": list(contract.COMMAND),
        "args": contract.arguments(generation),
        "env": environment(app, ours),
        **environment_from(app),
        "ports": [
            {"name": podcontract.PORT_NAME, "containerPort": podcontract.HTTP_PORT},
            {"name": "rpc", "containerPort": contract.RPC_PORT},
            {"name": "blocks", "containerPort": contract.BLOCKS_PORT},
        ],
        "resources": driver_resources(app),
        "securityContext": podcontract.security_context(),
        "volumeMounts": [
            *_disk_mounts(),
            {"name": STREAMAPP, "mountPath": podcontract.STREAMAPP_DIR, "readOnly": True},
            {"name": TOKEN, "mountPath": podcontract.SERVICE_ACCOUNT_DIR, "readOnly": True},
            *own_mounts(app),
        ],
        "terminationMessagePolicy": "FallbackToLogsOnError",
        **contract.driver_probes(app.spec.topology.import_timeout_ms),
    }
    return container


def driver_resources(app: StreamApp) -> Manifest:
    """Return what the driver's container asks for, by Spark's settings and with Spark's rules."""
    told = {name: str(value) for name, value in app.spec.spark.config.items()}
    cpu = told.get("spark.kubernetes.driver.request.cores", told.get("spark.driver.cores", "1"))
    found: Manifest = {"requests": {"cpu": cpu}, "limits": {}}
    if limit := told.get("spark.kubernetes.driver.limit.cores"):
        found["limits"]["cpu"] = limit
    heap = _mebibytes(told.get("spark.driver.memory", _DRIVER_MEMORY))
    if heap is not None:  # else Spark says what is wrong with it
        least = max(_OVERHEAD_MIB, round(heap * _OVERHEAD_FACTOR))
        overhead = _mebibytes(told.get("spark.driver.memoryOverhead", str(least))) or least
        memory = f"{heap + overhead}Mi"
        found["requests"]["memory"] = found["limits"]["memory"] = memory
    return found


def _mebibytes(text: str) -> int | None:
    """Return what a setting of Spark's says; ``None`` if it says nothing that makes sense."""
    match = _MEMORY.fullmatch(text.strip())
    return round(int(match[1]) * _MIB[match[2].lower()]) if match else None


def executor_template(app: StreamApp, installation: Installation) -> Manifest:
    """Return what Spark makes the pods of executors from; it adds names, arguments, resources.

    An executor has no token: it does not speak to the API server.

    Args:
        app: with everything filled in that the installation supplies.
        installation: defaults of this installation.
    """
    template = app.spec.pod_template
    spec: Manifest = {
        "serviceAccountName": contract.driver_account(app.name),
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": pod_security(installation.user_id),
        **containers(
            app,
            {
                "name": contract.EXECUTOR,
                "command": list(contract.EXECUTOR_COMMAND),
                "env": environment(app, contract.executor_environment()),
                **environment_from(app),
                "securityContext": podcontract.security_context(),
                "volumeMounts": [*_disk_mounts(), *own_mounts(app)],
                "terminationMessagePolicy": "FallbackToLogsOnError",
            },
        ),
        # An admission policy keeps tokens from executors.
        "volumes": [*_disks(), *own_volumes(app, with_tokens=False)],
        "topologySpreadConstraints": spread(app, EXECUTOR_COMPONENT),
        **placement(app),
    }
    made = {
        "labels": {**template.labels, **labels(app.name, component=EXECUTOR_COMPONENT)},
        "annotations": dict(template.annotations),
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": made, "spec": spec}


def _disks() -> list[Manifest]:
    """Return volumes that go with the pod: whatever lies there is in Kafka, too."""
    return [
        {"name": STATE, "emptyDir": {}},
        {"name": TMP, "emptyDir": {"sizeLimit": _TMP_SIZE}},
    ]


def _disk_mounts() -> list[Manifest]:
    return [
        {"name": STATE, "mountPath": podcontract.STATE_DIR},
        {"name": TMP, "mountPath": podcontract.TMP_DIR},
    ]


def driver_service(owner: Owner) -> Manifest:
    """Return the headless Service under whose name the driver's numbers can be scraped."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(owner, driver_name(owner.name), component=DRIVER_COMPONENT),
        "spec": {
            "clusterIP": "None",
            # One that is not ready yet has something to say, too.
            "publishNotReadyAddresses": True,
            "selector": pod_labels(owner.name, DRIVER_COMPONENT),
            "ports": [
                {
                    "name": podcontract.PORT_NAME,
                    "port": podcontract.HTTP_PORT,
                    "targetPort": podcontract.PORT_NAME,
                }
            ],
        },
    }
