"""What an engine has left of a random application, and whether it is what Java leaves."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

from headwater import ids
from headwater.model.stores import StoreKind
from tests.support.applications import Order
from tests.support.contents import entry_key, listed_key, value_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from headwater.model.stores import StoreSpec
    from tests.support.applications import Application
    from tests.support.thread_rig import Topics

Entry: TypeAlias = "tuple[str | None, int]"
"""Value and timestamp of a record."""
Sent: TypeAlias = "tuple[str | None, str | None, int, tuple[tuple[str, str | None], ...]]"
"""Key, value, timestamp and headers of a record; bytes as hexadecimal digits."""
Listed: TypeAlias = "tuple[str, str, str, int | None]"
"""What a store holds: its name, key, value, and the timestamp if it keeps one."""


@dataclass(slots=True)
class Left:
    """What is left when everything has been read.

    Attributes:
        outputs: by topic that is not internal, in order.
        changelogs: by store and key, the newest record of its changelog; of versions, each.
        places: the partition of each of those.
    """

    outputs: dict[str, list[Sent]] = field(default_factory=lambda: defaultdict(list))
    changelogs: dict[tuple[str, str], Entry] = field(default_factory=dict)
    places: dict[tuple[str, str], int] = field(default_factory=dict)

    def add(self, spec: StoreSpec, key: str, value: str | None, timestamp: int) -> tuple[str, str]:
        """Note a record of a changelog; return under which name."""
        at = spec.name, entry_key(spec, key, timestamp)
        is_timed = not (spec.kind.is_buffer or spec.kind.holds_records)
        self.changelogs[at] = value_of(spec, value), timestamp if is_timed else 0
        return at

    @property
    def stores(self) -> dict[tuple[str, str], Entry]:
        """What stores restored from the changelogs hold."""
        return {at: entry for at, entry in self.changelogs.items() if entry[0] is not None}


@dataclass(frozen=True, slots=True)
class Expected:
    """What Java leaves.

    Attributes:
        parts: of each run of it.
        place: the partition of a store and key.
        orders: by topic that is written, what is known of the order there.
        eventual: stores of which only is known what they hold at the end.
    """

    parts: tuple[Left, ...]
    place: Callable[[str, str], int] = lambda _store, _key: 0
    orders: Mapping[str, Order] = field(default_factory=dict)
    eventual: frozenset[str] = frozenset()

    @property
    def changelogs(self) -> dict[tuple[str, str], Entry]:
        """Of all runs; no two have the same key of a store."""
        found = {at: entry for part in self.parts for at, entry in part.changelogs.items()}
        assert len(found) == sum(len(part.changelogs) for part in self.parts)
        return found

    def outputs(self, topic: str) -> list[list[Sent]]:
        """Return what each run puts out to a topic."""
        return [part.outputs.get(topic, []) for part in self.parts]


def expected(application: Application, ask: Callable[[dict[str, Any]], Any]) -> Expected:
    """Return what becomes of an application.

    Args:
        application: it.
        ask: carries out a request, in Java.
    """
    parts, stores = [], application.stores
    for request in application.requests():
        left, listed = left_by_java(ask(request), stores)
        check_listed(left, listed, stores)
        parts.append(left)
    subscribed = {name for name, spec in stores.items() if spec.kind == StoreKind.SUBSCRIPTIONS}
    eventual = application.eventual | subscribed
    return Expected(tuple(parts), application.place(), application.orders(), eventual)


def left_by_java(
    answer: dict[str, Any], stores: Mapping[str, StoreSpec]
) -> tuple[Left, Counter[Listed]]:
    """Return what Java's records leave, and what its stores hold."""
    assert "error" not in answer, answer["error"]
    left = Left()
    for record in answer["outputs"]:
        if record["topic"].startswith("app-"):
            continue  # internal, below a source by pattern, of which the oracle knows nothing
        headers = tuple((name, value) for name, value in record["headers"])
        sent = (record["key"], record["value"], record["timestamp"], headers)
        left.outputs[record["topic"]].append(sent)
    for record in answer["produced"]:
        store = _store("app", record["topic"])
        if store:
            left.add(stores[store], record["key"], record["value"], record["timestamp"])
    listed = Counter(
        (store, key, value, at)
        for store, entries in answer["stores"].items()
        for key, value, at in entries
    )
    return left, listed


def check_listed(left: Left, listed: Counter[Listed], stores: Mapping[str, StoreSpec]) -> None:
    """See that stores hold what their changelogs bring, but for what windows have outlived.

    What is held back by a suppression is not listed, nor are versions.
    """
    restored: Counter[Listed] = Counter()
    for (store, key), (value, at) in left.changelogs.items():
        spec = stores[store]
        if spec.kind.is_buffer or spec.kind.holds_records or spec.kind.versioned:
            continue
        if value is not None:
            timestamp = at if spec.kind.timestamped else None
            restored[store, listed_key(spec, key), value, timestamp] += 1
    # A global table has no changelog.
    known = {name for name, spec in stores.items() if not spec.kind.versioned}
    listed = Counter({it: count for it, count in listed.items() if it[0] in known})
    assert listed <= restored, listed - restored
    assert all(stores[it[0]].kind.expires for it in restored - listed), restored - listed


def left_on_kafka(
    bootstrap_servers: str,
    app: str,
    stores: Mapping[str, StoreSpec],
    outputs: Collection[str],
    prefix: str,
) -> Left:
    """Read what an application has left on its topics; those that it writes have one partition.

    Args:
        bootstrap_servers: of the broker.
        app: the application id.
        stores: those that have changelogs, by name; each as in Java, where topics have no prefix:
            a table's store bears the name of its topic.
        outputs: the topics that it writes, without ``prefix``.
        prefix: how their names begin.
    """
    left = Left()
    topics = [f"{app}-{store}-changelog" for store in stores]
    topics += [f"{prefix}{topic}" for topic in outputs]
    for topic, partition, sent in _records(bootstrap_servers, topics):
        key, value, timestamp, headers = sent
        store = _store(app, topic)
        if store:
            kind = stores[store].kind
            has_headers = kind.logs_headers or kind.is_buffer or kind.holds_records
            assert headers == () or has_headers, (topic, sent)
            assert key is not None, (topic, sent)
            at = left.add(stores[store], key, value, timestamp)
            assert left.places.setdefault(at, partition) == partition, at
        else:
            assert partition == 0, topic
            left.outputs[topic.removeprefix(prefix)].append(sent)
    return left


def _store(app: str, topic: str) -> str:
    is_changelog = topic.startswith(f"{app}-") and topic.endswith("-changelog")
    return topic.removeprefix(f"{app}-").removesuffix("-changelog") if is_changelog else ""


def is_all_read(topics: Topics, app: str, names: Sequence[str]) -> bool:
    """Whether all of some topics is read: whatever is committed has sent what it sends before."""
    there = topics.admin.list_topics(timeout=30).topics
    if not there.keys() >= set(names):
        return False
    counts = {topic: len(there[topic].partitions) for topic in names}
    read = [ids.TopicPartition(topic, n) for topic in names for n in range(counts[topic])]
    try:
        ends = topics.ends(read, isolation="read_uncommitted")
    except KafkaException:
        return False  # one has been made just now
    committed = {topic: topics.committed(app, topic, counts[topic]) for topic in names}
    return ends == topics.ends(read, isolation="read_uncommitted") and all(
        not end or committed[p.topic][p.partition] == end for p, end in ends.items()
    )


def check_changelogs(left: Left, java: Expected) -> None:
    """See that a restore brings what Java's changelogs bring, each key where it belongs.

    A key that came and went within one commit need not be mentioned. Of a join by foreign key, what
    is there at the end is known, and not the time at which both sides have met.
    """
    wanted, ours = java.changelogs, left.stores
    stores = {at: entry for at, entry in wanted.items() if entry[0] is not None}
    differences = {
        at
        for at in ours.keys() | stores.keys()
        if ours.get(at) != stores.get(at)
        and not (at[0] in java.eventual and _value(ours.get(at)) == _value(stores.get(at)))
    }
    assert not differences, {at: (ours.get(at), stores.get(at)) for at in differences}
    for at, entry in left.changelogs.items():
        assert at[0] in java.eventual or entry == wanted.get(at), (at, entry, wanted.get(at))
        assert left.places[at] == java.place(*at), at


def _value(entry: Entry | None) -> str | None:
    return None if entry is None else entry[0]


def check_outputs(left: Left, java: Expected) -> None:
    """See that the outputs are Java's, record for record.

    What two tasks send to one topic may come in turns of any length; the order of each is Java's.
    """
    topics = {topic for part in (left, *java.parts) for topic, sent in part.outputs.items() if sent}
    for topic in topics:
        sent, parts = left.outputs.get(topic, []), java.outputs(topic)
        match java.orders.get(topic, Order.BY_TASK):
            case Order.BY_TASK:
                assert _is_shuffled(sent, parts), (topic, sent, parts)
            case Order.NONE:
                assert Counter(sent) == Counter(one for part in parts for one in part), topic
            case Order.LAST:
                assert _last(sent) == _last(one for part in parts for one in part), topic
            case Order.UNKNOWN:
                pass


def _last(sent: Iterable[Sent]) -> dict[str | None, str]:
    """Return the last value of each key, unless it is deleted."""
    found = {key: value for key, value, _, _ in sent}
    return {key: value for key, value in found.items() if value is not None}


def _is_shuffled(sent: Sequence[Sent], parts: Sequence[Sequence[Sent]]) -> bool:
    """Whether this is all of the parts, each in its order."""
    reached = {(0,) * len(parts)}
    for one in sent:
        reached = {
            (*at[:number], at[number] + 1, *at[number + 1 :])
            for at in reached
            for number, part in enumerate(parts)
            if part[at[number] : at[number] + 1] == [one]
        }
    return tuple(map(len, parts)) in reached


def _records(bootstrap_servers: str, topics: Iterable[str]) -> list[tuple[str, int, Sent]]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "records",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "log_level": 0,
        }
    )
    there = consumer.list_topics(timeout=60).topics
    left = {(topic, number) for topic in topics for number in there[topic].partitions}
    consumer.assign([TopicPartition(*place, OFFSET_BEGINNING) for place in left])
    found: list[tuple[str, int, Sent]] = []
    while left:
        message = consumer.poll(60)
        assert message is not None, f"no answer from {sorted(left)}"
        error, place = message.error(), (message.topic() or "", message.partition() or 0)
        if error is not None:
            assert error.code() == KafkaError._PARTITION_EOF, error
            left.discard(place)
            continue
        given: Any = message.headers() or ()
        headers = tuple((name, _hex(data)) for name, data in given)
        sent = (_hex(message.key()), _hex(message.value()), message.timestamp()[1], headers)
        found.append((*place, sent))
    consumer.close()
    return found


def _hex(data: bytes | str | None) -> str | None:
    assert not isinstance(data, str)
    return None if data is None else data.hex()
