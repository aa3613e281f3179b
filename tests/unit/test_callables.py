"""What is no function that gives its result at the call is refused where it is given."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any

import pytest

from headwater import (
    Branched,
    BranchedKStream,
    ConfigError,
    Consumed,
    ImportPathError,
    KGroupedStream,
    KGroupedTable,
    KStream,
    KTable,
    Processor,
    Produced,
    PunctuationType,
    Record,
    Repartitioned,
    Serdes,
    StreamsBuilder,
    TimestampExtractors,
    Topology,
    TopologyError,
)
from headwater.config import StreamsConfig
from headwater.dsl.loading import build_topology
from headwater.model.callables import objection
from headwater.processor.handlers import Handlers
from headwater.testing import TopologyTestDriver

if TYPE_CHECKING:
    from collections.abc import Callable

    from headwater import ProcessorContext

SERDES = {"key_serde": Serdes.string, "value_serde": Serdes.string}


async def waits(*_: Any) -> bool:
    return False


def gives(*_: Any) -> Any:
    yield 1


async def gives_later(*_: Any) -> Any:
    yield 1


class Waiting:
    async def __call__(self, *_: Any) -> bool:
        return False

    async def method(self, *_: Any) -> bool:
        return False


def plain(*_: Any) -> Any:
    return None


NEVER: list[Any] = [
    waits,
    gives_later,
    Waiting(),
    Waiting().method,
    functools.partial(waits, 1),
    functools.partial(functools.partial(Waiting(), 1), 2),
]


def _handles() -> dict[type, Any]:
    builder = StreamsBuilder()
    stream: KStream[str, str] = builder.stream("in", **SERDES)
    table: KTable[str, str] = builder.table("tab", **SERDES)
    return {
        KStream: stream,
        KTable: table,
        KGroupedStream: stream.group_by_key(),
        KGroupedTable: table.group_by(lambda k, v: (k, v), **SERDES),
        BranchedKStream: stream.split(),
    }


def _parameters() -> list[tuple[type, str, str]]:
    """Every parameter of the DSL that takes a function."""
    return [
        (cls, name, parameter.name)
        for cls in _handles()
        for name, method in inspect.getmembers(cls, inspect.isfunction)
        if not name.startswith("_")
        for parameter in inspect.signature(method).parameters.values()
        if "Callable" in str(parameter.annotation)
    ]


def _call(cls: type, name: str, parameter: str, given: Any) -> None:
    handles = _handles()
    method = getattr(handles[cls], name)
    arguments: dict[str, Any] = {
        other.name: plain if "Callable" in str(other.annotation) else handles[KTable]
        for other in inspect.signature(method).parameters.values()
        if other.default is inspect.Parameter.empty
        and ("Callable" in str(other.annotation) or str(other.annotation).startswith("KTable"))
    }
    method(**{**arguments, parameter: given})


def test_the_dsl_takes_functions_in_these_places() -> None:
    """So that the test below is seen to find them all."""
    found = {f"{cls.__name__}.{name}({parameter})" for cls, name, parameter in _parameters()}

    assert {
        "KStream.filter(predicate)",
        "KStream.to(topic)",
        "KStream.print(mapper)",
        "KTable.group_by(mapper)",
        "KTable.to_stream(mapper)",
        "KGroupedStream.aggregate(initializer)",
        "KGroupedTable.reduce(subtractor)",
        "BranchedKStream.branch(predicate)",
        "BranchedKStream.default_branch(chain)",
    } <= found
    assert len(found) > 25


@pytest.mark.parametrize(("cls", "name", "parameter"), _parameters())
def test_an_async_function_is_refused_where_nobody_waits_for_it(
    cls: type, name: str, parameter: str
) -> None:
    for given in NEVER:
        if name.endswith("_async") and given is not gives_later:
            _call(cls, name, parameter, given)
        else:
            with pytest.raises(TopologyError, match=r"async function, .* write it with def"):
                _call(cls, name, parameter, given)


@pytest.mark.parametrize(("cls", "name", "parameter"), _parameters())
def test_a_generator_function_is_welcome_only_where_all_it_gives_is_read(
    cls: type, name: str, parameter: str
) -> None:
    if name.startswith("flat_map"):
        _call(cls, name, parameter, gives)
    else:
        with pytest.raises(TopologyError, match="'gives' is a generator function"):
            _call(cls, name, parameter, gives)


@pytest.mark.parametrize(
    "give",
    [
        lambda f: Consumed(timestamp_extractor=f),
        lambda f: Produced(partitioner=f),
        lambda f: Repartitioned(partitioner=f),
        lambda f: Branched(chain=f),
        lambda f: Topology().add_source("s", "t", timestamp_extractor=f),
        lambda f: Topology().add_source("s", "t").add_sink("k", f, "s"),
        lambda f: Topology().add_source("s", "t").add_sink("k", "o", "s", partitioner=f),
        lambda f: Topology().add_source("s", "t").add_processor("p", f, "s"),
    ],
)
def test_options_and_the_topology_by_hand_refuse_it_too(give: Callable[[Any], Any]) -> None:
    for given in (*NEVER, gives, 3):
        with pytest.raises(
            TopologyError, match=r"async function|generator function|not a function"
        ):
            give(given)


class WaitingProcessor(Processor[str, str, str, str]):
    async def process(self, record: Record[str, str]) -> None:  # type: ignore[override]
        self.context.forward(record)


class Scheduling(Processor[str, str, str, str]):
    def init(self, context: ProcessorContext) -> None:
        context.schedule(1, PunctuationType.STREAM_TIME, waits)  # type: ignore[arg-type]

    def process(self, record: Record[str, str]) -> None:
        self.context.forward(record)


def test_a_processor_and_its_punctuation_cannot_wait() -> None:
    builder = StreamsBuilder()
    stream: KStream[str, str] = builder.stream("in", **SERDES)
    with pytest.raises(TopologyError, match=r"'WaitingProcessor\.process' is an async function"):
        stream.process(WaitingProcessor)

    stream.process(Scheduling)
    with pytest.raises(TopologyError, match=r"schedule\(\) in .*'waits' is an async function"):
        TopologyTestDriver(builder.build(), {"application.id": "app"})


async def builds(_builder: StreamsBuilder) -> None:
    pass


def test_what_builds_the_topology_cannot_wait() -> None:
    with pytest.raises(ImportPathError, match="'builds' is an async function"):
        build_topology(builds, "app:builds")


class WaitingHandler:
    async def on_delivery(self, *_: Any, **__: Any) -> None: ...

    async def on_serialization(self, *_: Any) -> None: ...


@pytest.mark.parametrize(
    ("option", "handler"),
    [
        ("processing.exception.handler", waits),
        ("deserialization.exception.handler", waits),
        ("production.exception.handler", WaitingHandler()),
    ],
)
def test_handlers_of_the_configuration_cannot_wait(option: str, handler: object) -> None:
    config = StreamsConfig.parse({"application.id": "app", option: handler})

    with pytest.raises(ConfigError, match="async function"):
        Handlers.of(config)


@pytest.mark.parametrize("given", [plain, str.upper, len, dict, functools.partial(plain, 1), print])
def test_whatever_gives_its_result_at_the_call_is_taken(given: object) -> None:
    assert objection(given) is None


@pytest.mark.parametrize("name", [*TimestampExtractors, "my_module:extract"])
def test_an_extractor_may_be_named(name: str) -> None:
    Consumed(timestamp_extractor=name)


def test_an_extractor_that_is_not_built_in_is_refused_with_those_that_are() -> None:
    with pytest.raises(
        TopologyError, match=r"no timestamp extractor 'wallclok'; use one of .*wall"
    ):
        Consumed(timestamp_extractor="wallclok")
