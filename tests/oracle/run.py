"""A request carried out here, answered as the Java oracle answers it (``FORMAT.md``)."""

from __future__ import annotations

import contextlib
import io
import struct
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from headwater import StreamsBuilder
from headwater.model.durations import LONG_MAX, millis
from headwater.model.metrics import DROPPED_RECORDS
from headwater.model.stores import KeyLayout
from headwater.processor.resolving import store_serdes
from headwater.state.versions import key_of
from headwater.testing import TopologyTestDriver
from headwater.wire.headers import encode_headers
from headwater.wire.varint import read_varint
from tests.oracle.processors import Noted
from tests.oracle.queries import answers
from tests.oracle.translate import Drawing
from tests.support.custom_stores import in_own_store

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from headwater import Topology
    from headwater.model.durations import Duration
    from headwater.processor.task import StreamTask
    from headwater.testing.collector import ProducedRecord


class LateCommits(TopologyTestDriver):
    """A driver that commits only when it is told to."""

    def __init__(self, *args: Any, **given: Any) -> None:
        super().__init__(*args, **given)
        self._committer.is_held = True

    def settle(self) -> None:
        """Commit, process what the flush sent to internal topics, until nothing is left."""
        while True:
            self._commit()
            self._capture()
            if self._loop.is_over:
                return
            self._complete()

    def advance_wall_clock_time(self, duration: Duration) -> None:
        """Move the wall clock and call what is due, without the commit that follows otherwise."""
        self._clock.advance(millis("advance_wall_clock_time()", duration))
        self._loop.punctuate()
        self._complete()

    def _commit(self) -> None:
        self._committer.is_held = False
        super()._commit()
        self._committer.is_held = True


def run(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the oracle answers, and ``buffers``: the changelogs of what waits."""
    config = {
        "application.id": request["app_id"],
        "default.key.serde": request.get("key", "bytes"),
        "default.value.serde": request.get("value", "bytes"),
        **request.get("config", {}),
    }
    noted = Noted()
    if request.get("wrapped"):
        config["processor.wrapper.class"] = noted
    drawing = Drawing(request, builder=StreamsBuilder(config))
    topology = drawing.topology()
    if request.get("own"):
        _keep_in_own_stores(topology)
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        every = request.get("commit_every", 0)
        driver = LateCommits(topology, config) if every else TopologyTestDriver(topology, config)
        tasks = _pipe(driver, request["inputs"], every)
        dropped = _dropped(driver, tasks)
        specs = {**topology.stores, **topology.global_stores}
        kinds = {name: spec.kind for name, spec in specs.items()}
        stores = {
            name: _contents(driver, topology, name, headers=bool(request.get("headers")))
            for name in driver.get_all_state_stores()
            if not (kinds[name].is_buffer or kinds[name].holds_records or kinds[name].versioned)
        }
        versions = {
            name: _versions(driver, topology, name, request["inputs"])
            for name in driver.get_all_state_stores()
            if kinds[name].versioned
        }
        answered = answers(driver, topology, request.get("queries", ()))
        driver.close()
    produced = [_shown(record) for record in driver.history]
    internal = {f"{request['app_id']}-{name}" for name in topology.repartition_topics}
    changelogs = {name: f"{request['app_id']}-{name}-changelog" for name in topology.stores}
    internal.update(changelogs.values())
    return {
        "describe": topology.describe(),
        "produced": produced,
        "outputs": [record for record in produced if record["topic"] not in internal],
        "stores": stores,
        "versions": versions,
        "answers": answered,
        "seen": drawing.seen,
        "printed": printed.getvalue().splitlines(),
        "wrapped": noted.wrapped,
        "records": noted.records,
        "dropped": dropped,
        "logged": [["WARN", line] for line in driver.warnings if ": Skipping " in line],
        "buffers": [
            topic
            for name, topic in changelogs.items()
            if kinds[name].is_buffer or kinds[name].holds_records
        ],
    }


def _pipe(
    driver: TopologyTestDriver, inputs: Iterable[Mapping[str, Any]], every: int
) -> set[StreamTask]:
    """Pipe records, and return the tasks that were there at some time."""
    piped, tasks = 0, {*driver.tasks}
    for record in inputs:
        tasks.update(driver.tasks)
        if "advance_ms" in record:
            driver.advance_wall_clock_time(record["advance_ms"])
            continue
        headers = [(name, _bytes(value)) for name, value in record.get("headers", [])]
        driver.pipe_raw(
            record["topic"],
            _bytes(record["key"]),
            _bytes(record["value"]),
            record["timestamp"],
            headers or None,
        )
        piped += 1
        if isinstance(driver, LateCommits) and piped % every == 0:
            driver.settle()
    if isinstance(driver, LateCommits):
        driver.settle()
    return tasks


def _dropped(driver: TopologyTestDriver, tasks: Iterable[StreamTask]) -> int:
    """How many records the tasks say they have dropped, the one of global stores among them.

    Of ``tasks``, those that were opened anew for a topic of a pattern are no longer measured.
    """
    gone = sum(task.statistics().total(DROPPED_RECORDS) for task in set(tasks) - {*driver.tasks})
    return gone + sum(
        int(metric.metric_value())
        for name, metric in driver.metrics().items()
        if (name.group, name.name) == ("stream-task-metrics", "dropped-records-total")
    )


def _keep_in_own_stores(topology: Topology) -> None:
    """Let stores of a user's own keep what is in memory or has versions."""
    for name, spec in topology.stores.items():
        if spec.kind.versioned or not (spec.persistent or spec.kind.is_buffer):
            topology._stores[name] = in_own_store(spec)
    topology._subtopologies = None


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)


def _hex(data: bytes | None) -> str | None:
    return None if data is None else data.hex()


def _shown(record: ProducedRecord) -> dict[str, Any]:
    return {
        "topic": record.topic,
        "partition": record.partition,
        "key": _hex(record.key),
        "value": _hex(record.value),
        "timestamp": record.timestamp,
        "headers": [[name, _hex(value)] for name, value in record.headers or ()],
    }


def _contents(
    driver: TopologyTestDriver, topology: Topology, name: str, *, headers: bool
) -> list[list[Any]]:
    spec = {**topology.stores, **topology.global_stores}[name]
    key_serde, value_serde = store_serdes(driver.config, spec)
    key, value = key_serde.serializer(name), value_serde.serializer(name)
    found = driver._found(name, 0)
    assert found is not None
    held: Any = found.store
    if spec.kind.keeps_headers:
        held = held.with_headers()

    def beside(kept: Any, timestamp: int) -> list[Any]:
        at = timestamp if spec.kind.timestamped else None
        if not spec.kind.keeps_headers:
            return [value(kept).hex(), at]
        front = encode_headers(kept.headers)
        shown = [front[read_varint(front, 0)[1] :].hex()] if headers else []
        return [value(kept.aggregation).hex(), at, *shown]

    if spec.kind.expires:
        count = 2 if spec.kind.key_layout is KeyLayout.SESSION else 1
        return _sorted(
            [(key(k) + struct.pack(f">{count}q", *times[:count])).hex(), *beside(v, timestamp)]
            for k, *times, v, timestamp in held.fetch_all(0, LONG_MAX)
        )
    if spec.entries_max is not None:
        # Java shows the map alone, without what its record cache still has.
        codec = held._codec
        rows = ((k, codec.from_row(row)) for k, row in held._below.backend.range(None, None))
        return [[k.hex(), *beside(codec.to_value(stored), at)] for k, (stored, at) in rows]
    return _sorted([key(k).hex(), *beside(v, at)] for k, v, at in held.range(None, None))


def _versions(
    driver: TopologyTestDriver, topology: Topology, name: str, inputs: Iterable[Mapping[str, Any]]
) -> list[list[Any]]:
    """What each key's values are as of the times of inputs: a row where the answer changes."""
    spec = {**topology.stores, **topology.global_stores}[name]
    key_serde, value_serde = store_serdes(driver.config, spec)
    decode, encode = key_serde.deserializer(name), value_serde.serializer(name)
    found = driver._found(name, 0)
    assert found is not None
    held: Any = found.store
    told = {record["timestamp"] for record in inputs if "timestamp" in record}
    times = sorted({LONG_MAX, *told, *(time + 1 for time in told)})
    rows: list[list[Any]] = []
    for key in sorted({key_of(row)[4:] for row, _ in held._below.backend.range(None, None)}):
        before = None
        for time in times:
            version = held.get_as_of(decode(key), time)
            if version != before:
                value, at = version or (None, None)
                shown = None if version is None else encode(value).hex()
                rows.append([key.hex(), time, shown, at])
            before = version
    return rows


def _sorted(entries: Iterable[list[Any]]) -> list[list[Any]]:
    """By key; several values of one keep their order."""
    return sorted(entries, key=itemgetter(0))
