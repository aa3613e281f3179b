"""Random applications for all engines: each of several topologies, each sub-topology on one topic.

What comes out of such a sub-topology is the same however fast its task runs beside others, so that
engines can be compared record for record. Some topics have two partitions, whose records are in no
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

from dataclasses import dataclass, field, replace
from enum import Enum, auto
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

import cloudpickle

from headwater.config import StreamsConfig
from headwater.dsl.loading import build_topology
from headwater.spark.frames.choose import choose
from headwater.wire.partitioner import partition_for_key
from tests.oracle.expressions import Types, known_names, result_type
from tests.oracle.generate import Generator
from tests.oracle.translate import Drawing

if TYPE_CHECKING:
    from collections.abc import Callable

    from headwater import StreamsBuilder, Topology
    from headwater.model.nodes import Subtopology
    from tests.oracle.generate import Handle

STEPS_MAX = 9


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
    UNKNOWN = auto()
    """Nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """What was drawn.

    Attributes:
        request: for the Java oracle (``tests/oracle/FORMAT.md``); topics have no prefix.
        types: by step, of what comes out of it.
        spread: by topic that is read.
    """

    request: dict[str, Any]
    types: dict[str, Types]
    spread: dict[str, Spread] = field(default_factory=dict)

    @property
    def inputs(self) -> tuple[str, ...]:
        """The topics that are read."""
        named = (s.get("topics") or [s["topic"]] for s in self._steps("stream", "table"))
        return tuple(sorted({topic for topics in named for topic in topics}))

    @property
    def outputs(self) -> tuple[str, ...]:
        """The topics that are written."""
        return tuple(step["topic"] for step in self._steps("to"))

    @property
    def records(self) -> list[tuple[int, dict[str, Any]]]:
        """The records that are sent, each with its partition."""
        return [
            (self._partition(number, record), record)
            for number, record in enumerate(self.request["inputs"])
        ]

    def _partition(self, number: int, record: dict[str, Any]) -> int:
        match self.spread[record["topic"]]:
            case Spread.ALONE:
                return 0
            case Spread.SECOND:
                return 1
            case spread if record["key"] is None:
                return number % spread.partitions
            case spread:
                return partition_for_key(bytes.fromhex(record["key"]), spread.partitions)

    def requests(self) -> list[dict[str, Any]]:
        """Return what Java is asked, for what is read of first and second partitions."""
        return [
            {
                **self.request,
                "inputs": [
                    record
                    for partition, record in self.records
                    if number == (0 if self.spread[record["topic"]] is Spread.MIXED else partition)
                ],
            }
            for number in range(2)
        ]

    def place(self) -> Callable[[str, str], int]:
        """Return what says to which partition of a store's changelog a key belongs."""
        homes = {
            store.name: (self.spread[topic], topic in group.source_topics)
            for topic, groups in _joined(build_topology(self.build())).items()
            for group in groups
            for store in group.stores
        }

        def place(store: str, key: str) -> int:
            spread, is_of_source = homes[store]
            if spread is Spread.SECOND and is_of_source:
                return 1
            return partition_for_key(bytes.fromhex(key), spread.partitions)

        return place

    def orders(self) -> dict[str, Order]:
        """Return what is known of each topic that is written."""
        found = {}
        for topic, groups in _joined(build_topology(self.build())).items():
            spread = self.spread[topic]
            for group in groups:
                is_behind = topic not in group.source_topics and spread.partitions > 1
                order = Order.NONE if is_behind else Order.BY_TASK
                if spread is Spread.MIXED:
                    order = Order.UNKNOWN
                found.update({str(sink.topic): order for sink in group.sinks})
        return {topic: found[topic] for topic in self.outputs}

    def _steps(self, *operations: str) -> list[dict[str, Any]]:
        return [step for step in self.request["steps"] if step["op"] in operations]

    @property
    def config(self) -> dict[str, Any]:
        """What it is configured with wherever it runs."""
        return {
            "statestore.cache.max.bytes": 0,
            "default.key.serde": self.request["key"],
            "default.value.serde": self.request["value"],
        }

    def for_dataframes(self) -> set[int]:
        """Return the sub-topologies that the compiler finds to be DataFrames."""
        config = StreamsConfig.parse({"application.id": "app", **self.config})
        units = choose(build_topology(self.build()), config).units
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
            steps.append(changed)
        return partial(_draw, {**self.request, "steps": steps, "inputs": []}, self.types)

    def pickled(self, inputs: str, outputs: str) -> bytes:
        """The same in bytes."""
        data: bytes = cloudpickle.dumps(self.build(inputs, outputs))
        return data


def _draw(request: dict[str, Any], known: dict[str, Types], builder: StreamsBuilder) -> None:
    Drawing(request, known=known, builder=builder).draw()


def draw(seed: str, *, topologies: int, records: int) -> Application:
    """Draw an application; every other topology is of what can be DataFrames.

    About half of the topics have two partitions.
    """
    drawer = _Drawer(Random(seed))
    drawer.key_default = drawer.value_default = "string"
    while drawer.drawn < topologies:
        drawer.draw_one(known_only=drawer.drawn % 2 == 1)
    request = {
        "app_id": "app",
        "config": {"statestore.cache.max.bytes": "0"},
        "key": drawer.key_default,
        "value": drawer.value_default,
        "steps": drawer.steps,
        "inputs": drawer._inputs(records * len(drawer.topics)),
    }
    drawn = Application(request=request, types=drawer.types)
    return replace(drawn, spread=_spread(Random(f"{seed} spread"), drawn))


def _spread(random: Random, drawn: Application) -> dict[str, Spread]:
    chosen, found = drawn.for_dataframes(), {}
    topology = build_topology(drawn.build())
    choices: tuple[Spread, ...]
    for topic, groups in _joined(topology).items():
        if len(groups) == 1:
            choices = (Spread.ALONE, Spread.BY_KEY)
        elif chosen.issuperset(group.id for group in groups):
            choices = (Spread.MIXED,)  # seldom enough
        elif any(_sends_on(topology, group) for group in groups[1:]):
            choices = (Spread.ALONE,)  # two tasks would send on what two tasks send
        else:
            choices = (Spread.ALONE, Spread.SECOND)
        found[topic] = random.choice(choices)
    return found


def _sends_on(topology: Topology, group: Subtopology) -> bool:
    """Whether something is repartitioned behind a sub-topology."""
    return any(sink.topic in topology.repartition_topics for sink in group.sinks)


def _joined(topology: Topology) -> dict[str, list[Subtopology]]:
    """Return the sub-topologies by the topic from which their records come in the end."""
    between = topology.repartition_topics
    found: dict[str, list[Subtopology]] = {}
    for first in topology.subtopologies:
        [source] = first.source_topics
        if source in between:
            continue
        found[source] = reached = [first]
        for group in reached:
            sent = {sink.topic for sink in group.sinks}
            reached += [
                other
                for other in topology.subtopologies
                if other not in reached and sent.intersection(other.source_topics)
            ]
    return found


class _Drawer(Generator):
    """Draws topologies beside each other."""

    def __init__(self, random: Random) -> None:
        super().__init__(random)
        self.types: dict[str, Types] = {}
        self.drawn = 0
        self._known_only = False
        self._of_known: set[str] = set()

    def draw_one(self, *, known_only: bool) -> None:
        """Draw one more topology, or nothing if a sub-topology would read several topics."""
        self._known_only = known_only
        self._hide_topics()
        steps, topics, types = len(self.steps), dict(self.topics), dict(self.types)
        self.handles = []
        self._source()
        for _ in range(self.random.randint(2, STEPS_MAX)):
            self._grow()
        self._finish()
        if _reads_one_topic_each(self._topology()):
            self.drawn += 1
            if known_only:
                self._of_known |= self.topics.keys() - topics
        else:
            del self.steps[steps:]
            self.topics, self.types = topics, types

    def _hide_topics(self) -> None:
        """Read no topic of the other sort: whoever reads one topic is one sub-topology."""
        for name, (kind, key, value) in self.topics.items():
            if kind != "table":
                is_ours = (name in self._of_known) is self._known_only
                self.topics[name] = ("stream" if is_ours else "of the others", key, value)

    def _topology(self) -> Topology:
        return Drawing({"steps": self.steps}, known=self.types).topology()

    def _grow(self) -> None:
        handle = self.random.choice(self.handles[-6:])
        operations: dict[str, tuple[Any, ...]] = {
            "stream": (
                self._filter, self._map_values, self._select_key, self._merge, self._repartition,
                self._group_by_key, self._group_by, self._to_table, self._to,
            ),
            "table": (self._to_stream,),
            "grouped stream": (self._aggregate_stream,),
            "grouped table": (self._aggregate_table,),
        }  # fmt: skip
        if not self._known_only:
            operations["stream"] += (
                self._map, self._flat_map, self._flat_map_values, self._peek, self._split,
                self._end, self._group_by_key, self._group_by,
            )  # fmt: skip
            operations["table"] += (
                self._filter, self._map_values, self._group_table, self._group_table,
            )  # fmt: skip
        self.random.choice(operations[handle.kind])(handle)

    def _read_stream(self, name: str, *, again: bool) -> None:
        super()._read_stream(name, again=True)

    def _aggregate_stream(self, group: Handle) -> None:
        if self._known_only:
            self.random.choice((self._count, self._reduce))(group)
        else:
            super()._aggregate_stream(group)

    def _aggregate_windows(self, group: Handle) -> None:
        """Count instead: a store of windows has forgotten what its changelog still has."""
        self._count(group)

    def _cogroup(self, group: Handle) -> None:
        """Count instead: a cogroup reads several topics."""
        self._count(group)

    def _made(
        self, handle: Handle, step: str, key_serde: str | None, value_serde: str | None
    ) -> Handle:
        self.types[step] = Types(handle.key, handle.value)
        return super()._made(handle, step, key_serde, value_serde)

    def _step(self, op: str, **fields: Any) -> str:
        match op:
            case "to":
                fields.pop("extractor", None)
                fields["topic"] = f"out-{len(self.steps)}"
            case "print":
                fields.pop("label", None)
                op = "for_each"
            case "repartition":
                fields.get("repartitioned", {}).pop("partitions", None)
            case _:
                stored = fields.get("materialized", {})
                stored.pop("logging", None)
                stored.pop("history_ms", None)  # Java cannot list what a versioned store holds
        if self._known_only and "fn" in fields:
            fields["fn"] = self._known(op, fields["fn"], self.types[fields["on"]])
        return super()._step(op, **fields)

    def _known(self, op: str, name: str, types: Types) -> str:
        """Take another function of the same type, one that is known, if there is any."""
        wanted = result_type(name, types)
        found = [one for one, result in known_names(op, types).items() if result == wanted]
        return self.random.choice(found) if found else name


def _reads_one_topic_each(topology: Topology) -> bool:
    return all(len(group.source_topics) == 1 for group in topology.subtopologies)
