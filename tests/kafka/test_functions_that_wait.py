"""Calls that are in flight while their task moves, or its StreamThread stops."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support.thread_rig import ThreadRig, Topics
from tests.support.waiting import wait_for

from headwater import Serdes
from headwater.ids import TaskId
from headwater.native.messages import Failed, Released, RevokeTasks, Stop, Stopped

if TYPE_CHECKING:
    from collections.abc import Callable

    from headwater import StreamsBuilder

pytestmark = pytest.mark.kafka

T0 = TaskId(0, 0)
RECORDS = 40
IN_FLIGHT = 10


class Gate:
    """Calls begin, and end when they may: by files, because they are made in another process."""

    def __init__(self, directory: Path) -> None:
        self._begun, self._open = directory / "begun", directory / "open"

    def close(self) -> None:
        """Have calls wait from now on."""
        self._open.unlink(missing_ok=True)
        self._begun.unlink(missing_ok=True)

    def wait_begun(self) -> None:
        """Wait until calls are in flight."""
        wait_for(self._begun.exists, what="calls in flight")

    def open(self) -> None:
        """Let calls end."""
        self._open.touch()

    def build(self, prefix: str, timeout_ms: int) -> Callable[[StreamsBuilder], None]:
        """Send to ``-out`` what a call returns for each record of ``-in``."""
        begun, may_end = str(self._begun), str(self._open)

        async def call(value: str) -> str:
            Path(begun).touch()
            while not Path(may_end).exists():
                await asyncio.sleep(0.01)
            return value

        def draw(builder: StreamsBuilder) -> None:
            (
                builder.stream(f"{prefix}-in", key_serde=Serdes.string, value_serde=Serdes.string)
                .map_values_async(call, max_in_flight=IN_FLIGHT, timeout=timeout_ms)
                .to(f"{prefix}-out", key_serde=Serdes.string, value_serde=Serdes.string)
            )

        return draw


@pytest.fixture
def topics(bootstrap_servers: str, unique_name: str) -> Topics:
    found = Topics(bootstrap_servers)
    for end in ("in", "out"):
        found.create(f"{unique_name}-{end}")
    return found


def test_a_move_and_a_shutdown_wait_for_the_calls_in_flight_and_each_result_comes_once(
    topics: Topics, unique_name: str, tmp_path: Path
) -> None:
    def results() -> list[str]:
        return [value.decode() for _, value in topics.read(f"{unique_name}-out")]

    def committed() -> int:
        return topics.committed(unique_name, f"{unique_name}-in")[0]

    def send(first: int) -> None:
        records = [(f"key-{n}", f"{n}") for n in range(first, first + RECORDS)]
        topics.send(f"{unique_name}-in", records)

    gate = Gate(tmp_path)
    send(0)
    config = {"processing.guarantee": "exactly_once_v2", "producer.transaction.timeout.ms": 60_000}
    build = gate.build(unique_name, timeout_ms=50_000)
    with ThreadRig(topics, unique_name, build, tmp_path / "state", **config) as rig:
        rig.start(T0)
        gate.wait_begun()
        rig.child.send(RevokeTasks(tasks=(T0,), epoch=2))
        gate.open()
        (moved,) = rig.wait_for(Released, task=T0).offsets.values()
        assert moved > 0, "calls that had begun are over and committed"
        topics.wait_settled(unique_name)
        assert (len(results()), committed()) == (moved, moved)

        gate.close()
        send(RECORDS)
        rig.start(T0, slot=1)
        gate.wait_begun()
        rig.child.send(Stop())
        gate.open()
        rig.wait_for(Stopped)
        assert rig.child.wait(60) == 0
        topics.wait_settled(unique_name)
        assert len(results()) == committed() > moved

        rig.start(T0)
        wait_for(lambda: len(results()) >= 2 * RECORDS, what="the other results")
        rig.stop()
    assert sorted(results(), key=int) == [f"{n}" for n in range(2 * RECORDS)]


def test_a_call_that_never_returns_holds_up_a_move_until_its_time_out_and_is_named(
    topics: Topics, unique_name: str, tmp_path: Path
) -> None:
    gate = Gate(tmp_path)
    topics.send(f"{unique_name}-in", [("key", "value")])
    config = {"processing.guarantee": "exactly_once_v2"}
    build = gate.build(unique_name, timeout_ms=1_000)
    with ThreadRig(topics, unique_name, build, tmp_path / "state", **config) as rig:
        rig.start(T0)
        gate.wait_begun()
        rig.child.send(RevokeTasks(tasks=(T0,), epoch=2))
        failed = rig.wait_for(Failed)

        assert failed.error == "ProcessingError"
        assert "node KSTREAM-MAPVALUES-ASYNC-0000000001" in failed.message
        assert f"topic {unique_name}-in, partition 0, offset 0, key 'key'" in failed.message
        assert "the call has not returned within 1 s, its time-out" in failed.message
        rig.wait_end()
        gate.open()
        rig.start(T0, slot=1)
        wait_for(lambda: topics.read(f"{unique_name}-out"), what="the result")
        rig.stop()
    assert topics.read(f"{unique_name}-out") == [("key", b"value")]
