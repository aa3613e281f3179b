"""Generated names of internal topics and stores, where an application refuses them (KIP-1111).

A generated name has a number in it, which changes with the operations drawn before: a topology that
grows would begin with new topics and empty stores.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from headwater.dsl.calls import (
    GlobalStore,
    JoinedStreams,
    Processor,
    Repartition,
    SuppressedTable,
    Table,
)
from headwater.errors import TopologyError
from headwater.model.stores import StoreSpec
from headwater.topology_settings import EXPLICIT_NAMING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headwater.dsl.calls import Calls, Part

_GENERATED: Final = re.compile(
    r".*-STATE-STORE-[0-9]{10}|K(?:STREAM|TABLE)-[A-Z-]+-[0-9]{10}(?:-store|-Buffer)?"
)


def check_names(calls: Calls) -> None:
    """Refuse generated names of repartition topics, stores and their changelogs.

    A store counts also if the table may do without it, and so may one day get it.

    Raises:
        TopologyError: which says what has no name, and how it gets one.
    """
    stores = [store for call in calls for store in _stores(call.part) if _is_generated(store)]
    lines = [
        _line(
            "changelog topics",
            (f"{store.name}-changelog" for store in stores if store.logging),
            ": name what suppresses with with_name('final')"
            if any(store.kind.is_buffer for store in stores)
            else "",
        ),
        _line(
            "stores",
            # As in Java, the buffer of a suppression counts for its changelog alone.
            (store.name for store in stores if not store.kind.is_buffer),
            ": pass a store name, store='counts' or Materialized(store='counts'), which names the "
            "changelog, too",
        ),
        _line(
            "repartition topics",
            (call.part.names.topic for call in calls if _is_unnamed(call.part)),  # type: ignore[union-attr]
            ": pass a name to group_by(), group_by_key(), join(), to_table() or repartition(), "
            "name='by-user'",
        ),
    ]
    if any(lines):
        raise TopologyError(
            f"{EXPLICIT_NAMING} is on, and these have generated names: "
            + "; ".join(line for line in lines if line)
        )


def _stores(part: Part) -> tuple[StoreSpec, ...]:
    if isinstance(part, SuppressedTable):
        return (part.buffer,) if part.buffer.logging else ()
    if isinstance(part, Table):
        return () if part.store is None else (part.store,)
    if isinstance(part, JoinedStreams):
        return tuple(filter(None, (part.left, part.right, part.unmatched)))
    if isinstance(part, GlobalStore):
        return (replace(part.spec, logging=False),)
    if isinstance(part, Processor):
        return tuple(store for store in part.stores if isinstance(store, StoreSpec))
    return ()


def _is_generated(store: StoreSpec) -> bool:
    return _GENERATED.fullmatch(store.name) is not None


def _is_unnamed(part: Part) -> bool:
    # What KTable.group_by repartitions is called like the store, which is enough to complain about.
    return isinstance(part, Repartition) and not part.changes and not part.names.is_given


def _line(what: str, names: Iterable[str], advice: str) -> str:
    listed = ", ".join(dict.fromkeys(names))
    return f"{what} {listed}{advice}" if listed else ""
