"""In which order sub-topologies can be computed: each after those that feed it. Pure.

Those that feed each other, or themselves, through repartition topics are a *circle*: none can be
finished before the others, so they are computed side by side, in passes (``passes.py``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.errors import TopologyError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headwater.model.topics import SubtopologyReport, TopologyReport


def stages(report: TopologyReport) -> tuple[frozenset[int], ...]:
    """Return sub-topologies in stages: each comes after all that feed it, but for its circle.

    A sub-topology is fed by those that write to a repartition topic it reads. An external topic
    between two of them is read as it is.
    """
    feeders = _feeders(report)
    together = {number: frozenset({number}) for number in feeders}
    together |= {number: circle for circle in circles(report) for number in circle}
    left = set(feeders)
    found: list[frozenset[int]] = []
    while left:
        ready = frozenset(
            number
            for number in left
            if left.isdisjoint(_feeders_of_all(together[number], feeders) - together[number])
        )
        found.append(ready)
        left -= ready
    return tuple(found)


def circles(report: TopologyReport) -> tuple[frozenset[int], ...]:
    """Return the sub-topologies that feed themselves or each other, those of a circle together."""
    feeders = _feeders(report)
    behind = {number: _all_behind(number, feeders) for number in feeders}
    found = (
        frozenset(other for other in behind[number] if number in behind[other])
        for number in feeders
        if number in behind[number]
    )
    return tuple(dict.fromkeys(found))


def reasons(report: TopologyReport) -> dict[int, str]:
    """Say of every sub-topology in a circle why it is computed in passes."""
    found: dict[int, str] = {}
    for circle in circles(report):
        for number in circle:
            others = ", ".join(str(other) for other in sorted(circle - {number}))
            why = (
                f"it and {others} feed each other through repartition topics"
                if others
                else "it reads a repartition topic that it writes to itself"
            )
            found[number] = f"{why}, so it is computed in passes"
            if lacking := _without_changelog(report, number):
                found[number] += (
                    f", but {lacking} has no changelog, and each would begin without it: a "
                    "backfill refuses it"
                )
    return found


def check_passes(report: TopologyReport) -> None:
    """Refuse what would be forgotten from pass to pass.

    Raises:
        TopologyError: a store in a circle has no changelog.
    """
    for circle in circles(report):
        for number in sorted(circle):
            if lacking := _without_changelog(report, number):
                raise TopologyError(
                    f"sub-topology {number} is computed in passes, because it feeds itself by "
                    f"repartition topics, and {lacking} has no changelog, so each pass would begin "
                    "without it: give it one, or reset the application and let the workers read "
                    "from the beginning"
                )


def _without_changelog(report: TopologyReport, number: int) -> str:
    """Name a store of a sub-topology that is gone when its task is opened anew."""
    (found,) = (each for each in report.subtopologies if each.id == number)
    logged = {changelog.store for changelog in found.changelogs}
    return next((f"store {name}" for name in found.stores if name not in logged), "")


def repartition_topics(report: TopologyReport) -> frozenset[str]:
    """Return the repartition topics by the broker's names."""
    return frozenset(
        topic.name for found in report.subtopologies for topic in found.repartition_sources
    )


def _feeders(report: TopologyReport) -> dict[int, frozenset[int]]:
    return {found.id: _feeders_of(report, found) for found in report.subtopologies}


def _feeders_of(report: TopologyReport, subtopology: SubtopologyReport) -> frozenset[int]:
    read = {topic.name for topic in subtopology.repartition_sources}
    return frozenset(other.id for other in report.subtopologies if read & set(other.sink_topics))


def _feeders_of_all(
    numbers: frozenset[int], feeders: Mapping[int, frozenset[int]]
) -> frozenset[int]:
    return frozenset[int]().union(*(feeders[number] for number in numbers))


def _all_behind(number: int, feeders: Mapping[int, frozenset[int]]) -> frozenset[int]:
    """Return those from which something comes to ``number``, however far."""
    found = feeders[number]
    while news := _feeders_of_all(found, feeders) - found:
        found |= news
    return found
