"""What sub-topologies read and write, in a few letters."""

from __future__ import annotations

from headwater.model.topics import RepartitionTopic, SubtopologyReport, TopologyReport


def topology(*subtopologies: tuple[str, str]) -> TopologyReport:
    """Sub-topologies: what they read, what they write; small letters are repartition topics."""
    return TopologyReport(
        hash="",
        subtopologies=tuple(
            SubtopologyReport(
                id=number,
                source_topics=tuple(topic for topic in read if topic.isupper()),
                repartition_sources=tuple(
                    RepartitionTopic(name=topic) for topic in read if topic.islower()
                ),
                sink_topics=tuple(written),
            )
            for number, (read, written) in enumerate(subtopologies)
        ),
    )
