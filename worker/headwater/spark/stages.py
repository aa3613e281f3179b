"""In which order sub-topologies can be computed: each after those that feed it. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.errors import TopologyError

if TYPE_CHECKING:
    from headwater.model.topics import SubtopologyReport, TopologyReport


def stages(report: TopologyReport) -> tuple[frozenset[int], ...]:
    """Return sub-topologies in stages; those of one stage do not depend on each other.

    A sub-topology is fed by those that write to a repartition topic it reads. An external topic
    between two of them is read as it is.

    Raises:
        TopologyError: two sub-topologies feed each other, so neither can be finished first.
    """
    left = {subtopology.id: _feeders(report, subtopology) for subtopology in report.subtopologies}
    found: list[frozenset[int]] = []
    while left:
        ready = frozenset(number for number, feeders in left.items() if not feeders & left.keys())
        if not ready:
            raise TopologyError(
                f"sub-topologies {', '.join(map(str, sorted(left)))} feed each other through "
                "repartition topics, so none can be computed up to its end before the others; "
                "such a topology cannot be backfilled: let the workers read it from the beginning"
            )
        found.append(ready)
        for number in ready:
            del left[number]
    return tuple(found)


def repartition_topics(report: TopologyReport) -> frozenset[str]:
    """Return the repartition topics by the broker's names."""
    return frozenset(
        topic.name for found in report.subtopologies for topic in found.repartition_sources
    )


def _feeders(report: TopologyReport, subtopology: SubtopologyReport) -> frozenset[int]:
    read = {topic.name for topic in subtopology.repartition_sources}
    return frozenset(other.id for other in report.subtopologies if read & set(other.sink_topics))
