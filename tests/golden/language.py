"""Makes ``docs/reference/language.md``, the list of what Kafka Streams offers: ``make crds``."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import Final

import headwater
import headwater.testing
from tests.golden.language_rows import (
    DSL_STATEFUL,
    DSL_STATELESS,
    OUR_OWN,
    PROCESSOR_API,
    STORES,
)
from tests.golden.runtime_rows import RUNTIME, TOOLS

_HEAD: Final = """# The language, row by row

What Kafka Streams 4.3 offers to who writes a topology or runs one, and what it is called in Python.
Java's name becomes snake_case; options are keyword arguments, and Java's option objects are
accepted as well. Durations are a `timedelta` or whole milliseconds. A row without a name says
why there is none.

The page is generated: each name in it is looked up in the package `headwater`.
"""
_SECTIONS: Final = {
    "DSL, stateless": DSL_STATELESS,
    "DSL, stateful": DSL_STATEFUL,
    "Processor API": PROCESSOR_API,
    "State stores": STORES,
    "Runtime": RUNTIME,
    "Application tools": TOOLS,
    "Beyond Kafka Streams": OUR_OWN,
}
_WHOLE: Final = (
    "StreamsBuilder",
    "KStream",
    "KTable",
    "GlobalKTable",
    "CogroupedKStream",
    "TimeWindowedKStream",
    "SessionWindowedKStream",
    "TimeWindowedCogroupedKStream",
    "SessionWindowedCogroupedKStream",
    "KGroupedStream",
    "KGroupedTable",
    "BranchedKStream",
    "Stores",
    "ProcessorContext",
    "KeyValueStore",
    "WindowStore",
    "SessionStore",
    "VersionedKeyValueStore",
    "KafkaStreams",
    "StateRestoreListener",
)
"""Classes of which every public method is to stand in a row."""
_OUR_OWN: Final = frozenset(
    f"{owner}.{name}"
    for owner in _WHOLE
    for name in ("origin", "build", "name", "approximate_num_entries", "joined_with")
)
"""What several have in common, what the DSL alone calls, what Java's user meets elsewhere."""


@dataclass(frozen=True, slots=True)
class Row:
    """One thing that Kafka Streams offers.

    Attributes:
        java: what it is called there.
        names: what it is called here, as paths below ``headwater``.
        note: how it is written, or why it is missing.
    """

    java: str
    names: tuple[str, ...]
    note: str = ""


def rows() -> dict[str, tuple[Row, ...]]:
    """Return the rows of each section."""
    return {
        title: tuple(Row(java, tuple(names.split()), note) for java, names, note in section)
        for title, section in _SECTIONS.items()
    }


def language_page() -> str:
    """Return the page.

    Raises:
        LookupError: a name leads nowhere, or a row has neither name nor reason.
    """
    parts = [_HEAD]
    for title, section in rows().items():
        parts += [f"## {title}\n", "| Kafka Streams | Headwater | |", "| --- | --- | --- |"]
        parts += [_line(row) for row in section]
        parts.append("")
    return "\n".join(parts)


def missing_rows() -> frozenset[str]:
    """Return the public methods that stand in no row."""
    named = {name for section in rows().values() for row in section for name in row.names}
    found = {
        f"{owner}.{name}"
        for owner in _WHOLE
        for name in dir(getattr(headwater, owner))
        if not name.startswith("_")
    }
    return frozenset(found - named - _OUR_OWN)


def _line(row: Row) -> str:
    for name in row.names:
        try:
            attrgetter(name)(headwater)
        except AttributeError as error:
            raise LookupError(f"{row.java}: headwater.{name} does not exist") from error
    if not row.names and not row.note:
        raise LookupError(f"{row.java}: neither a name nor a reason")
    names = ", ".join(f"`{name}`" for name in row.names) or "none"
    return f"| {row.java} | {names} | {row.note} |"
