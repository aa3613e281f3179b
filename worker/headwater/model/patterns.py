"""Topics by pattern: a source reads every topic whose whole name matches, also those to come.

Among topics a pattern is ``^`` and its text, which no topic is called: reports, and whoever
describes topics, pass it on as one of the names, and put what matches in its place.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from headwater.errors import TopologyError
from headwater.model.nodes import SourceNode

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from headwater.model.nodes import Node, Subtopology
    from headwater.model.topics import TopologyReport

_MARK: Final = "^"
_HIDDEN: Final = "__"
"""Kafka's own topics begin so; a pattern never reads them (``exclude.internal.topics``)."""


def topics_of(given: Iterable[str | re.Pattern[str]]) -> dict[str, Any]:
    """Return what a source is told to read: ``topics`` or, given in their place, a ``pattern``.

    Raises:
        TopologyError: there is something beside the pattern, or it is one of bytes.
    """
    found = tuple(given)
    patterns = [one for one in found if isinstance(one, re.Pattern)]
    if not patterns:
        return {"topics": found}
    if len(found) > 1 or not isinstance(patterns[0].pattern, str):
        raise TopologyError(
            f"A source reads one pattern of text, or topics by name, not {list(found)}: "
            "put the names into the pattern, as in re.compile('a|b.*')"
        )
    return {"pattern": patterns[0]}


def is_pattern(topic: str) -> bool:
    """Whether one of the names of topics is a pattern."""
    return topic.startswith(_MARK)


def matching(patterns: Iterable[str], existing: Iterable[str]) -> frozenset[str]:
    """Return the topics that match one of the patterns, and are not Kafka's own."""
    found = [re.compile(it.removeprefix(_MARK)) for it in patterns if is_pattern(it)]
    return frozenset(
        topic
        for topic in existing
        if not topic.startswith((_HIDDEN, _MARK)) and any(it.fullmatch(topic) for it in found)
    )


def check_pattern(node: SourceNode, others: Iterable[Node]) -> None:
    """Refuse a source that reads by pattern what another one names, or the other way round.

    Raises:
        TopologyError: it does.
    """
    for other in others:
        if not isinstance(other, SourceNode):
            continue
        for topic in sorted(matching(node.reads, other.topics)):
            raise TopologyError(
                f"The pattern of {node.name!r} matches topic {topic!r}, which {other.name!r} "
                "reads: let it not match that one"
            )
        for topic in sorted(matching(other.reads, node.topics)):
            raise TopologyError(
                f"Topic {topic!r} of {node.name!r} matches the pattern of {other.name!r}: "
                "read it once and use what comes of it twice"
            )


def expanded(topics: Iterable[str], existing: Collection[str]) -> tuple[str, ...]:
    """Return topics with what matches in place of each pattern, by name."""
    found: dict[str, None] = {}
    for topic in topics:
        names = sorted(matching([topic], existing)) if is_pattern(topic) else [topic]
        found |= dict.fromkeys(names)
    return tuple(found)


def with_topics(report: TopologyReport, existing: Iterable[str]) -> TopologyReport:
    """Return the report with the topics that match in place of each pattern.

    Topics of the application's own, and those that a source names, are no matches.

    Raises:
        TopologyError: two patterns match one topic.
    """
    named = {t for group in report.subtopologies for t in group.source_topics}
    patterns = {topic for topic in named if is_pattern(topic)}
    if not patterns:
        return report
    taken = named.union(
        *((topic.name for topic in group.repartition_sources) for group in report.subtopologies),
        *((topic.name for topic in group.changelogs) for group in report.subtopologies),
    )
    there = set(existing) - taken
    check_apart(patterns, there)
    return replace(
        report,
        subtopologies=tuple(
            replace(group, source_topics=expanded(group.source_topics, there))
            for group in report.subtopologies
        ),
        copartition_groups=tuple(expanded(group, there) for group in report.copartition_groups),
    )


def of_topics(subtopology: Subtopology, existing: Collection[str]) -> Subtopology:
    """Return a sub-topology whose sources by pattern read the topics that match.

    Raises:
        TopologyError: two patterns match one topic.
    """
    if all(source.pattern is None for source in subtopology.sources):
        return subtopology
    patterns = {topic for source in subtopology.sources for topic in source.reads}
    check_apart({topic for topic in patterns if is_pattern(topic)}, existing)
    nodes = tuple(
        replace(node, topics=expanded(node.reads, existing))
        if isinstance(node, SourceNode) and node.pattern is not None
        else node
        for node in subtopology.nodes
    )
    return replace(subtopology, nodes=nodes)


def check_apart(patterns: Collection[str], existing: Iterable[str]) -> None:
    """Refuse a topic that several of the patterns match.

    Raises:
        TopologyError: there is one.
    """
    for topic in sorted(matching(patterns, existing)):
        found = sorted(it.removeprefix(_MARK) for it in patterns if matching([it], [topic]))
        if len(found) > 1:
            raise TopologyError(
                f"topic {topic} matches two patterns, {' and '.join(map(repr, found))}: "
                "let only one of them match it"
            )
