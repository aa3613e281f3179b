"""Numbers of workers as ``/metrics`` has them: Prometheus' text, read into samples."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from headwater_operator.dashboards.history import Sample, label_set

if TYPE_CHECKING:
    from headwater_operator.dashboards.history import LabelSet

_LABEL: Final = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_ESCAPED: Final = re.compile(r"\\(.)")


def read_samples(text: str) -> list[Sample]:
    """Read Prometheus' text; comments and lines that are no sample are passed over."""
    found: list[Sample] = []
    known: dict[str, LabelSet] = {"": ()}
    for line in text.splitlines():
        if not line or line[0] == "#":
            continue
        head, _, number = line.rpartition(" ")
        name, _, labels = head.partition("{")
        try:
            value = float(number)
        except ValueError:
            continue
        if (key := known.get(labels)) is None:
            key = known[labels] = _labels(labels)
        found.append(Sample(name, key, value))
    return found


def _labels(text: str) -> LabelSet:
    return label_set(
        {
            name: _ESCAPED.sub(_unescaped, value) if "\\" in value else value
            for name, value in _LABEL.findall(text)
        }
    )


def _unescaped(found: re.Match[str]) -> str:
    return "\n" if found[1] == "n" else found[1]
