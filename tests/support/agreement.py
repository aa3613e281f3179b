"""What an engine has left of a random application, and whether it is what Java leaves."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

Entry: TypeAlias = "tuple[str | None, int]"
"""Value and timestamp of a record."""
Sent: TypeAlias = "tuple[str | None, str | None, int, tuple[tuple[str, str | None], ...]]"
"""Key, value, timestamp and headers of a record; bytes as hexadecimal digits."""


@dataclass(slots=True)
class Left:
    """What is left when everything has been read.

    Attributes:
        outputs: by topic that is not internal, in order.
        changelogs: by store and key, the newest record of its changelog.
    """

    outputs: dict[str, list[Sent]] = field(default_factory=lambda: defaultdict(list))
    changelogs: dict[tuple[str, str], Entry] = field(default_factory=dict)

    @property
    def stores(self) -> dict[tuple[str, str], Entry]:
        """What stores restored from the changelogs hold."""
        return {at: entry for at, entry in self.changelogs.items() if entry[0] is not None}


def left_by_java(answer: dict[str, Any]) -> tuple[Left, dict[tuple[str, str], Entry]]:
    """Return what Java's records leave, and what its stores hold."""
    assert "error" not in answer, answer["error"]
    left = Left()
    for record in answer["outputs"]:
        headers = tuple((name, value) for name, value in record["headers"])
        sent = (record["key"], record["value"], record["timestamp"], headers)
        left.outputs[record["topic"]].append(sent)
    for record in answer["produced"]:
        store = _store("app", record["topic"])
        if store:
            left.changelogs[store, record["key"]] = record["value"], record["timestamp"]
    stores = {
        (store, key): (value, at)
        for store, entries in answer["stores"].items()
        for key, value, at in entries
    }
    return left, stores


def left_on_kafka(
    bootstrap_servers: str,
    app: str,
    stores: Mapping[str, str],
    outputs: Collection[str],
    prefix: str,
) -> Left:
    """Read what an application has left on its topics, each of one partition.

    Args:
        bootstrap_servers: of the broker.
        app: the application id.
        stores: the stores that have changelogs, and what each is called in Java, where topics have
            no prefix: a table's store bears the name of its topic.
        outputs: the topics that it writes, without ``prefix``.
        prefix: how their names begin.
    """
    left = Left()
    topics = [f"{app}-{store}-changelog" for store in stores]
    topics += [f"{prefix}{topic}" for topic in outputs]
    for topic, sent in _records(bootstrap_servers, topics):
        key, value, timestamp, headers = sent
        store = _store(app, topic)
        if store:
            assert headers == (), (topic, sent)
            assert key is not None, (topic, sent)
            left.changelogs[stores[store], key] = value, timestamp
        else:
            left.outputs[topic.removeprefix(prefix)].append(sent)
    return left


def _store(app: str, topic: str) -> str:
    is_changelog = topic.startswith(f"{app}-") and topic.endswith("-changelog")
    return topic.removeprefix(f"{app}-").removesuffix("-changelog") if is_changelog else ""


def check_changelogs(left: Left, java: Left) -> None:
    """See that a restore brings what Java's changelogs bring.

    A key that came and went within one commit need not be mentioned.
    """
    assert left.stores == java.stores
    for at, entry in left.changelogs.items():
        assert entry == java.changelogs.get(at), at


def check_outputs(left: Left, java: Left) -> None:
    """See that the outputs are Java's, record for record."""
    assert {topic: sent for topic, sent in left.outputs.items() if sent} == dict(java.outputs)


def _records(bootstrap_servers: str, topics: Iterable[str]) -> list[tuple[str, Sent]]:
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
    places = [TopicPartition(topic, 0, OFFSET_BEGINNING) for topic in topics]
    consumer.assign(places)
    found: list[tuple[str, Sent]] = []
    left = {place.topic for place in places}
    while left:
        message = consumer.poll(60)
        assert message is not None, f"no answer from {sorted(left)}"
        error = message.error()
        if error is not None:
            assert error.code() == KafkaError._PARTITION_EOF, error
            left.discard(message.topic() or "")
            continue
        given: Any = message.headers() or ()
        headers = tuple((name, _hex(data)) for name, data in given)
        sent = (_hex(message.key()), _hex(message.value()), message.timestamp()[1], headers)
        found.append((message.topic() or "", sent))
    consumer.close()
    return found


def _hex(data: bytes | str | None) -> str | None:
    assert not isinstance(data, str)
    return None if data is None else data.hex()
