"""The StreamApp's ``spec.podTemplate.affinity``, with Kubernetes' names and meanings."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003  # read by the codec
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar, Final

from headwater.model.fields import Rule, meta
from headwater.model.streamapp_env import OBJECT
from headwater.model.streamapp_labels import LABEL_KEY, LABEL_VALUE, LABELS

_WEIGHT: Final = meta(minimum=1, maximum=100)
_VALUES: Final = meta(each=LABEL_VALUE, max_items=50)
_MANY: Final = meta(max_items=10)


class LabelOperator(StrEnum):
    """How a label is compared."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"


class NodeOperator(StrEnum):
    """How a label of a node is compared."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GT = "Gt"
    LT = "Lt"


def _has_its_values(requirement: Any) -> bool:
    return bool(requirement.values) != (requirement.operator in ("Exists", "DoesNotExist"))


_HAS_VALUES: Final = Rule(
    cel=(
        "(has(self.values) && self.values.size() > 0) != "
        "(self.operator in ['Exists', 'DoesNotExist'])"
    ),
    message="operators Exists and DoesNotExist take no values; the others need some",
    field="values",
    holds=_has_its_values,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelRequirement:
    """What a label has to be.

    Attributes:
        key: the label.
        operator: how it is compared.
        values: with what.
    """

    TERSE: ClassVar[bool] = True
    RULES: ClassVar[tuple[Rule, ...]] = (_HAS_VALUES,)

    key: str = field(metadata=LABEL_KEY)
    operator: LabelOperator
    values: tuple[str, ...] = field(default=(), metadata=_VALUES)


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelSelector:
    """By what labels something is selected; all have to hold.

    Attributes:
        match_labels: labels and their values.
        match_expressions: what labels have to be.
    """

    TERSE: ClassVar[bool] = True

    match_labels: Mapping[str, str] = field(default_factory=dict, metadata=LABELS)
    match_expressions: tuple[LabelRequirement, ...] = field(default=(), metadata=_MANY)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRequirement:
    """What a label or field of a node has to be.

    Attributes:
        key: the label or field.
        operator: how it is compared.
        values: with what.
    """

    TERSE: ClassVar[bool] = True
    RULES: ClassVar[tuple[Rule, ...]] = (_HAS_VALUES,)

    key: str = field(metadata=LABEL_KEY)
    operator: NodeOperator
    values: tuple[str, ...] = field(default=(), metadata=_VALUES)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTerm:
    """Nodes, by what all has to hold of them.

    Attributes:
        match_expressions: what their labels have to be.
        match_fields: what their fields have to be: metadata.name.
    """

    TERSE: ClassVar[bool] = True

    match_expressions: tuple[NodeRequirement, ...] = field(default=(), metadata=_MANY)
    match_fields: tuple[NodeRequirement, ...] = field(default=(), metadata=_MANY)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSelector:
    """Nodes, by terms.

    Attributes:
        node_selector_terms: one of them has to hold.
    """

    TERSE: ClassVar[bool] = True

    node_selector_terms: tuple[NodeTerm, ...] = field(metadata=_MANY)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreferredNodes:
    """Nodes that are preferred.

    Attributes:
        weight: how much, from 1 to 100.
        preference: which nodes.
    """

    TERSE: ClassVar[bool] = True

    weight: int = field(metadata=_WEIGHT)
    preference: NodeTerm


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAffinity:
    """On which nodes pods run.

    Attributes:
        required: on no others (requiredDuringSchedulingIgnoredDuringExecution).
        preferred: rather than on others (preferredDuringSchedulingIgnoredDuringExecution).
    """

    TERSE: ClassVar[bool] = True

    required: NodeSelector | None = field(
        default=None, metadata=meta(json="requiredDuringSchedulingIgnoredDuringExecution")
    )
    preferred: tuple[PreferredNodes, ...] = field(
        default=(),
        metadata=meta(json="preferredDuringSchedulingIgnoredDuringExecution", max_items=10),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PodTerm:
    """Places where certain pods run.

    Attributes:
        topology_key: the label of nodes that tells places apart, for example
            kubernetes.io/hostname.
        label_selector: which pods.
        namespaces: of which namespaces; left out, with no namespaceSelector either: of this one.
        namespace_selector: of which namespaces, by their labels.
        match_label_keys: labels that those pods have the same values of as the one to be placed.
        mismatch_label_keys: labels that those pods have other values of.
    """

    TERSE: ClassVar[bool] = True

    topology_key: str = field(metadata=LABEL_KEY)
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = field(default=(), metadata=meta(each=OBJECT, max_items=20))
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = field(
        default=(), metadata=meta(each=LABEL_KEY, unique=True, max_items=10)
    )
    mismatch_label_keys: tuple[str, ...] = field(
        default=(), metadata=meta(each=LABEL_KEY, unique=True, max_items=10)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightedPodTerm:
    """Places that are preferred, or avoided.

    Attributes:
        weight: how much, from 1 to 100.
        pod_affinity_term: which places.
    """

    TERSE: ClassVar[bool] = True

    weight: int = field(metadata=_WEIGHT)
    pod_affinity_term: PodTerm


@dataclass(frozen=True, slots=True, kw_only=True)
class PodAffinity:
    """Near which pods, or away from which.

    Attributes:
        required: all have to hold (requiredDuringSchedulingIgnoredDuringExecution).
        preferred: what is preferred (preferredDuringSchedulingIgnoredDuringExecution).
    """

    TERSE: ClassVar[bool] = True

    required: tuple[PodTerm, ...] = field(
        default=(),
        metadata=meta(json="requiredDuringSchedulingIgnoredDuringExecution", max_items=10),
    )
    preferred: tuple[WeightedPodTerm, ...] = field(
        default=(),
        metadata=meta(json="preferredDuringSchedulingIgnoredDuringExecution", max_items=10),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Affinity:
    """Where pods run, by labels of nodes and by the pods that run there.

    Attributes:
        node_affinity: on which nodes.
        pod_affinity: near which pods.
        pod_anti_affinity: away from which pods.
    """

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None
