"""StreamApps as users write them, good and bad: one table for ``headwater up`` and the API server.

Every document is a full one with one thing changed. Both readers must come to the same verdict.
"""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass, field
from typing import Any

import yaml

from headwater.rocksdb_settings import LIVE_MINIMA, MAXIMA, ORDERED, PREFIX, TRIGGERS
from tests.support import pod_documents
from tests.support.pod_documents import LEFT_OUT, POD_TEMPLATE, VOLUMES

MINIMAL = """
apiVersion: headwater.dev/v1alpha1
kind: StreamApp
metadata: {name: counter}
spec:
  topology: {module: "shop.counting:build"}
"""

FULL = (
    """
apiVersion: headwater.dev/v1alpha1
kind: StreamApp
metadata: {name: counter, labels: {a: b}}
spec:
  engine: Spark
  spark: {master: "local[2]"}
  applicationId: counting
  topology: {module: "shop.counting:build"}
  image: "images.example/counter@sha256:0123"
  imagePullPolicy: IfNotPresent
  imagePullSecrets: [{name: pull}]
  replicas: 2
  threadsPerWorker: 3
  processingGuarantee: exactly_once_v2
  suspend: false
  assignment:
    standbyReplicas: 1
    acceptableRecoveryLag: 0
    maxWarmupReplicas: 4
    warmupTimeout: 1m
    moveDelay: 500ms
    topologyKeys: [topology.kubernetes.io/zone]
  scaleDown: {policy: Newest, workersToRemove: [counter-w-1], drainTimeout: 5m}
  upgrade: {readyTimeout: 1h}
  logging: {level: "INFO,my.module=DEBUG", format: "%(name)s %(message)s"}
  http: {authentication: {secretRef: {name: callers}, protects: All}}
  restartNonce: 3
  kafka:
    bootstrapServers: one:9092, two:9092
    config: {client.id: counter, socket.timeout.ms: 5000}
    tls: {caSecretRef: {name: ca, key: root.crt}}
    authentication: {type: SCRAM-SHA-512, secretRef: {name: user}}
    topics: [{name: TextLinesTopic, partitions: 4, config: {retention.ms: -1}}]
  config: {commit.interval.ms: 100, statestore.cache.max.bytes: "0", some.flag: "true"}
  state:
    storageClassName: fast
    size: 20Gi
    accessMode: ReadWriteOncePod
    retention: {whenScaled: Delete, whenDeleted: Retain}
    volumeClaim: {labels: {backup: nightly}, annotations: {note: state}}
  podTemplate:
    labels: {team: search}
    annotations: {note: "anything at all"}
    resources: {requests: {cpu: 500m, memory: 1Gi}, limits: {cpu: 2}}
    env:
      - {name: MODE, value: ""}
      - {name: TOKEN, valueFrom: {secretKeyRef: {name: tokens, key: one, optional: true}}}
      - {name: LEVEL, valueFrom: {configMapKeyRef: {name: settings, key: level}}}
      - {name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
      - name: MEMORY
        valueFrom:
          resourceFieldRef: {resource: limits.memory, containerName: worker, divisor: 1Mi}
    nodeSelector: {disk: fast}
    tolerations:
      - {key: dedicated, value: streams, effect: NoSchedule}
      - {operator: Exists, effect: NoExecute, tolerationSeconds: 60}
    topologySpreadConstraints:
      - topologyKey: topology.kubernetes.io/zone
        maxSkew: 2
        whenUnsatisfiable: DoNotSchedule
        minDomains: 2
        matchLabelKeys: [headwater.dev/revision]
        nodeAffinityPolicy: Ignore
        nodeTaintsPolicy: Honor
    volumes:
      - name: models
        configMap: {name: models, optional: true, defaultMode: 260, items: [{key: h, path: i}]}
      - name: keys
        secret: {secretName: keys, optional: true, defaultMode: 288, items: [{key: f, path: g}]}
      - {name: scratch, emptyDir: {sizeLimit: 1Gi, medium: Memory}}
"""
    + VOLUMES.strip("\n")
    + """
    volumeMounts:
      - {name: models, mountPath: /models, readOnly: true}
      - {name: scratch, mountPath: /scratch, subPath: a/b}
    priorityClassName: high
"""
    + POD_TEMPLATE.strip("\n")
)

LEAST_AND_MOST = "minReplicas is greater than maxReplicas: exchange them"
"""The rule about bounds."""
AUTOSCALED = f"""{MINIMAL}
  autoscaling:
    mode: Auto
    minReplicas: 2
    maxReplicas: 6
    targetCatchUp: 2m
    behavior: {{scaleUp: {{stabilizationWindow: 1m}}, scaleDown: {{stabilizationWindow: 10m}}}}
    schedule:
      - {{name: nights, start: "0 22 * * *", end: "30 5,6 * * 1-5", minReplicas: 1, maxReplicas: 2}}
"""


@functools.cache
def _as_json(text: str) -> str:
    """Return YAML as JSON, which is read sooner: there are many cases."""
    return json.dumps(yaml.safe_load(text))


@dataclass(frozen=True, slots=True)
class Case:
    """A StreamApp with one field changed.

    Attributes:
        path: of the field; numbers are places in lists.
        value: what it is changed to.
        says: for a mistake, what ``headwater up`` says of it, at least.
        rule: the message of the rule that this breaks (the API server says it, too), or that it
            only just keeps.
        base: the StreamApp in which it is changed; the full one unless said otherwise.
    """

    path: str
    value: Any
    says: str = ""
    rule: str = ""
    base: str = field(default=FULL, repr=False)

    @property
    def document(self) -> dict[str, Any]:
        """The StreamApp."""
        document: dict[str, Any] = json.loads(_as_json(self.base))
        target: Any = document
        *parents, last = self.path.split("/")
        for parent in parents:
            target = target[int(parent)] if isinstance(target, list) else target[parent]
        key = int(last) if isinstance(target, list) else last
        if self.value is LEFT_OUT:
            del target[key]
        else:
            target[key] = self.value
        return document

    def __str__(self) -> str:
        shown = "nothing" if self.value is LEFT_OUT else str(self.value)
        return f"{self.path}: {shown:.40}"


def in_order(option: str, value: Any) -> dict[str, Any]:
    """Return a configuration with an option of RocksDB; no other rule says anything of it."""
    names = list(TRIGGERS)
    place = names.index(option) if option in names else 0
    others = dict.fromkeys(names[:place], 1)
    if option in names:
        others |= {name: MAXIMA[name] for name in names[place + 1 :]}
    return {f"{PREFIX}{name}": each for name, each in {option: value, **others}.items()}


_ROLL_ON = [{"kind": "Secret", "name": "db"}, {"kind": "ConfigMap", "name": "db"}]

GOOD = (
    Case("spec/upgrade", {"rollOn": _ROLL_ON}, base=AUTOSCALED),
    Case("spec/imageCatalogRef", {"name": "shop", "version": "1.4"}, base=AUTOSCALED),
    Case("metadata/labels", {}),
    Case("spec/autoscaling/mode", "Advise", base=AUTOSCALED),
    Case("spec/autoscaling/minReplicas", LEFT_OUT, base=AUTOSCALED),
    Case("spec/autoscaling/schedule/0/minReplicas", LEFT_OUT, base=AUTOSCALED),
    Case("spec/autoscaling/schedule/0/start", "*/5 0-6/2,12 * 1-3 7", base=AUTOSCALED),
    Case("metadata/name", "counter"),
    Case("spec/topology", {"inline": "def build(builder): ..."}),
    Case("spec/topology", {"inline": "x", "function": "make"}),
    Case("spec/topology", {"configMapRef": {"name": "code"}}),
    Case("spec/topology", {"configMapRef": {"name": "code", "key": "a.py"}, "function": "make"}),
    Case("spec/replicas", 0),
    Case("spec/replicas", LEFT_OUT),
    Case("spec/applicationId", "Counting.v2_x-y"),
    Case("spec/kafka", {}),
    Case("spec/kafka/tls", {}),
    Case("spec/http", {}),
    Case("spec/http/authentication/protects", "State"),
    Case("spec/http/authentication/protects", LEFT_OUT),
    Case("spec/kafka/authentication", {"type": "TLS", "secretRef": {"name": "me"}}),
    Case("spec/kafka/authentication", LEFT_OUT),
    Case("spec/config/commit.interval.ms", "100"),
    Case("spec/scaleDown", {}),
    Case("spec/scaleDown/workersToRemove", ["counter-w-0", "counter-w-12"]),
    Case("spec/state", {"size": 1000000000}),
    Case("spec/podTemplate", {}),
    Case("spec/podTemplate/tolerations", [{"operator": "Exists"}]),
    Case("spec/podTemplate/volumeMounts", []),
    Case("status", {}),
    Case("spec/kafka/bootstrapServers", None),
    Case("spec/podTemplate", None),
    Case("spec/config/commit.interval.ms", None),
)

_ONE_TOPOLOGY = "give exactly one of module, inline and configMapRef"
_NAME = (
    "metadata.name: expected at most 53 lower-case letters, digits and '-': workers, pods and "
    "volumes are named after it"
)
_LABELS = "keys that begin with headwater.dev/ or app.kubernetes.io/ are the operator's: "
_SECURITY = (
    "tls and authentication decide about security.protocol, sasl.* and ssl.*.location: take these "
    "out of config, or take tls and authentication out"
)
_LEVEL = "metrics.recording.level: expected one of OFF, INFO, DEBUG and TRACE"
_TOLERATION = "operator Exists takes no value; operator Equal, the default, needs a key"

BROKEN_RULES = (
    Case("spec/topology", {}, rule=_ONE_TOPOLOGY),
    Case("spec/topology/inline", "x", rule=_ONE_TOPOLOGY),
    Case("spec/topology/configMapRef", {"name": "code"}, rule=_ONE_TOPOLOGY),
    Case(
        "spec/topology/function",
        "make",
        rule="module names its function already: write module:function",
    ),
    *(
        Case(f"{config}/{name}", value, rule=f"{name}: set {own} instead")
        for config in ("spec/config", "spec/kafka/config")
        for name, value, own in (
            ("acceptable.recovery.lag", 1, "spec.assignment.acceptableRecoveryLag"),
            ("application.id", "x", "spec.applicationId"),
            ("bootstrap.servers", "x:1", "spec.kafka.bootstrapServers"),
            ("max.warmup.replicas", 1, "spec.assignment.maxWarmupReplicas"),
            ("num.standby.replicas", 1, "spec.assignment.standbyReplicas"),
            ("num.stream.threads", 2, "spec.threadsPerWorker"),
            ("processing.guarantee", "at_least_once", "spec.processingGuarantee"),
        )
    ),
    Case(
        "spec/kafka",
        {"authentication": {"type": "TLS", "secretRef": {"name": "me"}}},
        rule="a client certificate (type TLS) needs TLS to the broker: set spec.kafka.tls",
    ),
    Case("spec/kafka/config/sasl.password", "secret", rule=_SECURITY),
    Case(
        "spec/kafka",
        {"schemaRegistry": {"url": "http://r"}, "config": {"schema.registry.url": "http://s"}},
        rule="schemaRegistry says where the registry is: take it out of config",
    ),
    Case("spec/kafka/config/security.protocol", "SSL", rule=_SECURITY),
    Case(
        "spec/scaleDown/workersToRemove",
        ["other-w-1"],
        rule="name workers of this StreamApp: <its name>-w-<number>",
    ),
    Case("spec/podTemplate/labels", {"headwater.dev/app": "x"}, rule=_LABELS),
    Case("spec/podTemplate/annotations", {"app.kubernetes.io/name": "x"}, rule=_LABELS),
    Case("spec/podTemplate/tolerations/0/key", LEFT_OUT, rule=_TOLERATION),
    Case("spec/podTemplate/tolerations/1/value", "x", rule=_TOLERATION),
    Case(
        "spec/podTemplate/tolerations/0/tolerationSeconds",
        5,
        rule="tolerationSeconds goes with effect NoExecute",
    ),
    Case(
        "spec/podTemplate/volumes/1/name",
        "headwater-state",
        rule="names that begin with headwater- are the operator's: take another one",
    ),
    Case(
        "spec/podTemplate/volumeMounts/0/name",
        "nothing",
        rule="every mount names one of podTemplate.volumes",
    ),
    Case("spec/podTemplate/volumeMounts/0/mountPath", "/tmp", rule=pod_documents.PATHS),
    Case("spec/config/metrics.recording.level", "LOUD", rule=_LEVEL),
    Case("spec/config/metrics.recording.level", 2, rule=_LEVEL),
    *(
        Case(
            "spec/config",
            in_order(name, value),
            rule=f"{PREFIX}{name}: expected a whole number, at least {least} and at most ",
        )
        for name, least in LIVE_MINIMA.items()
        for value in (least - 1, "many", str(-least), MAXIMA[name] + 1, str(MAXIMA[name] + 1))
    ),
    *(
        Case("spec/config", config, rule=f"{PREFIX}{high}: expected at least {PREFIX}{low}")
        for low, high in ORDERED
        for config in (
            {f"{PREFIX}{low}": TRIGGERS[high] + 1},
            {f"{PREFIX}{high}": str(TRIGGERS[low] - 1)},
            {f"{PREFIX}{low}": f"0{TRIGGERS[high] + 1}", f"{PREFIX}{high}": TRIGGERS[high]},
        )
    ),
    Case("spec/paused", True, rule="Spark cannot pause; set suspend instead"),
    Case(
        "spec/imageCatalogRef",
        {"name": "shop", "version": "1.4"},
        rule="give image or imageCatalogRef, not both",
    ),
    Case("spec/upgrade/rollOn", _ROLL_ON, rule="Spark's driver watches no Secret or ConfigMap"),
    Case(
        "spec/autoscaling",
        {"maxReplicas": 2, "targetLag": 5},
        rule="Spark's executors are not autoscaled",
    ),
    Case("spec/autoscaling/minReplicas", 7, rule=LEAST_AND_MOST, base=AUTOSCALED),
    Case("spec/autoscaling/schedule/0/minReplicas", 3, rule=LEAST_AND_MOST, base=AUTOSCALED),
    Case("spec/autoscaling/targetLag", 100, rule="set one target", base=AUTOSCALED),
    Case("spec/autoscaling/targetCatchUp", LEFT_OUT, rule="set one target", base=AUTOSCALED),
    Case(
        "spec/podTemplate/volumeMounts/0/mountPath",
        "/etc/headwater/kafka",
        rule=pod_documents.PATHS,
    ),
    *(Case(path, value, rule=rule) for path, value, rule in pod_documents.BROKEN),
)

BAD_NAMES = (
    Case("metadata/name", "a" * 54, "metadata.name: expected at most 53", _NAME, base=MINIMAL),
    Case("metadata/name", "a.b", "metadata.name: expected at most 53", _NAME, base=MINIMAL),
)

MISTAKES = (
    Case("spec/autoscaling/maxReplicas", LEFT_OUT, "required field", base=AUTOSCALED),
    Case("spec/autoscaling/mode", "On", "expected Advise, Auto, got 'On'", base=AUTOSCALED),
    Case("spec/autoscaling/targetCatchUp", "2", "expected a duration", base=AUTOSCALED),
    Case("spec/autoscaling/schedule/0/end", "at noon", "five fields of cron", base=AUTOSCALED),
    Case("spec/autoscaling/minReplicas", 0, "expected an integer >= 1", base=AUTOSCALED),
    Case("spec", LEFT_OUT, "spec: required field is missing"),
    Case("sepc", {}, "sepc: unknown field; did you mean 'spec'?"),
    Case("spec/replica", 2, "spec.replica: unknown field; did you mean 'replicas'?"),
    Case("spec/threadsperworker", 2, "did you mean 'threadsPerWorker'?"),
    Case("spec/colour", 2, "spec.colour: unknown field; known fields are applicationId, "),
    Case("spec/replicas", -1, "spec.replicas: expected an integer >= 0 and <= 10000, got -1"),
    Case("spec/replicas", 1.5, "spec.replicas: expected an integer >= 0 and <= 10000, got 1.5"),
    Case("spec/replicas", "two", "spec.replicas: expected an integer >= 0 and <= 10000, got 'two'"),
    Case("spec/threadsPerWorker", 0, "spec.threadsPerWorker: expected an integer >= 1 and <= 256"),
    Case("spec/threadsPerWorker", True, "expected an integer >= 1 and <= 256, got True"),
    Case("spec/topology", LEFT_OUT, "spec.topology: required field is missing"),
    Case("spec/topology", None, "spec.topology: required field is missing"),
    Case("spec/topology", "shop:build", "spec.topology: expected fields (a mapping), got 'shop"),
    Case("spec/topology/module", "no-colon", "spec.topology.module: expected an import path such"),
    Case("spec/topology/module", "\N{LATIN SMALL LETTER E WITH ACUTE}:build", "an import path"),
    Case("spec/engine", "native", "did you mean 'Native'?"),
    Case("spec/engine", "Flink", "spec.engine: expected Native, Spark, got 'Flink'"),
    Case("spec/processingGuarantee", "exactly_once", "did you mean 'exactly_once_v2'?"),
    Case("spec/applicationId", "with space", "spec.applicationId: expected letters, digits"),
    Case("spec/applicationId", "", "spec.applicationId: expected letters, digits"),
    Case("spec/applicationId", "a" * 151, "spec.applicationId: expected letters, digits"),
    Case("spec/image", "", "spec.image: expected an image"),
    Case("spec/image", "a b", "spec.image: expected an image"),
    Case("spec/image", "a" * 1025, "spec.image: expected at most 1024 characters, got 1025"),
    Case("spec/imagePullPolicy", "always", "spec.imagePullPolicy: expected Always"),
    Case("spec/imagePullSecrets", [{"name": "a"}, {"name": "a"}], "[1].name: 'a' is listed twice"),
    Case("spec/suspend", "yes", "spec.suspend: expected true or false, got 'yes'"),
    Case("spec/assignment/moveDelay", 30, "spec.assignment.moveDelay: expected a duration such as"),
    Case("spec/assignment/moveDelay", "30 s", "spec.assignment.moveDelay: expected a duration"),
    Case("spec/assignment/moveDelay", "30s\n", "spec.assignment.moveDelay: expected a duration"),
    Case("spec/scaleDown/policy", "MostState", "expected LeastState, Newest, got 'MostState'"),
    Case("spec/scaleDown/workersToRemove", ["counter-1"], "[0]: expected a worker's name"),
    Case(
        "spec/scaleDown/workersToRemove",
        ["counter-w-1", "counter-w-1"],
        "spec.scaleDown.workersToRemove[1]: 'counter-w-1' is listed twice",
    ),
    Case("spec/restartNonce", -1, "spec.restartNonce: expected an integer >= 0"),
    Case("spec/logging/level", "loud", "spec.logging.level"),
    Case("spec/logging/format", "%(levelname)s", "spec.logging.format"),
    Case("spec/kafka/bootstrapServers", "nowhere", "spec.kafka.bootstrapServers: expected host:po"),
    Case("spec/kafka/topics", [None], "spec.kafka.topics[0]: expected fields (a mapping), got not"),
    Case("spec/kafka/topics", [{"name": None}], "spec.kafka.topics[0].name: required field is mis"),
    Case("spec/kafka/topics/0/partitions", 0, "spec.kafka.topics[0].partitions: expected an int"),
    Case("spec/kafka/topics/0/nmae", "x", "spec.kafka.topics[0].nmae: unknown field; did you mean"),
    Case("spec/kafka/topics", {}, "spec.kafka.topics: expected a list, got a mapping"),
    Case(
        "spec/kafka/topics",
        [{"name": "a"}, {"name": "a"}],
        "spec.kafka.topics[1].name: 'a' is listed twice",
    ),
    Case("spec/kafka/topics", [{"name": f"t{n}"} for n in range(101)], "at most 100 entries"),
    Case("spec/kafka/authentication/type", "OAUTHBEARER", "expected PLAIN, SCRAM-SHA-256"),
    Case("spec/kafka/authentication/secretRef", LEFT_OUT, "secretRef: required field is missing"),
    Case("spec/http/authentication/secretRef", LEFT_OUT, "secretRef: required field is missing"),
    Case("spec/http/authentication/protects", "None", "expected State, All"),
    Case("spec/http/tls", {}, "spec.http.tls: unknown field"),
    Case("spec/kafka/tls/caSecretRef/name", "A", "spec.kafka.tls.caSecretRef.name: expected the n"),
    Case("spec/config", [], "spec.config: expected fields (a mapping), got a list"),
    Case(
        "spec/config/commit.interval.ms", [1], "spec.config.commit.interval.ms: expected a string"
    ),
    Case("spec/config/some.flag", True, "expected a string or an integer, got True; put it in quo"),
    Case(
        "spec/config/some.rate", 0.5, "expected a string or an integer, got 0.5; put it in quotes"
    ),
    Case("spec/state/size", "lots", "spec.state.size: expected an amount such as"),
    Case("spec/state/size", "-1Gi", "spec.state.size: expected an amount such as"),
    Case("spec/state/accessMode", "ReadWriteMany", "expected ReadWriteOncePod, ReadWriteOnce, got"),
    Case("spec/state/retention/whenScaled", "Keep", "expected Retain, Delete, got 'Keep'"),
    Case("spec/upgrade/readyTimeout", "soon", "spec.upgrade.readyTimeout: expected a duration"),
    Case("spec/imageCatalogRef", {"name": "shop"}, "imageCatalogRef.version: required field is"),
    Case("spec/imageCatalogRef", {"name": "shop", "version": 14}, "expected a string, got 14"),
    Case("spec/upgrade/rollOn", [{"name": "db"}], "rollOn[0].kind: required field is missing"),
    Case("spec/upgrade/rollOn", [{"kind": "Pod", "name": "a"}], "expected Secret, ConfigMap, got"),
    Case("spec/podTemplate/spec", {}, "spec.podTemplate.spec: unknown field"),
    Case("spec/podTemplate/labels/team", "a b", "spec.podTemplate.labels.team: expected a label's"),
    Case("spec/podTemplate/labels/team", 1, "spec.podTemplate.labels.team: expected a string, got"),
    Case("spec/podTemplate/resources/limits/cpu", "much", "limits.cpu: expected an amount such as"),
    Case("spec/podTemplate/env/0/name", "1A", "spec.podTemplate.env[0].name: expected the name of"),
    Case("spec/podTemplate/env/1/name", "MODE", "spec.podTemplate.env[1].name: 'MODE' is listed"),
    Case("spec/podTemplate/tolerations/0/effect", "Never", "effect: expected NoSchedule, Prefer"),
    Case("spec/podTemplate/volumeMounts/0/mountPath", "models", "expected an absolute path"),
    Case("spec/podTemplate/volumeMounts/1/subPath", "../up", "subPath: expected a path in the vol"),
    Case("spec/podTemplate/priorityClassName", "", "priorityClassName: expected the name of an ob"),
)
