"""Stores of the user's own, under processors and tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.stores import DictStore

from headwater import (
    DslKeyValueParams,
    DslStoreSuppliers,
    KeyValueBytesStoreSupplier,
    Materialized,
    Serdes,
    StateError,
    Stores,
    StreamsBuilder,
    TopologyError,
)
from headwater.testing import TopologyTestDriver

if TYPE_CHECKING:
    from headwater import KeyValueBytesStore, Topology

MADE: list[DictStore] = []
TEXTS = {"default.key.serde": "string", "default.value.serde": "string"}


class Own(KeyValueBytesStoreSupplier):
    """Makes stores over dictionaries."""

    def get(self) -> KeyValueBytesStore:
        MADE.append(DictStore())
        return MADE[-1]


class AllOwn(DslStoreSuppliers):
    """Has them for every table."""

    def key_value_store(self, params: DslKeyValueParams) -> KeyValueBytesStoreSupplier:
        return Own(name=params.name)


def counted(materialized: Materialized[Any, Any]) -> Topology:
    builder = StreamsBuilder()
    table = builder.stream("in").group_by_key().count(materialized)
    table.to_stream().to("out", value_serde=Serdes.long)
    return builder.build()


@pytest.mark.parametrize("caching", [True, False])
@pytest.mark.parametrize("by_setting", [True, False])
def test_a_table_is_kept_in_a_store_of_ones_own(*, caching: bool, by_setting: bool) -> None:
    MADE.clear()
    stored: Materialized[Any, Any] = (
        Materialized.as_("counts") if by_setting else Materialized.as_(Own(name="counts"))
    )
    stored = stored if caching else stored.with_caching_disabled()
    config = {**TEXTS, **({"dsl.store.suppliers.class": AllOwn} if by_setting else {})}

    with TopologyTestDriver(counted(stored), config) as driver:
        source = driver.create_input_topic("in", Serdes.string, Serdes.string)
        for key in ("a", "b", "a"):
            source.pipe_input(key, "x", timestamp=5)
        out = driver.create_output_topic("out", Serdes.string, Serdes.long)
        assert out.read_key_values_to_map() == {"a": 2, "b": 1}
        found = driver.get_timestamped_key_value_store("counts")
        assert [(key, told.value) for key, told in found.all()] == [("a", 2), ("b", 1)]
    (made,) = MADE
    held = list(made.range(None, None))
    stamp = (5).to_bytes(8, "big")
    assert held == [(b"a", stamp + (2).to_bytes(8, "big")), (b"b", stamp + (1).to_bytes(8, "big"))]
    assert made.flushes == 3


def test_a_processor_has_a_store_of_ones_own() -> None:
    spec = Stores.key_value_store_builder(Own(name="kept"), Serdes.string, Serdes.string)

    assert spec.make_store is not None
    assert not spec.persistent
    assert not spec.caching


def test_what_is_no_store_is_named() -> None:
    class Wrong(KeyValueBytesStoreSupplier):
        def get(self) -> Any:
            return {}

    with (
        pytest.raises(StateError, match="which has no put, range, reverse_range"),
        TopologyTestDriver(counted(Materialized.as_(Wrong(name="counts"))), TEXTS),
    ):
        pass
    with pytest.raises(TopologyError, match="leave out persistent"):
        Own(name="kept", persistent=True)
    with pytest.raises(TopologyError, match="made by the engine"):
        Stores.in_memory_key_value_store("kept").get()
