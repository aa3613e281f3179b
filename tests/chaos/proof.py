"""What must hold after any chaos, read back from Kafka and from the disks."""

from __future__ import annotations

import struct
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from headwater.model.stores import StoreSpec
from headwater.state.directory import StateDirectory
from headwater.state.expiry import Expiry, time_at
from headwater.state.keys import suffix_bytes_of
from headwater.state.restore import open_backend
from tests.support.reading import held

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

_COUNT = struct.Struct(">q")


def read_committed(
    bootstrap_servers: str, topic: str
) -> Iterator[tuple[int, int, bytes | None, bytes | None, int]]:
    """Every committed record of a topic, in the order of each partition.

    Yields partition, offset, key, value, timestamp.
    """
    for message in held(bootstrap_servers, topic):
        yield (
            message.partition() or 0,
            message.offset() or 0,
            message.key(),
            message.value(),
            message.timestamp()[1],
        )


def counted_once_each(bootstrap_servers: str, topic: str, sent: Mapping[str, int]) -> None:
    """Check that each key's outputs are 1, 2, 3 ... up to what was sent: each update once."""
    outputs: defaultdict[str, list[int]] = defaultdict(list)
    for _, _, key, value, _ in read_committed(bootstrap_servers, topic):
        assert key is not None
        assert value is not None
        outputs[key.decode()].append(_COUNT.unpack(value)[0])
    wrong = {
        key: (sent.get(key, 0), found[:3], found[-3:])
        for key, found in outputs.items()
        if found != list(range(1, sent.get(key, 0) + 1))
    }
    assert not wrong, dict(list(wrong.items())[:10])
    assert outputs.keys() == sent.keys()


def counted_at_least(bootstrap_servers: str, topic: str, sent: Mapping[str, int]) -> int:
    """Check that the last count of each key is what was sent, or more; return how many more."""
    last: dict[str, int] = {}
    for _, _, key, value, _ in read_committed(bootstrap_servers, topic):
        assert key is not None
        assert value is not None
        last[key.decode()] = _COUNT.unpack(value)[0]
    lost = {
        key: (number, last.get(key, 0)) for key, number in sent.items() if last.get(key, 0) < number
    }
    assert lost == {}
    return sum(last.values()) - sum(sent.values())


def stores_equal_their_changelogs(
    bootstrap_servers: str,
    application_id: str,
    store: str,
    state_dirs: list[Path],
    *,
    spec: StoreSpec | None = None,
) -> int:
    """Every store on every disk holds exactly its changelog up to its position.

    One store of each partition, that of the task's last owner, holds all of it. Of windows, what
    has expired may be gone. Return how many were compared.

    Args:
        bootstrap_servers: of the broker.
        application_id: of the application.
        store: its name.
        state_dirs: every disk.
        spec: what the store is, unless it is a table's.
    """
    spec = spec or StoreSpec(name=store)
    changelog: defaultdict[int, list[tuple[int, bytes, bytes | None, int]]] = defaultdict(list)
    for number, offset, key, value, timestamp in read_committed(
        bootstrap_servers, f"{application_id}-{store}-changelog"
    ):
        assert key is not None
        changelog[number].append((offset, key, value, timestamp))
    compared = 0
    furthest: Counter[int] = Counter()
    for root in state_dirs:
        directory = StateDirectory(root, application_id)
        for stored in directory.stored():
            if stored.position is None or stored.store != store:
                continue
            place = directory.store(stored.task, store)
            backend = open_backend(spec, place, holder="the proof")
            held = dict(backend.range(None, None))
            backend.close()
            replayed: dict[bytes, bytes] = {}
            for offset, key, value, timestamp in changelog[stored.task.partition]:
                if offset >= stored.position.offset:
                    break
                if value is None:
                    replayed.pop(key, None)
                else:
                    time = _COUNT.pack(timestamp) if spec.kind.timestamped else b""
                    replayed[key] = time + value
            if spec.kind.expires:
                held, replayed = _unexpired(spec, held), _unexpired(spec, replayed)
            differing = {
                key: (held.get(key), replayed.get(key))
                for key in held.keys() | replayed.keys()
                if held.get(key) != replayed.get(key)
            }
            assert differing == {}, (root, stored, Counter(map(type, differing.values())))
            compared += 1
            number = stored.task.partition
            furthest[number] = max(furthest[number], stored.position.offset)
    behind = {
        number: (furthest[number], records[-1][0])
        for number, records in changelog.items()
        if furthest[number] <= records[-1][0]
    }
    assert behind == {}, "partition: (furthest position, last record)"
    return compared


def _unexpired(spec: StoreSpec, rows: dict[bytes, bytes]) -> dict[bytes, bytes]:
    """Leave out what has expired by the time of the rows themselves."""
    suffix = suffix_bytes_of(spec)
    times = {key: time_at(key, suffix) for key in rows}
    oldest = Expiry.of(spec).oldest_read(max(times.values(), default=0))
    return {key: row for key, row in rows.items() if times[key] >= oldest}
