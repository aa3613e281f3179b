"""From Java to us and back to Java in the middle of the input of windows and of a join.

Each engine begins on an empty disk where the one before has committed. It leaves open windows,
records without a partner and records that it has read and not processed; one that is killed leaves
a transaction, too. What is committed in the end is what Java's test driver puts out that nobody
stops.
"""

from __future__ import annotations

import time
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from tests.java.tool import Oracle
from tests.support.twins import SLOW_S, Output, Twins, in_order, in_sequence, outputs_of
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

pytestmark = [pytest.mark.kafka, pytest.mark.java]

PARTITIONS = 2
RECORDS = 300
"""Of each side in each partition."""
STEP_MS = 50
TWISTED = 4
"""So many records in a row come in any order."""
COMMIT_MS = 2_000
WITHIN = {"before": 300, "after": 200, "grace": 500}
HOPPING = {"kind": "time", "size": 2_000, "advance": 1_000, "grace": 1_000}


def steps(app: str) -> list[dict[str, Any]]:
    """An outer join of two streams, and counts of the first in windows: updates and final ones."""
    text = {"key": "string", "value": "string"}
    counted = {"store": "counts", "key": "string"}
    return [
        {"id": "left", "op": "stream", "topics": [f"{app}-left"]},
        {"id": "right", "op": "stream", "topics": [f"{app}-right"]},
        {"id": "pairs", "op": "outer_join", "on": "left", "with": "right", "fn": "both",
         "windows": WITHIN, "stream_joined": {"store": "pairs", "name": "pairs"}},
        {"id": "pairs_out", "op": "to", "on": "pairs", "topic": f"{app}-pairs"},
        {"id": "grouped", "op": "group_by_key", "on": "left"},
        {"id": "windows", "op": "windowed_by", "on": "grouped", "windows": HOPPING},
        {"id": "counts", "op": "count", "on": "windows", "materialized": counted},
        {"id": "final", "op": "suppress", "on": "counts", "name": "final"},
        *(
            step
            for name in ("counts", "final")
            for step in (
                {"id": f"{name}_shown", "op": "to_stream", "on": name, "fn": "key_text"},
                {"id": f"{name}_text", "op": "map_values", "on": f"{name}_shown", "fn": "to_text"},
                {"id": f"{name}_out", "op": "to", "on": f"{name}_text",
                 "topic": f"{app}-{name}", "produced": text},
            )
        ),
    ]  # fmt: skip


class Flow:
    """The records of both sides, and how far they have been written."""

    def __init__(self, app: str, random: Random) -> None:
        self.begin_ms = int(time.time() * 1000) - 600_000
        self.sides = {
            (side, number): self._side(app, side, number, random)
            for side in ("left", "right")
            for number in range(PARTITIONS)
        }
        self._written = dict.fromkeys(self.sides, 0)

    def _side(self, app: str, side: str, number: int, random: Random) -> list[dict[str, Any]]:
        shift = STEP_MS // 2 if side == "right" else 0
        times = [self.begin_ms + STEP_MS * n + shift for n in range(RECORDS)]
        for first in range(0, RECORDS, TWISTED):
            few = times[first : first + TWISTED]
            random.shuffle(few)
            times[first : first + TWISTED] = few
        last = self.begin_ms + STEP_MS * RECORDS + 60_000 + shift
        return [
            {
                "topic": f"{app}-{side}",
                "partition": number,
                "key": f"{number}-{random.randrange(20) if at != last else 'end'}".encode().hex(),
                "value": f"{side[0]}{place}".encode().hex(),
                "timestamp": at,
            }
            for place, at in enumerate([*times, last])
        ]

    def up_to(self, side: str, share: float) -> list[dict[str, Any]]:
        """What is to be written so that this share of a side is."""
        return self.more(side, lambda written: round(share * (RECORDS + 1)) - written)

    def more(self, side: str, count: Any) -> list[dict[str, Any]]:
        """The next records of a side, in each partition as many as ``count`` says."""
        found = []
        for number in range(PARTITIONS):
            at = self._written[side, number]
            self._written[side, number] = at + count(at)
            found += self.sides[side, number][at : at + count(at)]
        return found


class TakeOver:
    """The application, which passes from engine to engine."""

    def __init__(self, twins: Twins, oracle: Oracle, flow: Flow) -> None:
        self.twins, self.oracle, self.flow = twins, oracle, flow

    def expected(self) -> list[Output]:
        """What comes out if nobody stops."""
        return in_sequence(
            output
            for number in range(PARTITIONS)
            for output in outputs_of(
                self.oracle.ask({**self.twins.request, "inputs": self._of(number)})
            )
        )

    def _of(self, number: int) -> Sequence[Any]:
        return in_order(
            [one for side in ("left", "right") for one in self.flow.sides[side, number]]
        )

    def in_the_middle(self, engine: str, left: float, right: float, *, killed: bool) -> None:
        """Run up to a share of the input; leave records of the left side that were read.

        The task waits for the right side, which has less.
        """
        twins, flow = self.twins, self.flow
        before = twins.committed()
        twins.send([*flow.up_to("left", left), *flow.up_to("right", right)])
        with twins.runs(engine, killed=killed, commit_interval_ms=COMMIT_MS,
                        max_task_idle_ms=3_600_000):  # fmt: skip
            wait_for(self._is_out_of("right"), what="all there is", timeout_s=SLOW_S)
            if killed:
                wait_for(
                    self._leaves_a_transaction,
                    what="a transaction",
                    timeout_s=SLOW_S,
                    every_s=0.4,
                )
        committed = twins.committed()
        for number in range(PARTITIONS):
            place = f"{twins.app}-left", number
            assert before.get(place, 0) < committed[place] < twins.sent[place]

    def _is_out_of(self, side: str) -> Any:
        twins = self.twins
        places = [(f"{twins.app}-{side}", number) for number in range(PARTITIONS)]
        return lambda: (
            [twins.committed().get(it) for it in places] == [twins.sent[it] for it in places]
        )

    def _leaves_a_transaction(self) -> bool:
        """Whether there are results that are not committed; else send a bit more."""
        if len(self.twins.outputs()) < len(self.twins.outputs(isolation="read_uncommitted")):
            return True
        self.twins.send(self.flow.more("right", lambda _: 2))
        return False

    def to_the_end(self, engine: str, count: int) -> list[Output]:
        """Run with the rest, until so much has come out; return it."""
        twins, flow = self.twins, self.flow
        twins.send([*flow.up_to("left", 1), *flow.up_to("right", 1)])

        def is_over() -> bool:
            if len(twins.outputs()) >= count:
                return True
            # A join looks once in a second for what has no partner, when a record comes.
            twins.send(self._nudges())
            return False

        with twins.runs(engine):
            wait_for(twins.has_read_all, what="the rest", timeout_s=SLOW_S)
            wait_for(is_over, what=f"{count} results", timeout_s=SLOW_S, every_s=1.1)
        return twins.outputs()

    def _nudges(self) -> list[dict[str, Any]]:
        """Records later than all others, which never have a result of their own."""
        lasts = [self.flow.sides["right", number][-1] for number in range(PARTITIONS)]
        for one in lasts:
            one["timestamp"] += 1
        return [{**one, "key": "6e"} for one in lasts]


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    """Java's test driver."""
    running = Oracle()
    yield running
    running.close()


@pytest.mark.seeded(1)
@pytest.mark.parametrize(
    "killed",
    # In order they stop in test_restores_of_java.py, too.
    [pytest.param(False, id="stopped", marks=pytest.mark.soak), pytest.param(True, id="killed")],
)
@pytest.mark.sampled
def test_a_join_and_windows_go_to_us_and_back_with_records_in_flight(
    bootstrap_servers: str,
    unique_name: str,
    tmp_path: Path,
    oracle: Oracle,
    seed: str,
    *,
    killed: bool,
) -> None:
    request = {
        "app_id": unique_name,
        "config": {"statestore.cache.max.bytes": "0"},
        "key": "string",
        "value": "string",
        "steps": steps(unique_name),
    }
    twins = Twins(bootstrap_servers, request, tmp_path, partitions=PARTITIONS)
    run = TakeOver(twins, oracle, Flow(unique_name, Random(f"{seed} in flight")))
    expected = run.expected()

    run.in_the_middle("java", 0.4, 0.3, killed=killed)
    run.in_the_middle("ours", 0.8, 0.6, killed=killed)
    found = run.to_the_end("java", len(expected))

    assert found == expected
