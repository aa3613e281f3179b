"""The oracle's language (``FORMAT.md``) on the Python side: from a request to a topology."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headwater import (
    Branched,
    BufferConfig,
    Consumed,
    EmitStrategy,
    Grouped,
    Joined,
    JoinWindows,
    Materialized,
    OffsetReset,
    Produced,
    Repartitioned,
    Serdes,
    SessionWindows,
    SlidingWindows,
    Stores,
    StreamJoined,
    StreamsBuilder,
    Suppressed,
    TableJoined,
    TimestampExtractors,
    TimeWindows,
    UnlimitedWindows,
)
from tests.oracle import functions, processors, waiting
from tests.oracle.expressions import known_function

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from headwater import StoreSpec, Topology
    from tests.oracle.expressions import Types

_EXTRACTORS = {
    "fail": TimestampExtractors.FAIL_ON_INVALID,
    "skip": TimestampExtractors.LOG_AND_SKIP_ON_INVALID,
    "use_partition_time": TimestampExtractors.USE_PARTITION_TIME_ON_INVALID,
    "wall_clock": TimestampExtractors.WALLCLOCK,
}
_ADDED = {
    "global_store": "add_global_store",
    "read_only_store": "add_read_only_state_store",
}
"""Methods of a topology that was built."""
_SERDES = {"key": "key_serde", "value": "value_serde", "other": "other_value_serde"}


@dataclass
class Drawing:
    """A request being drawn: handles by step id, and what its side effects saw."""

    request: Mapping[str, Any]
    keywords: bool = False
    """Pass options as keywords instead of objects."""
    known: Mapping[str, Types] = field(default_factory=dict)
    """By step, the types of what reaches it: say there with ``headwater.functions`` what can be."""
    builder: StreamsBuilder = field(default_factory=StreamsBuilder)
    handles: dict[str, Any] = field(default_factory=dict)
    seen: list[list[Any]] = field(default_factory=list)
    stores: dict[str, StoreSpec] = field(default_factory=dict)
    """Of processors, by name."""

    def topology(self) -> Topology:
        """Draw all steps and build."""
        self.draw()
        topology = self.builder.build(self.request.get("config", {}))
        for step in self.request["steps"]:
            if step["op"] in _ADDED and "source" in step:
                _add_kept(topology, step)
        return topology

    def draw(self) -> None:
        """Draw all steps."""
        for step in self.request["steps"]:
            self.handles[step["id"]] = self._step(step)

    def _step(self, step: Mapping[str, Any]) -> Any:
        if "waits" in step:
            return self._wait(step)
        operation = getattr(self, f"_{step['op']}", None)
        if operation is not None:
            return operation(step)
        return self._plain(step)

    def _plain(self, step: Mapping[str, Any]) -> Any:
        """Operations that take functions from the catalogue and nothing that needs more care."""
        method = getattr(self.handles[step["on"]], step["op"])
        given = self._options(step, "grouped", Grouped) or self._options(
            step, "materialized", Materialized
        )
        objects, keywords = given or ([], {})
        arguments = [*self._functions(step), *objects]
        return method(*arguments, **keywords, **_flags(step), **_name(step))

    def _wait(self, step: Mapping[str, Any]) -> Any:
        """An operation whose function waits, in place of what Java does at once."""
        stream = self.handles[step["on"]]
        if step["op"] == "for_each":
            return stream.for_each_async(self._note(step), order=step["waits"])
        if step["op"] == "process_values":
            function = waiting.process(step["fn"])
            return stream.process_values_async(function, order=step["waits"])
        (mapper,) = self._functions(step)
        if step["waits"] == "batch":
            return stream.map_batch(waiting.of_many(mapper), max_size=4)
        flags = _flags(step)
        return stream.map_values_async(waiting.later(mapper), order=step["waits"], **flags)

    def _functions(self, step: Mapping[str, Any]) -> list[Any]:
        found = [functions.INITIALIZERS[step["init"]]] if "init" in step else []
        for name in ("fn", "subtract", "merge"):
            if name in step:
                operation = "merge" if name == "merge" else step["op"]
                types = self.known.get(step["on"])
                said: Any = known_function(operation, step[name], types) if types else None
                found.append(_CATALOGUE[operation][step[name]] if said is None else said)
        return found

    def _stream(self, step: Mapping[str, Any]) -> Any:
        objects, keywords = self._given(step, "consumed", Consumed)
        read = re.compile(step["pattern"]) if "pattern" in step else step["topics"]
        return self.builder.stream(read, *objects, **keywords)

    def _table(self, step: Mapping[str, Any]) -> Any:
        return self._read_table(self.builder.table, step)

    def _global_table(self, step: Mapping[str, Any]) -> Any:
        return self._read_table(self.builder.global_table, step)

    def _read_only_store(self, step: Mapping[str, Any]) -> None:
        """Nothing yet: it is added to the topology once that is built."""

    def _global_store(self, step: Mapping[str, Any]) -> None:
        if "source" in step:
            return
        consumed = Consumed(**_fields(step["consumed"])) if "consumed" in step else None
        stores = processors.stores_of(step)
        supplier = processors.Supplier(processors.Free, step, stores, brings=False)
        self.builder.add_global_store(stores[0], step["topic"], consumed, supplier)

    def _read_table(self, read: Callable[..., Any], step: Mapping[str, Any]) -> Any:
        both: list[Any] = [
            cls(**_fields(step[name])) if name in step else None
            for name, cls in (("consumed", Consumed), ("materialized", Materialized))
        ]
        if not self.keywords:
            return read(step["topic"], *both)
        merged = {
            name: value
            for option in ("materialized", "consumed")
            for name, value in _fields(step.get(option, {})).items()
        }
        return read(step["topic"], **merged)

    def _transform_values(self, step: Mapping[str, Any]) -> Any:
        objects, keywords = self._given(step, "materialized", Materialized)
        stored = keywords | ({"materialized": objects[0]} if objects else {})
        supplier: Any = functions.TRANSFORMERS[step["fn"]]
        stores = [self.stores.setdefault(store.name, store) for store in processors.stores_of(step)]
        if stores:
            plain, first = supplier, stores[0].name
            supplier = lambda: functions.Before(plain(), first)  # noqa: E731
        method = self.handles[step["on"]].transform_values
        return method(supplier, *stores, **stored, **_name(step))

    def _peek(self, step: Mapping[str, Any]) -> Any:
        return self.handles[step["on"]].peek(self._note(step), **_name(step))

    def _for_each(self, step: Mapping[str, Any]) -> None:
        self.handles[step["on"]].for_each(self._note(step), **_name(step))

    def _print(self, step: Mapping[str, Any]) -> None:
        label = {"label": step["label"]} if "label" in step else {}
        self.handles[step["on"]].print(**label, **_name(step))

    def _note(self, step: Mapping[str, Any]) -> Any:
        def note(key: Any, value: Any) -> None:
            self.seen.append([step["id"], functions.text(key), functions.text(value)])

        return note

    def _process(self, step: Mapping[str, Any]) -> Any:
        return self._processed(step, processors.Free)

    def _process_values(self, step: Mapping[str, Any]) -> Any:
        return self._processed(step, processors.FixedKey)

    def _processed(self, step: Mapping[str, Any], kind: type[Any]) -> Any:
        stores = [self.stores.setdefault(store.name, store) for store in processors.stores_of(step)]
        brings = step.get("brings", False)
        supplier = processors.Supplier(kind, step, stores, brings=brings)
        connected = () if brings else stores
        return getattr(self.handles[step["on"]], step["op"])(supplier, *connected, **_name(step))

    def _cogroup(self, step: Mapping[str, Any]) -> Any:
        aggregator = functions.AGGREGATORS[step["fn"]]
        others = [self.handles[step["with"]]] if "with" in step else []
        return self.handles[step["on"]].cogroup(*others, aggregator)

    def _windowed_by(self, step: Mapping[str, Any]) -> Any:
        windowed = self.handles[step["on"]].windowed_by(_windows(step["windows"]))
        if "emit" not in step:
            return windowed
        is_final = step["emit"] == "close"
        strategies = EmitStrategy.on_window_close, EmitStrategy.on_window_update
        return windowed.emit_strategy(strategies[not is_final]())

    def _merge(self, step: Mapping[str, Any]) -> Any:
        return self.handles[step["on"]].merge(self.handles[step["with"]], **_name(step))

    def _join(self, step: Mapping[str, Any]) -> Any:
        """Join with a stream or table, as ``joined``, ``stream_joined``, ``materialized`` say."""
        if "foreign_key" in step:
            return self._join_by_foreign_key(step)
        options = {"joined": Joined, "stream_joined": StreamJoined, "materialized": Materialized}
        given = [self._options(step, name, cls) for name, cls in options.items()]
        objects, keywords = next(filter(None, given), ([], {}))
        if "windows" in step:
            objects = [JoinWindows.of(**step["windows"]), *objects]
        fn, flags = step["fn"], {}
        if fn in functions.JOINERS_WITH_KEY:
            flags = {"with_key": True}
        joiner = (functions.JOINERS | functions.JOINERS_WITH_KEY)[fn]
        method = getattr(self.handles[step["on"]], step["op"])
        other = self.handles[step["with"]]
        if "selector" in step:
            selector = functions.KEY_MAPPERS[step["selector"]]
            return method(other, selector, joiner, **flags, **_name(step))
        return method(other, joiner, *objects, **keywords, **flags, **_name(step))

    _left_join = _outer_join = _join

    def _join_by_foreign_key(self, step: Mapping[str, Any]) -> Any:
        name = step["foreign_key"]
        extractor = (functions.VALUE_MAPPERS | functions.KEY_MAPPERS)[name]
        flags = {"with_key": True} if name in functions.KEY_MAPPERS else {}
        objects, keywords = self._given(step, "materialized", Materialized)
        joined = dict(step.get("table_joined", {}))
        for side in ("partitioner", "other_partitioner"):
            if joined.pop(side, False):
                joined[side] = functions.last_partition
        if self.keywords:
            keywords |= joined
        elif "table_joined" in step:
            objects = [TableJoined(**joined), *objects]
        method = getattr(self.handles[step["on"]], step["op"])
        other, joiner = self.handles[step["with"]], functions.JOINERS[step["fn"]]
        return method(other, extractor, joiner, *objects, **keywords, **flags)

    def _suppress(self, step: Mapping[str, Any]) -> Any:
        given = step.get("buffer", {})
        buffer = BufferConfig.unbounded()
        if "records" in given:
            buffer = buffer.with_max_records(given["records"])
        if "bytes" in given:
            buffer = buffer.with_max_bytes(given["bytes"])
        if given.get("early"):
            buffer = buffer.emit_early_when_full()
        if not given.get("logging", True):
            buffer = buffer.with_logging_disabled()
        if "limit_ms" in step:
            suppressed = Suppressed.until_time_limit(step["limit_ms"], buffer)
        else:
            suppressed = Suppressed.until_window_closes(buffer)
        if "name" in step:
            suppressed = suppressed.with_name(step["name"])
        return self.handles[step["on"]].suppress(suppressed)

    def _split(self, step: Mapping[str, Any]) -> Any:
        branches = self.handles[step["on"]].split(**_name(step))
        for number, branch in enumerate(step["branches"]):
            predicate = functions.PREDICATES[branch["fn"]]
            branches.branch(predicate, self._branched(step, branch, number))
        if "default" in step:
            branches.default_branch(self._branched(step, step["default"], "default"))
        else:
            branches.no_default_branch()
        return branches

    def _branched(self, step: Mapping[str, Any], branch: Mapping[str, Any], number: Any) -> Any:
        def keep(stream: Any) -> Any:
            self.handles[f"{step['id']}/{number}"] = stream
            return stream

        return Branched(name=branch.get("branched", {}).get("name"), chain=keep)

    def _repartition(self, step: Mapping[str, Any]) -> Any:
        objects, keywords = self._given(step, "repartitioned", Repartitioned)
        return self.handles[step["on"]].repartition(*objects, **keywords)

    def _to(self, step: Mapping[str, Any]) -> None:
        objects, keywords = self._given(step, "produced", Produced)
        topic = step.get("topic") or functions.TOPIC_EXTRACTORS[step["extractor"]]
        self.handles[step["on"]].to(topic, *objects, **keywords)

    def _given(self, step: Mapping[str, Any], option: str, cls: type) -> tuple[list[Any], Any]:
        return self._options(step, option, cls) or ([], {})

    def _options(
        self, step: Mapping[str, Any], option: str, cls: type
    ) -> tuple[list[Any], dict[str, Any]] | None:
        if option not in step:
            return None
        fields = _fields(step[option])
        if self.keywords and fields:
            return [], fields
        return [cls(**fields)], {}


def _add_kept(topology: Topology, step: Mapping[str, Any]) -> None:
    """Add a store that a processor keeps to a topology that was built."""
    stores, consumed = processors.stores_of(step), step.get("consumed", {})
    add = getattr(topology, _ADDED[step["op"]])
    add(
        stores[0],
        step["source"],
        step["topic"],
        step["name"],
        processors.Supplier(processors.Free, step, stores, brings=False),
        key_serde=_serde(consumed.get("key", "string")),
        value_serde=_serde(consumed.get("value", "string")),
    )
    for reader in step.get("readers", ()):
        topology.connect_processor_and_state_stores(reader, stores[0].name)


def _windows(given: Mapping[str, Any]) -> Any:
    grace = given.get("grace", 0)
    match given["kind"]:
        case "time":
            return TimeWindows.of(size=given["size"], advance=given.get("advance"), grace=grace)
        case "sliding":
            return SlidingWindows.of(time_difference=given["difference"], grace=grace)
        case "session":
            return SessionWindows.of(inactivity_gap=given["gap"], grace=grace)
        case _:
            windows = UnlimitedWindows.of()
            return windows.start_on(given["start"]) if "start" in given else windows


def _name(step: Mapping[str, Any]) -> dict[str, Any]:
    return {"name": step["name"]} if "name" in step else {}


def _flags(step: Mapping[str, Any]) -> dict[str, Any]:
    with_key = {**functions.VALUE_MAPPERS_WITH_KEY, **functions.FLAT_VALUE_MAPPERS_WITH_KEY}
    return {"with_key": True} if step.get("fn") in with_key else {}


def _serde(name: str) -> Any:
    kind, of, inner = name.partition(" of ")
    if not of:
        return Serdes.by_name(name)
    if kind == "sessions":
        return Serdes.session_windowed(_serde(inner))
    return Serdes.time_windowed(_serde(inner), int(kind.removeprefix("windows ")))


def _fields(given: Mapping[str, Any]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name, value in given.items():
        if name in _SERDES:
            fields[_SERDES[name]] = _serde(value)
        elif name == "reset":
            fields["offset_reset"] = OffsetReset(value)
        elif name == "lru":
            fields["store_supplier"] = Stores.lru_map(given["store"], value)
        elif name == "grace_ms":
            fields["grace"] = value
        elif name == "history_ms":
            fields["history_retention"] = value
        elif name == "timestamps":
            fields["timestamp_extractor"] = _EXTRACTORS[value]
        else:
            fields[name] = value
    return fields


_CATALOGUE: dict[str, Mapping[str, Any]] = {
    "filter": functions.PREDICATES,
    "filter_not": functions.PREDICATES,
    "map_values": functions.VALUE_MAPPERS | functions.VALUE_MAPPERS_WITH_KEY,
    "map": functions.PAIR_MAPPERS,
    "flat_map": functions.FLAT_PAIR_MAPPERS,
    "flat_map_values": functions.FLAT_VALUE_MAPPERS | functions.FLAT_VALUE_MAPPERS_WITH_KEY,
    "select_key": functions.KEY_MAPPERS,
    "to_stream": functions.KEY_MAPPERS,
    "group_by": functions.KEY_MAPPERS | functions.PAIR_MAPPERS,
    "reduce": functions.REDUCERS,
    "aggregate": functions.AGGREGATORS,
    "merge": functions.MERGERS,
}
