"""Processors that keep keys, functions in place of processors, stores that suppliers bring."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.tasks import TaskRig, raw

from headwater import (
    ConfigError,
    ConnectedStoreProvider,
    ContextualProcessor,
    FixedKeyProcessor,
    FixedKeyRecord,
    ProcessingError,
    Processor,
    PunctuationType,
    Record,
    Serdes,
    StoreSpec,
    StreamsBuilder,
    Topology,
    TopologyError,
)
from headwater.testing import TopologyTestDriver

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from headwater import FixedKeyProcessorContext

HEADERS = [("h", b"1")]


def stored(name: str) -> StoreSpec:
    return StoreSpec(name=name, key_serde=Serdes.string, value_serde=Serdes.string)


class Marking(FixedKeyProcessor[str, str, str]):
    """Forwards a record with a mark, a millisecond later, and says so when the clock turns."""

    def init(self, context: FixedKeyProcessorContext[str, str]) -> None:
        super().init(context)
        context.schedule(timedelta(milliseconds=10), PunctuationType.WALL_CLOCK_TIME, self._tick)
        self._last: FixedKeyRecord[str, str] | None = None

    def process(self, record: FixedKeyRecord[str, str]) -> None:
        self._last = record.with_timestamp(record.timestamp + 1).with_headers(HEADERS)
        self.context.forward(self._last.with_value(record.value + "!"))

    def _tick(self, now_ms: int) -> None:
        assert self._last is not None
        self.context.forward(self._last.with_value(f"at {now_ms}"))


def test_a_processor_that_keeps_keys_forwards_its_records_changed() -> None:
    def draw(builder: StreamsBuilder) -> None:
        builder.stream("in").process_values(Marking).to("out")

    rig = TaskRig(draw)
    rig.add("in", raw(0, "k", "v", 70))

    rig.process()
    rig.clock.advance(10)
    rig.task.punctuate(rig.clock.now_ms())

    assert rig.sent() == [(b"k", b"v!", 71), (b"k", b"at 1000010", 71)]
    assert [record.headers for record in rig.collector.of_topic("out")] == [HEADERS, HEADERS]


def test_a_fixed_key_cannot_be_changed_and_needs_no_repartition() -> None:
    assert not hasattr(FixedKeyRecord("k", "v", 1), "with_key")
    builder = StreamsBuilder()
    stream = builder.stream("in")

    stream.process_values(Marking).group_by_key().count()
    stream.process_values(Marking, name="mine").to("out")

    nodes = builder.build().nodes
    assert not builder.build().repartition_topics
    assert "KSTREAM-PROCESSVALUES-0000000001" in nodes
    assert "mine" in nodes


def test_a_processor_that_keeps_keys_starts_over_with_a_new_instance() -> None:
    made: list[Marking] = []

    def supplier() -> Marking:
        made.append(Marking())
        return made[-1]

    rig = TaskRig(lambda builder: builder.stream("in").process_values(supplier).to("out"))
    rig.add("in", raw(0, "k", "v", 70))
    rig.process()

    rig.task.abort()

    assert made[-1]._last is None


def test_an_exception_of_a_processor_that_keeps_keys_meets_the_handler() -> None:
    def breaks(record: FixedKeyRecord[str, str]) -> None:
        raise ZeroDivisionError(record.value)

    rig = TaskRig(lambda builder: builder.stream("in").process_values(breaks).to("out"))
    rig.add("in", raw(0, "k", "v", 70))

    with pytest.raises(ProcessingError, match=r"node KSTREAM-PROCESSVALUES-0000000001.*v"):
        rig.process()


def one(record: Record[str, str]) -> Record[str, str]:
    return record.with_key(record.value)


def several(record: Record[str, str]) -> list[Record[str, str]]:
    return [record, record.with_value("again")]


def none(record: Record[str, str]) -> None:
    del record


def gives(record: Record[str, str], context: Any) -> Iterator[Record[str, str]]:
    context.commit()
    yield record.with_value(str(context.task_id))
    if record.value == "v":
        yield record.with_timestamp(90)


class Instance:
    """An object that is called."""

    def __call__(self, record: Record[str, str]) -> tuple[Record[str, str], ...]:
        return (record,)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (one, [(b"v", b"v", 70)]),
        (several, [(b"k", b"v", 70), (b"k", b"again", 70)]),
        (none, []),
        (gives, [(b"k", b"0_0", 70), (b"k", b"v", 90)]),
        (Instance(), [(b"k", b"v", 70)]),
        (lambda record: record, [(b"k", b"v", 70)]),
    ],
    ids=["one", "several", "none", "generator", "object", "lambda"],
)
def test_a_function_stands_for_a_processor(
    function: Callable[..., Any], expected: list[tuple[bytes, bytes, int]]
) -> None:
    def by_hand() -> Topology:
        topology = Topology().add_source("in", "in")
        return topology.add_processor("step", function, "in").add_sink("out", "out", "step")

    rig = TaskRig(lambda builder: builder.stream("in").process(function).to("out"))
    rig.add("in", raw(0, "k", "v", 70))
    config = {"default.key.serde": "string", "default.value.serde": "string"}

    rig.process()
    with TopologyTestDriver(by_hand(), config) as driver:
        driver.pipe_raw("in", b"k", b"v", 70)
        found = [(r.key, r.value, r.timestamp) for r in driver.output_queue("out")]

    assert rig.sent() == expected
    assert found == expected
    assert rig.task.commit_requested == (function is gives)


@pytest.mark.parametrize("result", ["text", 5, [1]], ids=["text", "number", "list of numbers"])
def test_what_is_no_record_is_refused_at_its_node(result: Any) -> None:
    rig = TaskRig(
        lambda builder: builder.stream("in").process(lambda _record: result, name="mine").to("out")
    )
    rig.add("in", raw(0, "k", "v", 70))

    with pytest.raises(ProcessingError, match=r"node mine.*return a Record, several of them"):
        rig.process()


def test_a_function_of_a_fixed_key_gives_fixed_keys() -> None:
    def draw(builder: StreamsBuilder, result: Any) -> None:
        builder.stream("in").process_values(lambda _record: result).to("out")

    right = TaskRig(lambda builder: draw(builder, [FixedKeyRecord("k", "w", 3)]))
    wrong = TaskRig(lambda builder: draw(builder, Record("k", "w", 3)))
    right.add("in", raw(0, "k", "v", 70))
    wrong.add("in", raw(0, "k", "v", 70))

    right.process()

    assert right.sent() == [(b"k", b"w", 3)]
    with pytest.raises(ProcessingError, match="return a FixedKeyRecord"):
        wrong.process()


async def waits(record: Record[str, str]) -> Record[str, str]:
    return record


def takes_three(record: Any, context: Any, more: Any) -> None:
    del record, context, more


def gives_nothing() -> None:
    pass


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (waits, "'waits' is an async function"),
        (takes_three, "a function of 3 arguments"),
        (gives_nothing, "which has no method process"),
        (dict, "which has no method process"),
        ("module:function", "is not a function"),
    ],
    ids=["async", "three arguments", "no processor", "another class", "text"],
)
def test_what_makes_no_processor_is_refused_with_the_node(given: Any, message: str) -> None:
    stream = StreamsBuilder().stream("in")

    with pytest.raises(TopologyError, match=f"'mine'.*{message}"):
        stream.process(given, name="mine")
    with pytest.raises(TopologyError, match=f"'mine'.*{message}"):
        stream.process_values(given, name="mine")


SHARED = stored("shared")


class Keeping(Processor[str, str, str, str]):
    """Brings its stores along."""

    @classmethod
    def stores(cls) -> Iterable[StoreSpec]:
        return [SHARED]

    def process(self, record: Record[str, str]) -> None:
        store = self.context.get_state_store("shared")
        old = store.get(record.key)
        store.put(record.key, record.value, record.timestamp)
        self.context.forward(record.with_value(f"{old and old.value} {record.value}"))


class Supplier:
    """Makes processors and names their store."""

    def __init__(self, *stores: Any) -> None:
        self._stores = stores

    def stores(self) -> Iterable[Any]:
        return self._stores

    def __call__(self) -> Processor[str, str, str, str]:
        return Keeping()


def test_a_supplier_brings_its_stores() -> None:
    rig = TaskRig(lambda builder: builder.stream("in").process(Keeping).to("out"))
    rig.add("in", raw(0, "k", "v"), raw(1, "k", "w"))

    rig.process()

    assert [value for _, value, _ in rig.sent()] == [b"None v", b"v w"]
    assert isinstance(Keeping, ConnectedStoreProvider)


def test_processors_whose_suppliers_bring_one_store_share_a_sub_topology() -> None:
    builder = StreamsBuilder()
    builder.stream("a").process(Keeping, name="one")
    builder.stream("b").process(Supplier(SHARED), stored("more"), name="two")
    topology = Topology().add_source("a", "a").add_source("b", "b")
    topology.add_processor("one", Keeping, "a").add_processor("two", Supplier(SHARED), "b")

    assert len(builder.build().subtopologies) == 1
    assert len(topology.subtopologies) == 1
    assert set(builder.build().stores) == {"shared", "more"}


def test_other_stores_of_one_name_are_refused() -> None:
    topology = Topology().add_source("a", "a").add_processor("one", Keeping, "a")

    with pytest.raises(TopologyError, match="different store is already called 'shared'"):
        topology.add_processor("two", Supplier(stored("shared")), "a")


class NeedsAnInstance(Keeping):
    """Its stores cannot be asked without one."""

    def stores(self) -> Iterable[StoreSpec]:  # type: ignore[override]
        return [SHARED]


@pytest.mark.parametrize(
    ("supplier", "message"),
    [
        (NeedsAnInstance, "make it a classmethod or staticmethod"),
        (Supplier("shared"), "gives 'shared': return StoreSpecs"),
    ],
    ids=["instance method", "names"],
)
def test_stores_that_cannot_be_had_are_refused(supplier: Any, message: str) -> None:
    with pytest.raises(TopologyError, match=f"'mine' .*{message}"):
        StreamsBuilder().stream("in").process(supplier, name="mine")


def test_the_context_has_configuration_and_default_serdes() -> None:
    seen: list[Any] = []

    def look(record: Record[str, str], context: Any) -> None:
        seen.append((context.key_serde, context.value_serde))
        seen.append(context.app_configs_with_prefix("consumer."))

    rig = TaskRig(
        lambda builder: builder.stream("in").process(look).to("out"),
        **{"consumer.fetch.min.bytes": 7},
    )
    rig.add("in", raw(0, "k", "v"))

    rig.process()

    assert seen == [(Serdes.string, Serdes.string), {"fetch.min.bytes": 7}]


def test_a_default_serde_that_is_not_set_is_an_error() -> None:
    def look(record: Record[str, str], context: Any) -> None:
        assert context.key_serde is Serdes.string
        print(context.value_serde)

    builder = StreamsBuilder()
    builder.stream("in", key_serde=Serdes.string, value_serde=Serdes.string).process(look)

    with (
        TopologyTestDriver(builder.build(), {"default.key.serde": "string"}) as driver,
        pytest.raises(ConfigError, match=r"default\.value\.serde is not set"),
    ):
        driver.pipe_raw("in", b"k", b"v", 1)


def test_an_interval_that_is_no_duration_is_refused() -> None:
    def look(record: Record[str, str], context: Any) -> None:
        context.schedule(1.5, PunctuationType.STREAM_TIME, print)

    rig = TaskRig(lambda builder: builder.stream("in").process(look, name="mine"))
    rig.add("in", raw(0, "k", "v"))

    with pytest.raises(TopologyError, match=r"schedule\(\) in mine: the interval is 1.5"):
        rig.process()


def test_every_processor_is_contextual() -> None:
    class Mine(ContextualProcessor[str, str, str, str]):
        def process(self, record: Record[str, str]) -> None:
            self.context.forward(record)

    rig = TaskRig(lambda builder: builder.stream("in").process(Mine).to("out"))
    rig.add("in", raw(0, "k", "v", 70))

    rig.process()

    assert rig.sent() == [(b"k", b"v", 70)]
