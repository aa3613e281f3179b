"""Steps that random requests grow besides those of ``generate.py``: functions of the generator.

Processors and their punctuations, stores that a processor keeps from a topic, topics by pattern,
what waits until windows close, joins of streams with themselves, joins with grace, aggregates
within windows that several streams share.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from headwater.model.durations import LONG_MAX
from tests.oracle.processors import TICKS
from tests.oracle.translate import Drawing

if TYPE_CHECKING:
    from tests.oracle.generate import Generator, Handle

_PLAIN: Final = ("again", "turn", "with_header", "place", "keep")
_JOINS_MAX: Final = 2
_KEEPING: Final = ("keep", "hold")
_ADVANCES_MS: Final = (1, 9, 40, 2_000)
_FOR_EVER_MS: Final = 1_000_000
"""Longer than the records of a request go on."""


def process(it: Generator, handle: Handle) -> None:
    """Hand records to a processor, whose results are texts; one that ticks has texts for keys."""
    op = it.random.choice(("process", "process_values"))
    ticking = tuple(TICKS) if handle.key == "string" or op == "process_values" else ()
    fn = it.random.choice((*_PLAIN, "place", "place", *ticking, *ticking))
    key, rekeyed = handle.key, handle.rekeyed
    if op == "process":
        rekeyed = True
        key = "string" if fn == "turn" else key
    fields: dict[str, Any] = {}
    if fn == "keep":
        fields["stores"] = [
            {"store": it._fresh("kept-"), "persistent": it._chance(0.5)}
            for _ in range(it.random.randint(1, 2))
        ]
        fields["brings"] = it._chance(0.5)
    step = it._step(op, on=handle.step, fn=fn, **fields, **it._named())
    processed = replace(handle, key=key, value="string", rekeyed=rekeyed)
    it._add(processed, step, handle.key_serde if op == "process_values" else None, None)


def keep_from_a_topic(it: Generator) -> None:
    """Let a processor keep a store from a topic of its own, and others read it.

    A global store is drawn, or added to the topology once that is built. A read-only one is added
    then, and its readers are connected.
    """
    streams = [handle for handle in it.handles if handle.kind == "stream"]
    if not streams:
        return
    op, store = it.random.choice(("global_store", "read_only_store")), it._fresh("store-")
    readers = [_find(it, it.random.choice(streams[-4:]), store) for _ in range(1 + it._chance(0.4))]
    topic, key, value = f"in-{len(it.topics)}", it._type(), it._type()
    given: dict[str, Any] = {}
    if op == "read_only_store":
        # Its topic is its changelog: the store holds what is written there.
        key = value = "string"
        given["readers"] = readers
    if op == "read_only_store" or it._chance(0.4):
        given |= {"source": it._fresh("read-"), "name": it._fresh("keeper-")}
        given["consumed"] = {"key": key, "value": value}
    elif (key, value) != (it.key_default, it.value_default) or it._chance(0.5):
        given["consumed"] = {"key": key, "value": value} | it._named(0.3)
    it.topics[topic] = ("kept", key, value)
    kept = {"store": store, "timestamped": it._chance(0.6), "persistent": it._chance(0.6)}
    it._step(op, topic=topic, fn=it.random.choice(_KEEPING), stores=[kept], **given)


def _find(it: Generator, handle: Handle, store: str) -> str:
    """Look up what records have for values; return the name of the processor."""
    op, name = it.random.choice(("process", "process_values")), it._fresh("finder-")
    step = it._step(op, on=handle.step, fn="find", finds=[store], name=name)
    found = replace(handle, value="string", rekeyed=handle.rekeyed or op == "process")
    it._add(found, step, handle.key_serde if op == "process_values" else None, None)
    return name


def tame_processors(steps: list[dict[str, Any]], config: dict[str, str]) -> None:
    """Let no processor see what is another one in Java's driver, which is one task.

    That is the stream time if there are several sub-topologies, and the topic of a pattern.
    """
    told = [step for step in steps if step.get("fn") in {"place", *TICKS}]
    if not told:
        return
    drawn = Drawing({"config": config, "steps": steps}).topology()
    if len(drawn.subtopologies) > 1 or any("pattern" in step for step in steps):
        for step in told:
            step["fn"] = "again"


def tame_patterns(steps: list[dict[str, Any]]) -> None:
    """Java's driver takes a pattern for its topic: let nothing tell what that is."""
    if not any("pattern" in step for step in steps):
        return
    for step in steps:
        if step.get("extractor") == "place":
            step["extractor"] = "even_odd"
        if step["op"] == "suppress":
            step["buffer"]["logging"] = False


def read_pattern(it: Generator, handle: Handle) -> None:
    """Read two topics that a pattern matches."""
    prefix = it._fresh("pat-")
    for topic in (f"{prefix}-a", f"{prefix}-b"):
        it.topics[topic] = ("pattern", handle.key, handle.value)
    consumed = it._serdes(handle, inherited=False) | it._named(0.2)
    options = {"consumed": consumed} if consumed else {}
    step = it._step("stream", pattern=f"{prefix}-.*", **options)
    it._add(handle, step, consumed.get("key"), consumed.get("value"))


def join_with_itself(it: Generator) -> None:
    """Join a stream with itself, which an optimisation may keep once."""
    joins = joins_above(it.steps)
    streams = [one for one in it.handles if one.kind == "stream" and not joins[_id(one.step)]]
    if streams:
        stream = it.random.choice(streams[-6:])
        it._join_with(it.random.choice(("join", "join", "left_join", "outer_join")), stream, stream)


def multiplies(it: Generator, one: Handle, other: Handle) -> bool:
    """Whether a join of two streams would make too many results of results of others."""
    joins = joins_above(it.steps)
    return joins[_id(one.step)] + joins[_id(other.step)] > _JOINS_MAX


def joins_above(steps: list[dict[str, Any]]) -> dict[str, int]:
    """Return how many joins of streams are above each step and in it, each as often as it is met.

    Every one may give about the square of what it is given.
    """
    found: dict[str, int] = {}
    written: dict[str, int] = {}
    for step in steps:
        above = [found[_id(step[name])] for name in ("on", "with") if name in step]
        above += [written.get(topic, 0) for topic in step.get("topics", ())]
        is_join = "windows" in step and "with" in step
        number = sum(above) + 1 if is_join else max(above, default=0)
        found[step["id"]] = number
        if "topic" in step and step["op"] == "to":
            written[step["topic"]] = max(number, written.get(step["topic"], 0))
    return found


def _id(step: str) -> str:
    """Return the step of a branch, too."""
    return step.split("/", maxsplit=1)[0]


def is_self_join(step: dict[str, Any]) -> bool:
    """Whether a step joins a stream with itself."""
    return "windows" in step and "with" in step and step["on"] == step["with"]


def graces(it: Generator, table: Handle) -> tuple[int, ...]:
    """Return for how long records may wait for a table: at most as long as it knows the past."""
    (made,) = (step for step in it.steps if step["id"] == table.step)
    history = made.get("materialized", {}).get("history_ms", -1)
    return tuple(grace for grace in (0, 10, 40, 300) if grace <= history)


def until_window_closes(it: Generator, windowed: Handle) -> Handle:
    """Keep results back until their window closes; what waits has serdes of its own."""
    aggregated = it.steps[-1]
    stored = aggregated.setdefault("materialized", {})
    stored["key"] = windowed.key
    if aggregated["op"] != "count":
        stored["value"] = windowed.value
    buffer: dict[str, Any] = {} if it._chance(0.8) else {"logging": False}
    step = it._step("suppress", on=windowed.step, buffer=buffer, **it._named())
    return replace(windowed, step=step)


def let_caches_tell_nothing(it: Generator) -> None:
    """Let nothing expire of the windows just aggregated, or have no record cache.

    Java reads what has expired as long as its record cache has it; nothing does here.
    """
    stored = it.steps[-1].setdefault("materialized", {})
    stored |= it.random.choice(({"caching": False}, {"retention": _FOR_EVER_MS}))


def keep_windowed(it: Generator, table: Handle, windows: dict[str, Any]) -> None:
    """Go on with a table of windows as with any other; its keys have a serde of their own."""
    aggregated = next(step for step in reversed(it.steps) if step["op"] != "suppress")
    if windows["kind"] != "unlimited":
        aggregated.setdefault("materialized", {}).setdefault("retention", _FOR_EVER_MS)
    key = f"{_windowed(windows)} of {table.key}"
    serde = key if table.key_serde else None
    _grow_on(it, replace(table, key=key, key_serde=serde, rekeyed=False, versioned=False))


def _grow_on(it: Generator, kept: Handle) -> None:
    it.handles.append(kept)
    if it._chance(0.2):
        step = it._step("to_stream", on=kept.step, **it._named())
        stream = replace(kept, kind="stream", step=step)
        it.handles.append(stream)
        it._to_table(stream)
    for _ in range(it.random.randint(1, 2)):
        it.grow_on(kept)


def _windowed(windows: dict[str, Any]) -> str:
    match windows["kind"]:
        case "session":
            return "sessions"
        case "unlimited":
            return f"windows {LONG_MAX}"
        case "sliding":
            return f"windows {windows['difference']}"
        case _:
            return f"windows {windows['size']}"


def share_windows(it: Generator, cogrouped: str, group: Handle, windows: dict[str, Any]) -> None:
    """Aggregate what was cogrouped within windows; keys come out as texts."""
    step = it._step("windowed_by", on=cogrouped, windows=windows)
    bare = replace(group, value="string", key_serde=None, value_serde=None)
    # The streams of a cogroup have a time each: in Java one that is behind finds nothing that
    # another one's time has put beyond the retention.
    stored = {"key": bare.key, "value": "string"}
    retention = {} if windows["kind"] == "unlimited" else {"retention": _FOR_EVER_MS}
    fields: dict[str, Any] = {"materialized": stored | retention}
    if windows["kind"] == "session":
        fields["merge"] = it.random.choice(("join_text", "join_with_key"))
    step = it._step("aggregate", on=step, init="empty", **fields, **it._named())
    if it._chance(0.4):
        # Java cannot look up the table itself, only one that is made of it and has a store.
        key = f"{_windowed(windows)} of {bare.key}"
        stored = {"key": key, "value": "string", "store": it._fresh("together-")}
        step = it._step("filter", on=step, fn="always", materialized=stored)
        kept = replace(bare, kind="table", key=key, step=step, key_serde=key, value_serde="string")
        _grow_on(it, replace(kept, rekeyed=False, versioned=False))
        return
    step = it._step("to_stream", on=step, fn="key_text", **it._named())
    it._add(replace(bare, kind="stream", key="string", rekeyed=True), step, None, "string")


def around(it: Generator, inputs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Let the wall clock advance here and there, and topics of patterns be known from the start.

    For a topic that is new the tasks here are opened anew, as after a restart.
    """
    found: list[dict[str, Any]] = []
    if inputs:
        patterned = (topic for topic, (kind, _, _) in it.topics.items() if kind == "pattern")
        first = {"key": None, "value": None, "timestamp": 0}
        found += ({"topic": topic, **first} for topic in patterned)
    for record in inputs:
        if it._chance(0.06):
            found.append({"advance_ms": it.random.choice(_ADVANCES_MS)})
        found.append(record)
    return found
