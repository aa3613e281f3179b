"""In which order sub-topologies can be computed: each after those that feed it. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.errors import TopologyError

if TYPE_CHECKING:
    from collections.abc import Collection

    from headwater.model.topics import SubtopologyReport, TopologyReport


def stages(report: TopologyReport) -> tuple[frozenset[int], ...]:
    """Return sub-topologies in stages; those of one stage do not depend on each other.

    A sub-topology is fed by those that write to a repartition topic it reads. An external topic
    between two of them is read as it is.

    Raises:
        TopologyError: some feed themselves or each other, so that none can be finished first.
    """
    found, circle = _ordered(report)
    if circle:
        raise TopologyError(
            f"{sentence_of(circle)}; such a topology cannot be backfilled: let the workers read it "
            "from the beginning"
        )
    return tuple(found)


def in_circles(report: TopologyReport) -> frozenset[int]:
    """Return the sub-topologies because of which there is no order."""
    _, circle = _ordered(report)
    return circle


def sentence_of(circle: Collection[int]) -> str:
    """Say why sub-topologies have no order."""
    numbers = ", ".join(map(str, sorted(circle)))
    if len(circle) == 1:
        return (
            f"sub-topology {numbers} reads a repartition topic that it writes to itself, so it "
            "cannot be computed up to its end before that topic is"
        )
    return (
        f"sub-topologies {numbers} feed each other through repartition topics, so none can be "
        "computed up to its end before the others"
    )


def _ordered(report: TopologyReport) -> tuple[list[frozenset[int]], frozenset[int]]:
    """Return the stages, and those that feed themselves or each other."""
    left = {subtopology.id: _feeders(report, subtopology) for subtopology in report.subtopologies}
    found: list[frozenset[int]] = []
    while left:
        ready = frozenset(number for number, feeders in left.items() if not feeders & left.keys())
        if not ready:
            break
        found.append(ready)
        for number in ready:
            del left[number]
    # Who comes after a circle only waits for it.
    while last := left.keys() - frozenset[int]().union(*left.values()):
        left = {number: feeders for number, feeders in left.items() if number not in last}
    return found, frozenset(left)


def repartition_topics(report: TopologyReport) -> frozenset[str]:
    """Return the repartition topics by the broker's names."""
    return frozenset(
        topic.name for found in report.subtopologies for topic in found.repartition_sources
    )


def _feeders(report: TopologyReport, subtopology: SubtopologyReport) -> frozenset[int]:
    read = {topic.name for topic in subtopology.repartition_sources}
    return frozenset(other.id for other in report.subtopologies if read & set(other.sink_topics))
