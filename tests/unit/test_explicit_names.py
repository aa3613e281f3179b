"""``ensure.explicit.internal.resource.naming`` refuses generated names (KIP-1111)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headwater import BufferConfig, Materialized, StreamsBuilder, Suppressed
from headwater.config import StreamsConfig
from headwater.errors import ConfigError, TopologyError

if TYPE_CHECKING:
    from collections.abc import Callable

STRICT = {"ensure.explicit.internal.resource.naming": "true"}


def _key(key: str, _value: str) -> str:
    return key


def _counted(builder: StreamsBuilder) -> None:
    builder.stream("in").group_by(_key).count()


def _joined(builder: StreamsBuilder) -> None:
    table = builder.table("tab", store="tab")
    builder.stream("in").select_key(_key, name="mine").join(table, lambda left, _: left).to("out")


def _unlogged(builder: StreamsBuilder) -> None:
    builder.stream("in").group_by_key().count(Materialized(logging=False))


def _unstored(builder: StreamsBuilder) -> None:
    builder.table("in").to_stream().to("out")


def _repartitioned(builder: StreamsBuilder) -> None:
    builder.stream("in").repartition().to("out")


def _suppressed(builder: StreamsBuilder) -> None:
    limit = Suppressed.until_time_limit(5, BufferConfig.unbounded())
    builder.table("in", store="in").suppress(limit)


def _joined_by_foreign_key(builder: StreamsBuilder) -> None:
    table = builder.table("in", store="in")
    table.join(table, lambda value: value, lambda left, _: left, name="mine")


STORE = "KSTREAM-AGGREGATE-STATE-STORE-0000000002"
REFUSED: dict[str, tuple[Callable[[StreamsBuilder], None], tuple[str, ...]]] = {
    "a count": (
        _counted,
        (f"topics {STORE}-changelog", f"stores {STORE}:", f"repartition topics {STORE}-repart"),
    ),
    # It is called after the operation above, which may be replaced.
    "a join": (_joined, ("repartition topics mine-repartition: pass a name",)),
    "a store without a changelog": (_unlogged, ("names: stores KSTREAM-AGGREGATE-STATE-STORE",)),
    "a table that may be stored one day": (_unstored, ("stores in-STATE-STORE-0000000000",)),
    "a buffer": (_suppressed, ("topics KTABLE-SUPPRESS-STATE-STORE-0000000003-changelog",)),
    "a join that may be stored one day": (
        _joined_by_foreign_key,
        ("stores KTABLE-FK-JOIN-OUTPUT",),
    ),
    "a repartition": (_repartitioned, ("topics KSTREAM-REPARTITION-0000000001-repartition",)),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_has_a_generated_name_is_listed_with_the_way_out(case: str) -> None:
    draw, expected = REFUSED[case]
    builder = StreamsBuilder()
    draw(builder)

    with pytest.raises(TopologyError, match=r"naming is on, and these have generated names") as it:
        builder.build(STRICT)

    assert [part for part in expected if part not in str(it.value)] == []
    builder.build()


def test_named_resources_are_accepted_though_nodes_have_generated_names() -> None:
    builder = StreamsBuilder(STRICT)
    table = builder.table("tab", store="tab")
    stream = builder.stream("in").map(lambda key, value: (value, key))
    stream.group_by_key().count(store="counts").to_stream().to("counts")
    stream.group_by(_key, name="by-key").count(store="more")
    stream.join(table, lambda left, _: left, name="join").to("joined")
    stream.to_table(name="latest", store="latest")

    builder.build()


def test_the_configuration_of_an_application_is_that_of_its_builder() -> None:
    builder = StreamsBuilder(StreamsConfig.parse({"application.id": "app", **STRICT}))
    _counted(builder)

    with pytest.raises(TopologyError, match="generated names"):
        builder.build()


@pytest.mark.parametrize("value", ["yes", "", 1])
def test_anything_but_true_and_false_is_refused(value: object) -> None:
    with pytest.raises(ConfigError, match=r"ensure\.explicit.*true or false"):
        StreamsBuilder().build({"ensure.explicit.internal.resource.naming": value})
