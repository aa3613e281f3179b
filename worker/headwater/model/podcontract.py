"""What a worker's pod is made of so that `headwater worker` finds what it needs: one contract.

The operator builds pods from these functions, the worker reads the same names, so neither can
drift from the other. Everything is plain JSON, as the Kubernetes API takes it.

    where in the pod             told by                        what
    /etc/headwater/streamapp/    HEADWATER_STREAMAPP (a file)   the StreamApp: a ConfigMap
    /etc/headwater/topology/     HEADWATER_TOPOLOGY_DIR         modules that an image puts there
    /etc/headwater/kafka/        HEADWATER_KAFKA_DIR            credentials: Secrets
    /etc/headwater/roll-on/N     HEADWATER_ROLL_ON_N            what spec.upgrade.rollOn names
    /etc/headwater/http/         HEADWATER_HTTP_AUTH_DIR        tokens of callers: a Secret
    /var/run/secrets/headwater/  HEADWATER_SERVICE_ACCOUNT_DIR  pod-bound token, CA
    /var/lib/headwater           HEADWATER_STATE_DIR            the volume
    /tmp                         TMPDIR                         an emptyDir

The worker writes below the last two only. **Every path reaches it through a variable whose value
begins with the path of a mount**, or of a part of the image; never as a constant of its own.
Where the API server is, the kubelet says: ``KUBERNETES_SERVICE_HOST`` and ``_PORT``. The source
text of a topology needs no file: it is a part of the StreamApp.

A pod, its StreamWorker and its Lease have one name, the worker's: the admission policy compares it
with the pod that a token is bound to. The operator creates StreamWorker and Lease before the pod;
workers may not create anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

Json = dict[str, object]

CONTAINER: Final = "worker"
COMMAND: Final = ("headwater", "worker")

ENV_APP: Final = "HEADWATER_APP"
ENV_WORKER: Final = "HEADWATER_NAME"
ENV_NAMESPACE: Final = "HEADWATER_NAMESPACE"
"""Where it is set, the StreamWorker is a custom resource; without it, files."""
ENV_STREAMAPP: Final = "HEADWATER_STREAMAPP"
ENV_TOPOLOGY_DIR: Final = "HEADWATER_TOPOLOGY_DIR"
ENV_KAFKA_DIR: Final = "HEADWATER_KAFKA_DIR"
ENV_HTTP_AUTH_DIR: Final = "HEADWATER_HTTP_AUTH_DIR"
ENV_OPERATOR_ACCOUNT: Final = "HEADWATER_OPERATOR_ACCOUNT"
"""The user name of the operator, which may ask for metrics and progress by a token of its own."""
ENV_SERVICE_ACCOUNT_DIR: Final = "HEADWATER_SERVICE_ACCOUNT_DIR"
ENV_STATE_DIR: Final = "HEADWATER_STATE_DIR"
ENV_HTTP_HOST: Final = "HEADWATER_HTTP_HOST"
ENV_HTTP_PORT: Final = "HEADWATER_HTTP_PORT"
ENV_LOG_LEVEL: Final = "HEADWATER_LOG_LEVEL"
ENV_REVISION: Final = "HEADWATER_REVISION"
ENV_ROLL_ON: Final = "HEADWATER_ROLL_ON_"
"""Followed by the place of an entry in ``spec.upgrade.rollOn``: where its files are."""

STREAMAPP_DIR: Final = "/etc/headwater/streamapp"
STREAMAPP_KEY: Final = "streamapp.json"
"""The ConfigMap's key. Its value is ``StreamApp.to_dict`` as JSON."""
TOPOLOGY_DIR: Final = "/etc/headwater/topology"
KAFKA_DIR: Final = "/etc/headwater/kafka"
ROLL_ON_DIR: Final = "/etc/headwater/roll-on"
HTTP_AUTH_DIR: Final = "/etc/headwater/http"
SERVICE_ACCOUNT_DIR: Final = "/var/run/secrets/headwater"
STATE_DIR: Final = "/var/lib/headwater"
TMP_DIR: Final = "/tmp"  # noqa: S108 - the pod's own emptyDir

CA_FILE: Final = "ca.crt"
"""Below the Kafka directory: the authorities that the brokers' certificates are checked with."""
CERTIFICATE_FILE: Final = "tls.crt"
KEY_FILE: Final = "tls.key"
USERNAME_FILE: Final = "username"
PASSWORD_FILE: Final = "password"  # noqa: S105 - the name of a file
REGISTRY_USERNAME_FILE: Final = "registry-username"
REGISTRY_PASSWORD_FILE: Final = "registry-password"  # noqa: S105 - the name of a file
TOKEN_FILE: Final = "token"  # noqa: S105 - the name of a file
"""Below the service account's directory, as ``CA_FILE``."""
PREVIOUS_TOKEN_FILE: Final = "token-previous"  # noqa: S105 - the name of a file
"""Below ``HTTP_AUTH_DIR``, beside ``TOKEN_FILE``."""
TOKEN_HEADER: Final = "Headwater-Token"  # noqa: S105 - the name of a header
"""Besides ``Authorization``, which the API server's proxy to pods does not pass on."""

HTTP_PORT: Final = 8080
PORT_NAME: Final = "http"

GRACE_S: Final = 90
"""A worker that is told to end (SIGTERM) commits and releases its tasks for up to 60 s."""
_AFTER_IMPORT_MS: Final = 60_000
"""A worker may take so long to start besides importing its topology."""
TOKEN_S: Final = 3_600
"""The kubelet renews the token in time; the worker reads it anew for every request."""

LEASE_API_VERSION: Final = "coordination.k8s.io/v1"
WORKERS: Final = "streamworkers"
"""Plural of StreamWorker in the API."""
FIELD_MANAGER: Final = "headwater-worker"
"""Owns ``StreamWorker.status`` in server-side apply."""
SERVICE_ACCOUNT_PREFIX: Final = "headwater-worker-"
"""The admission policy knows workers by it."""


def operator_audience(namespace: str) -> str:
    """Return for whom the token is that the operator shows the workers of a namespace.

    The API server takes no token with it, and nor do the workers of another namespace.
    """
    return f"headwater.dev/workers/{namespace}"


def service_account(app: str) -> str:
    """Return the name of the ServiceAccount, Role and RoleBinding of an application's workers."""
    return SERVICE_ACCOUNT_PREFIX + app


def role_rules() -> list[Json]:
    """Return what an application's workers may do in their namespace.

    A Role cannot say "your own object"; for writing, the admission policy adds that.
    """
    return [
        {
            "apiGroups": ["headwater.dev"],
            "resources": [WORKERS],
            "verbs": ["get", "list", "watch"],
        },
        {
            "apiGroups": ["headwater.dev"],
            "resources": [f"{WORKERS}/status"],
            "verbs": ["patch"],
        },
        {
            "apiGroups": ["coordination.k8s.io"],
            "resources": ["leases"],
            "verbs": ["get", "update"],
        },
    ]


def environment(app: str, *, log_level: str = "INFO") -> list[Json]:
    """Return the variables of the worker's container; the user's own come before them.

    Args:
        app: the StreamApp's name.
        log_level: of all its processes.
    """
    told = {
        ENV_APP: app,
        ENV_STREAMAPP: f"{STREAMAPP_DIR}/{STREAMAPP_KEY}",
        ENV_TOPOLOGY_DIR: TOPOLOGY_DIR,
        ENV_KAFKA_DIR: KAFKA_DIR,
        ENV_SERVICE_ACCOUNT_DIR: SERVICE_ACCOUNT_DIR,
        ENV_STATE_DIR: STATE_DIR,
        ENV_HTTP_PORT: str(HTTP_PORT),
        ENV_LOG_LEVEL: log_level,
        "TMPDIR": TMP_DIR,
        # Some libraries want a home; the one of an arbitrary user may not be writable.
        "HOME": TMP_DIR,
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    looked_up = {
        ENV_WORKER: "metadata.name",
        ENV_NAMESPACE: "metadata.namespace",
        ENV_HTTP_HOST: "status.podIP",
    }
    entries: list[Json] = [{"name": name, "value": value} for name, value in told.items()]
    for name, path in looked_up.items():
        entries.append({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}})
    return entries


def token_volume(name: str) -> Json:
    """Return the volume with the pod-bound token; mount it at ``SERVICE_ACCOUNT_DIR``.

    It takes the place of the one that Kubernetes would add
    (``automountServiceAccountToken: false``), so that its path is a variable's value.
    """
    return {
        "name": name,
        "projected": {
            "sources": [
                {"serviceAccountToken": {"path": TOKEN_FILE, "expirationSeconds": TOKEN_S}},
                {
                    "configMap": {
                        "name": "kube-root-ca.crt",
                        "items": [{"key": "ca.crt", "path": CA_FILE}],
                    }
                },
            ]
        },
    }


def secret_source(secret: str, items: Mapping[str, str]) -> Json:
    """Return one source of the projected volume with the credentials for Kafka.

    Args:
        secret: its name.
        items: file below ``KAFKA_DIR`` by the secret's key.
    """
    return {
        "secret": {
            "name": secret,
            "items": [{"key": key, "path": path} for key, path in items.items()],
        }
    }


def probes(import_timeout_ms: int) -> dict[str, Json]:
    """Return the container's probes by field name.

    Args:
        import_timeout_ms: how long importing the topology may take. The worker itself ends when
            that is over and says so; the start-up probe is there for one that cannot.
    """

    def ask(path: str, period_s: int, failures: int) -> Json:
        return {
            "httpGet": {"path": path, "port": PORT_NAME},
            "periodSeconds": period_s,
            "timeoutSeconds": 5,
            "failureThreshold": failures,
        }

    return {
        # Importing a topology may take a while: models are loaded, tables are read.
        "startupProbe": ask("/healthz", 2, (import_timeout_ms + _AFTER_IMPORT_MS) // 2_000),
        "livenessProbe": ask("/healthz", 10, 6),
        "readinessProbe": ask("/readyz", 2, 1),
    }


def security_context() -> Json:
    """Return the container's security context; it meets the restricted pod security standard."""
    return {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "runAsNonRoot": True,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }
