"""Stores as Java programs build them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headwater import (
    KeyValueBytesStoreSupplier,
    Serdes,
    StoreKind,
    Stores,
    StoreSpec,
    Topology,
    TopologyError,
)

if TYPE_CHECKING:
    from collections.abc import Callable

PLAIN, STAMPED = StoreKind.KEY_VALUE, StoreKind.TIMESTAMPED_KEY_VALUE


@pytest.mark.parametrize(
    ("supplier", "build", "kind", "persistent"),
    [
        (Stores.persistent_key_value_store, Stores.key_value_store_builder, PLAIN, True),
        (
            Stores.persistent_timestamped_key_value_store,
            Stores.timestamped_key_value_store_builder,
            STAMPED,
            True,
        ),
        (Stores.in_memory_key_value_store, Stores.key_value_store_builder, PLAIN, False),
        (
            Stores.in_memory_key_value_store,
            Stores.timestamped_key_value_store_builder,
            STAMPED,
            False,
        ),
    ],
)
def test_a_builder_makes_a_logged_store_without_cache(
    supplier: Callable[[str], KeyValueBytesStoreSupplier],
    build: Callable[..., StoreSpec],
    kind: StoreKind,
    persistent: bool,
) -> None:
    assert build(supplier("s"), Serdes.string, Serdes.long) == StoreSpec(
        name="s",
        kind=kind,
        persistent=persistent,
        key_serde=Serdes.string,
        value_serde=Serdes.long,
        caching=False,
        logging=True,
    )


def test_what_is_built_can_be_changed() -> None:
    store = Stores.key_value_store_builder(Stores.persistent_key_value_store("s"))

    cached = store.with_caching_enabled()
    logged = store.with_logging_enabled({"segment.bytes": "1"})
    unlogged = logged.with_logging_disabled()

    assert (cached.caching, cached.with_caching_disabled()) == (True, store)
    assert logged.topic_config == {"segment.bytes": "1"}
    assert (unlogged.logging, unlogged.topic_config) == (False, {})
    assert unlogged.with_logging_enabled() == store


def test_a_supplier_and_a_builder_that_differ_in_timestamps_are_refused() -> None:
    plain = Stores.persistent_key_value_store("s")
    stamped = Stores.persistent_timestamped_key_value_store("s")

    with pytest.raises(TopologyError, match=r"pass Stores.persistent_timestamped_key_value"):
        Stores.timestamped_key_value_store_builder(plain)
    with pytest.raises(TopologyError, match=r"pass Stores.persistent_key_value_store\('s'\)"):
        Stores.key_value_store_builder(stamped)


def test_a_name_that_is_not_legal_is_refused() -> None:
    with pytest.raises(TopologyError, match="may only hold"):
        Stores.in_memory_key_value_store("a/b")


def test_a_topology_reports_the_changelog_of_a_built_store() -> None:
    store = Stores.key_value_store_builder(Stores.in_memory_key_value_store("s"))
    topology = Topology().add_source("in", "in").add_processor("p", lambda record: record, "in")
    topology.add_state_store(store.with_logging_enabled({"a": "b"}), "p")

    (changelog,) = topology.report("app").subtopologies[0].changelogs

    assert (changelog.name, changelog.configs) == ("app-s-changelog", {"a": "b"})
