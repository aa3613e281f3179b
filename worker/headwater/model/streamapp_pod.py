"""The StreamApp's ``spec.podTemplate``: the part of a pod that is the user's to choose.

Picked by hand, with Kubernetes' names and meanings, so that the custom resource definition stays
small. The security context is not among it: it is the operator's, and restricted.
"""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003  # read by the codec
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar, Final

from headwater.model import podcontract
from headwater.model.drivercontract import own_variables
from headwater.model.fields import Rule, meta
from headwater.model.podcontract import ENV_ROLL_ON
from headwater.model.streamapp_affinity import Affinity
from headwater.model.streamapp_containers import Container, Resources
from headwater.model.streamapp_env import OBJECT, EnvFrom, EnvVar
from headwater.model.streamapp_labels import (
    ANNOTATIONS,
    LABEL_KEY,
    LABEL_VALUE,
    LABELS,
    Labelled,
    no_key_of_ours,
)
from headwater.model.streamapp_volumes import Volume, VolumeMount  # noqa: TC001  # read by the codec

_ADDRESS: Final = meta(
    pattern="[0-9a-fA-F.:]{2,45}", meaning="an address such as 10.0.0.1", max_length=45
)
_DOMAIN: Final = meta(
    pattern=r"[a-z0-9_.]([-a-z0-9._]{0,251}[a-z0-9.])?", meaning="a domain", max_length=253
)
_APPARMOR: Final = "container.apparmor.security.beta.kubernetes.io/"
_VARIABLES: Final = own_variables()
_NODE: Final = "pods share nothing with their node: take it out"


class TolerationOperator(StrEnum):
    """How a toleration's key and value are compared with a taint's."""

    EXISTS = "Exists"
    EQUAL = "Equal"


class TaintEffect(StrEnum):
    """What a taint does to a pod that does not tolerate it."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


@dataclass(frozen=True, slots=True, kw_only=True)
class Toleration:
    """A taint of nodes that the workers put up with.

    Attributes:
        key: the taint's key; left out (with operator Exists): every key.
        operator: Equal compares the value, Exists takes every value.
        value: the taint's value.
        effect: the taint's effect; left out: every effect.
        toleration_seconds: with effect NoExecute, for how long.
    """

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel=(
                "has(self.operator) && self.operator == 'Exists' ? !has(self.value) : has(self.key)"
            ),
            message="operator Exists takes no value; operator Equal, the default, needs a key",
            holds=lambda toleration: (
                toleration.value is None
                if toleration.operator is TolerationOperator.EXISTS
                else toleration.key is not None
            ),
        ),
        Rule(
            cel=(
                "!has(self.tolerationSeconds) || (has(self.effect) && self.effect == 'NoExecute')"
            ),
            message="tolerationSeconds goes with effect NoExecute",
            field="tolerationSeconds",
            holds=lambda toleration: (
                toleration.toleration_seconds is None or toleration.effect is TaintEffect.NO_EXECUTE
            ),
        ),
    )

    key: str | None = field(default=None, metadata=LABEL_KEY)
    operator: TolerationOperator = TolerationOperator.EQUAL
    value: str | None = field(default=None, metadata=LABEL_VALUE)
    effect: TaintEffect | None = None
    toleration_seconds: int | None = field(
        default=None, metadata=meta(minimum=0, maximum=2**31 - 1)
    )


class Unsatisfiable(StrEnum):
    """What to do when a spread cannot be kept."""

    DO_NOT_SCHEDULE = "DoNotSchedule"
    SCHEDULE_ANYWAY = "ScheduleAnyway"


class NodePolicy(StrEnum):
    """Whether nodes that a pod cannot run on are counted."""

    HONOR = "Honor"
    IGNORE = "Ignore"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologySpread:
    """How the workers of this application are spread; the operator selects them by their labels.

    Attributes:
        topology_key: the node label whose values are to hold equally many workers, for example
            topology.kubernetes.io/zone.
        max_skew: how many more workers one value may hold than another.
        when_unsatisfiable: whether a worker that does not fit waits.
        min_domains: how many values there should be at least; with DoNotSchedule.
        match_label_keys: labels by whose values workers are counted apart, for example
            headwater.dev/revision.
        node_affinity_policy: whether nodes that affinity or nodeSelector rule out are left out;
            left out: Honor.
        node_taints_policy: whether nodes with taints that are not tolerated are left out; left out:
            Ignore.
    """

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel=(
                "!has(self.minDomains) || (has(self.whenUnsatisfiable) && "
                "self.whenUnsatisfiable == 'DoNotSchedule')"
            ),
            message="minDomains goes with whenUnsatisfiable DoNotSchedule",
            field="minDomains",
            holds=lambda spread: (
                spread.min_domains is None
                or spread.when_unsatisfiable is Unsatisfiable.DO_NOT_SCHEDULE
            ),
        ),
    )

    topology_key: str = field(metadata=LABEL_KEY)
    max_skew: int = field(default=1, metadata=meta(minimum=1, maximum=10_000))
    when_unsatisfiable: Unsatisfiable = Unsatisfiable.SCHEDULE_ANYWAY
    min_domains: int | None = field(default=None, metadata=meta(minimum=1, maximum=10_000))
    match_label_keys: tuple[str, ...] = field(
        default=(), metadata=meta(each=LABEL_KEY, unique=True, max_items=10)
    )
    node_affinity_policy: NodePolicy | None = None
    node_taints_policy: NodePolicy | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HostAlias:
    """Names of an address, in the pods' /etc/hosts.

    Attributes:
        ip: the address.
        hostnames: its names.
    """

    ip: str = field(metadata=_ADDRESS)
    hostnames: tuple[str, ...] = field(metadata=meta(each=_DOMAIN, max_items=20))


class DnsPolicy(StrEnum):
    """Which name servers pods ask."""

    CLUSTER_FIRST = "ClusterFirst"
    DEFAULT = "Default"
    NONE = "None"


@dataclass(frozen=True, slots=True, kw_only=True)
class DnsOption:
    """An option of the resolver.

    Attributes:
        name: for example ndots.
        value: its value, if it has one.
    """

    name: str = field(metadata=meta(pattern="[!-~]+", meaning="an option", max_length=63))
    value: str | None = field(default=None, metadata=meta(max_length=63))


@dataclass(frozen=True, slots=True, kw_only=True)
class DnsConfig:
    """What the resolver is told, besides what dnsPolicy says.

    Attributes:
        nameservers: addresses of name servers.
        searches: domains in which names are looked up.
        options: options of the resolver.
    """

    nameservers: tuple[str, ...] = field(default=(), metadata=meta(each=_ADDRESS, max_items=3))
    searches: tuple[str, ...] = field(default=(), metadata=meta(each=_DOMAIN, max_items=32))
    options: tuple[DnsOption, ...] = field(default=(), metadata=meta(max_items=20))


def _mounts(path: str) -> Rule:
    """Return the rule that containers mount volumes that are there."""
    is_known = "has(self.volumes) && self.volumes.exists(v, v.name == m.name)"
    attribute = {"initContainers": "init_containers", "containers": "containers"}[path]
    return Rule(
        cel=(
            f"!has(self.{path}) || self.{path}.all(c, !has(c.volumeMounts) || "
            f"c.volumeMounts.all(m, {is_known}))"
        ),
        message=f"every mount in {path} names one of podTemplate.volumes",
        field=path,
        holds=lambda template: (
            {mount.name for each in getattr(template, attribute) for mount in each.volume_mounts}
            <= {volume.name for volume in template.volumes}
        ),
    )


def _is_well_asked(container: Container) -> bool:
    asked = (
        container.startup_probe,
        container.liveness_probe,
        container.readiness_probe,
        container.lifecycle,
    )
    return container.is_sidecar or asked == (None,) * len(asked)


def _is_confined(template: Any) -> bool:
    return all(
        value == "runtime/default" or value.startswith("localhost/")
        for key, value in template.annotations.items()
        if key.startswith(_APPARMOR)
    )


def _are_theirs(template: Any) -> bool:
    names = [each.name for each in template.env]
    return not any(name in _VARIABLES or name.startswith(ENV_ROLL_ON) for name in names)


def _names(template: Any) -> list[str]:
    return [each.name for each in (*template.init_containers, *template.containers)]


_POD_RULES: Final = (
    Rule(
        cel=(
            f"!has(self.env) || self.env.all(e, !(e.name in {list(_VARIABLES)}) && "
            f"!e.name.startsWith('{ENV_ROLL_ON}'))"
        ),
        message=f"{', '.join(_VARIABLES)} and names that begin with {ENV_ROLL_ON} are variables "
        "that Headwater sets: take them out, or take other names",
        field="env",
        holds=_are_theirs,
    ),
    Rule(
        cel=(
            "!has(self.volumeMounts) || self.volumeMounts.all(m, "
            "has(self.volumes) && self.volumes.exists(v, v.name == m.name))"
        ),
        message="every mount names one of podTemplate.volumes",
        field="volumeMounts",
        holds=lambda template: (
            {mount.name for mount in template.volume_mounts}
            <= {volume.name for volume in template.volumes}
        ),
    ),
    _mounts("initContainers"),
    _mounts("containers"),
    Rule(
        cel="!has(self.containers) || self.containers.all(c, !has(c.restartPolicy))",
        message="restartPolicy Always makes a sidecar of one of initContainers: move it there",
        field="containers",
        holds=lambda template: not any(each.is_sidecar for each in template.containers),
    ),
    Rule(
        cel=(
            "!has(self.initContainers) || self.initContainers.all(c, has(c.restartPolicy) || "
            "!(has(c.startupProbe) || has(c.livenessProbe) || has(c.readinessProbe) || "
            "has(c.lifecycle)))"
        ),
        message="an init container has ended when the worker starts: take probes and lifecycle "
        "out, or make a sidecar of it with restartPolicy: Always",
        field="initContainers",
        holds=lambda template: all(map(_is_well_asked, template.init_containers)),
    ),
    Rule(
        cel=(
            "!has(self.initContainers) || !has(self.containers) || self.initContainers.all(i, "
            "!self.containers.exists(c, c.name == i.name))"
        ),
        message="no two containers of a pod have one name: rename one",
        field="containers",
        holds=lambda template: len(_names(template)) == len(set(_names(template))),
    ),
    Rule(
        cel=(
            "!has(self.dnsPolicy) || self.dnsPolicy != 'None' || (has(self.dnsConfig) && "
            "has(self.dnsConfig.nameservers) && self.dnsConfig.nameservers.size() > 0)"
        ),
        message="dnsPolicy None needs dnsConfig.nameservers",
        field="dnsPolicy",
        holds=lambda template: (
            template.dns_policy is not DnsPolicy.NONE or bool(template.dns_config.nameservers)
        ),
    ),
    Rule(
        cel=(
            f"!has(self.annotations) || self.annotations.all(k, !k.startsWith('{_APPARMOR}') || "
            "self.annotations[k] == 'runtime/default' || "
            "self.annotations[k].startsWith('localhost/'))"
        ),
        message=f"containers are confined by AppArmor: give {_APPARMOR}NAME the value "
        "runtime/default or localhost/PROFILE, or take it out",
        field="annotations",
        holds=_is_confined,
    ),
    Rule.refusing(
        "serviceAccountName",
        "string",
        "pods have the account that the operator makes, which holds them to their own objects: "
        "annotate it in serviceAccount, or bind a Role of yours to it",
    ),
    Rule.refusing("hostNetwork", "boolean", _NODE),
    Rule.refusing("hostPID", "boolean", _NODE),
    Rule.refusing("hostIPC", "boolean", _NODE),
    Rule.refusing(
        "securityContext",
        "object",
        "pods are restricted, and their user is the installation's: take it out; containers "
        "beside the worker's may have a user of their own",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodTemplate:
    """What the worker pods look like, as far as that is for the user to say.

    Attributes:
        labels: labels of the pods, besides those that the operator sets.
        annotations: annotations of the pods.
        service_account: labels and annotations of the account that the operator makes for the
            pods, for example for workload identity.
        resources: what the worker's container asks for and may use at most.
        env: environment variables of the worker's container, but for those that Headwater sets.
        env_from: Secrets and ConfigMaps each of whose keys is an environment variable of the
            worker's container. Variables in env, and the operator's, go before them.
        node_selector: labels that a node must have.
        affinity: on which nodes, and near which pods.
        tolerations: taints that the pods put up with.
        topology_spread_constraints: how the pods are spread over nodes and zones.
        volumes: files for the containers, besides the worker's own volume with state.
        volume_mounts: where these volumes are found in the worker's container.
        init_containers: containers that have to end before the worker starts; with restartPolicy
            Always, sidecars that run as long as it does.
        containers: containers that are started with the worker, once. They are not started again,
            and the pod of a worker that has ended waits for them to end, too.
        priority_class_name: how important the pods are.
        scheduler_name: who places the pods; left out: Kubernetes' own scheduler.
        runtime_class_name: how containers are run.
        host_aliases: names of addresses, in /etc/hosts.
        dns_policy: which name servers pods ask; left out: ClusterFirst.
        dns_config: what the resolver is told besides.
        termination_grace_period_seconds: how long a pod may take to end. A worker takes up to 60 s
            to commit and to release its tasks. Left out: 90, for Spark's driver 60.
    """

    RULES: ClassVar[tuple[Rule, ...]] = (
        no_key_of_ours("labels"),
        no_key_of_ours("annotations"),
        *_POD_RULES,
    )

    labels: Mapping[str, str] = field(default_factory=dict, metadata=LABELS)
    annotations: Mapping[str, str] = field(default_factory=dict, metadata=ANNOTATIONS)
    service_account: Labelled = field(default_factory=Labelled)
    resources: Resources = field(default_factory=Resources)
    env: tuple[EnvVar, ...] = field(default=(), metadata=meta(keys=("name",), max_items=200))
    env_from: tuple[EnvFrom, ...] = field(default=(), metadata=meta(max_items=20))
    node_selector: Mapping[str, str] = field(default_factory=dict, metadata=LABELS)
    affinity: Affinity = field(default_factory=Affinity)
    tolerations: tuple[Toleration, ...] = field(default=(), metadata=meta(max_items=50))
    topology_spread_constraints: tuple[TopologySpread, ...] = field(
        default=(), metadata=meta(keys=("topologyKey",), max_items=10)
    )
    volumes: tuple[Volume, ...] = field(default=(), metadata=meta(keys=("name",), max_items=30))
    volume_mounts: tuple[VolumeMount, ...] = field(
        default=(), metadata=meta(keys=("mountPath",), max_items=50)
    )
    init_containers: tuple[Container, ...] = field(
        default=(), metadata=meta(keys=("name",), max_items=10)
    )
    containers: tuple[Container, ...] = field(
        default=(), metadata=meta(keys=("name",), max_items=10)
    )
    priority_class_name: str = field(default="", metadata=OBJECT)
    scheduler_name: str = field(default="", metadata=OBJECT)
    runtime_class_name: str = field(default="", metadata=OBJECT)
    host_aliases: tuple[HostAlias, ...] = field(
        default=(), metadata=meta(keys=("ip",), max_items=50)
    )
    dns_policy: DnsPolicy | None = None
    dns_config: DnsConfig = field(default_factory=DnsConfig)
    termination_grace_period_seconds: int | None = field(
        default=None, metadata=meta(minimum=podcontract.GRACE_S, maximum=86_400)
    )
