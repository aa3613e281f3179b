"""What stores here answer to the interactive queries of a request, as the oracle shows it.

``tests/java/oracle/Queries.java`` is its twin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from headwater import (
    KeyQuery,
    MultiVersionedKeyQuery,
    Position,
    RangeQuery,
    TimestampedKeyQuery,
    TimestampedRangeQuery,
    ValueAndTimestamp,
    VersionedKeyQuery,
    Windowed,
    WindowKeyQuery,
    WindowRangeQuery,
)
from headwater.native.queries.values import PartitionAnswer
from headwater.processor.resolving import store_serdes
from headwater.service.queries.client import QueryIterator, Rows
from headwater.service.queries.forms import QueriedVersion, StoreForms, form_of
from headwater.state.committed import answer, may_ask

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from headwater import Topology
    from headwater.state.store import LayeredStore
    from headwater.testing import TopologyTestDriver


def answers(
    driver: TopologyTestDriver, topology: Topology, queries: Iterable[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return the answers of a driver's stores, which have committed."""
    return [_answer(driver, topology, query) for query in queries]


def _answer(
    driver: TopologyTestDriver, topology: Topology, given: Mapping[str, Any]
) -> dict[str, Any]:
    name = given["store"]
    spec, found = topology.stores[name], driver._found(name, 0)
    assert found is not None
    query = query_of(given)
    forms, form = StoreForms(spec, *store_serdes(driver.config, spec), name), form_of(query)
    if not form.knows(spec, query):
        return {"failure": "UNKNOWN_QUERY_TYPE"}
    ask = form.ask(forms, query)
    assert may_ask(spec, ask)
    rows = list(answer(spec, cast("LayeredStore", found.store).committed, ask))
    whole = PartitionAnswer(partition=0, position=Position(), rows=rows)
    result = form.result(forms, Rows(whole, None))
    shown = result if isinstance(result, QueryIterator) else [result]
    return {"found": [_shown(one) for one in shown]}


def query_of(given: Mapping[str, Any]) -> Any:  # noqa: PLR0911 - one case per query
    """Return the query that a request describes."""
    key, low, high = given.get("key"), given.get("low"), given.get("high")
    first, last = given.get("from", 0), given.get("to", 0)
    match given["query"]:
        case "key":
            return KeyQuery.with_key(key)
        case "timestamped_key":
            return TimestampedKeyQuery.with_key(key)
        case "range" | "timestamped_range" as kind:
            of = RangeQuery if kind == "range" else TimestampedRangeQuery
            ranged = of.with_range(low, high)
            return ranged.with_descending_keys() if given.get("descending") else ranged
        case "window_key":
            return WindowKeyQuery.with_key_and_window_start_range(key, first, last)
        case "window_range":
            return WindowRangeQuery.with_window_start_range(first, last)
        case "sessions":
            return WindowRangeQuery.with_key(key)
        case "version":
            version = VersionedKeyQuery.with_key(key)
            return version.as_of(given["as_of"]) if "as_of" in given else version
        case "versions":
            versions = MultiVersionedKeyQuery.with_key(key)
            versions = versions.from_time(first) if "from" in given else versions
            versions = versions.to_time(last) if "to" in given else versions
            if given.get("descending"):
                return versions.with_descending_timestamps()
            return versions.with_ascending_timestamps()
    raise AssertionError(given)


def _shown(value: Any) -> str:
    match value:
        case None:
            return "null"
        case QueriedVersion():
            until = "" if value.valid_to is None else value.valid_to
            return f"{_shown(value.value)}@{value.timestamp}..{until}"
        case ValueAndTimestamp():
            return f"{_shown(value.value)}@{value.timestamp}"
        case Windowed():
            return f"{_shown(value.key)}[{value.window.start_ms},{value.window.end_ms}]"
        case tuple():
            return f"{_shown(value[0])}={_shown(value[1])}"
    return str(value)
