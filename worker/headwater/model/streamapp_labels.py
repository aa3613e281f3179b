"""Labels, annotations and amounts, as the parts of a StreamApp's ``spec`` share them."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003  # read by the codec
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, TypeAlias

from headwater.model.fields import Rule, meta

Quantity: TypeAlias = str | int
"""An amount as Kubernetes writes it: ``2``, ``"500m"``, ``"1Gi"``."""

QUANTITY: Final = meta(
    pattern=r"[0-9]+(\.[0-9]+)?(m|k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?",
    meaning="an amount such as 2, 500m or 1Gi",
    max_length=32,
)
LABEL: Final = "[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
"""Pattern of the name of a container or volume."""
LABEL_NAME: Final = meta(
    pattern=LABEL, meaning="at most 63 lower-case letters, digits and '-'", max_length=63
)
LABEL_KEY: Final = meta(
    pattern=r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?",
    meaning="a label's key",
    max_length=317,
)
LABEL_VALUE: Final = meta(
    pattern="([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?",
    meaning="a label's value: at most 63 letters, digits, '-', '_' and '.'",
    max_length=63,
)
LABELS: Final = meta(each=LABEL_VALUE, max_items=50)
ANNOTATIONS: Final = meta(each=meta(max_length=32_768), max_items=50)
_OURS: Final = ("headwater.dev/", "app.kubernetes.io/")
"""Prefixes of labels and annotations that the operator selects pods by."""


def no_key_of_ours(field_name: str) -> Rule:
    """Return the rule that keeps the operator's keys out of labels or annotations."""

    def holds(template: Any) -> bool:
        return not any(key.startswith(_OURS) for key in getattr(template, field_name))

    starts = " || ".join(f"k.startsWith('{prefix}')" for prefix in _OURS)
    return Rule(
        cel=f"!has(self.{field_name}) || self.{field_name}.all(k, !({starts}))",
        message=f"keys that begin with {' or '.join(_OURS)} are the operator's: take another one",
        field=field_name,
        holds=holds,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Labelled:
    """Labels and annotations of something that is made.

    Attributes:
        labels: labels, besides those that the operator sets.
        annotations: annotations, besides those that the operator sets.
    """

    RULES: ClassVar[tuple[Rule, ...]] = (no_key_of_ours("labels"), no_key_of_ours("annotations"))

    labels: Mapping[str, str] = field(default_factory=dict, metadata=LABELS)
    annotations: Mapping[str, str] = field(default_factory=dict, metadata=ANNOTATIONS)
