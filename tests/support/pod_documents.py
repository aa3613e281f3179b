"""The part of a full StreamApp that is about pods, and what is changed in it, good and bad.

Rules of containers hold in two lists, those of affinity in twelve: so their rows are made for each.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from headwater.model.drivercontract import own_variables

Row: TypeAlias = tuple[str, Any, str]
"""Where, what it is changed to, and the beginning of a rule's message."""

LEFT_OUT: Any = object()
"""Stands for a field that is taken out."""

_CONTAINER = """
        env:
          - {name: A, value: b}
          - {name: SECRET, valueFrom: {secretKeyRef: {name: tokens, key: two}}}
          - {name: MAP, valueFrom: {configMapKeyRef: {name: settings, key: two}}}
          - {name: POD, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
          - {name: CPU, valueFrom: {resourceFieldRef: {resource: limits.cpu}}}
        envFrom:
          - {secretRef: {name: keys}, prefix: K_}
          - {configMapRef: {name: settings, optional: true}}
        ports: [{containerPort: 9000, name: numbers, protocol: UDP}]
        resources: {requests: {cpu: 10m}, limits: {memory: 64Mi}}
        volumeMounts: [{name: scratch, mountPath: /tmp, readOnly: true, subPath: c}]
        startupProbe: {exec: {command: [test, -e, /tmp/up]}, periodSeconds: 1, failureThreshold: 60}
        livenessProbe: {tcpSocket: {port: 9000}, initialDelaySeconds: 3, timeoutSeconds: 2}
        readinessProbe: {httpGet: {port: numbers, path: /up, scheme: HTTPS}, successThreshold: 2}
        lifecycle:
          postStart: {exec: {command: [touch, /tmp/up]}}
          preStop: {sleep: {seconds: 3}}
        securityContext: {runAsUser: 1000, runAsGroup: 1001, readOnlyRootFilesystem: false}
"""

_TERM = """
            topologyKey: topology.kubernetes.io/zone
            labelSelector:
              matchLabels: {part: cache}
              matchExpressions: [{key: app, operator: In, values: [cache]}]
            namespaces: [shop]
            namespaceSelector:
              matchLabels: {team: search}
              matchExpressions: [{key: team, operator: In, values: [search]}]
            matchLabelKeys: [part]
            mismatchLabelKeys: [colour]
"""

_PODS = f"""
        requiredDuringSchedulingIgnoredDuringExecution:
          - {_TERM.strip()}
        preferredDuringSchedulingIgnoredDuringExecution:
          - weight: 7
            podAffinityTerm:
{_TERM.replace("            ", "              ").strip(chr(10))}
"""

POD_TEMPLATE = f"""
    serviceAccount:
      labels: {{cloud: someones}}
      annotations: {{"eks.amazonaws.com/role-arn": "arn:aws:iam::111122223333:role/counter"}}
    envFrom:
      - {{secretRef: {{name: more, optional: true}}, prefix: MORE_}}
      - {{configMapRef: {{name: settings}}}}
    affinity:
      nodeAffinity:
        requiredDuringSchedulingIgnoredDuringExecution:
          nodeSelectorTerms:
            - matchExpressions: [{{key: disk, operator: In, values: [fast]}}]
              matchFields: [{{key: metadata.name, operator: NotIn, values: [node-1]}}]
        preferredDuringSchedulingIgnoredDuringExecution:
          - weight: 5
            preference:
              matchExpressions: [{{key: cores, operator: Gt, values: ["8"]}}]
              matchFields: [{{key: metadata.name, operator: In, values: [node-2]}}]
      podAffinity:{_PODS.rstrip()}
      podAntiAffinity:{_PODS.rstrip()}
    initContainers:
      - name: proxy
        image: "images.example/proxy:1"
        imagePullPolicy: Always
        restartPolicy: Always
        command: [/proxy]
        args: [--quiet]
        workingDir: /work{_CONTAINER.rstrip()}
      - {{name: fetch, image: "images.example/fetch:1"}}
    containers:
      - name: shipper
        image: "images.example/shipper:1"{_CONTAINER.rstrip()}
    schedulerName: packer
    runtimeClassName: gvisor
    hostAliases: [{{ip: 10.0.0.1, hostnames: [old.example]}}]
    dnsPolicy: None
    dnsConfig:
      nameservers: [10.0.0.10]
      searches: [shop.svc.cluster.local]
      options: [{{name: ndots, value: "2"}}, {{name: edns0}}]
    terminationGracePeriodSeconds: 120
"""

VOLUMES = """
      - name: all
        projected:
          defaultMode: 256
          sources:
            - secret: {name: keys, optional: true, items: [{key: a, path: b/c, mode: 292}]}
            - configMap: {name: models, items: [{key: d, path: e}]}
            - downwardAPI: {items: [{path: name, fieldRef: {fieldPath: metadata.name}}]}
            - serviceAccountToken: {audience: sts.example, path: token, expirationSeconds: 600}
      - name: about
        downwardAPI:
          defaultMode: 292
          items:
            - {path: name, fieldRef: {fieldPath: metadata.name}, mode: 256}
            - path: cpu
              resourceFieldRef: {resource: limits.cpu, containerName: worker, divisor: 1m}
      - {name: shared, persistentVolumeClaim: {claimName: models, readOnly: true}}
      - name: cache
        ephemeral:
          volumeClaimTemplate:
            metadata: {labels: {team: search}, annotations: {note: cache}}
            spec:
              accessModes: [ReadWriteOnce]
              resources: {requests: {storage: 5Gi}}
              storageClassName: fast
      - name: vault
        csi:
          driver: secrets-store.csi.k8s.io
          readOnly: true
          fsType: ext4
          volumeAttributes: {secretProviderClass: counter}
          nodePublishSecretRef: {name: vault}
"""

_POD = "spec/podTemplate"
_OURS = "keys that begin with headwater.dev/ or app.kubernetes.io/ are the operator's: "
_NOT_OURS = {"headwater.de/x": "1", "headwater.dev": "1", "x.app.kubernetes.io/name": "1"}
_ENV_SOURCE = "give exactly one of secretKeyRef, configMapKeyRef, fieldRef and resourceFieldRef"
_ENV_FROM = "give exactly one of secretRef and configMapRef"
_VALUE = "give value or valueFrom, not both"
_PROBE = "give exactly one of exec, httpGet and tcpSocket"
_HANDLER = "give exactly one of exec, httpGet and sleep"
_VALUES = "operators Exists and DoesNotExist take no values; the others need some"
_VOLUME = (
    "give exactly one of secret, configMap, projected, downwardAPI, emptyDir, "
    "persistentVolumeClaim, ephemeral and csi"
)
_PROJECTED = "give exactly one of secret, configMap, downwardAPI and serviceAccountToken"
_FILE = "give exactly one of fieldRef and resourceFieldRef"
_RESTRICTED = "containers are restricted, as the worker's is"
_NAMES = "worker, driver, executor and names that begin with headwater- are the operator's"
_VARIABLES = f"{', '.join(own_variables())} and names that begin with HEADWATER_ROLL_ON_ are"
_PORT = "8080, 7078, 7079 are the worker's and Spark's own"
_PORT_NAME = "http, rpc, blocks are the worker's and Spark's own"
_NODE = "pods share nothing with their node"
_CONFINED = "containers are confined by AppArmor: give "
_APPARMOR = "container.apparmor.security.beta.kubernetes.io"
PATHS = (
    "/var/lib/headwater, /etc/headwater, /tmp, /var/run/secrets, /run/secrets are the worker's own:"
)
_PLAIN = "write the path without '//', '.' and '..' in it"
_MOUNT = f"{_POD}/volumeMounts/0/mountPath"
_MOUNTS = "every mount in {0} names one of podTemplate.volumes"
_KEY = {"name": "a", "key": "b"}
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_NODES = f"{_POD}/affinity/nodeAffinity"

CONTAINERS = (f"{_POD}/initContainers/0", f"{_POD}/containers/0")
ENVIRONMENTS = (_POD, *CONTAINERS)
REQUIREMENTS = (
    *(
        f"{term}/{part}/0"
        for term in (
            f"{_NODES}/{_REQUIRED}/nodeSelectorTerms/0",
            f"{_NODES}/{_PREFERRED}/0/preference",
        )
        for part in ("matchExpressions", "matchFields")
    ),
    *(
        f"{_POD}/affinity/{kind}/{term}/{selector}/matchExpressions/0"
        for kind in ("podAffinity", "podAntiAffinity")
        for term in (f"{_REQUIRED}/0", f"{_PREFERRED}/0/podAffinityTerm")
        for selector in ("labelSelector", "namespaceSelector")
    ),
)
FILES = (
    f"{_POD}/volumes/3/projected/sources/2/downwardAPI/items/0",
    f"{_POD}/volumes/4/downwardAPI/items/0",
)
TEMPLATE = f"{_POD}/volumes/6/ephemeral/volumeClaimTemplate"
LABELLED = (f"{_POD}/serviceAccount", "spec/state/volumeClaim", f"{TEMPLATE}/metadata")


def _of_environments() -> list[Row]:
    rows: list[Row] = []
    for place in ENVIRONMENTS:
        rows += [
            (f"{place}/env/1/valueFrom", {}, _ENV_SOURCE),
            (f"{place}/env/1/valueFrom/fieldRef", {"fieldPath": "metadata.uid"}, _ENV_SOURCE),
            (f"{place}/env/1/value", "x", _VALUE),
            (f"{place}/envFrom/0", {}, _ENV_FROM),
            (f"{place}/envFrom/0/configMapRef", {"name": "a"}, _ENV_FROM),
        ]
    return rows


def _of_containers() -> list[Row]:
    rows: list[Row] = []
    for place in CONTAINERS:
        rows += [
            *((f"{place}/name", name, _NAMES) for name in ("worker", "executor", "headwater-x")),
            *((f"{place}/ports/0/containerPort", port, _PORT) for port in (8080, 7079)),
            (f"{place}/ports/0/name", "http", _PORT_NAME),
            (f"{place}/ports/0/hostPort", 9000, "pods share no port with their node"),
            (f"{place}/securityContext/privileged", True, _RESTRICTED),
            (f"{place}/securityContext/allowPrivilegeEscalation", True, _RESTRICTED),
            (f"{place}/securityContext/capabilities", {"add": ["NET_ADMIN"]}, _RESTRICTED),
            *(
                (f"{place}/{probe}Probe", value, _PROBE)
                for probe in ("startup", "liveness", "readiness")
                for value in ({}, {"tcpSocket": {"port": 1}, "exec": {"command": ["a"]}})
            ),
            (f"{place}/lifecycle/postStart", {}, _HANDLER),
            (f"{place}/lifecycle/preStop/exec", {"command": ["a"]}, _HANDLER),
            (
                f"{place}/volumeMounts/0/name",
                "nothing",
                _MOUNTS.format(place.split("/")[2]),
            ),
        ]
    return rows


BROKEN: tuple[Row, ...] = (
    *_of_environments(),
    *_of_containers(),
    *((f"{place}/values", [], _VALUES) for place in REQUIREMENTS),
    *((f"{place}/operator", "Exists", _VALUES) for place in REQUIREMENTS),
    *(
        (f"{place}/{part}", {key: "x"}, _OURS)
        for place in LABELLED
        for part, key in (("labels", "headwater.dev/app"), ("annotations", "app.kubernetes.io/x"))
    ),
    *((f"{place}/fieldRef", LEFT_OUT, _FILE) for place in FILES),
    (f"{_POD}/initContainers/0/restartPolicy", LEFT_OUT, "an init container has ended when"),
    (f"{_POD}/containers/0/restartPolicy", "Always", "restartPolicy Always makes a sidecar"),
    (f"{_POD}/containers/0/name", "proxy", "no two containers of a pod have one name"),
    (f"{_POD}/dnsConfig", LEFT_OUT, "dnsPolicy None needs dnsConfig.nameservers"),
    (f"{_POD}/dnsConfig/nameservers", [], "dnsPolicy None needs dnsConfig.nameservers"),
    (f"{_POD}/serviceAccountName", "admin", "pods have the account that the operator makes"),
    *(
        (f"{_POD}/annotations", {f"{_APPARMOR}/{name}": value}, _CONFINED)
        for name, value in (("worker", "unconfined"), ("shipper", "localhost"), ("a", ""))
    ),
    *(
        (_MOUNT, path, PATHS)
        for path in ("/run/secrets/headwater", "/", "/etc", "/etc/", "/var", "/run", "/tmp/")
    ),
    *(
        (_MOUNT, path, _PLAIN)
        for path in (
            "//etc/headwater/http",
            "/etc/./headwater/http",
            "/x/../etc/headwater/http",
            "/x/..",
            "/x//",
        )
    ),
    (f"{_POD}/env/0/name", "HEADWATER_NAME", _VARIABLES),
    (f"{_POD}/env/0/name", "HOME", _VARIABLES),
    (f"{_POD}/env/0/name", "HEADWATER_ROLL_ON_0", _VARIABLES),
    (f"{_POD}/hostNetwork", True, _NODE),
    (f"{_POD}/hostPID", True, _NODE),
    (f"{_POD}/hostIPC", True, _NODE),
    (f"{_POD}/securityContext", {"runAsUser": 0}, "pods are restricted, and their user is"),
    (f"{_POD}/topologySpreadConstraints/0/whenUnsatisfiable", "ScheduleAnyway", "minDomains goes"),
    (f"{_POD}/volumes/0/emptyDir", {}, _VOLUME),
    (f"{_POD}/volumes/1/secret", LEFT_OUT, _VOLUME),
    (f"{_POD}/volumes/0/hostPath", {"path": "/"}, "pods see no path of their node"),
    (f"{_POD}/volumes/6/name", "state", "the claim of an ephemeral volume state would have"),
    (f"{_POD}/volumes/3/projected/sources/0", {}, _PROJECTED),
    (
        f"{_POD}/volumes/5/persistentVolumeClaim/claimName",
        "counter-w-0-state",
        "<name>-w-<number>-state holds the state of a worker",
    ),
)


def _kept_by_containers() -> list[Row]:
    rows: list[Row] = []
    for place in CONTAINERS:
        rows += [
            *((f"{place}/name", name, _NAMES) for name in ("workers", "headwater", "x-driver")),
            (f"{place}/ports/0/containerPort", 8081, _PORT),
            (f"{place}/ports/0/name", "https", _PORT_NAME),
            (f"{place}/ports/0/protocol", "TCP", "pods share no port with their node"),
            (f"{place}/securityContext", {}, _RESTRICTED),
            *(
                (f"{place}/{probe}Probe", value, _PROBE)
                for probe in ("startup", "liveness", "readiness")
                for value in (
                    {"tcpSocket": {"port": 1}},
                    {"exec": {"command": ["a"]}},
                    {"httpGet": {"port": 1}},
                )
            ),
            *(
                (f"{place}/lifecycle/{when}", {"httpGet": {"port": 1}}, _HANDLER)
                for when in ("postStart", "preStop")
            ),
            (f"{place}/volumeMounts/0/name", "vault", _MOUNTS.format(place.split("/")[2])),
        ]
    return rows


_VOLUMES: tuple[dict[str, Any], ...] = (
    {"secret": {"secretName": "a"}},
    {"configMap": {"name": "a"}},
    {"projected": {}},
    {"downwardAPI": {}},
    {"emptyDir": {}},
    {"persistentVolumeClaim": {"claimName": "a"}},
    {"csi": {"driver": "a"}},
)

KEPT: tuple[Row, ...] = (
    *(
        (f"{place}/env/0", {"name": "A", "valueFrom": source}, _ENV_SOURCE)
        for place in ENVIRONMENTS
        for source in (
            {"secretKeyRef": _KEY},
            {"configMapKeyRef": _KEY},
            {"fieldRef": {"fieldPath": "status.podIP"}},
            {"resourceFieldRef": {"resource": "requests.memory"}},
        )
    ),
    *((f"{place}/env/0/value", "x", _VALUE) for place in ENVIRONMENTS),
    *((f"{place}/env/1/valueFrom", LEFT_OUT, _VALUE) for place in ENVIRONMENTS),
    *((f"{place}/envFrom/0", {"secretRef": {"name": "a"}}, _ENV_FROM) for place in ENVIRONMENTS),
    *((f"{place}/envFrom/0", {"configMapRef": {"name": "a"}}, _ENV_FROM) for place in ENVIRONMENTS),
    *_kept_by_containers(),
    *((place, {"key": "a", "operator": "DoesNotExist"}, _VALUES) for place in REQUIREMENTS),
    *((f"{place}/operator", "NotIn", _VALUES) for place in REQUIREMENTS),
    *(
        (f"{place}/{part}", _NOT_OURS, _OURS)
        for place in LABELLED
        for part in ("labels", "annotations")
    ),
    *(
        (
            place,
            {
                "path": "x",
                "resourceFieldRef": {"resource": "limits.cpu", "containerName": "worker"},
            },
            _FILE,
        )
        for place in FILES
    ),
    (
        f"{_POD}/initContainers/1",
        {"name": "fetch", "image": "a:1", "securityContext": {"runAsUser": 5}},
        "an init container has ended when",
    ),
    (f"{_POD}/containers/0/workingDir", "/x", "restartPolicy Always makes a sidecar"),
    (f"{_POD}/containers/0/name", "proxy2", "no two containers of a pod have one name"),
    (f"{_POD}/dnsPolicy", "Default", "dnsPolicy None needs dnsConfig.nameservers"),
    (f"{_POD}/serviceAccount", {}, "pods have the account that the operator makes"),
    *(
        (f"{_POD}/annotations", {f"{_APPARMOR}{name}": value}, _CONFINED)
        for name, value in (
            ("/worker", "runtime/default"),
            ("/shipper", "localhost/strict"),
            (".example/worker", "unconfined"),
        )
    ),
    *((_MOUNT, path, PATHS) for path in ("/tmpx", "/etc/headwaters/kafka", "/x/tmp", "/var/tmp/")),
    *((_MOUNT, path, _PLAIN) for path in ("/.x/..y/", "/x./y../...", "/x.y")),
    (f"{_POD}/env/0/name", "HEADWATER_NAMES", _VARIABLES),
    (f"{_POD}/env/0/name", "HEADWATER_FAILPOINTS", _VARIABLES),
    (f"{_POD}/initContainers/0/env/0/name", "HOME", _VARIABLES),
    (f"{_POD}/hostAliases", [], _NODE),
    (f"{_POD}/schedulerName", "x", "pods are restricted, and their user is"),
    (f"{_POD}/topologySpreadConstraints/0/minDomains", LEFT_OUT, "minDomains goes"),
    *((f"{_POD}/volumes/2", {"name": "scratch", **volume}, _VOLUME) for volume in _VOLUMES),
    (f"{_POD}/volumes/0/name", "models", "pods see no path of their node"),
    (f"{_POD}/volumes/6/name", "states", "the claim of an ephemeral volume state would have"),
    (f"{_POD}/volumes/3/projected/sources/0", {"configMap": {"name": "a"}}, _PROJECTED),
    *(
        (
            f"{_POD}/volumes/5/persistentVolumeClaim/claimName",
            name,
            "<name>-w-<number>-state holds the state of a worker",
        )
        for name in ("counter-w-0-states", "counter-w-x-state", "w-0-state")
    ),
)
