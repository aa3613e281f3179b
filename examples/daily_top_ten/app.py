"""The ten articles that are read most, by day, in two phases.

The first counts each article of a day where its readings are. The second brings the counts of a day
together, keeps the ten largest, and takes a count away before it adds the new one.
"""

from datetime import timedelta

from headwater import Serdes, StreamsBuilder, TimeWindows, Windowed

READINGS = "article-readings"
TOP_TEN = "daily-top-ten"
DAY = TimeWindows.of_size_and_grace(timedelta(days=1), timedelta(hours=1))
DAY_MS = 86_400_000
TEN = 10

Counts = dict[str, int]


def build(builder: StreamsBuilder) -> None:
    """Count by article and day, then collect by day."""
    counts = (
        builder.stream(READINGS, key_serde=Serdes.string, value_serde=Serdes.string)
        .group_by_key()
        .windowed_by(DAY)
        .count(store="readings")
    )
    (
        counts.group_by(by_day, key_serde=Serdes.long, value_serde=Serdes.json)
        .aggregate(
            dict,
            with_count,
            without_count,
            store="counts-of-days",
            key_serde=Serdes.long,
            value_serde=Serdes.json,
        )
        .to_stream()
        .map_values(largest)
        .to(TOP_TEN, key_serde=Serdes.long, value_serde=Serdes.json)
    )


def by_day(article: Windowed[str], count: int) -> tuple[int, list[object]]:
    """Give the number of the day, and the article with its count."""
    return article.window.start_ms // DAY_MS, [article.key, count]


def with_count(_day: int, counted: list[object], counts: Counts) -> Counts:
    """Add an article's count."""
    article, count = counted
    return {**counts, str(article): int(str(count))}


def without_count(_day: int, counted: list[object], counts: Counts) -> Counts:
    """Take an article's count away."""
    return {article: count for article, count in counts.items() if article != counted[0]}


def largest(counts: Counts) -> list[list[object]]:
    """Return the ten largest counts, the largest first; equal ones by the article's name."""
    ranked = sorted(counts.items(), key=lambda it: (-it[1], it[0]))
    return [[article, count] for article, count in ranked[:TEN]]
