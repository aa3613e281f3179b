"""A record's journey: which nodes and stores it reached, and what was written because of it.

The TopologyTestDriver measures at level TRACE, at which every node tells how old the records are
that reach it. The wall clock goes twice as fast as the records' timestamps, so each is older than
the one before when it arrives, and a node that was reached tells another average than before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from headwater.testing.driver import TopologyTestDriver

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headwater.model.topology import Topology

_LATENCY: Final = "record-e2e-latency-"
_STEP_MS: Final = 7
"""Records are apart by so much; far less than the time for which an average remembers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A record that was written on the way.

    Attributes:
        topic: the broker's name.
        key: as text if it is any, else in hexadecimal digits; ``None`` if it is null.
        value: likewise.
        timestamp: milliseconds since the epoch.
        store: whose changelog it is; empty for any other topic.
    """

    topic: str
    key: str | None
    value: str | None
    timestamp: int
    store: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Journey:
    """What became of one record.

    Attributes:
        nodes: that it, or what was made of it, has reached; in no order.
        stores: that were written.
        written: in the order of writing, changelogs among them.
        warnings: of handlers and extractors that let it go.
    """

    nodes: tuple[str, ...]
    stores: tuple[str, ...]
    written: tuple[Written, ...]
    warnings: tuple[str, ...] = ()


class Journeys:
    """A topology in a test driver that tells of each record where it went; a state is kept.

    Args:
        topology: what is run, by one task for each sub-topology.
        config: the application's options.
        start_ms: wall-clock time at the beginning.

    Raises:
        HeadwaterError: the topology or an option cannot be used.
    """

    def __init__(
        self, topology: Topology, config: Mapping[str, object] | None = None, *, start_ms: int = 0
    ) -> None:
        given = {"application.id": "journey", **(config or {})}
        self._driver = TopologyTestDriver(
            topology, {**given, "metrics.recording.level": "TRACE"}, start_ms=start_ms
        )
        self._now_ms = start_ms
        self._changelogs = {
            changelog.name: changelog.store
            for group in topology.report(str(given["application.id"])).subtopologies
            for changelog in group.changelogs
        }

    def pipe(
        self, topic: str, key: bytes | None, value: bytes | None, timestamp: int | None = None
    ) -> Journey:
        """Write a record, and return what became of it.

        Args:
            topic: that the topology reads.
            key: ``None`` for a null key.
            value: ``None`` for a tombstone.
            timestamp: milliseconds since the epoch; a little after the last if not given.

        Raises:
            ValueError: the topology does not read the topic.
            RecordError: the record could not be handled.
        """
        self._driver.advance_wall_clock_time(2 * _STEP_MS)
        self._now_ms += _STEP_MS
        before, warned = self._told(), len(self._driver.warnings)
        written = len(self._driver.history)
        self._driver.pipe_raw(topic, key, value, self._now_ms if timestamp is None else timestamp)
        after = self._told()
        found = tuple(
            Written(
                topic=record.topic,
                key=_text(record.key),
                value=_text(record.value),
                timestamp=record.timestamp,
                store=self._changelogs.get(record.topic, ""),
            )
            for record in self._driver.history[written:]
        )
        return Journey(
            nodes=tuple(sorted(node for node, told in after.items() if before.get(node) != told)),
            stores=tuple(sorted({record.store for record in found if record.store})),
            written=found,
            warnings=tuple(self._driver.warnings[warned:]),
        )

    def close(self) -> None:
        """Close processors and stores."""
        self._driver.close()

    def _told(self) -> dict[str, dict[str, Any]]:
        """Return what every node tells of the age of its records."""
        found: dict[str, dict[str, Any]] = {}
        for name, metric in self._driver.metrics().items():
            node = name.tags.get("processor-node-id")
            if node is not None and name.name.startswith(_LATENCY):
                found.setdefault(node, {})[name.name] = metric.metric_value()
        return found


def _text(data: bytes | None) -> str | None:
    if data is None:
        return None
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return f"0x{data.hex()}"
    return text if text.isprintable() else f"0x{data.hex()}"
