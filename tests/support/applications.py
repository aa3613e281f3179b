"""Random applications for all engines: each of several topologies, whose results are determined.

A sub-topology reads one topic, or several that are there before it begins: the lowest timestamp is
next, and no two topics have the same. What comes out of it is the same however fast its task runs
beside others, so that engines can be compared record for record. Of a join by foreign key, whose
sub-topologies feed each other, only what is left at the end is determined. Times are of today: a
broker deletes what windows have outlived. Some topics have two partitions, whose records are in no
order among each other. Java's driver has one; so it is asked for each partition alone:

    one partition           all records                                         Java's first run
    two, no repartitioning  by their keys: two tasks that know nothing of       one run each
                            each other
    two, repartitioned      all in the second: its task writes to both          Java's second run
    once                    partitions in between, in an order that is known
    two, DataFrames only    by their keys: what two tasks write in between is   Java's first run,
                            in no order, and state must not depend on it        outputs do not count
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import cloudpickle

from headwater.config import StreamsConfig
from headwater.dsl.loading import build_topology
from headwater.model.patterns import expanded
from headwater.spark.frames.choose import choose
from headwater.wire.partitioner import partition_for_key
from tests.oracle.translate import Drawing
from tests.support.contents import key_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from headwater import StreamsBuilder
    from headwater.model.nodes import Subtopology
    from headwater.model.stores import StoreSpec
    from tests.oracle.expressions import Types

FORMAT: Final = "dsl.store.format"
"""Whether stores of the DSL keep headers."""


class Spread(Enum):
    """Where the records of a topic lie."""

    ALONE = auto()
    """In its only partition."""
    BY_KEY = auto()
    """In two; each task is for itself."""
    SECOND = auto()
    """In the second of two."""
    MIXED = auto()
    """In two; what their tasks send on is mixed."""

    @property
    def partitions(self) -> int:
        """Of such a topic, and of what its records are repartitioned into."""
        return 1 if self is Spread.ALONE else 2


class Order(Enum):
    """What is known of the records that are put out to a topic."""

    BY_TASK = auto()
    """The order of those of each partition that is read."""
    NONE = auto()
    """Which they are."""
    LAST = auto()
    """Which is the last of each key."""
    UNKNOWN = auto()
    """Nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """What was drawn.

    Attributes:
        request: for the Java oracle (``tests/oracle/FORMAT.md``); topics have no prefix.
        types: by step, of what comes out of it.
        topics: those that are read, also by pattern.
        spread: by topic that is read.
        eventual: topics that are written and stores of which only the last values are known.
    """

    request: dict[str, Any]
    types: dict[str, Types]
    topics: tuple[str, ...]
    spread: dict[str, Spread] = field(default_factory=dict)
    eventual: frozenset[str] = frozenset()

    @property
    def inputs(self) -> tuple[str, ...]:
        """The topics that are read but for those of global tables."""
        return tuple(sorted({*self.topics}.difference(self.globals)))

    @property
    def globals(self) -> tuple[str, ...]:
        """The topics of global tables, which are full before anything else is read."""
        return tuple(sorted({step["topic"] for step in self._steps("global_table")}))

    @property
    def outputs(self) -> tuple[str, ...]:
        """The topics that are written."""
        return tuple(step["topic"] for step in self._steps("to"))

    @property
    def records(self) -> list[tuple[int, dict[str, Any]]]:
        """The records that are sent, each with its partition."""
        return [(self._partition(record), record) for record in self.request["inputs"]]

    def _partition(self, record: dict[str, Any]) -> int:
        match self.spread[record["topic"]]:
            case Spread.ALONE:
                return 0
            case Spread.SECOND:
                return 1
            case spread if record["key"] is None:
                return int(record["timestamp"]) % spread.partitions
            case spread:
                return partition_for_key(bytes.fromhex(record["key"]), spread.partitions)

    def requests(self) -> list[dict[str, Any]]:
        """Return what Java is asked, for what is read of first and second partitions."""
        everywhere = self.globals
        return [
            {
                **self.request,
                "inputs": [
                    record
                    for partition, record in self.records
                    if record["topic"] in everywhere
                    or number == (0 if self.spread[record["topic"]] is Spread.MIXED else partition)
                ],
            }
            for number in range(2)
        ]

    def place(self) -> Callable[[str, str], int]:
        """Return what says to which partition of a store's changelog a key belongs."""
        homes = {
            store.name: (self.spread[topics[0]], not {*topics}.isdisjoint(self.read_by(group)))
            for topics, groups in self.joined().items()
            for group in groups
            for store in group.stores
        }
        stores = self.stores

        def place(store: str, key: str) -> int:
            spread, is_of_source = homes[store]
            if spread is Spread.SECOND and is_of_source:
                return 1
            data = bytes.fromhex(key.partition("@")[0])
            return partition_for_key(key_of(stores[store], data), spread.partitions)

        return place

    def orders(self) -> dict[str, Order]:
        """Return what is known of each topic that is written."""
        found = {}
        for topics, groups in self.joined().items():
            spread = self.spread[topics[0]]
            for group in groups:
                is_behind = {*topics}.isdisjoint(self.read_by(group)) and spread.partitions > 1
                order = Order.NONE if is_behind else Order.BY_TASK
                if spread is Spread.MIXED:
                    order = Order.UNKNOWN
                # Calls keep the order of a key or of a partition; a task may read several.
                is_single = len(self.read_by(group)) == 1
                mixed = self._sent_by_calls("key", *(() if is_single else ("partition",)))
                for topic in (str(sink.topic) for sink in group.sinks):
                    is_mixed = order is Order.BY_TASK and topic in mixed
                    found[topic] = Order.NONE if is_mixed else order
        found |= dict.fromkeys(self.eventual, Order.LAST)
        return {topic: found[topic] for topic in self.outputs}

    def _sent_by_calls(self, *orders: str) -> set[str]:
        """Return the topics that get what calls of these orders return."""
        calls = {step["id"] for step in self.request["steps"] if step.get("waits") in orders}
        return {step["topic"] for step in self._steps("to") if step["on"] in calls}

    @property
    def stores(self) -> dict[str, StoreSpec]:
        """The stores, by name."""
        return dict(build_topology(self.build(), config=self.config).stores)

    @property
    def processors_stores(self) -> frozenset[str]:
        """The stores that a processor keeps: under keys of its own, wherever its records lie."""
        given = (store for step in self.request["steps"] for store in step.get("stores", ()))
        return frozenset(store["store"] for store in given)

    def joined(self) -> dict[tuple[str, ...], list[Subtopology]]:
        """Return the sub-topologies by the topics from which their records come in the end.

        Those that read topics of others come first, each before what it sends to.
        """
        topology = build_topology(self.build(), config=self.config)
        between = frozenset(topology.repartition_topics)
        found: dict[tuple[str, ...], list[Subtopology]] = {}
        for first in topology.subtopologies:
            if between.issuperset(first.source_topics) or any(first in it for it in found.values()):
                continue
            reached = [first]
            for group in reached:
                sent, read = {sink.topic for sink in group.sinks}, {*group.source_topics} & between
                reached += [
                    other
                    for other in topology.subtopologies
                    if other not in reached
                    and (
                        sent.intersection(other.source_topics)
                        or read.intersection(sink.topic for sink in other.sinks)
                    )
                ]
            topics = [t for group in reached for t in self.read_by(group) if t not in between]
            found[tuple(topics)] = reached
        return found

    def read_by(self, group: Subtopology) -> tuple[str, ...]:
        """Return the topics that a sub-topology reads, those that match in place of a pattern."""
        return expanded(group.source_topics, self.topics)

    def _steps(self, *operations: str) -> list[dict[str, Any]]:
        return [step for step in self.request["steps"] if step["op"] in operations]

    @property
    def config(self) -> dict[str, Any]:
        """What it is configured with wherever it runs."""
        formats = {name: value for name, value in self.request["config"].items() if name == FORMAT}
        return {
            **formats,
            "statestore.cache.max.bytes": 0,
            # As in Java's driver: what has closed comes out at once, whatever the clock says.
            "__emit.interval.ms.kstreams.windowed.aggregation__": 0,
            "__emit.interval.ms.kstreams.outer.join.spurious.results.fix__": 0,
            "default.key.serde": self.request["key"],
            "default.value.serde": self.request["value"],
        }

    def for_dataframes(self) -> set[int]:
        """Return the sub-topologies that the compiler finds to be DataFrames.

        These keep no headers, so the format of the DSL's stores is the default one.
        """
        given = {**self.config, FORMAT: "DEFAULT"}
        config = StreamsConfig.parse({"application.id": "app", **given})
        units = choose(build_topology(self.build(), config=given), config).units
        return {number for unit in units for number in unit.subtopologies}

    def build(self, inputs: str = "", outputs: str = "") -> Callable[[StreamsBuilder], None]:
        """Return what draws it on topics with these prefixes; it can go to other processes."""
        steps = []
        for step in self.request["steps"]:
            changed = dict(step)
            prefix = outputs if step["op"] == "to" else inputs
            if "topic" in step:
                changed["topic"] = prefix + step["topic"]
            if "topics" in step:
                changed["topics"] = [prefix + topic for topic in step["topics"]]
            if "pattern" in step:
                changed["pattern"] = re.escape(prefix) + step["pattern"]
            steps.append(changed)
        return partial(_draw, {**self.request, "steps": steps, "inputs": []}, self.types)

    def pickled(self, inputs: str, outputs: str) -> bytes:
        """The same in bytes."""
        data: bytes = cloudpickle.dumps(self.build(inputs, outputs))
        return data


def _draw(request: dict[str, Any], known: dict[str, Types], builder: StreamsBuilder) -> None:
    Drawing(request, known=known, builder=builder).draw()
