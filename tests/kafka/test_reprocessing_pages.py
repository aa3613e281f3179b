"""The commands of docs/reprocessing-in-place.md and docs/reprocessing-side-by-side.md, in order."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml
from confluent_kafka import Producer
from tests.support.pages import blocks
from tests.support.reading import held
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

IN_PLACE = blocks("reprocessing-in-place.md")
SIDE_BY_SIDE = blocks("reprocessing-side-by-side.md")
STREAM_APPS = [
    *blocks("reprocessing-in-place.md", "yaml"),
    *blocks("reprocessing-side-by-side.md", "yaml"),
]
ORDERS = {b"ann": (5, 7), b"bob": (3, -1), b"eve": (2, 2)}


class Reader:
    """Somebody who follows a page in a directory."""

    def __init__(self, directory: Path, servers: str) -> None:
        self.directory, self.servers = directory, servers
        self.environment = {
            **os.environ,
            "HEADWATER_HOME": str(directory / "home"),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        }

    def write(self, block: str) -> None:
        """Write a StreamApp into a file of its name; on the broker of the test."""
        resource = yaml.safe_load(block)
        resource["spec"]["kafka"]["bootstrapServers"] = self.servers
        resource["spec"]["config"] = {"commit.interval.ms": 200}
        file = self.directory / f"{resource['metadata']['name']}.yaml"
        file.write_text(yaml.safe_dump(resource))

    def run(self, command: str, *, code: int = 0) -> str:
        done = subprocess.run(
            command.split(),
            cwd=self.directory,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        assert done.returncode == code, (command, done.stdout, done.stderr)
        return done.stdout

    def is_read(self, app: str) -> bool:
        (found,) = json.loads(self.run(f"headwater lag {app} -o json"))
        return all(one["committed"] == one["end"] for one in found["partitions"])


@pytest.fixture
def reader(tmp_path: Path, bootstrap_servers: str) -> Iterator[Reader]:
    found = Reader(tmp_path, bootstrap_servers)
    yield found
    found.run("headwater down")


@pytest.mark.sampled
def test_an_application_is_reset_then_replaced_as_the_pages_say(
    reader: Reader, bootstrap_servers: str
) -> None:
    commands = [line for block in IN_PLACE for line in block.splitlines()]
    up, lag, groups, dry_run, reset, up_again = commands
    reader.write(STREAM_APPS[0])
    reader.run(up)
    feed(bootstrap_servers)
    wait_for(lambda: reader.is_read("totals"), what="the orders to be read", timeout_s=60)
    assert "TOTAL" in reader.run(lag)
    assert "Native" in reader.run(groups)
    before = written(bootstrap_servers, "totals")
    assert before == {b"ann": 12, b"bob": 2, b"eve": 4}
    count = len(list(held(bootstrap_servers, "totals")))
    plan = [line.split() for line in reader.run(dry_run).splitlines()[1:]]
    assert {row[3] for row in plan} == {"0"}
    assert reader.is_read("totals")
    assert "totals is reset" in reader.run(reset)
    reader.run(up_again)
    wait_for(lambda: reader.is_read("totals"), what="the orders to be read again", timeout_s=60)
    assert written(bootstrap_servers, "totals") == before
    assert len(list(held(bootstrap_servers, "totals"))) > count

    up_2, diff, promote = [line for block in SIDE_BY_SIDE for line in block.splitlines()]
    reader.write(STREAM_APPS[1])
    reader.run(up_2)
    report = reader.run(diff, code=1)
    assert "different   'bob': 2 -> 3" in report
    assert report.splitlines()[1].split()[:6] == ["totals", "totals-2", "2", "1", "0", "0"]
    assert "<svg" in (reader.directory / "totals.svg").read_text()
    assert "totals is stopped" in reader.run(promote)
    assert "NOT_RUNNING" in reader.run("headwater get totals")
    assert "totals-2" in reader.run("headwater get totals-2")


def feed(servers: str) -> None:
    producer = Producer({"bootstrap.servers": servers})
    for customer, amounts in ORDERS.items():
        for amount in amounts:
            producer.produce("orders", amount.to_bytes(8, "big", signed=True), customer)
    assert producer.flush(30) == 0


def written(servers: str, topic: str) -> dict[bytes, int]:
    return {
        message.key() or b"": int.from_bytes(message.value() or b"", "big")
        for message in held(servers, topic)
    }
