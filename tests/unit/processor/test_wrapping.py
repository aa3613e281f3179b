"""A wrapper around the processors of a topology (KIP-1112)."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import pytest

from headwater import (
    ConfigError,
    FixedKeyProcessor,
    FixedKeyRecord,
    Processor,
    ProcessorWrapper,
    Record,
    Serdes,
    StoreSpec,
    StreamsBuilder,
    Topology,
    TopologyError,
)
from headwater.config import StreamsConfig
from headwater.dsl.loading import build_topology
from headwater.spark.frames.choose import choose
from headwater.testing import TopologyTestDriver

if TYPE_CHECKING:
    from collections.abc import Mapping

SERDES = {"default.key.serde": "string", "default.value.serde": "string"}
OPTION = "processor.wrapper.class"


class Shouting(FixedKeyProcessor[str, str, str]):
    """Hands records on in capitals, and marks what comes out."""

    def __init__(self, inner: FixedKeyProcessor[str, str, str]) -> None:
        self._inner = inner

    def init(self, context: Any) -> None:
        super().init(context)
        self._inner.init(_Marking(context))

    def process(self, record: FixedKeyRecord[str, str]) -> None:
        self._inner.process(record.with_value(record.value.upper()))

    def close(self) -> None:
        self._inner.close()


class _Marking:
    """A context of the wrapper's own."""

    def __init__(self, context: Any) -> None:
        self._context = context

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    def forward(self, record: Any, child: str | None = None) -> None:
        self._context.forward(record.with_value(record.value + "!"), child)


class Shouts(ProcessorWrapper):
    """Wraps what keeps keys."""

    prefix = ""

    def configure(self, configs: Mapping[str, object]) -> None:
        self.prefix = str(configs["application.id"])

    def wrap_fixed_key_processor_supplier(self, name: str, supplier: Any) -> Any:
        assert self.prefix == "app"
        return lambda: Shouting(supplier())


CONFIG: dict[str, object] = {"application.id": "app", **SERDES, OPTION: f"{__name__}:Shouts"}


def last_of(topology: Topology) -> list[tuple[bytes | None, bytes | None]]:
    with TopologyTestDriver(topology, CONFIG) as driver:
        driver.pipe_raw("in", b"k", b"a", 1)
        driver.pipe_raw("in", b"k", b"b", 2)
        return [(record.key, record.value) for record in driver.output_queue("out")]


@pytest.mark.parametrize(
    "wrapper", [f"{__name__}:Shouts", Shouts, Shouts()], ids=["path", "class", "instance"]
)
def test_a_wrapper_changes_what_operators_are_given_and_forward(wrapper: Any) -> None:
    builder = StreamsBuilder({**CONFIG, OPTION: wrapper})
    builder.stream("in").map_values(lambda value: f"<{value}>", name="mapped").to("out")

    assert last_of(builder.build()) == [(b"k", b"<A>!"), (b"k", b"<B>!")]


def test_operators_that_it_leaves_alone_are_compiled_as_ever() -> None:
    builder = StreamsBuilder(StreamsConfig.parse(CONFIG))
    builder.stream("in").map(lambda key, value: (value, key)).to("out")

    topology = builder.build()

    assert last_of(topology) == [(b"a", b"k"), (b"b", b"k")]
    assert [getattr(node, "wrapped", None) for node in topology.nodes.values()] == 3 * [None]


def test_without_a_configuration_nothing_is_wrapped() -> None:
    def build(builder: StreamsBuilder) -> None:
        builder.stream("in").map_values(str.lower).to("out")

    assert last_of(build_topology(build)) == [(b"k", b"a"), (b"k", b"b")]
    assert last_of(build_topology(build, config=CONFIG)) == [(b"k", b"a!"), (b"k", b"b!")]


def test_a_split_of_a_wrapped_stream_goes_to_one_child() -> None:
    class Passing(ProcessorWrapper):
        def wrap_processor_supplier(self, name: str, supplier: Any) -> Any:
            class Around(Processor[Any, Any, Any, Any]):
                def __init__(self) -> None:
                    self._inner = supplier()

                def init(self, context: Any) -> None:
                    self._inner.init(context)

                def process(self, record: Record[Any, Any]) -> None:
                    seen.append((name, record.value))
                    self._inner.process(record)

            return Around

    seen: list[Any] = []
    builder = StreamsBuilder({OPTION: Passing})
    branches = builder.stream("in").split("s-").branch(lambda _k, v: v == "a", name="a")
    branches.default_branch(name="rest")["s-a"].to("out")

    assert last_of(builder.build()) == [(b"k", b"a")]
    assert seen == [("s-", "a"), ("s-a", "a"), ("s-", "b"), ("s-rest", "b")]


KEPT = StoreSpec(name="kept", key_serde=Serdes.string, value_serde=Serdes.string)
OTHER = StoreSpec(name="kept", caching=False)


class Own(Processor[str, str, str, str]):
    """Brings a store."""

    @classmethod
    def stores(cls) -> list[StoreSpec]:
        return [KEPT]

    def process(self, record: Record[str, str]) -> None:
        self.context.forward(record)


class Replacing(ProcessorWrapper):
    """Gives another store in place of the one that is brought."""

    def wrap_processor_supplier(self, name: str, supplier: Any) -> Any:
        class Supplier:
            def __call__(self) -> Any:
                return supplier()

            def stores(self) -> list[StoreSpec]:
                return [OTHER]

        return Supplier()


def test_a_wrapper_may_replace_the_stores_of_a_supplier() -> None:
    def stores(config: Mapping[str, object] | None) -> list[StoreSpec]:
        builder = StreamsBuilder(config)
        builder.stream("in").process(Own)
        topology = Topology(config).add_source("in", "in").add_processor("own", Own, "in")
        return [builder.build().stores["kept"], topology.stores["kept"]]

    assert [store is KEPT for store in stores(None)] == [True, True]
    assert [store is OTHER for store in stores({OPTION: Replacing})] == [True, True]
    # A supplier that says nothing of stores keeps those of the one it wraps.
    kept = stores({OPTION: type("Plain", (ProcessorWrapper,), {})})
    assert [store is KEPT for store in kept] == [True, True]


class NoProcessor(ProcessorWrapper):
    """Wraps wrongly."""

    def wrap_processor_supplier(self, name: str, supplier: Any) -> Any:
        return lambda: name

    def wrap_fixed_key_processor_supplier(self, name: str, supplier: Any) -> Any:
        made = supplier()

        class Late(FixedKeyProcessor[Any, Any, Any]):
            def process(self, record: FixedKeyRecord[Any, Any]) -> None:
                made.process(record)

        return Late


def test_a_wrapper_that_makes_no_processor_is_refused_with_the_node() -> None:
    builder = StreamsBuilder({OPTION: NoProcessor})
    builder.stream("in").map(lambda key, value: (value, key), name="mine")

    with pytest.raises(TopologyError, match="'mine' returns 'mine', which has no method process"):
        builder.build()


def test_a_processor_that_is_made_outside_its_task_says_so() -> None:
    builder = StreamsBuilder({OPTION: NoProcessor})
    builder.stream("in").filter(lambda _key, _value: True).to("out")

    with pytest.raises(TopologyError, match="made outside of its task: call the supplier"):
        last_of(builder.build())


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("nowhere:Wrapper", "cannot import 'nowhere:Wrapper'"),
        (dict, "is no ProcessorWrapper"),
        (f"{__name__}:SERDES", "is no ProcessorWrapper"),
    ],
)
def test_what_is_no_wrapper_is_refused(reference: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        StreamsBuilder({OPTION: reference}).build()


def test_a_class_of_java_is_refused() -> None:
    with pytest.raises(ConfigError, match=r'a Python class, or "module:Class"'):
        StreamsConfig.parse({"application.id": "app", OPTION: "com.example.Wrapper"})


def test_what_is_wrapped_is_not_computed_as_dataframes() -> None:
    def build(builder: StreamsBuilder) -> None:
        builder.stream("in").group_by_key().count(store="counts")

    class Wrapping(ProcessorWrapper):
        def wrap_processor_supplier(self, name: str, supplier: Any) -> Any:
            return functools.partial(supplier)

    config = {**CONFIG, OPTION: Wrapping}
    found = choose(build_topology(build, config=config), StreamsConfig.parse(config))

    assert "processor.wrapper.class wraps it" in found.subtopologies[0].reason
