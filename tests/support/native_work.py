"""Sends and reads records on the path in C, round after round; says how much memory it has.

    python -m tests.support.native_work BOOTSTRAP TOPIC RECORDS

Of each round one record goes to TOPIC-refused, which takes none of its size. Keys of a record cache
are updated in C, too, and every record is read once more as one of a changelog. The last line is
JSON: bytes of memory after a tenth of the rounds, and after all of them.
"""

from __future__ import annotations

import json
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from headwater.kafka.errors import OutputRefusedError
from headwater.ports import Timestamps
from headwater.serde import Serdes

if TYPE_CHECKING:
    from headwater.ids import TopicPartition
    from headwater.kafka.consumer import PartitionConsumer
from tests.support.clients import Clients
from tests.support.stores import Recorder, Updates, budget_of, build_store

ROUND: Final = 10_000
_PATIENCE_S: Final = 300.0
_KEYS: Final = (None, b"", b"key", bytes(300))
_HEADERS: Final = [("name", b"value"), ("", None), ("caf\u00e9", bytes(20))]


def main(bootstrap: str, topic: str, records: int) -> None:
    clients = Clients(bootstrap, topic, headwater_native="true")
    producer = clients.producer()
    refused: list[type] = []
    send = producer.sender(topic)
    send_large = producer.sender(f"{topic}-refused", lambda *told: refused.append(type(told[0])))
    consumer: PartitionConsumer = clients.consumer()
    consumer.assign({clients.first: 0})
    restore: PartitionConsumer = clients.consumer("restore")
    restore.assign({clients.first: 0})
    update = _updates()
    rounds, position, sizes = max(records // ROUND, 10), 0, []
    for number in range(rounds):
        for index in range(ROUND):
            headers = None if index % 10 else _HEADERS
            send(_KEYS[index % 4], b"%d" % index, 1 + number, headers, 0)
        send_large(b"large", bytes(2_000), 1, None, 0)
        _flush(producer)
        position += ROUND
        found, patience = 0, time.monotonic() + _PATIENCE_S
        while (consumer.position(clients.first) or 0) < position:
            assert time.monotonic() < patience, f"{found} records of {ROUND} came"
            for _, batch in consumer.poll(0.1):
                found += len(batch)
                for _, timestamp, key, value, headers in batch:
                    update(str(key), value, timestamp, headers)
        assert found == ROUND, f"{found} records in place of {ROUND}"
        _restore(restore, clients.first, position)
        assert len(refused) == number + 1, f"{len(refused)} refused in {number + 1} rounds"
        if number + 1 in (rounds // 10, rounds):
            sizes.append(_memory_bytes())
    consumer.close()
    restore.close()
    producer.discard()
    print(json.dumps(sizes), flush=True)


def _restore(consumer: PartitionConsumer, partition: TopicPartition, end: int) -> None:
    """Read up to an offset what stores of three kinds would be given."""
    newest: list[Any] = []
    patience = time.monotonic() + _PATIENCE_S
    while (consumer.position(partition) or 0) < end:
        assert time.monotonic() < patience, f"{partition} does not come to {end}"
        for _, run in consumer.poll_runs(0.1):
            newest = newest or [run.newest(), run.newest(headers=True), run.newest(versions=True)]
            for each in newest:
                each.add(run.before(end))
    newest[0].entries(timestamped=True)
    assert [len(each.rows()) for each in newest] == [3, 3, 3], "there are three keys"


def _flush(producer: Any) -> None:
    """Deliver all, but for the record that the broker refuses."""
    try:
        producer.flush(60)
    except OutputRefusedError:
        producer.abort_transaction(60)
        producer.settle_refused()


def _updates() -> Any:
    """Return what updates a key of a record cache that holds few of them."""
    Updates.updater = import_module("headwater_native").RecordUpdater
    store = build_store(Recorder(), cache=budget_of(1_000), value=Serdes.long)
    store.on_change(lambda *_change: None, send_old=False)
    return store.updater(lambda _key, _value, count: count + 1, Timestamps.MAX, lambda: 0)


def _memory_bytes() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("this system does not say how much memory a process has")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
