"""What a storm must leave, as Java says: outputs and stores, whatever order partitions had.

Of the counts of a window every update comes once and in order; a window that has closed comes once;
every pair, and every view without a click, comes once. Joins by foreign key tell what holds in the
end, and what is summed of them shows whether one change was lost or doubled on its way.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from tests.chaos.proof import read_committed
from tests.support import storming
from tests.support.reading import held

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

Row: TypeAlias = "tuple[bytes, bytes | None, int]"
"""Key, value and time of a record."""

STORES: Final = (
    "windows",
    "final-store",
    "pairs-this-join-store",
    "pairs-outer-other-join-store",
    "pairs-left-shared-join-store",
    "orders",
    "customers",
    "buying-subscription-store",
    "bought",
    "spent",
)
_NUMBER_BYTES: Final = 4
_END: Final = storming.END.encode()


@dataclass(slots=True)
class Outcome:
    """What an application has left.

    Attributes:
        outputs: by topic, in the order of each partition.
        changelogs: by store and key, the newest value and its time.
    """

    outputs: dict[str, list[Row]] = field(default_factory=lambda: defaultdict(list))
    changelogs: dict[str, dict[bytes, tuple[bytes | None, int]]] = field(
        default_factory=lambda: defaultdict(dict)
    )

    def put_out(self, topic: str, key: bytes, value: bytes | None, timestamp: int) -> None:
        """Take in a record of an output; what is made of the end is not looked at."""
        if _END not in key:
            self.outputs[topic].append((key, value, timestamp))

    def change(self, store: str, key: bytes, value: bytes | None, timestamp: int) -> None:
        """Take in a record of a changelog."""
        if _END not in key:
            self.changelogs[store][key] = value, timestamp

    def stored(self, store: str) -> dict[bytes, tuple[bytes | None, int]]:
        """Return what a store restored from its changelog holds, but for what may differ.

        Numbers of duplicates, the partition that a subscription came from, what waits in a buffer
        but not for whom, and times of joins that depend on which side was first.
        """
        rows = {key: row for key, row in self.changelogs[store].items() if row[0] is not None}
        match store:
            case "pairs-this-join-store" | "pairs-outer-other-join-store":
                return {key[:-_NUMBER_BYTES]: row for key, row in rows.items()}
            case "buying-subscription-store":
                return {key: (_without_partition(value), at) for key, (value, at) in rows.items()}
            case "final-store":
                return dict.fromkeys(rows, (None, 0))
            case "bought" | "spent":
                return {key: (value, 0) for key, (value, _) in rows.items()}
            case _:
                return rows


def _without_partition(subscription: bytes | None) -> bytes | None:
    return None if subscription is None else subscription[:-_NUMBER_BYTES]


def differences(found: Outcome, wanted: Outcome) -> list[str]:
    """Return what is wrong with what was found, in one line each; nothing if all is well."""
    said: list[str] = []
    for topic, view in _VIEWS.items():
        mine, theirs = view(found.outputs[topic]), view(wanted.outputs[topic])
        said += _differing(f"output {topic}", mine, theirs)
    for store in STORES:
        said += _differing(f"store {store}", found.stored(store), wanted.stored(store))
    return said


def _differing(what: str, found: Mapping[Any, Any], wanted: Mapping[Any, Any]) -> Iterable[str]:
    for key in found.keys() | wanted.keys():
        if found.get(key) != wanted.get(key):
            yield f"{what}, {key!r}: {found.get(key)!r:.300}, wanted {wanted.get(key)!r:.300}"


def _each(rows: Iterable[Row]) -> Mapping[Any, Any]:
    """Of each key all values and their times in order."""
    found: defaultdict[bytes, list[Any]] = defaultdict(list)
    for key, value, timestamp in rows:
        found[key].append((value, timestamp))
    return found


def _last(rows: Iterable[Row]) -> Mapping[Any, Any]:
    """Of each key what it has in the end."""
    found = {key: value for key, value, _ in rows}
    return {key: value for key, value in found.items() if value is not None}


_VIEWS: Final[dict[str, Callable[[list[Row]], Mapping[Any, Any]]]] = {
    "counts": _each,
    "closed": _each,
    "pairs": Counter,
    "bought": _last,
    "spent": _last,
    "named": Counter,
}


def question(prefix: str, records: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what the oracle is asked.

    Args:
        prefix: of topics, and the application id.
        records: in its format, those of each partition in order.
    """
    inputs: list[Mapping[str, Any]] = []
    for record in records:
        ends = record["key"] == _END.hex()
        if ends and inputs and inputs[-1]["timestamp"] != record["timestamp"]:
            inputs.append({"advance_ms": 5_000, "timestamp": record["timestamp"]})
        inputs.append(record)
    return {
        "app_id": prefix,
        "config": {"statestore.cache.max.bytes": "0"},
        "key": "string",
        "value": "string",
        "steps": storming.steps(prefix),
        "inputs": inputs,
    }


def told(prefix: str, answer: Mapping[str, Any]) -> Outcome:
    """Return what the answer to such a request leaves."""
    assert "error" not in answer, answer["error"]
    outcome = Outcome()
    for record in answer["produced"]:
        value = None if record["value"] is None else bytes.fromhex(record["value"])
        key, timestamp = bytes.fromhex(record["key"] or ""), record["timestamp"] or 0
        name = record["topic"].removeprefix(f"{prefix}-")
        if name.endswith("-changelog"):
            outcome.change(name.removesuffix("-changelog"), key, value, timestamp)
        elif name in storming.OUTPUTS:
            outcome.put_out(name, key, value, timestamp)
    return outcome


def sent(bootstrap_servers: str, prefix: str) -> list[dict[str, Any]]:
    """Return what the sources hold as records of the oracle, by time as far as partitions are."""
    partitions: defaultdict[tuple[str, int], list[dict[str, Any]]] = defaultdict(list)
    for source in (storming.GLOBAL, *storming.SOURCES):
        topic = f"{prefix}-{source}"
        for message in held(bootstrap_servers, topic, isolation="read_uncommitted"):
            key, value = message.key(), message.value()
            record = {
                "topic": topic,
                "key": None if key is None else key.hex(),
                "value": None if value is None else value.hex(),
                "timestamp": message.timestamp()[1],
            }
            partitions[topic, message.partition() or 0].append(record)
    return list(heapq.merge(*partitions.values(), key=itemgetter("timestamp")))


def left(bootstrap_servers: str, prefix: str) -> Outcome:
    """Read what an application has left on its topics."""
    outcome = Outcome()
    for output in storming.OUTPUTS:
        for _, _, key, value, at in read_committed(bootstrap_servers, f"{prefix}-{output}"):
            assert key is not None
            outcome.put_out(output, key, value, at)
    for store in STORES:
        for _, _, key, value, at in read_committed(
            bootstrap_servers, f"{prefix}-{store}-changelog"
        ):
            assert key is not None
            outcome.change(store, key, value, at)
    return outcome
