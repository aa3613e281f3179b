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

import time
from collections import defaultdict, deque
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
from tests.support.contents import key_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from headwater import StreamsBuilder, Topology
    from headwater.model.nodes import Subtopology
    from headwater.model.stores import StoreSpec
    from tests.oracle.generate import Handle

STEPS_MAX = 9
_HOUR_MS = 3_600_000


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
        spread: by topic that is read.
        eventual: topics that are written and stores of which only the last values are known.
    """

    request: dict[str, Any]
    types: dict[str, Types]
    spread: dict[str, Spread] = field(default_factory=dict)
    eventual: frozenset[str] = frozenset()

    @property
    def inputs(self) -> tuple[str, ...]:
        """The topics that are read."""
        named = (s.get("topics") or [s["topic"]] for s in self._steps("stream", "table"))
        return tuple(sorted({topic for topics in named for topic in topics}))

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
            store.name: (self.spread[topics[0]], not {*topics}.isdisjoint(group.source_topics))
            for topics, groups in _joined(build_topology(self.build())).items()
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
        for topics, groups in _joined(build_topology(self.build())).items():
            spread = self.spread[topics[0]]
            for group in groups:
                is_behind = {*topics}.isdisjoint(group.source_topics) and spread.partitions > 1
                order = Order.NONE if is_behind else Order.BY_TASK
                if spread is Spread.MIXED:
                    order = Order.UNKNOWN
                found.update({str(sink.topic): order for sink in group.sinks})
        found |= dict.fromkeys(self.eventual, Order.LAST)
        return {topic: found[topic] for topic in self.outputs}

    @property
    def stores(self) -> dict[str, StoreSpec]:
        """The stores, by name."""
        return dict(build_topology(self.build()).stores)

    def _steps(self, *operations: str) -> list[dict[str, Any]]:
        return [step for step in self.request["steps"] if step["op"] in operations]

    @property
    def config(self) -> dict[str, Any]:
        """What it is configured with wherever it runs."""
        return {
            "statestore.cache.max.bytes": 0,
            # As in Java's driver: what has closed comes out at once, whatever the clock says.
            "__emit.interval.ms.kstreams.windowed.aggregation__": 0,
            "__emit.interval.ms.kstreams.outer.join.spurious.results.fix__": 0,
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
    eventual = frozenset(drawer.eventual)
    drawn = Application(request=request, types=drawer.types, eventual=eventual)
    spread = _spread(Random(f"{seed} spread"), drawn) | dict.fromkeys(drawn.globals, Spread.ALONE)
    drawn = replace(drawn, spread=spread)
    _put_in_order(drawn, today_ms())
    return drawn


def readers(drawn: Application) -> tuple[tuple[str, ...], ...]:
    """Return the topics of others, those together that meet in a task."""
    return tuple(_joined(build_topology(drawn.build())))


def today_ms() -> int:
    """Return a time of today, a full hour: from there on records are sent."""
    return (time.time_ns() // 1_000_000 // _HOUR_MS - 1) * _HOUR_MS


def _put_in_order(drawn: Application, since_ms: int) -> None:
    """Bring records into the order in which tasks take them, and their times to today.

    Where a task reads several topics, the lowest timestamp among the next records of each is next.
    """
    inputs = drawn.request["inputs"]
    together = {topic: topics for topics in readers(drawn) for topic in topics}
    together |= {topic: (topic,) for topic in drawn.globals}
    used: defaultdict[tuple[str, ...], dict[int, str]] = defaultdict(dict)
    for record in inputs:
        taken, topic = used[together[record["topic"]]], record["topic"]
        while taken.setdefault(record["timestamp"] + since_ms, topic) != topic:
            record["timestamp"] += 1
        record["timestamp"] += since_ms
    places: defaultdict[tuple[tuple[str, ...], int], list[int]] = defaultdict(list)
    for number, (partition, record) in enumerate(drawn.records):
        places[together[record["topic"]], partition].append(number)
    for numbers in places.values():
        queues: dict[str, deque[dict[str, Any]]] = {}
        for number in numbers:
            queues.setdefault(inputs[number]["topic"], deque()).append(inputs[number])
        for number in numbers:
            queue = min(filter(None, queues.values()), key=lambda it: int(it[0]["timestamp"]))
            inputs[number] = queue.popleft()
    inputs.sort(key=lambda record: record["topic"] not in drawn.globals)


def _spread(random: Random, drawn: Application) -> dict[str, Spread]:
    chosen = drawn.for_dataframes()
    found: dict[str, Spread] = {}
    topology = build_topology(drawn.build())
    choices: tuple[Spread, ...]
    for topics, groups in _joined(topology).items():
        if any(_is_of_join(topic) for group in groups for topic in group.source_topics):
            choices = (Spread.ALONE,)
        elif len(groups) == 1:
            choices = (Spread.ALONE, Spread.BY_KEY)
        elif chosen.issuperset(group.id for group in groups):
            choices = (Spread.MIXED,)  # seldom enough
        elif any(_sends_on(topology, group) or _goes_by_time(group) for group in groups[1:]):
            # Two tasks would send on what two tasks send, or each would have a time of its own.
            choices = (Spread.ALONE,)
        else:
            choices = (Spread.ALONE, Spread.SECOND)
        found |= dict.fromkeys(topics, random.choice(choices))
    return found


def _goes_by_time(group: Subtopology) -> bool:
    """Whether what becomes of a record depends on the times of others before it."""
    kinds = [store.kind for store in group.stores]
    return any(it.expires or it.is_buffer or it.versioned or it.holds_records for it in kinds)


def _sends_on(topology: Topology, group: Subtopology) -> bool:
    """Whether something is repartitioned behind a sub-topology."""
    return any(sink.topic in topology.repartition_topics for sink in group.sinks)


def _joined(topology: Topology) -> dict[tuple[str, ...], list[Subtopology]]:
    """Return the sub-topologies by the topics from which their records come in the end.

    Those that read topics of others come first, each before what it sends to.
    """
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
        topics = [t for group in reached for t in group.source_topics if t not in between]
        found[tuple(topics)] = reached
    return found


class _Drawer(Generator):
    """Draws topologies beside each other."""

    def __init__(self, random: Random) -> None:
        super().__init__(random)
        self.types: dict[str, Types] = {}
        self.drawn = 0
        self.eventual: set[str] = set()
        """Topics that are written and stores of which only the last values are known."""
        self._known_only = False
        self._of_known: set[str] = set()

    def draw_one(self, *, known_only: bool) -> None:
        """Draw one more topology, or nothing if its results would not be determined."""
        self._known_only = known_only
        self._hide_topics()
        steps, topics, types = len(self.steps), dict(self.topics), dict(self.types)
        eventual, global_tables = set(self.eventual), list(self.global_tables)
        self.handles = []
        self._source()
        for _ in range(self.random.randint(2, STEPS_MAX)):
            self._grow()
        self._finish()
        if not known_only and self._chance(0.4):
            self._finish_by_foreign_key()
        if _is_determined(self._topology()):
            self.drawn += 1
            if known_only:
                self._of_known |= self.topics.keys() - topics
        else:
            del self.steps[steps:]
            self.topics, self.types, self.eventual = topics, types, eventual
            self.global_tables = global_tables

    def _hide_topics(self) -> None:
        """Read no topic of the other sort: whoever reads one topic is one sub-topology."""
        for name, (kind, key, value) in self.topics.items():
            if kind not in {"table", "global"}:
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
                self._end, self._group_by_key, self._group_by, self._to_table,
                self._join_stream, self._join_stream, self._join_streams, self._join_streams,
                self._join_another_topic, self._join_another_topic, self._join_global_table,
            )  # fmt: skip
            operations["table"] += (
                self._filter, self._map_values, self._group_table, self._group_table,
                self._join_tables, self._join_tables, self._suppress, self._join_another_topic,
            )  # fmt: skip
        self.random.choice(operations[handle.kind])(handle)

    def _join_another_topic(self, handle: Handle) -> None:
        """Join a stream or table with a topic of its own, or share an aggregate with it."""
        if handle.rekeyed:
            return
        kind = "table" if handle.kind == "table" else self.random.choice(("table", "stream"))
        name = f"in-{len(self.topics)}"
        self.topics[name] = (kind, handle.key, self._type())
        if kind == "table":
            self._read_table(name)
            join = self._join_tables if handle.kind == "table" else self._join_stream
            join(handle)
            return
        self._read_stream(name, again=True)
        other = self.handles[-1]
        if self._chance(0.3):
            for each in (handle, other):
                self._group_by_key(each)
            self._cogroup([it for it in self.handles if it.kind == "grouped stream"][-1])
        else:
            self._join_with(self.random.choice(("join", "left_join", "outer_join")), handle, other)

    def _finish_by_foreign_key(self) -> None:
        """Join two tables by a foreign key, and let out what comes of it, and nothing else."""
        tables = [handle for handle in self.handles[-8:] if handle.kind == "table"]
        before = len(self.steps)
        if tables:
            self._join_by_foreign_key(self.random.choice(tables))
        if len(self.steps) == before:
            return
        step = self.steps[-1]
        step.setdefault("materialized", {})["store"] = store = self._fresh("store-")
        step["materialized"].pop("history_ms", None)
        self._to_stream(self.handles[-1])
        self.steps[-1].pop("fn", None)
        self._to(replace(self.handles[-1], key=self.handles[-2].key))
        self.eventual |= {store, self.steps[-1]["topic"]}

    def _read_stream(self, name: str, *, again: bool) -> None:
        super()._read_stream(name, again=True)

    def _aggregate_stream(self, group: Handle) -> None:
        if self._known_only:
            self.random.choice((self._count, self._reduce))(group)
        else:
            super()._aggregate_stream(group)

    def _aggregate_windows(self, group: Handle) -> None:
        """Aggregate within windows; some results are held back until their windows close."""
        super()._aggregate_windows(group)
        if "emit" not in self.steps[-3]:
            self._suppress_windows()

    def _suppress_windows(self) -> None:
        """Put a suppression between the table of windows and its stream."""
        if self.steps[-3]["windows"]["kind"] == "unlimited" or self._chance(0.6):
            return
        out, table, made = self.steps.pop(), self.steps[-1], self.handles.pop()
        key = self.types[self.steps[-2]["on"]].key
        table.setdefault("materialized", {}).update(key=key, value=made.value)
        types = self.types.pop(out["id"])
        held = self._step("suppress", on=table["id"], buffer={})
        self.types[held] = self.types[table["id"]]
        fields = {name: out[name] for name in ("fn", "name") if name in out}
        step = self._step("to_stream", on=held, **fields)
        self.types[step] = types
        self.handles.append(replace(made, step=step))

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
                for options in ("materialized", "stream_joined"):
                    fields.get(options, {}).pop("logging", None)
                # Java fails to build some joins with a table of a named group.
                fields.get("grouped", {}).pop("name", None)
                # Of what waits, Java counts the name of the topic where it was read.
                for bound in ("bytes", "logging"):
                    fields.get("buffer", {}).pop(bound, None)
                # There is one worker only, which may have all partitions.
                for side in ("partitioner", "other_partitioner"):
                    fields.get("table_joined", {}).pop(side, None)
        if self._known_only and "fn" in fields:
            fields["fn"] = self._known(op, fields["fn"], self.types[fields["on"]])
        return super()._step(op, **fields)

    def _known(self, op: str, name: str, types: Types) -> str:
        """Take another function of the same type, one that is known, if there is any."""
        wanted = result_type(name, types)
        found = [one for one, result in known_names(op, types).items() if result == wanted]
        return self.random.choice(found) if found else name


def _is_determined(topology: Topology) -> bool:
    """Whether no task reads a topic in between beside others, but for joins by foreign key."""
    between = {topic for topic in topology.repartition_topics if not _is_of_join(topic)}
    return all(
        between.isdisjoint(group.source_topics) or len(group.source_topics) == 1
        for group in topology.subtopologies
    )


def _is_of_join(topic: str) -> bool:
    """Whether a topic lies between the two sides of a join by foreign key."""
    return "-subscription-" in topic.lower()
