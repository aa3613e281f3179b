"""Random requests to the oracle: topologies of the DSL's first set, and records for them.

Everything derives from one ``random.Random``. The generator follows types and inherited serdes
through the operations, so that every byte boundary has a serde that fits, given or inherited.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tests.oracle import functions, growing

if TYPE_CHECKING:
    from random import Random

TYPES = ("string", "integer", "long", "double", "bytes")
WORDS = ("a", "b", "ab", "cat", "horse", "m", "mouse", "zebra", "bird bird", "the cat", "")
DERIVED = ("filter", "filter_not", "map_values", "transform_values")
_WINDOWS = ("time", "unlimited", "sliding", "session")
STEPS_MIN, STEPS_MAX = 2, 20
OPTIMIZATIONS = (
    "",
    "",
    "all",
    "merge.repartition.topics",
    "reuse.ktable.source.topics, merge.repartition.topics",
    "single.store.self.join",
)
SELF_JOINS_ONCE = ("all", "single.store.self.join")
"""Of the optimisations, those that keep once a stream that is joined with itself."""


@dataclass(frozen=True)
class Handle:
    """A stream, table or group under construction, as far as types and serdes go."""

    step: str
    kind: str
    key: str
    value: str
    key_serde: str | None = None
    value_serde: str | None = None
    rekeyed: bool = False
    versioned: bool = False


@dataclass
class Generator:
    """One request in the making."""

    random: Random
    key_default: str = "string"
    value_default: str = "string"
    steps: list[dict[str, Any]] = field(default_factory=list)
    handles: list[Handle] = field(default_factory=list)
    topics: dict[str, tuple[str, str, str]] = field(default_factory=dict)
    global_tables: list[Handle] = field(default_factory=list)
    names: int = 0
    whole: bool = False
    """A request is drawn as a whole: whoever draws parts of one knows fewer steps."""

    def request(self, *, records: int) -> dict[str, Any]:
        """Return a request with about ``records`` records."""
        self.whole = True
        self.key_default, self.value_default = self._type(), self._type()
        self._source()
        most = STEPS_MAX
        if self._chance(0.16):
            # Few enough to stay one sub-topology, where a punctuation may tell the stream time.
            most = STEPS_MIN + 1
            for _ in range(self.random.randint(1, 2)):
                growing.process(self, self._stream())
        for _ in range(self.random.randint(STEPS_MIN, most)):
            self._grow()
        self._finish()
        self._leave_partitions_open()
        config = self._config()
        growing.tame_patterns(self.steps)
        growing.tame_processors(self.steps, config)
        request: dict[str, Any] = {
            "app_id": "app",
            "config": config,
            "key": self.key_default,
            "value": self.value_default,
            "steps": self.steps,
            "inputs": growing.around(self, self._inputs(records)),
        }
        return request

    # ---- choosing ----------------------------------------------------------------------------

    def _config(self) -> dict[str, str]:
        config = self.random.choice([{}, {"statestore.cache.max.bytes": "0"}])
        wanted = self.random.choice(OPTIMIZATIONS)
        if any(growing.is_self_join(step) for step in self.steps) and self._chance(0.5):
            wanted = self.random.choice(SELF_JOINS_ONCE)
        headers = {"dsl.store.format": "HEADERS"} if self._chance(0.2) else {}
        return config | ({"topology.optimization": wanted} if wanted else {}) | headers

    def _type(self) -> str:
        return self.random.choices(TYPES, weights=(10, 2, 3, 1, 1))[0]

    def _chance(self, probability: float) -> bool:
        """Return true so often."""
        return self.random.random() < probability

    def _fresh(self, prefix: str) -> str:
        """Return a name that nothing has yet."""
        self.names += 1
        return f"{prefix}{self.names}x"

    def _named(self, probability: float = 0.25) -> dict[str, Any]:
        """Return a name for a node, or none."""
        return {"name": self._fresh("node-")} if self._chance(probability) else {}

    def _step(self, op: str, **fields: Any) -> str:
        """Add a step and return its id."""
        name = f"s{len(self.steps)}"
        self.steps.append({"id": name, "op": op, **fields})
        return name

    def _serdes(
        self, handle: Handle, *, inherited: bool, key: str | None = None, value: str | None = None
    ) -> dict[str, Any]:
        """Serdes that must be given, or may; ``key`` and ``value`` are the types written."""
        key, value = key or handle.key, value or handle.value
        key_serde = (handle.key_serde if inherited else None) or self.key_default
        value_serde = (handle.value_serde if inherited else None) or self.value_default
        given = {}
        if key_serde != key or self._chance(0.3):
            given["key"] = key
        if value_serde != value or self._chance(0.3):
            given["value"] = value
        return given

    # ---- growing -----------------------------------------------------------------------------

    def _grow(self) -> None:
        if self._chance(0.12):
            self._source()
            return
        if self.whole and self._chance(0.03):
            growing.keep_from_a_topic(self)
            return
        if self.whole and self._chance(0.025):
            growing.join_with_itself(self)
            return
        self.grow_on(self.random.choice(self.handles[-6:]))

    def grow_on(self, handle: Handle) -> None:
        """Add an operation on what is there."""
        operations = {
            "stream": (
                self._filter, self._map_values, self._map, self._flat_map, self._flat_map_values,
                self._select_key, self._peek, self._merge, self._split, self._repartition,
                self._group_by_key, self._group_by_key, self._group_by, self._group_by,
                self._to_table, self._to, self._end, self._through_a_topic,
                self._join_stream, self._join_stream, self._join_global_table,
                self._join_streams, self._join_streams, self._process,
            ),
            "table": (
                self._filter, self._map_values, self._transform_values,
                self._to_stream, self._to_stream,
                self._group_table, self._group_table, self._join_tables, self._join_tables,
                self._join_by_foreign_key, self._join_by_foreign_key, self._suppress,
            ),
            "grouped stream": (self._aggregate_stream,),
            "grouped table": (self._aggregate_table,),
        }  # fmt: skip
        self.random.choice(operations[handle.kind])(handle)

    def _process(self, handle: Handle) -> None:
        growing.process(self, handle)

    def _source(self) -> None:
        if self.whole and self.topics and self._chance(0.08):
            self._read_pattern()
            return
        again = [name for name, (kind, _, _) in self.topics.items() if kind == "stream"]
        if again and self._chance(0.25):
            self._read_stream(self.random.choice(again), again=True)
            return
        name = f"in-{len(self.topics)}"
        kind = "table" if self._chance(0.35) else "stream"
        self.topics[name] = (kind, self._type(), self._type())
        if kind == "table":
            self._read_table(name)
        else:
            self._read_stream(name, again=False)

    def _stream(self) -> Handle:
        while self.handles[-1].kind != "stream":
            self._to_stream(self.handles[-1])
        return self.handles[-1]

    def _read_pattern(self) -> None:
        growing.read_pattern(self, Handle("", "stream", self._type(), self._type()))

    def _read_stream(self, name: str, *, again: bool) -> None:
        _, key, value = self.topics[name]
        names = [name]
        if not again and self._chance(0.15):
            other = f"in-{len(self.topics)}"
            self.topics[other] = ("with others", key, value)
            self.topics[name] = ("with others", key, value)
            names.append(other)
        handle = Handle("", "stream", key, value)
        consumed = self._serdes(handle, inherited=False) | self._named(0.2)
        options = {"consumed": consumed} if consumed or self._chance(0.2) else {}
        step = self._step("stream", topics=names, **options)
        self._add(handle, step, consumed.get("key"), consumed.get("value"))

    def _read_table(self, name: str) -> None:
        _, key, value = self.topics[name]
        self._add_table("table", name, Handle("", "table", key, value), self.handles)

    def _add_table(self, op: str, topic: str, handle: Handle, to: list[Handle]) -> None:
        serdes = self._serdes(handle, inherited=False)
        fields: dict[str, Any] = {}
        if self._chance(0.5):
            fields["materialized"] = serdes | self._store_options(0.6)
        if "materialized" not in fields or self._chance(0.5):
            fields["consumed"] = serdes | self._named(0.3)
        step = self._step(op, topic=topic, **fields)
        to.append(self._made(handle, step, serdes.get("key"), serdes.get("value")))

    def _store_options(self, named: float) -> dict[str, Any]:
        options: dict[str, Any] = {}
        if self._chance(named):
            options["store"] = self._fresh("store-")
        if self._chance(0.2):
            options["caching"] = self._chance(0.5)
        if self._chance(0.1):
            options["logging"] = self._chance(0.5)
        if self._chance(0.3):
            options["persistent"] = self._chance(0.5)
        if "store" in options and self._chance(0.35):
            return {"store": options["store"], "history_ms": self.random.choice((0, 40, 1000))}
        return options

    def _add(
        self, handle: Handle, step: str, key_serde: str | None, value_serde: str | None
    ) -> Handle:
        """Add what a step has made; return it."""
        added = self._made(handle, step, key_serde, value_serde)
        self.handles.append(added)
        return added

    def _made(
        self, handle: Handle, step: str, key_serde: str | None, value_serde: str | None
    ) -> Handle:
        made = self.steps[-1]
        stored = made.get("materialized", {})
        versioned = "history_ms" in stored or (
            handle.versioned and made["op"] in DERIVED and "store" not in stored
        )
        return replace(
            handle, step=step, key_serde=key_serde, value_serde=value_serde, versioned=versioned
        )

    # ---- streams -----------------------------------------------------------------------------

    def _filter(self, handle: Handle) -> None:
        op = self.random.choice(["filter", "filter_not"])
        fn = self.random.choice(list(functions.PREDICATES))
        fields = self._named()
        serdes: dict[str, Any] = {}
        if handle.kind == "table" and self._chance(0.5):
            serdes, fields["materialized"] = self._derived(handle, handle.value)
        step = self._step(op, on=handle.step, fn=fn, **fields)
        self._add(
            handle,
            step,
            serdes.get("key") or handle.key_serde,
            serdes.get("value") or handle.value_serde,
        )

    def _derived(self, handle: Handle, value: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """A Materialized of a filtered or mapped table; its store inherits no serde."""
        serdes = self._serdes(handle, inherited=False, value=value)
        # Without a store's name Java forgets that the table above is versioned.
        return serdes, serdes | self._store_options(1.0 if handle.versioned else 0.7)

    def _map_values(self, handle: Handle) -> None:
        self._new_values("map_values", handle, functions.VALUE_MAPPER_TYPES)

    def _transform_values(self, handle: Handle) -> None:
        if self._chance(0.7):
            self._new_values("transform_values", handle, functions.TRANSFORMER_TYPES)
            return
        serdes, stored = self._derived(handle, "string")
        stored["store"] = stored.get("store") or self._fresh("store-")
        fn = self.random.choice(list(functions.TRANSFORMERS))
        own = {"store": self._fresh("own-"), "timestamped": False, "caching": self._chance(0.5)}
        step = self._step(
            "transform_values", on=handle.step, fn=fn, stores=[own], materialized=stored
        )
        key_serde = serdes.get("key") or handle.key_serde
        self._add(replace(handle, value="string"), step, key_serde, serdes.get("value"))

    def _new_values(self, op: str, handle: Handle, types: dict[str, str]) -> None:
        fn = self.random.choice(list(types))
        value = _result(types[fn], handle)
        fields = self._named()
        serdes: dict[str, Any] = {}
        if handle.kind == "table" and self._chance(0.5):
            serdes, fields["materialized"] = self._derived(handle, value)
        step = self._step(op, on=handle.step, fn=fn, **fields)
        self._add(
            replace(handle, value=value),
            step,
            serdes.get("key") or handle.key_serde,
            serdes.get("value"),
        )

    def _map(self, handle: Handle) -> None:
        self._pairs("map", handle, functions.PAIR_MAPPER_TYPES)

    def _flat_map(self, handle: Handle) -> None:
        self._pairs("flat_map", handle, functions.FLAT_PAIR_MAPPER_TYPES)

    def _pairs(self, op: str, handle: Handle, types: dict[str, tuple[str, str]]) -> None:
        fn = self.random.choice(list(types))
        key, value = (_result(kind, handle) for kind in types[fn])
        step = self._step(op, on=handle.step, fn=fn, **self._named())
        self._add(replace(handle, key=key, value=value, rekeyed=True), step, None, None)

    def _flat_map_values(self, handle: Handle) -> None:
        fn = self.random.choice(list(functions.FLAT_VALUE_MAPPER_TYPES))
        value = _result(functions.FLAT_VALUE_MAPPER_TYPES[fn], handle)
        step = self._step("flat_map_values", on=handle.step, fn=fn, **self._named())
        self._add(replace(handle, value=value), step, handle.key_serde, None)

    def _select_key(self, handle: Handle) -> None:
        fn = self.random.choice(list(functions.KEY_MAPPERS))
        key = _result(functions.KEY_MAPPER_TYPES[fn], handle)
        step = self._step("select_key", on=handle.step, fn=fn, **self._named())
        self._add(replace(handle, key=key, rekeyed=True), step, None, handle.value_serde)

    def _peek(self, handle: Handle) -> None:
        step = self._step("peek", on=handle.step, **self._named())
        self._add(handle, step, handle.key_serde, handle.value_serde)

    def _end(self, handle: Handle) -> None:
        # Bytes have an address there, and numbers with a point another form.
        printable = not re.search("bytes|double| of ", f"{handle.key} {handle.value}")
        if printable and self._chance(0.5):
            label = {"label": "seen"} if self._chance(0.5) else {}
            self._step("print", on=handle.step, **label, **self._named())
        else:
            self._step("for_each", on=handle.step, **self._named())

    def _merge(self, handle: Handle) -> None:
        others = [
            other
            for other in self.handles
            if (other.kind, other.key, other.value) == ("stream", handle.key, handle.value)
        ]
        other = self.random.choice(others)
        step = self._step("merge", on=handle.step, **{"with": other.step}, **self._named())
        self._add(replace(handle, rekeyed=handle.rekeyed or other.rekeyed), step, None, None)

    def _split(self, handle: Handle) -> None:
        fields: dict[str, Any] = self._named()
        fields["branches"] = [
            {"fn": self.random.choice(list(functions.PREDICATES)), **self._branched()}
            for _ in range(self.random.randint(1, 5))
        ]
        if self._chance(0.5):
            fields["default"] = self._branched()
        step = self._step("split", on=handle.step, **fields)
        ids = [f"{step}/{number}" for number in range(len(fields["branches"]))]
        ids += [f"{step}/default"] if "default" in fields else []
        for branch in ids:
            self._add(handle, branch, handle.key_serde, handle.value_serde)

    def _branched(self) -> dict[str, Any]:
        return {"branched": {"name": self._fresh("-b")}} if self._chance(0.3) else {}

    def _repartition(self, handle: Handle) -> None:
        # Java writes keys with the default serde if none is given, whatever the stream's is.
        given = self._serdes(replace(handle, key_serde=None), inherited=True)
        given |= {"name": self._fresh("through-")} if self._chance(0.4) else {}
        given |= {"partitions": self.random.randint(1, 9)} if self._chance(0.2) else {}
        options = {"repartitioned": given} if given or self._chance(0.2) else {}
        step = self._step("repartition", on=handle.step, **options)
        self._add(
            replace(handle, rekeyed=False),
            step,
            given.get("key") or handle.key_serde,
            given.get("value") or handle.value_serde,
        )

    def _to(self, handle: Handle) -> None:
        given = self._serdes(handle, inherited=True) | self._named(0.3)
        options = {"produced": given} if given or self._chance(0.2) else {}
        target = (
            {"extractor": self.random.choice(("even_odd", "place"))}
            if handle.value != "double" and self._chance(0.1)
            else {"topic": f"out-{self.random.randint(0, 3)}"}
        )
        self._step("to", on=handle.step, **target, **options)

    def _through_a_topic(self, handle: Handle) -> None:
        """Write to a topic that nobody else writes and read it again: a sub-topology of its own."""
        topic = self._fresh("mid-")
        given = self._serdes(handle, inherited=True)
        self._step("to", on=handle.step, topic=topic, **({"produced": given} if given else {}))
        consumed = self._serdes(handle, inherited=False)
        step = self._step("stream", topics=[topic], **({"consumed": consumed} if consumed else {}))
        stream = replace(handle, rekeyed=False)
        self._add(stream, step, consumed.get("key"), consumed.get("value"))

    def _to_table(self, handle: Handle) -> None:
        # Without a Materialized the store has the stream's serdes; with one it inherits none.
        given: dict[str, Any] = {}
        options: dict[str, Any] = {}
        if self._serdes(handle, inherited=True) or self._chance(0.4):
            given = self._serdes(handle, inherited=False) | self._store_options(0.5)
            options["materialized"] = given
        step = self._step("to_table", on=handle.step, **self._named(), **options)
        self._add(
            replace(handle, kind="table", rekeyed=False),
            step,
            given.get("key") or handle.key_serde,
            given.get("value") or handle.value_serde,
        )

    def _group_by_key(self, handle: Handle) -> None:
        fits = (handle.key_serde or self.key_default) == handle.key and (
            handle.value_serde or self.value_default
        ) == handle.value
        if fits and self._chance(0.5):
            step = self._step("group_by_key", on=handle.step)
            group = replace(handle, kind="grouped stream")
            self._aggregations(self._add(group, step, handle.key_serde, handle.value_serde))
            return
        given = self._serdes(handle, inherited=False) | self._group_name()
        step = self._step("group_by_key", on=handle.step, grouped=given)
        group = replace(handle, kind="grouped stream")
        self._aggregations(self._add(group, step, given.get("key"), given.get("value")))

    def _group_by(self, handle: Handle) -> None:
        fn = self.random.choice(list(functions.KEY_MAPPERS))
        key = _result(functions.KEY_MAPPER_TYPES[fn], handle)
        group = replace(handle, kind="grouped stream", key=key, rekeyed=True)
        fits = key == self.key_default and (
            (handle.value_serde or self.value_default) == handle.value
        )
        if fits and self._chance(0.5):
            step = self._step("group_by", on=handle.step, fn=fn)
            self._aggregations(self._add(group, step, None, handle.value_serde))
            return
        given = self._serdes(group, inherited=False) | self._group_name()
        step = self._step("group_by", on=handle.step, fn=fn, grouped=given)
        self._aggregations(self._add(group, step, given.get("key"), given.get("value")))

    def _group_name(self) -> dict[str, Any]:
        return {"name": self._fresh("group-")} if self._chance(0.4) else {}

    def _group_table(self, handle: Handle) -> None:
        fn = self.random.choice(list(functions.PAIR_MAPPERS))
        key, value = (_result(kind, handle) for kind in functions.PAIR_MAPPER_TYPES[fn])
        group = replace(handle, kind="grouped table", key=key, value=value)
        given = self._serdes(group, inherited=False) | self._group_name()
        options = {"grouped": given} if given or self._chance(0.2) else {}
        step = self._step("group_by", on=handle.step, fn=fn, **options)
        self._aggregations(self._add(group, step, given.get("key"), given.get("value")))

    # ---- aggregations ------------------------------------------------------------------------

    def _aggregations(self, group: Handle) -> None:
        aggregate = (
            self._aggregate_stream if group.kind == "grouped stream" else self._aggregate_table
        )
        for _ in range(self.random.choices((1, 2, 3), weights=(6, 2, 1))[0]):
            aggregate(group)

    def _aggregate_stream(self, group: Handle) -> None:
        if group.kind == "grouped stream" and self._chance(0.3):
            self._aggregate_windows(group)
            return
        if group.kind == "grouped stream" and not group.rekeyed and self._chance(0.3):
            self._cogroup(group)
            return
        self.random.choice((self._count, self._count, self._reduce, self._aggregate))(group)

    _aggregate_table = _aggregate_stream

    def _aggregate_windows(self, group: Handle) -> None:
        """Aggregate within windows, and let results out with the windowed keys as texts."""
        windows = self._windows()
        emit: dict[str, Any] = {}
        if windows["kind"] != "unlimited" and self._chance(0.6):
            emit["emit"] = self.random.choice(("close", "update"))
        step = self._step("windowed_by", on=group.step, windows=windows, **emit)
        windowed = replace(group, step=step)
        self.random.choice((self._count, self._reduce, self._aggregate))(windowed)
        table = self.handles.pop()
        self.steps[-1].get("materialized", {}).pop("history_ms", None)
        if windows["kind"] in ("session", "sliding"):
            growing.let_caches_tell_nothing(self)
        if self.steps[-1].get("fn") in functions.NULLS_FAIL:
            self.steps[-1]["fn"] = "last"
        if windows["kind"] == "session" and self.steps[-1]["op"] == "aggregate":
            self.steps[-1]["merge"] = self.random.choice(functions.MERGERS_FOR[table.value])
        if self.whole and windows["kind"] != "unlimited" and self._chance(0.4):
            table = growing.until_window_closes(self, table)
        if self.whole and self._chance(0.4):
            growing.keep_windowed(self, table, windows)
            return
        fields = self._named() | {"fn": "key_text"}
        step = self._step("to_stream", on=table.step, **fields)
        stream = replace(table, kind="stream", key="string", rekeyed=True)
        self._add(stream, step, None, table.value_serde)

    def _cogroup(self, group: Handle) -> None:
        """Share one aggregate with another group, of which none goes through a topic."""
        others = [
            other
            for other in self.handles
            if (other.kind, other.key, other.rekeyed) == ("grouped stream", group.key, False)
        ]
        fns = ("append", "with_key_text")
        step = self._step("cogroup", on=group.step, fn=self.random.choice(fns))
        for other in self.random.sample(others, min(len(others), self.random.randint(1, 2))):
            step = self._step(
                "cogroup", on=step, **{"with": other.step}, fn=self.random.choice(fns)
            )
        if self.whole and self._chance(0.6):
            growing.share_windows(self, step, group, self._windows())
            return
        bare = replace(group, value="string", key_serde=None, value_serde=None)
        given = self._serdes(bare, inherited=False)
        fields = self._named()
        if given or self._chance(0.5):
            fields["materialized"] = given | self._store_options(0.6)
            fields["materialized"].pop("history_ms", None)
        step = self._step("aggregate", on=step, init="empty", **fields)
        table = replace(bare, kind="table", rekeyed=False)
        self._add(table, step, given.get("key"), given.get("value"))

    def _windows(self) -> dict[str, Any]:
        grace = self.random.choice((0, 10, 100))
        match self.random.choices(_WINDOWS, weights=(3, 2, 3, 3))[0]:
            case "time":
                size = self.random.choice((10, 40, 300))
                advance = {"advance": size // 4 + 1} if self._chance(0.5) else {}
                return {"kind": "time", "size": size, **advance, "grace": grace}
            case "unlimited":
                start = {"start": self.random.randint(0, 900)} if self._chance(0.5) else {}
                return {"kind": "unlimited", **start}
            case "sliding":
                difference = self.random.choice((5, 40, 300))
                return {"kind": "sliding", "difference": difference, "grace": grace}
            case _:
                return {"kind": "session", "gap": self.random.choice((0, 15, 60)), "grace": grace}

    def _count(self, group: Handle) -> None:
        key = self._key_serde(group)
        options = key | self._store_options(0.5) if key or self._chance(0.5) else {}
        fields = {"materialized": options} if options or self._chance(0.1) else {}
        step = self._step("count", on=group.step, **self._named(), **fields)
        self._table(group, "long", step, options.get("key"), "long")

    def _key_serde(self, group: Handle) -> dict[str, Any]:
        fits = (group.key_serde or self.key_default) == group.key
        return {} if fits and self._chance(0.7) else {"key": group.key}

    def _reduce(self, group: Handle) -> None:
        names = [name for name, takes in functions.REDUCER_TAKES.items() if group.value in takes]
        fn = self.random.choice(names)
        fields: dict[str, Any] = {"fn": fn}
        if group.kind == "grouped table":
            fields["subtract"] = self.random.choice(names)
        given = self._serdes(group, inherited=True)
        if given or self._chance(0.5):
            given |= self._store_options(0.6)
            fields["materialized"] = given
            fields |= self._named()
        step = self._step("reduce", on=group.step, **fields)
        self._table(
            group, group.value, step, given.get("key"), given.get("value") or group.value_serde
        )

    def _aggregate(self, group: Handle) -> None:
        fn = self.random.choice(list(functions.AGGREGATORS))
        value = functions.AGGREGATOR_TYPES[fn]
        fields: dict[str, Any] = {
            "init": self.random.choice(functions.INITIALIZERS_FOR[value]),
            "fn": fn,
        }
        if group.kind == "grouped table":
            same = [name for name, kind in functions.AGGREGATOR_TYPES.items() if kind == value]
            fields["subtract"] = self.random.choice(same)
        given = self._key_serde(group)
        if value != self.value_default or self._chance(0.3):
            given["value"] = value
        if given or self._chance(0.5):
            given |= self._store_options(0.6)
            fields["materialized"] = given
            fields |= self._named()
        step = self._step("aggregate", on=group.step, **fields)
        self._table(group, value, step, given.get("key"), given.get("value"))

    def _table(
        self, group: Handle, value: str, step: str, key_serde: str | None, value_serde: str | None
    ) -> None:
        made = self.steps[-1]
        if functions.FORGETFUL & {made.get("fn"), made.get("subtract")}:
            # Of a version that is deleted at its own time nothing is left in Java.
            made.get("materialized", {}).pop("history_ms", None)
        table = replace(group, kind="table", value=value, rekeyed=False)
        self._add(table, step, key_serde or group.key_serde, value_serde)

    # ---- tables ------------------------------------------------------------------------------

    def _to_stream(self, handle: Handle) -> None:
        fields = self._named()
        key, rekeyed = handle.key, False
        if self._chance(0.25):
            fields["fn"] = self.random.choice(list(functions.KEY_MAPPERS))
            key, rekeyed = _result(functions.KEY_MAPPER_TYPES[fields["fn"]], handle), True
        step = self._step("to_stream", on=handle.step, **fields)
        stream = replace(handle, kind="stream", key=key, rekeyed=rekeyed)
        self._add(stream, step, None if rekeyed else handle.key_serde, handle.value_serde)

    # ---- joins -------------------------------------------------------------------------------

    def _partner(self, handle: Handle) -> Handle | None:
        """A table with keys of the same type, the newest more often than others."""
        fitting = [
            other for other in self.handles if other.kind == "table" and other.key == handle.key
        ]
        return self.random.choice(fitting[-4:]) if fitting else None

    def _join_stream(self, handle: Handle) -> None:
        table = self._partner(handle)
        if table is None:
            return
        if self.whole and self._chance(0.8):
            tables = [it for it in self.handles if (it.kind, it.key) == ("table", handle.key)]
            waiting = [it for it in tables if growing.graces(self, it)]
            table = self.random.choice(waiting or [table])
        fn = self.random.choice(list(functions.JOINER_TYPES))
        given = self._serdes(handle, inherited=True)
        given |= {"other": table.value} if self._chance(0.1) else {}
        given |= {"name": self._fresh("join-")} if self._chance(0.3) else {}
        op = self.random.choice(("join", "left_join"))
        graces = growing.graces(self, table) if self.whole else ()
        if graces and self._chance(0.8):
            # Java refuses a record without a key in a left join.
            op = "join"
            given |= {"grace_ms": self.random.choice(graces), "key": handle.key}
            given |= {"value": handle.value}
        options = {"joined": given} if given or self._chance(0.2) else {}
        step = self._step(op, on=handle.step, **{"with": table.step}, fn=fn, **options)
        joined = replace(handle, value=_joined(fn, handle, table), rekeyed=False)
        self._add(joined, step, given.get("key") or handle.key_serde, None)

    def _join_streams(self, handle: Handle) -> None:
        """With any stream of the same keys, itself included."""
        others = [it for it in self.handles if (it.kind, it.key) == ("stream", handle.key)]
        op = self.random.choice(("join", "left_join", "outer_join"))
        other = self.random.choice(others)
        if not (self.whole and growing.multiplies(self, handle, other)):
            self._join_with(op, handle, other)

    def _join_with(self, op: str, handle: Handle, other: Handle) -> None:
        """Join two streams within windows; no serde is inherited but for a topic in between."""
        fn = self.random.choice(list(functions.JOINER_TYPES))
        given = self._serdes(handle, inherited=False)
        if (self.value_default != other.value) or self._chance(0.3):
            given["other"] = other.value
        if other.rekeyed and (other.value_serde or self.value_default) != other.value:
            given["other"] = other.value
        if handle.rekeyed and (handle.value_serde or self.value_default) != handle.value:
            given["value"] = handle.value
        if {handle.key_serde or self.key_default, other.key_serde or self.key_default} != {
            handle.key
        }:
            given["key"] = handle.key
        given |= {"name": self._fresh("join-")} if self._chance(0.3) else {}
        given |= {"store": self._fresh("joined-")} if self._chance(0.3) else {}
        given |= {"persistent": False} if self._chance(0.3) else {}
        given |= {"logging": False} if self._chance(0.1) else {}
        before, after = self.random.randint(-10, 40), self.random.randint(0, 40)
        windows = {"before": before, "after": max(after, 1 - before)}
        windows["grace"] = self.random.choice((0, 5, 30, 1000))
        options = {"stream_joined": given} if given or self._chance(0.2) else {}
        step = self._step(
            op, on=handle.step, **{"with": other.step}, fn=fn, windows=windows, **options
        )
        joined = replace(handle, value=_joined(fn, handle, other), rekeyed=False)
        self._add(joined, step, given.get("key"), None)

    def _join_global_table(self, handle: Handle) -> None:
        selectors = {fn: _result(kind, handle) for fn, kind in functions.KEY_MAPPER_TYPES.items()}
        fitting = [table for table in self.global_tables if table.key in selectors.values()]
        if not fitting or self._chance(0.4):
            key = self.random.choice(list(selectors.values()))
            table = Handle("", "global table", key, self._type())
            topic = f"in-{len(self.topics)}"
            self.topics[topic] = ("global", table.key, table.value)
            self._add_table("global_table", topic, table, self.global_tables)
            # Java refuses a Materialized without a name here, though not its absence.
            if "materialized" in self.steps[-1]:
                stored = self.steps[-1]["materialized"]
                stored.setdefault("store", self._fresh("store-"))
                stored.pop("history_ms", None)
            fitting = self.global_tables[-1:]
        table = self.random.choice(fitting)
        fn = self.random.choice(list(functions.JOINER_TYPES))
        step = self._step(
            self.random.choice(("join", "left_join")),
            on=handle.step,
            **{"with": table.step},
            selector=self.random.choice([fn for fn, key in selectors.items() if key == table.key]),
            fn=fn,
            **self._named(),
        )
        joined = replace(handle, value=_joined(fn, handle, table))
        self._add(joined, step, handle.key_serde, None)

    def _join_tables(self, handle: Handle) -> None:
        other = self._partner(handle)
        assert other is not None, "a table fits itself"
        fn = self.random.choice(list(functions.JOINERS))
        value = _joined(fn, handle, other)
        fields = self._named()
        given: dict[str, Any] = {}
        if self._chance(0.5):
            given = self._serdes(replace(handle, value_serde=None), inherited=True, value=value)
            fields["materialized"] = given | self._store_options(0.6)
        op = self.random.choice(("join", "left_join", "outer_join"))
        step = self._step(op, on=handle.step, **{"with": other.step}, fn=fn, **fields)
        joined = replace(handle, value=value)
        self._add(joined, step, given.get("key") or handle.key_serde, given.get("value"))

    def _join_by_foreign_key(self, handle: Handle) -> None:
        """With any table to whose keys a function leads; nothing is said of serdes in between."""
        if not self._has_serdes(handle):
            return
        tables = [it for it in self.handles[-8:] if it.kind == "table" and self._has_serdes(it)]
        other = self.random.choice(tables)
        types = functions.VALUE_MAPPER_TYPES | functions.KEY_MAPPER_TYPES
        leading = [
            name
            for name in (*functions.VALUE_MAPPERS, *functions.KEY_MAPPERS)
            if _result(types[name], handle) == other.key
        ]
        if not leading:
            return
        fn = self.random.choice(list(functions.JOINERS))
        value = _joined(fn, handle, other)
        fields: dict[str, Any] = {}
        if self._chance(0.5):
            joined = {"name": self._fresh("foreign-")} if self._chance(0.6) else {}
            sides = ("partitioner", "other_partitioner")
            fields["table_joined"] = joined | {it: True for it in sides if self._chance(0.3)}
        given: dict[str, Any] = {}
        if self._chance(0.6) or self.value_default != value:
            given = self._serdes(replace(handle, value_serde=None), inherited=True, value=value)
            fields["materialized"] = given | self._store_options(0.6)
        op = self.random.choice(("join", "left_join"))
        key = self.random.choice(leading)
        step = self._step(
            op, on=handle.step, **{"with": other.step}, foreign_key=key, fn=fn, **fields
        )
        self._add(replace(handle, value=value), step, handle.key_serde, given.get("value"))

    def _suppress(self, handle: Handle) -> None:
        """A buffer has the table's serdes, or the defaults."""
        if handle.versioned or not self._has_serdes(handle):
            return
        buffer: dict[str, Any] = {"early": True} if self._chance(0.7) else {}
        if buffer and self._chance(0.5):
            buffer["records"] = self.random.randint(0, 3)
        if buffer and self._chance(0.4):
            buffer["bytes"] = self.random.choice((0, 60, 100, 150, 300))
        if self._chance(0.1):
            buffer["logging"] = self._chance(0.5)
        limit = self.random.choice((0, 10, 40, 100, 500))
        step = self._step(
            "suppress", on=handle.step, limit_ms=limit, buffer=buffer, **self._named()
        )
        self._add(handle, step, handle.key_serde, handle.value_serde)

    def _has_serdes(self, table: Handle) -> bool:
        """Whether the serdes that a table has, or the defaults, are those of its types."""
        return (table.key_serde or self.key_default, table.value_serde or self.value_default) == (
            table.key,
            table.value,
        )

    def _leave_partitions_open(self) -> None:
        """What is joined needs equal counts, and sources have one partition here."""
        if any(step["op"].endswith(("join", "cogroup")) for step in self.steps):
            for step in self.steps:
                step.get("repartitioned", {}).pop("partitions", None)

    def _finish(self) -> None:
        """Let some results come out, so that there is something to compare."""
        tables = [handle for handle in self.handles if handle.kind == "table"]
        for table in self.random.sample(tables, min(2, len(tables))):
            self._to_stream(table)
        streams = [handle for handle in self.handles if handle.kind == "stream"]
        for stream in self.random.sample(streams, min(3, len(streams))):
            self._to(stream)

    # ---- records -----------------------------------------------------------------------------

    def _inputs(self, records: int) -> list[dict[str, Any]]:
        time = self.random.randint(0, 1000)
        inputs: list[dict[str, Any]] = []
        keeps_versions = any("history_ms" in step.get("materialized", {}) for step in self.steps)
        taken = set()
        for _ in range(records):
            topic, (_, key, value) = self.random.choice(list(self.topics.items()))
            time = max(0, time + self.random.randint(-20, 40))
            record = {
                "topic": topic,
                "key": None if self._chance(0.08) else self._bytes(key),
                "value": None if self._chance(0.15) else self._bytes(value),
                "timestamp": time,
                **self._headers(),
            }
            # Java keeps no trace of a version that is deleted at its own time.
            while (
                keeps_versions and record["value"] is None and (topic, record["key"], time) in taken
            ):
                time += 1
                record["timestamp"] = time
            taken.add((topic, record["key"], time))
            inputs.append(record)
        return inputs

    def _headers(self) -> dict[str, Any]:
        if self._chance(0.8):
            return {}
        values = (None, "", "00", "6869")
        return {
            "headers": [
                [name, self.random.choice(values)]
                for name in ("h", "i", "h")[: self.random.randint(1, 3)]
            ]
        }

    def _bytes(self, kind: str) -> str:
        windows, of, inner = kind.partition(" of ")
        if of:
            times = (40,) if windows.startswith("windows") else (55, 40)
            return self._bytes(inner) + struct.pack(f">{len(times)}q", *times).hex()
        match kind:
            case "string":
                data = self.random.choice(WORDS).encode()
            case "integer":
                data = struct.pack(">i", self.random.randint(-3, 6))
            case "long":
                data = struct.pack(">q", self.random.randint(-3, 6))
            case "double":
                data = struct.pack(">d", float(self.random.randint(-3, 6)))
            case _:
                data = self.random.choice((b"", b"\x00", b"ab", b"\xff\x01"))
        return data.hex()


def _result(kind: str, handle: Handle) -> str:
    return {"k": handle.key, "v": handle.value}.get(kind, kind)


def _joined(fn: str, left: Handle, right: Handle) -> str:
    kind = functions.JOINER_TYPES[fn]
    return {"l": left.value, "r": right.value}.get(kind, kind)


def generate(random: Random, *, records: int = 0) -> dict[str, Any]:
    """Return a random request with ``records`` input records."""
    return Generator(random).request(records=records)
