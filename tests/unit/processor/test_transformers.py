"""A user's transformer of a table's values gets its context; what it returns is forwarded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.tasks import TaskRig, raw

from headwater import (
    PunctuationType,
    Record,
    RecordMetadata,
    Serdes,
    Stores,
    StoreSpec,
    StreamsBuilder,
    ValueTransformerWithKey,
)
from headwater.errors import ProcessingError, TopologyError
from headwater.model.nodes import ProcessorNode
from headwater.testing import TopologyTestDriver

if TYPE_CHECKING:
    from collections.abc import Callable

    from headwater import KStream, KTable, ProcessorContext


def transformer(
    transform: Callable[[Any, Any, Any], Any], heard: list[str] | None = None
) -> type[ValueTransformerWithKey[Any, Any, Any]]:
    """A transformer of a function ``(context, key, value)``; ``heard`` gets what else is called."""
    calls = [] if heard is None else heard

    class Made(ValueTransformerWithKey[Any, Any, Any]):
        def init(self, context: ProcessorContext[Any, Any]) -> None:
            super().init(context)
            calls.append("init")

        def transform(self, key: Any, value: Any) -> Any:
            return transform(self.context, key, value)

        def close(self) -> None:
            calls.append("close")

    return Made


def rig_of(made: Callable[[], Any], **options: Any) -> TaskRig:
    def draw(builder: StreamsBuilder) -> None:
        builder.table("in").transform_values(made, **options).to_stream().to("out")

    return TaskRig(draw)


@pytest.mark.parametrize("options", [{}, {"store": "kept"}], ids=["not stored", "stored"])
def test_every_value_and_every_deletion_is_transformed(options: dict[str, str]) -> None:
    rig = rig_of(transformer(lambda _context, key, value: f"{key} {value}"), **options)
    rig.add("in", raw(0, "k", "v"), raw(1, "k", None))

    rig.process()

    assert [value for _, value, _ in rig.sent("out")] == [b"k v", b"k None"]


def test_none_deletes() -> None:
    rig = rig_of(
        transformer(lambda _context, _key, value: None if value == "gone" else value), store="kept"
    )
    rig.add("in", raw(0, "k", "v"))
    rig.process()
    before = rig.stores["kept"].get("k")
    rig.add("in", raw(1, "k", "gone"))

    rig.process()

    assert (before, rig.stores["kept"].get("k")) == (("v", 0), None)
    assert [value for _, value, _ in rig.sent("out")] == [b"v", None]


def test_the_context_says_where_and_when() -> None:
    seen: list[Any] = []

    def transform(context: Any, _key: Any, value: Any) -> Any:
        seen.append((str(context.task_id), context.record_metadata()))
        return value

    rig = rig_of(transformer(transform))
    rig.add("in", raw(5, "k", "v", 70))

    rig.process()

    assert seen == [("0_0", RecordMetadata("in", 0, 5))]


def test_a_transformer_may_schedule() -> None:
    due: list[int] = []
    made = transformer(lambda _context, _key, value: value)

    class Scheduling(made):  # type: ignore[misc, valid-type]
        def init(self, context: ProcessorContext[Any, Any]) -> None:
            super().init(context)
            context.schedule(10, PunctuationType.STREAM_TIME, due.append)

    rig = rig_of(Scheduling)
    rig.add("in", raw(0, "k", "v", 70))

    rig.process()
    rig.task.punctuate_stream_time()

    assert due == [70]


def test_a_transformer_cannot_forward() -> None:
    rig = rig_of(transformer(lambda context, key, value: context.forward(Record(key, value, 0))))
    rig.add("in", raw(0, "k", "v"))

    with pytest.raises(ProcessingError, match="cannot forward: return the new value"):
        rig.process()


def test_each_attempt_has_a_transformer_of_its_own() -> None:
    heard: list[str] = []
    made: list[ValueTransformerWithKey[Any, Any, Any]] = []
    kind = transformer(lambda _context, _key, value: value, heard)

    def supplier() -> ValueTransformerWithKey[Any, Any, Any]:
        made.append(kind())
        return made[-1]

    rig = rig_of(supplier)
    before = len(made)

    rig.task.abort()
    rig.task.close()

    assert len(made) == before + 1
    assert heard == ["init", "close", "init", "close"]


def test_a_join_looks_up_what_a_transformer_makes_of_the_table_above() -> None:
    seen: list[Any] = []

    def transform(context: Any, key: Any, value: Any) -> Any:
        seen.append((value, context.record_metadata()))
        return f"{key} {value}"

    def draw(builder: StreamsBuilder) -> None:
        read: KTable[Any, Any] = builder.table("in")
        table = read.transform_values(transformer(transform))
        stream: KStream[Any, Any] = builder.stream("asked")
        stream.join(table, lambda mine, found: f"{mine}: {found}").to("out")

    rig = TaskRig(draw)
    rig.add("in", raw(0, "k", "v", 70))
    rig.process()
    seen.clear()
    rig.add("asked", raw(0, "k", "?", 80), raw(1, "absent", "?", 81))

    rig.process()

    nowhere = RecordMetadata("", -1, -1)
    assert [value for _, value, _ in rig.sent("out")] == [b"?: k v", b"?: absent None"]
    assert seen == [("v", nowhere), (None, None)]


def test_a_supplier_of_one_instance_is_refused() -> None:
    one = transformer(lambda _context, _key, value: value)()

    with pytest.raises(TopologyError, match="same instance twice"):
        rig_of(lambda: one)


def test_an_async_transformer_is_refused() -> None:
    class Async(ValueTransformerWithKey[Any, Any, Any]):
        async def transform(self, key: Any, value: Any) -> Any:
            return key, value

    with pytest.raises(TopologyError, match="async function"):
        rig_of(Async)


# ---- stores ----------------------------------------------------------------------------------

STRINGS: dict[str, Any] = {"key_serde": Serdes.string, "value_serde": Serdes.string}


def _kept(name: str) -> StoreSpec:
    supplier = Stores.in_memory_key_value_store(name)
    return Stores.key_value_store_builder(supplier, Serdes.string, Serdes.string)


class Counting(ValueTransformerWithKey[str, str, str]):
    """Numbers the changes of each key in the store ``counts``."""

    def transform(self, key: str, value: str | None) -> str | None:
        store = self.context.get_state_store("counts")
        number = int(store.get(key) or 0) + 1
        store.put(key, str(number))
        return f"{value}#{number}"


class Bringing(Counting):
    """The same with a store of its own."""

    @classmethod
    def stores(cls) -> list[StoreSpec]:
        return [_kept("counts")]


@pytest.mark.parametrize("way", ["named", "given", "brought"])
@pytest.mark.parametrize("options", [{}, {"store": "kept", **STRINGS}])
def test_a_transformer_uses_stores_however_they_are_connected(
    way: str, options: dict[str, Any]
) -> None:
    builder = StreamsBuilder()
    table: KTable[str, str] = builder.table("in", **STRINGS)
    match way:
        case "named":
            builder.add_state_store(_kept("counts"))
            made = table.transform_values(Counting, "counts", name="n", **options)
        case "given":
            made = table.transform_values(Counting, _kept("counts"), name="n", **options)
        case _:
            made = table.transform_values(Bringing, name="n", **options)
    made.to_stream().to("out", **STRINGS)
    topology = builder.build()

    node = topology.nodes["n"]
    assert isinstance(node, ProcessorNode)
    assert set(node.stores) == {"counts", *({"kept"} if options else ())}
    with TopologyTestDriver(topology) as driver:
        records = driver.create_input_topic("in", Serdes.string, Serdes.string)
        for value in ("x", "y"):
            records.pipe_input("k", value)
        outputs = driver.create_output_topic("out", Serdes.string, Serdes.string)
        assert [found.value for found in outputs.read_records_to_list()] == ["x#1", "y#2"]


def test_a_table_that_is_not_stored_is_looked_up_with_the_transformer_s_stores() -> None:
    builder = StreamsBuilder()
    table: KTable[str, str] = builder.table("in", **STRINGS)
    stream: KStream[str, str] = builder.stream("s", **STRINGS)
    made = table.transform_values(Counting, _kept("counts"))
    stream.join(made, lambda _left, right: right).to("out", **STRINGS)
    with TopologyTestDriver(builder.build()) as driver:
        driver.create_input_topic("in", Serdes.string, Serdes.string).pipe_input("k", "x")
        driver.create_input_topic("s", Serdes.string, Serdes.string).pipe_input("k", "y")
        outputs = driver.create_output_topic("out", Serdes.string, Serdes.string)

        assert outputs.read_value() == "x#2"
