"""Draws random applications (``applications.py``): everything derives from one seed."""

from __future__ import annotations

import time
from collections import defaultdict, deque
from dataclasses import replace
from itertools import count
from random import Random
from typing import TYPE_CHECKING, Any, Final

from headwater.dsl.loading import build_topology
from headwater.serde.windowed import SessionWindowedSerde, TimeWindowedSerde
from tests.oracle import functions, growing
from tests.oracle.expressions import Types, known_names, result_type
from tests.oracle.generate import Generator
from tests.oracle.processors import TICKS
from tests.oracle.translate import Drawing
from tests.support.applications import FORMAT, Application, Spread

if TYPE_CHECKING:
    from headwater import Topology
    from headwater.model.nodes import Subtopology
    from headwater.model.stores import StoreSpec
    from tests.oracle.generate import Handle

STEPS_MAX = 9
_HOUR_MS = 3_600_000
_CLOSING_MS = 10_000
_KEPT_MS = 1_000_000
_STORES: Final[tuple[dict[str, Any], ...]] = (
    {},
    {"timestamped": False},
    {"kind": "windows", "size": 10, "retention_ms": _KEPT_MS},
    {"kind": "windows", "size": 10, "retention_ms": _KEPT_MS, "timestamped": False},
    {"kind": "sessions", "retention_ms": _KEPT_MS},
    {"headers": True},
    {"kind": "windows", "headers": True, "size": 10, "retention_ms": _KEPT_MS},
    {"kind": "sessions", "headers": True, "retention_ms": _KEPT_MS},
)
"""Stores of a processor; what windows and sessions hold stays."""


def draw(seed: str, *, topologies: int, records: int, has_frames: bool = True) -> Application:
    """Draw an application; every other topology is of what can be DataFrames.

    About half of the topics have two partitions.

    Args:
        seed: everything derives from it.
        topologies: so many stand beside each other.
        records: of each topic, about.
        has_frames: some sub-topologies are DataFrames.
    """
    if has_frames:
        drawn = (_draw_once(f"{seed} {number}", topologies, records) for number in count())
        application = next(filter(Application.for_dataframes, drawn))
    else:
        application = _draw_once(seed, topologies, records)
    if Random(f"{seed} format").random() < 0.3:
        application.request["config"][FORMAT] = "HEADERS"
    return application


def _draw_once(seed: str, topologies: int, records: int) -> Application:
    drawer = _Drawer(Random(seed))
    drawer.key_default = drawer.value_default = "string"
    while drawer.drawn < topologies:
        drawer.draw_one(known_only=drawer.drawn % 2 == 1)
    request: dict[str, Any] = {
        "app_id": "app",
        "config": {"statestore.cache.max.bytes": "0"},
        "key": drawer.key_default,
        "value": drawer.value_default,
        "steps": drawer.steps,
        "inputs": drawer._inputs(records * len(drawer.topics)),
    }
    eventual = frozenset(drawer.eventual)
    drawn = Application(
        request=request, types=drawer.types, topics=tuple(drawer.topics), eventual=eventual
    )
    spread = _spread(Random(f"{seed} spread"), drawn) | dict.fromkeys(drawn.globals, Spread.ALONE)
    drawn = replace(drawn, spread=spread)
    request["inputs"] += _closing(drawer, drawn)
    _put_in_order(drawn, today_ms())
    return drawn


def readers(drawn: Application) -> tuple[tuple[str, ...], ...]:
    """Return the topics of others, those together that meet in a task."""
    return tuple(drawn.joined())


def today_ms() -> int:
    """Return a time of today, a full hour: from there on records are sent."""
    return (time.time_ns() // 1_000_000 // _HOUR_MS - 1) * _HOUR_MS


def _closing(drawer: _Drawer, drawn: Application) -> list[dict[str, Any]]:
    """Return a last record for each task that punctuates, later than all others.

    How often a punctuator is called depends on how many records are processed at once. The last
    call comes behind the last record, and does again what earlier ones have done.
    """
    time_ms = max((record["timestamp"] for record in drawn.request["inputs"]), default=0)
    found = []
    for groups in drawn.joined().values():
        for group in groups:
            if drawer.told.isdisjoint(store.name for store in group.stores):
                continue
            topic = drawn.read_by(group)[0]
            _, key, value = drawer.topics[topic]
            time_ms += _CLOSING_MS
            record = {"key": drawer._bytes(key), "value": drawer._bytes(value)}
            found.append({"topic": topic, "timestamp": time_ms, **record})
    return found


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
    own = drawn.processors_stores
    for topics, groups in drawn.joined().items():
        # Two tasks would have one key of a processor each, or keys in other places than theirs.
        holding = [
            any(store.name in own or _has_windowed_keys(store) for store in group.stores)
            for group in groups
        ]
        if any(_is_of_join(topic) for group in groups for topic in group.source_topics):
            choices = (Spread.ALONE,)
        elif len(groups) == 1:
            choices = (Spread.ALONE, Spread.SECOND if holding[0] else Spread.BY_KEY)
        elif chosen.issuperset(group.id for group in groups):
            choices = (Spread.MIXED,)  # seldom enough
        elif any(holding[1:]) or any(
            _sends_on(topology, group) or _goes_by_time(group) for group in groups[1:]
        ):
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


def _has_windowed_keys(store: StoreSpec) -> bool:
    """Whether its keys are keys within windows, as those of any other table."""
    return isinstance(store.key_serde, TimeWindowedSerde | SessionWindowedSerde)


def _sends_on(topology: Topology, group: Subtopology) -> bool:
    """Whether something is repartitioned behind a sub-topology."""
    return any(sink.topic in topology.repartition_topics for sink in group.sinks)


class _Drawer(Generator):
    """Draws topologies beside each other."""

    def __init__(self, random: Random) -> None:
        super().__init__(random)
        self.types: dict[str, Types] = {}
        self.drawn = 0
        self.eventual: set[str] = set()
        """Topics that are written and stores of which only the last values are known."""
        self.told: set[str] = set()
        """Stores whose contents a punctuation tells."""
        self._known_only = False
        self._of_known: set[str] = set()

    def draw_one(self, *, known_only: bool) -> None:
        """Draw one more topology, or nothing if its results would not be determined."""
        self._known_only, self.whole = known_only, not known_only
        self._hide_topics()
        steps, topics, types = len(self.steps), dict(self.topics), dict(self.types)
        eventual, global_tables = set(self.eventual), list(self.global_tables)
        told = set(self.told)
        self.handles = []
        self._source()
        for _ in range(self.random.randint(2, STEPS_MAX)):
            self._grow()
        if not known_only:
            self._grow_by_waiting()
        self._finish()
        if not known_only:
            last = self._finish_by_foreign_key, self._finish_by_punctuation
            self.random.choices((*last, lambda: None), weights=(4, 2, 4))[0]()
        if _is_determined(self._topology()):
            self.drawn += 1
            if known_only:
                self._of_known |= self.topics.keys() - topics
        else:
            del self.steps[steps:]
            self.topics, self.types, self.eventual = topics, types, eventual
            self.global_tables, self.told = global_tables, told

    def _hide_topics(self) -> None:
        """Read no topic of the other sort: whoever reads one topic is one sub-topology."""
        for name, (kind, key, value) in self.topics.items():
            if kind not in {"table", "global", "pattern"}:
                is_ours = (name in self._of_known) is self._known_only
                self.topics[name] = ("stream" if is_ours else "of the others", key, value)

    def _topology(self) -> Topology:
        return Drawing({"steps": self.steps}, known=self.types).topology()

    def _grow(self) -> None:
        self.grow_on(self.random.choice(self.handles[-6:]))

    def grow_on(self, handle: Handle) -> None:
        """Add an operation on what is there, one of those whose results are determined."""
        self.types[handle.step] = Types(handle.key, handle.value)  # windowed, where it was not
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
                self._process, self._process,
            )  # fmt: skip
            operations["table"] += (
                self._filter, self._map_values, self._transform_values,
                self._group_table, self._group_table,
                self._join_tables, self._join_tables, self._suppress, self._join_another_topic,
            )  # fmt: skip
        self.random.choice(operations[handle.kind])(handle)

    def _source(self) -> None:
        if self.whole and self._chance(0.15):
            self._read_pattern()
        else:
            super()._source()

    def _process(self, handle: Handle) -> None:
        """Hand records to a processor that cannot tell one engine from another."""
        super()._process(handle)
        step = self.steps[-1]
        if step["fn"] in {"place", *TICKS}:
            step["fn"], step["brings"] = "hold", self._chance(0.5)
            step["stores"] = [
                {
                    "store": self._fresh("held-"),
                    "persistent": self._chance(0.5),
                    **self.random.choice(_STORES),
                }
                for _ in range(self.random.randint(1, 2))
            ]

    def _join_another_topic(self, handle: Handle) -> None:
        """Join a stream or table with a topic of its own, or share an aggregate with it."""
        if handle.rekeyed or _is_windowed(handle):
            return
        kind = "table" if handle.kind == "table" else self.random.choice(("table", "stream"))
        other = self._read_another(kind, handle)
        if kind == "table":
            join = self._join_tables if handle.kind == "table" else self._join_stream
            join(handle)
        elif self._chance(0.3):
            self._cogroup(self._grouped(handle, other)[-1])
        else:
            self._join_with(self.random.choice(("join", "left_join", "outer_join")), handle, other)

    def _read_another(self, kind: str, handle: Handle) -> Handle:
        """Read a new topic whose keys are those of a stream or table."""
        name = f"in-{len(self.topics)}"
        self.topics[name] = (kind, handle.key, self._type())
        if kind == "table":
            self._read_table(name)
        else:
            self._read_stream(name, again=True)
        return self.handles[-1]

    def _grouped(self, *streams: Handle) -> list[Handle]:
        """Group streams by their keys, and aggregate some of them."""
        before = len(self.handles)
        for stream in streams:
            self._group_by_key(stream)
        return [it for it in self.handles[before:] if it.kind == "grouped stream"]

    def _grow_by_waiting(self) -> None:
        """Let a stream wait for a table's past, or share windows with another stream."""
        streams = [
            it
            for it in self.handles[-8:]
            if it.kind == "stream" and not it.rekeyed and not _is_windowed(it)
        ]
        if not streams or self._chance(0.5):
            return
        handle = self.random.choice(streams)
        if self._chance(0.5):
            self._read_another("table", handle)
            self._keep_history()
            others, self.handles = self.handles[:-1], self.handles[-1:]
            self._join_stream(handle)
            self.handles = others + self.handles
            return
        group, other = self._grouped(handle, self._read_another("stream", handle))
        append, with_key = ("append", "with_key_text")
        step = self._step("cogroup", on=group.step, fn=append)
        step = self._step("cogroup", on=step, **{"with": other.step}, fn=with_key)
        growing.share_windows(self, step, group, self._windows())

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

    def _keep_history(self) -> None:
        """Let the table that was read last know the past, so that a stream can wait for it."""
        table = self.handles.pop()
        stored = {"store": self._fresh("store-"), "key": table.key, "value": table.value}
        history_ms = self.random.choice((40, 1_000))
        self.steps[-1]["materialized"] = {**stored, "history_ms": history_ms}
        self._add(table, table.step, table.key, table.value)

    def _finish_by_punctuation(self) -> None:
        """Let a punctuation tell, again and again, all that a processor holds, and nothing else."""
        streams = [handle for handle in self.handles[-8:] if handle.kind == "stream"]
        if not streams:
            return
        steps, handle, store = len(self.steps), self.random.choice(streams), self._fresh("told-")
        stores = [{"store": store, "persistent": self._chance(0.5)}]
        step = self._step("process", on=handle.step, fn="forward_all", stores=stores)
        if any(
            store in (spec.name for spec in group.stores)
            for group in _behind_others(self._topology())
        ):
            # A last record may not come so far.
            del self.steps[steps:]
            return
        self.types[step] = Types("string", "string")
        texts = replace(handle, step=step, key="string", value="string", rekeyed=True)
        Generator._to(self, replace(texts, key_serde=None, value_serde=None))
        self.eventual.add(self.steps[-1]["topic"])
        self.told.add(store)

    def _to(self, handle: Handle) -> None:
        later = not self._known_only and self._chance(0.25)
        super()._to(self._later(handle) if later else handle)

    def _later(self, handle: Handle) -> Handle:
        """Let a function that waits make what is let out, and nothing else."""
        if self._chance(0.3):
            self._step("for_each", on=handle.step, waits="key")
        waits = self.random.choice(("key", "partition", "batch"))
        names = list(functions.VALUE_MAPPERS)
        if waits != "batch":
            names += [*functions.VALUE_MAPPERS_WITH_KEY, "again", "with_header"]
        fn = self.random.choice(names)
        is_processor = fn not in functions.VALUE_MAPPER_TYPES
        op = "process_values" if is_processor else "map_values"
        step = self._step(op, on=handle.step, fn=fn, waits=waits)
        kind = functions.VALUE_MAPPER_TYPES.get(fn, "string")
        made = replace(handle, value=handle.value if kind == "v" else kind, value_serde=None)
        self._made(made, step, handle.key_serde, None)
        return replace(made, step=step)

    def _read_stream(self, name: str, *, again: bool) -> None:
        super()._read_stream(name, again=True)

    def _aggregate_stream(self, group: Handle) -> None:
        if self._known_only:
            self.random.choice((self._count, self._reduce))(group)
        else:
            super()._aggregate_stream(group)

    def _made(
        self, handle: Handle, step: str, key_serde: str | None, value_serde: str | None
    ) -> Handle:
        self.types[step] = Types(handle.key, handle.value)
        return super()._made(handle, step, key_serde, value_serde)

    def _step(self, op: str, **fields: Any) -> str:
        if fields.get("fn") == "nth":
            # A count in memory, which a task that is opened anew has lost.
            fields["fn"] = "with_key"
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


def _behind_others(topology: Topology) -> list[Subtopology]:
    """Return the sub-topologies that read a topic in between."""
    between = set(topology.repartition_topics)
    return [it for it in topology.subtopologies if not between.isdisjoint(it.source_topics)]


def _is_windowed(handle: Handle) -> bool:
    """Whether keys are keys within windows, which no topic of others has."""
    return " of " in handle.key


def _is_of_join(topic: str) -> bool:
    """Whether a topic lies between the two sides of a join by foreign key."""
    return "-subscription-" in topic.lower()
