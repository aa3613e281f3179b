"""The rules of the custom resource definitions: where each stands, and documents that just keep it.

Those that break a rule are in ``tests/support/documents.py``. A rule that no document breaks may be
always true, one that no document nearly breaks may be always false where it matters: so there is
one of each for every rule, at every place where it stands.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headwater.rocksdb_settings import LIVE_MINIMA, MAXIMA, ORDERED, PREFIX, TRIGGERS
from tests.support import pod_documents
from tests.support.documents import AUTOSCALED, LEAST_AND_MOST, MINIMAL, Case, in_order
from tests.support.pod_documents import LEFT_OUT

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, slots=True, order=True)
class PlacedRule:
    """A rule at one place of a definition.

    Attributes:
        place: of the object that has to keep it, for example ``spec.podTemplate.env[]``; empty
            for the resource.
        blames: the field that is blamed, from the root.
        message: what it says.
        cel: the condition.
    """

    place: str
    blames: str
    message: str
    cel: str

    @property
    def is_about_a_change(self) -> bool:
        """Whether it compares a resource with what it was."""
        return "oldSelf" in self.cel


def rules_in(schema: dict[str, Any], place: str = "") -> Iterator[PlacedRule]:
    """Yield every rule of a schema."""
    for rule in schema.get("x-kubernetes-validations", ()):
        blames = f"{place}{rule.get('fieldPath', '')}".removeprefix(".")
        yield PlacedRule(place, blames, rule["message"], rule["rule"])
    for name, inner in schema.get("properties", {}).items():
        yield from rules_in(inner, f"{place}.{name}".removeprefix("."))
    if "items" in schema:
        yield from rules_in(schema["items"], f"{place}[]")


def place_of(path: str) -> str:
    """Return ``spec/env/0/value`` and ``spec.env[0].value`` as ``spec.env[].value``."""
    return re.sub(r"\[\d+\]|/\d+(?=/|$)", "[]", path).replace("/", ".")


_OURS = "keys that begin with headwater.dev/ or app.kubernetes.io/ are the operator's: "
_SECURITY = "tls and authentication decide about security.protocol, sasl.* and ssl.*.location: "
_REGISTRY = "schemaRegistry says where the registry is: "
_TOLERATION = "operator Exists takes no value; operator Equal, the default, needs a key"
_NOT_OURS = {"headwater.de/x": "1", "headwater.dev": "1", "x.app.kubernetes.io/name": "1"}

JUST_KEPT = (
    *(
        Case("spec/config/metrics.recording.level", level, rule="metrics.recording.level: expected")
        for level in ("OFF", "trace")
    ),
    Case("spec/config/metrics.recording.levels", "x", rule="metrics.recording.level: expected"),
    *(
        Case(
            "spec/config",
            in_order(name, given(value)),
            rule=f"{PREFIX}{name}: expected a whole number",
        )
        for name, least in LIVE_MINIMA.items()
        for value in (least, MAXIMA[name])
        for given in (int, str)
    ),
    *(
        Case("spec/config", config, rule=f"{PREFIX}{high}: expected at least {PREFIX}{low}")
        for low, high in ORDERED
        for config in (
            {f"{PREFIX}{low}": TRIGGERS[high]},
            {f"{PREFIX}{high}": TRIGGERS[low]},
            {f"{PREFIX}{name}": str(40) for name in TRIGGERS},
        )
    ),
    Case("spec/autoscaling/targetCatchUp", "1ms", rule="set one target", base=AUTOSCALED),
    Case("spec/autoscaling/minReplicas", 6, rule=LEAST_AND_MOST, base=AUTOSCALED),
    Case("spec/autoscaling/schedule/0/minReplicas", 2, rule=LEAST_AND_MOST, base=AUTOSCALED),
    Case("spec/engine", "Native", rule="Spark's executors are not autoscaled", base=AUTOSCALED),
    Case("spec/paused", value=False, rule="Spark cannot pause"),
    Case(
        "spec/imageCatalogRef",
        {"name": "shop", "version": "1.4"},
        rule="give image or imageCatalogRef",
        base=AUTOSCALED,
    ),
    Case("spec/upgrade", {"rollOn": []}, rule="Spark's driver watches no"),
    *(
        Case("spec/topology", topology, rule="give exactly one of module, inline and configMapRef")
        for topology in ({"module": "a:b"}, {"inline": "x"}, {"configMapRef": {"name": "code"}})
    ),
    *(
        Case("spec/topology", {**topology, "function": "make"}, rule="module names its function")
        for topology in ({"inline": "x"}, {"configMapRef": {"name": "code"}})
    ),
    *(
        Case(f"{config}/{name}s", "x", rule=f"{name}: set ")
        for config in ("spec/config", "spec/kafka/config")
        for name in (
            "acceptable.recovery.lag",
            "application.id",
            "bootstrap.servers",
            "max.warmup.replicas",
            "num.standby.replicas",
            "num.stream.threads",
            "processing.guarantee",
        )
    ),
    Case(
        "spec/kafka/authentication",
        {"type": "TLS", "secretRef": {"name": "me"}},
        rule="a client certificate (type TLS) needs TLS to the broker",
    ),
    Case(
        "spec/kafka",
        {"authentication": {"type": "PLAIN", "secretRef": {"name": "me"}}},
        rule="a client certificate (type TLS) needs TLS to the broker",
    ),
    Case(
        "spec/kafka",
        {"config": {"security.protocol": "SASL_SSL", "sasl.password": "x"}},
        rule=_SECURITY,
    ),
    Case("spec/kafka/config/ssl.endpoint.identification.algorithm", "none", rule=_SECURITY),
    Case(
        "spec/kafka",
        {"schemaRegistry": {"url": "http://r:1"}, "config": {"schema.registry.timeout": 5}},
        rule=_REGISTRY,
    ),
    Case(
        "spec/scaleDown/workersToRemove",
        ["counter-w-0", "counter-w-123456789"],
        rule="name workers of this StreamApp",
    ),
    Case("spec/podTemplate/labels", _NOT_OURS, rule=_OURS),
    Case("spec/podTemplate/annotations", _NOT_OURS, rule=_OURS),
    Case("spec/podTemplate/tolerations/1/key", "dedicated", rule=_TOLERATION),
    Case("spec/podTemplate/tolerations/0/value", LEFT_OUT, rule=_TOLERATION),
    Case("spec/podTemplate/tolerations/1/tolerationSeconds", 0, rule="tolerationSeconds goes with"),
    Case("spec/podTemplate/volumes/1/name", "headwater", rule="names that begin with headwater-"),
    Case(
        "spec/podTemplate/volumeMounts/0/name", "keys", rule="every mount names one of podTemplate"
    ),
    *(Case(path, value, rule=rule) for path, value, rule in pod_documents.KEPT),
    Case("metadata/name", "a" * 53, rule="metadata.name: expected at most 53", base=MINIMAL),
)
